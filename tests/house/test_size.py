"""No module over 600 lines, no function over a screen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.sources import all_sources

MODULE_LINES = 600
FUNCTION_LINES = 60

LONG_FUNCTIONS: dict[str, str] = {}
"""`path::function` and why it may be longer than a screen. At best empty."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if isinstance(node, Function):
                yield name, node
            yield from _functions(node, f"{name}.")
        else:
            yield from _functions(node, prefix)


def _lines(function: Function) -> int:
    """Return the lines from `def` to the end; the docstring is not code."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def test_modules_are_small() -> None:
    lines = {
        source.shown: len(source.path.read_text(encoding="utf-8").splitlines()) for source in all_sources()
    }
    assert {name: count for name, count in lines.items() if count > MODULE_LINES} == {}


def test_functions_fit_a_screen() -> None:
    long = {
        f"{source.shown}::{name}": _lines(function)
        for source in all_sources()
        for name, function in _functions(source.tree)
        if _lines(function) > FUNCTION_LINES
    }
    assert {name: count for name, count in long.items() if name not in LONG_FUNCTIONS} == {}
    assert set(LONG_FUNCTIONS) <= set(long), "no longer long: take it off the list"

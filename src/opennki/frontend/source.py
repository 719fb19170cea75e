"""Reading a kernel's source: which `while` a test belongs to, what leaves a loop's body. Pure functions."""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterator
from types import CodeType
from typing import Any

__all__ = ["for_statement", "leaving", "while_statement"]

_PLAIN_TESTS = (ast.Name, ast.Attribute, ast.Subscript)
Position = tuple[int | None, int | None, int | None, int | None]


@functools.lru_cache(maxsize=256)
def while_statement(code: CodeType, position: Position) -> ast.While | None:
    """Return the `while` statement whose test stands at `position`, None if there is none.

    The interpreter places a test at the test itself or, where that is a bare name, at the whole statement.
    """
    for node in _nodes(code):
        if not isinstance(node, ast.While) or not isinstance(node.test, _PLAIN_TESTS):
            continue
        for part in (node, node.test):
            if (part.lineno, part.end_lineno, part.col_offset, part.end_col_offset) == position:
                return node
    return None


def for_statement(code: CodeType, line: int) -> ast.For | None:
    """Return the innermost `for` statement whose header stands on a line."""
    found = None
    for node in _nodes(code):
        if isinstance(node, ast.For) and node.lineno <= line <= (node.iter.end_lineno or node.lineno):
            found = node
    return found


def leaving(node: ast.While | ast.For) -> str | None:
    """Return the first thing in a loop that the device has no counterpart of: `else`, `break` or `return`."""
    if node.orelse:
        return "else"
    return next(_leaving(node.body, in_loop=False), None)


def _leaving(body: list[Any], in_loop: bool) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.Return):
            yield "return"
        elif isinstance(node, (ast.Break, ast.Continue)) and not in_loop:
            yield "break" if isinstance(node, ast.Break) else "continue"
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = in_loop or isinstance(node, (ast.For, ast.While))
            for field in ("body", "orelse", "finalbody"):
                yield from _leaving(getattr(node, field, []), inner)
            for handler in getattr(node, "handlers", []):
                yield from _leaving(handler.body, inner)


def _nodes(code: CodeType) -> Iterator[ast.AST]:
    """Every node of a function's source, with the file's own line and column numbers."""
    import inspect

    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return
    shift = len(lines[0]) - len(lines[0].lstrip())
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno += first - 1
            node.end_lineno = (node.end_lineno or 1) + first - 1
            node.col_offset += shift
            node.end_col_offset = (node.end_col_offset or 0) + shift
    yield from ast.walk(tree)

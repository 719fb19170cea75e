"""The project's Python files as the house tests see them: paths, module names, syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "opennki"


class Source(NamedTuple):
    """A Python file: `module` is its dotted name, `package` the one that relative imports start at."""

    path: Path
    module: str
    package: str
    tree: ast.Module

    @property
    def shown(self) -> str:
        return self.path.relative_to(ROOT).as_posix()


def _read(path: Path, base: Path) -> Source:
    parts = path.relative_to(base).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    names = parts[:-1] if is_package else parts
    package = ".".join(names if is_package else names[:-1])
    return Source(path, ".".join(names), package, ast.parse(path.read_text(encoding="utf-8"), str(path)))


@cache
def package_sources() -> tuple[Source, ...]:
    """Return the modules of the package itself."""
    return tuple(_read(path, PACKAGE.parent) for path in sorted(PACKAGE.rglob("*.py")))


@cache
def all_sources() -> tuple[Source, ...]:
    """Return every Python file that we write; case files are their users'."""
    found = list(package_sources())
    for folder in ("tests", "examples", "benchmarks", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.is_relative_to(ROOT / "tests" / "cases" / "files"):
                found.append(_read(path, ROOT))
    return tuple(found)


class Import(NamedTuple):
    """One imported module. `top_level`: it runs when the file is imported (types alone do not)."""

    module: str
    line: int
    top_level: bool


def imports(source: Source) -> Iterator[Import]:
    """Yield what `source` imports, wherever the statement stands.

    `from a import b` yields `a.b` as well as `a`: `b` may be a module. The caller knows which exist.
    """
    yield from _imports(source, source.tree.body, top_level=True)


def _imports(source: Source, body: list[ast.stmt], *, top_level: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, top_level)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(source, node)
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, top_level)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports(source, node.body, top_level=False)
        else:
            at_run_time = top_level and not _is_for_types(node)
            for block in _blocks(node):
                yield from _imports(source, block, top_level=at_run_time)


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    start = source.package.split(".")[: len(source.package.split(".")) - node.level + 1]
    return ".".join([*start, node.module] if node.module else start)


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for handler in getattr(node, "handlers", []):
        yield handler.body
    for case in getattr(node, "cases", []):
        yield case.body

"""An instruction is named in its row and nowhere else; no subpackage bears the name of a public function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import opennki
from tests.house.published import published
from tests.house.sources import PACKAGE, Source, package_sources

ORDINARY_WORDS = {"activation", "dropout", "exponential", "iota", "memset", "reciprocal", "rng", "topk"}
"""Instructions whose names are also words, operators or parameters: a search for them finds other things."""

MAY_NAME_INSTRUCTIONS = (
    "opennki.isa.table",  # the one import list of all rows
    "opennki.isa.api",  # the names that `nki.isa` re-exports
    "opennki.frontend.language",  # `nl` functions composed of rows, here and in the next ones
    "opennki.frontend.arithmetic",
    "opennki.frontend.composition",
    "opennki.frontend.constants",
    "opennki.frontend.elementwise",
    "opennki.frontend.reductions",
    "opennki.frontend.rounding",
    "opennki.frontend.shapes",
    "opennki.frontend.trigonometry",
    "opennki.frontend.loops",
    "opennki.frontend.register",
    "opennki.nki",
)
"""The modules (and what is below them) that name instructions by design."""

INSTRUCTIONS = set(published()["nki.isa"].functions) - {"get_nc_version", "get_nc_sub_version"}


def _is_or_is_below(module: str, parents: tuple[str, ...]) -> bool:
    return any(module == parent or module.startswith((f"{parent}.", f"{parent}_")) for parent in parents)


def _identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield (name, line) for each identifier and each whole string of a module, its prose left out."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name):
            yield node.id, line
        elif isinstance(node, ast.Attribute):
            yield node.attr, line
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, line
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2], line
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, line


def _places(source: Source) -> dict[str, int]:
    """Return, for each instruction that `source` names, the first line that does."""
    places: dict[str, int] = {}
    for name, line in _identifiers(source.tree):
        if name in INSTRUCTIONS - ORDINARY_WORDS:
            places.setdefault(name, line)
    return places


def test_an_instruction_is_named_in_one_module() -> None:
    places: dict[str, list[str]] = {}
    for source in package_sources():
        if not _is_or_is_below(source.module, MAY_NAME_INSTRUCTIONS):
            for name, line in _places(source).items():
                places.setdefault(name, []).append(f"{source.shown}:{line}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_second_mention_would_be_found() -> None:
    tree = ast.parse('"""nc_matmul in prose."""\nif opcode == "dma_copy":\n    isa.nc_transpose(x)\n')
    found = {name: line for name, line in _identifiers(tree) if name in INSTRUCTIONS}
    assert found == {"dma_copy": 2, "nc_transpose": 3}


def test_no_subpackage_bears_the_name_of_a_public_function() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("_")}
    public = set(opennki.__all__)
    assert "trace" in public
    assert {name for name in parts & public if callable(getattr(opennki, name))} == set()

"""Rules of the hardware: each one that a message names is a fact, each fact about our rows has its place."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator

from opennki.isa.table import TABLE
from tests.house.sources import PACKAGE, package_sources

RULE_ID = re.compile(r"\b[A-Z][A-Z0-9_]*-(?:\d\d|ENGINE|SPACE|WRITE|WIDE|COLUMNS|OFFSETS)\b")

PLACES = {
    # one pattern for all partitions is what a layout is; alone it cannot be broken
    "GEN-11": "ir.types.Layout",
    "GEN-12": "the rows' own rules on partition counts, with GEN-06 to GEN-08",
    "MEMSET-02": "the row's signature: `value` is an attribute",
    "NC_MATMUL-21": "NC_MATMUL-07 and NC_MATMUL-08, whose limits are the array tile's",
    "NC_MATMUL-22": "NC_MATMUL-19 and NC_MATMUL-20, newer and stricter",
    "TENSOR_TENSOR-06": "the row's choice of an engine",
    "ACTIVATION-09": "the row's roles",
    "CORE_BARRIER-04": "accepted at both degrees, as the newer document says",
    "NC_MATMUL-24": "semantics, exact on every target",
    "DMA_COPY-12": "no effect without an index; real kernels pass it all the same",
    "DMA_COMPUTE-09": "the compiler's own choice: the instruction has no such option",
    "NC_MATMUL-28": "GEN-21 and GEN-22, which look at every instruction",
    "NC_MATMUL-27": "documented on the row: the flags change no value",
}
"""Rules that nothing needs to name: where each is kept all the same."""

LATER = {
    6: (
        *("GEN-16", "GEN-17", "GEN-18", "GEN-26", "GEN-38"),
        *("NC_MATMUL-25", "NC_MATMUL-26", "TENSOR_COPY-06"),
    ),
}
"""Issue → rules that only it can check: values, times and capacity."""


def _facts() -> dict[str, str]:
    """Return rule id → instruction, `*` for all."""
    with (PACKAGE / "facts" / "constraints.csv").open(encoding="utf-8", newline="") as file:
        return {row["rule_id"]: row["instruction"] for row in csv.DictReader(file)}


def _named() -> Iterator[tuple[str, str]]:
    """Yield (rule id, place) for each rule that a string of the package names."""
    for source in package_sources():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for rule in RULE_ID.findall(node.value):
                    yield rule, f"{source.shown}:{node.lineno}"


def test_rules_that_the_package_names_are_facts() -> None:
    facts = _facts()
    assert {rule: place for rule, place in _named() if rule not in facts} == {}


def test_every_rule_of_our_rows_has_its_place() -> None:
    rows = {row.name for row in TABLE} | {"*"}
    named = {rule for rule, _ in _named()}
    later = {rule for rules in LATER.values() for rule in rules}
    wanted = {rule for rule, instruction in _facts().items() if instruction in rows}
    assert wanted - named - set(PLACES) - later == set()
    assert named & (set(PLACES) | later) == set(), "named now: take them off PLACES or LATER"


def test_rule_ids_are_unique() -> None:
    text = (PACKAGE / "facts" / "constraints.csv").read_text(encoding="utf-8")
    assert len(_facts()) == len(list(csv.reader(text.splitlines()))) - 1

"""Results as a Markdown table, and the tables of a folder's README renewed from its JSON files."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from msgspec import convert

from benchmarks.machine import Machine
from benchmarks.measure import Figure, Result, figures_of

__all__ = ["renew_table", "table_of"]

_BETWEEN = re.compile(r"(<!-- (\w+):begin -->\n).*?(<!-- \2:end -->)", re.DOTALL)


def table_of(found: Result) -> str:
    """Return the figures of a result as a table, with the budget and whether it is met."""
    rows = [
        "| figure | median | lowest to highest | at the budgets' speed | budget | |",
        "|---|---|---|---|---|---|",
    ]
    rows += [_row(one) for one in figures_of(found)]
    return "\n".join(rows) + "\n"


def _row(one: Figure) -> str:
    budget = "" if one.budget is None else f"≤ {one.budget:g}"
    verdict = {None: "", True: "met", False: "**missed**"}[one.is_met]
    value = f"{one.value:g} {one.unit}".strip()
    spread = "" if one.rounds == 1 else f"{one.lowest:g} to {one.highest:g}"
    scaled = "" if one.scaled is None else f"{one.scaled:g}"
    return f"| {one.name} | {value} | {spread} | {scaled} | {budget} | {verdict} |"


def _measured(found: Result) -> str:
    """Return where and when the figures were measured, in a sentence."""
    machine = convert(found["machine"], Machine)
    load = convert(found["load"], dict[str, float | None])
    busy = (
        f"load {load['before']} before, {load['after']} after"
        if load["after"] is not None
        else "load unknown"
    )
    small = " **A quick run: no figure for the record.**" if found["is_quick"] else ""
    return (
        f"{machine.date}, {machine.processor}, {machine.cores} cores, {busy}; {machine.python}, "
        f"NumPy {machine.numpy}, commit {(machine.commit or 'unknown')[:12]}.{small}"
    )


def renew_table(folder: Path) -> None:
    """Write the tables of the folder's results into its README, between the marks of their names."""
    readme = folder / "README.md"
    if not readme.is_file():
        return

    def renewed(match: re.Match[str]) -> str:
        file = folder / f"{match[2]}.json"
        if not file.is_file():
            return match[0]
        found: Result = msgspec.json.decode(file.read_bytes())
        return f"{match[1]}{_measured(found)}\n\n{table_of(found)}{match[3]}"

    text = readme.read_text(encoding="utf-8")
    readme.write_text(_BETWEEN.sub(renewed, text), encoding="utf-8")

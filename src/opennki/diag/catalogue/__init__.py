"""The catalogue: every code that OpenNKI raises, one entry each, by family."""

from __future__ import annotations

from opennki.diag.catalogue import (
    artifacts,
    checks,
    frontend,
    graph,
    lnc,
    memory,
    published,
    runtime,
    usage,
)
from opennki.diag.catalogue.entry import Entry, Stage

__all__ = ["CATALOGUE", "Entry", "Stage"]

CATALOGUE: dict[str, Entry] = {
    entry.code: entry
    for family in (published, usage, frontend, memory, lnc, checks, artifacts, graph, runtime)
    for entry in family.ENTRIES
}

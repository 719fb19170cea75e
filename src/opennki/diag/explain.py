"""Explaining a code: its page, and the table of all codes."""

from __future__ import annotations

import re
from pathlib import Path

from opennki.diag.catalogue import CATALOGUE, Entry
from opennki.diag.make import fail

__all__ = ["codes_table", "explain", "page_path"]

_PREFIXES = ("NCC_", "ONKI")


def explain(code: str) -> str:
    """Return the page of `code` as Markdown: what it means, why, a failing and a fixed program.

    Case does not matter, the vendor's prefix may be left out, and a headline copied from a terminal
    (`error[NCC_ENKI003]: …`) will do. Errors: ONKI007 for a code that the catalogue lacks.

    >>> explain("enki003").splitlines()[0]
    '# NCC_ENKI003: traced for more cores than the graph has'
    """
    return page_path(_canonical(code)).read_text(encoding="utf-8")


def page_path(code: str) -> Path:
    """Return where the page of `code` stands, whether or not there is one."""
    return Path(__file__).with_name("pages") / f"{code}.md"


def codes_table() -> list[Entry]:
    """Return the catalogue's entries, published codes first, then ours by number."""
    return sorted(CATALOGUE.values(), key=lambda entry: entry.code)


def _canonical(code: str) -> str:
    asked = re.sub(r".*\[([A-Za-z0-9_]+)\].*", r"\1", code.strip(), flags=re.DOTALL).upper()
    for known in (asked, *(prefix + asked for prefix in _PREFIXES)):
        if known in CATALOGUE:
            return known
    from difflib import get_close_matches

    close = get_close_matches(asked, CATALOGUE, n=3, cutoff=0.6)
    near = (f"did you mean {' or '.join(f'`opennki explain {match}`' for match in close)}?",) if close else ()
    fail("ONKI007", asked=code.strip(), help=(*near, "list all codes with `opennki explain`"))

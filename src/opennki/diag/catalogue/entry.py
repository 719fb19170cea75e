"""The form of a catalogue entry."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from opennki.diag.records import Severity

Stage = Literal[
    "usage", "decorate", "launch", "trace", "trace end", "check", "bake", "compile", "load", "run", "file"
]


class Entry(Struct, frozen=True, kw_only=True):
    """One code: what it says, why it happens, what to do.

    `template` is the headline with `{fields}`; `title` is what a table of codes shows. `validation`: the
    error is also a `nki.isa.NkiValidationError`; `type_error`: also a `TypeError`.
    """

    code: str
    title: str
    template: str
    stage: Stage
    cause: str
    fix: str
    source: str
    severity: Severity = Severity.error
    related: tuple[str, ...] = ()
    validation: bool = False
    type_error: bool = False

"""What a command gives back, and how it is printed: text and findings, or one JSON object."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from msgspec import Struct

from opennki.diag import Diagnostic, OpenNkiError, OpenNkiUsageError, Severity
from opennki.diag.render import render_text, to_dict
from opennki.diag.render_json import json_safe

__all__ = [
    "BUG",
    "DONE",
    "INTERRUPTED",
    "REFUSED",
    "USAGE",
    "Outcome",
    "failure",
    "is_terminal",
    "show",
    "status_of",
    "table",
    "write",
]

DONE = 0
REFUSED = 1
USAGE = 2
BUG = 70
INTERRUPTED = 130


class Outcome(Struct, frozen=True, kw_only=True):
    """What a command gives: text for people, fields for `--json`, findings and exit status for both."""

    text: str = ""
    fields: Mapping[str, object] = {}
    findings: tuple[Diagnostic, ...] = ()
    status: int = DONE


def failure(error: OpenNkiError) -> Outcome:
    """Return the outcome of a command that raised `error`."""
    return Outcome(
        findings=error.diagnostics, status=USAGE if isinstance(error, OpenNkiUsageError) else REFUSED
    )


def status_of(findings: Sequence[Diagnostic]) -> int:
    """Return 2 if an error among the findings is one of usage, 1 if there is any other error, else 0."""
    errors = [finding for finding in findings if finding.severity is Severity.error]
    if any(finding.code.startswith("ONKI0") for finding in errors):
        return USAGE
    return REFUSED if errors else DONE


def show(outcome: Outcome, *, as_json: bool) -> None:
    """Print the text to standard output and the findings to standard error, or all as one object."""
    if as_json:
        findings = [to_dict(finding) for finding in outcome.findings]
        fields = {name: json_safe(value) for name, value in outcome.fields.items()}
        print(json.dumps({"schema": 1, "findings": findings, **fields}, indent=2, allow_nan=False))
        return
    if outcome.text:
        write(sys.stdout, outcome.text)
    if outcome.findings:
        sys.stdout.flush()
        write(sys.stderr, render_text(outcome.findings, color=is_terminal(sys.stderr)))


def write(stream: TextIO, text: str) -> None:
    """Write a text and a line end; what the stream's encoding lacks becomes a `?`."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def is_terminal(stream: TextIO) -> bool:
    """True if a person reads the stream: then, and only then, there is colour and wrapping."""
    return stream.isatty()


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines of aligned columns, two blanks apart, no blank at a line's end.

    >>> print(table([("a", "1"), ("long", "2")]))
    a     1
    long  2
    """
    columns = max((len(row) for row in rows), default=0)
    widths = [max((len(row[i]) for row in rows if i < len(row)), default=0) for i in range(columns)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    )

"""The records of a diagnostic, and the exceptions that carry them."""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct, field

__all__ = [
    "Diagnostic",
    "InternalError",
    "Label",
    "Location",
    "OpenNkiError",
    "OpenNkiUsageError",
    "OpenNkiWarning",
    "Severity",
]


class Severity(Enum):
    """How much a finding matters: an error stops, a warning is said, a hint advises."""

    error = "error"
    warning = "warning"
    hint = "hint"


class Location(Struct, frozen=True, array_like=True, gc=False):
    """A place in a user's source file.

    `file` is relative to the kernel file's top package. Lines count from 1, columns from 0 (end exclusive);
    a `line` of 0 means unknown. `text` is the source line itself, so that a message in a new process still
    shows it. `caller` is the index, in the same table, of the call that led here; -1 in the kernel itself.
    """

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    function: str
    text: str
    caller: int = -1


class Label(Struct, frozen=True):
    """A location and what to say under its caret."""

    location: Location
    text: str = ""


class Diagnostic(Struct, frozen=True, kw_only=True):
    """One finding: a code of the catalogue and everything a reader needs to act on it.

    `message` is the headline, which makes sense alone in a log. `labels` are the places, the first one is
    *the* location; `callers` is the chain of calls that led to it, innermost first. `rule` is the id of the
    hardware rule that was broken. `related` are other codes for the same thing. `data` is for machines: both
    numbers that disagree and where each came from. `core` is the physical core within the logical one.
    """

    code: str
    severity: Severity
    message: str
    labels: tuple[Label, ...] = ()
    callers: tuple[Location, ...] = ()
    notes: tuple[str, ...] = ()
    help: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    rule: str | None = None
    core: int | None = None
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def location(self) -> Location | None:
        """The place that the finding points at, if it has one."""
        return self.labels[0].location if self.labels else None


class OpenNkiError(Exception):
    """A user's mistake, or what a check found. `diagnostics` has at least one error."""

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, *diagnostics: Diagnostic) -> None:
        self.diagnostics = diagnostics
        super().__init__(*diagnostics)

    @property
    def code(self) -> str:
        """The code of the first diagnostic."""
        return self.diagnostics[0].code

    def __str__(self) -> str:
        from opennki.diag.render import render_text

        return render_text(self.diagnostics)


class OpenNkiUsageError(OpenNkiError, ValueError):
    """The call itself is wrong (family 0): a malformed spec, an unknown target, a wrong degree."""


class OpenNkiWarning(UserWarning):
    """A finding that is no error, said once for each place; `diagnostics` has it as a record."""

    def __init__(self, message: str = "", *diagnostics: Diagnostic) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics


class InternalError(Exception):
    """A mistake of ours. The command line prints it with a request for a report and exits with 70."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}\nThis is a bug in OpenNKI. Please report it with the lines above.")

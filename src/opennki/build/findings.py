"""Saying findings that are no errors: one Python warning for each place."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from opennki.build.places import caller
from opennki.diag import Diagnostic, OpenNkiWarning, Severity
from opennki.diag.render import render_text

__all__ = ["warn"]


def warn(findings: Iterable[Diagnostic]) -> None:
    """Warn of every finding that is no error, at the user's line that led here; Python says it there once."""
    said = [finding for finding in findings if finding.severity is not Severity.error]
    if not said:
        return
    frame = caller()
    for finding in said:
        warnings.warn_explicit(
            OpenNkiWarning(render_text([finding])),
            category=OpenNkiWarning,
            filename=frame.f_code.co_filename if frame is not None else "<opennki>",
            lineno=frame.f_lineno if frame is not None else 0,
            registry=frame.f_globals.setdefault("__warningregistry__", {}) if frame is not None else None,
        )

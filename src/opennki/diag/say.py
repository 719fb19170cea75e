"""Saying findings that are no errors: one Python warning for each place."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from types import FrameType

from opennki.diag.records import Diagnostic, OpenNkiWarning, Severity
from opennki.diag.render import render_text

__all__ = ["caller", "warn"]

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def caller() -> FrameType | None:
    """Return the innermost frame that is not ours: the user's line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


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

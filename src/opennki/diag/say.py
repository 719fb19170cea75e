"""Saying findings that are no errors: one Python warning for each place."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from types import FrameType

from opennki.diag.records import Diagnostic, OpenNkiWarning, Severity
from opennki.diag.render import render_text

__all__ = ["caller", "hide", "warn"]

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")

_hidden: tuple[str, ...] = (_PACKAGE,)


def hide(folder: str) -> None:
    """Count the frames of a library as ours from here on: one that calls the user's functions and kernels."""
    global _hidden
    prefix = os.path.join(folder, "")
    if prefix not in _hidden:
        _hidden = (*_hidden, prefix)


def caller() -> FrameType | None:
    """Return the innermost frame that is neither ours nor a hidden library's: the user's line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_hidden):
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
            OpenNkiWarning(render_text([finding]), finding),
            category=OpenNkiWarning,
            filename=frame.f_code.co_filename if frame is not None else "<opennki>",
            lineno=frame.f_lineno if frame is not None else 0,
            registry=frame.f_globals.setdefault("__warningregistry__", {}) if frame is not None else None,
        )

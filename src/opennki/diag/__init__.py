"""Diagnostics: the catalogue, the records, the rendering. The lowest layer: it imports nothing of ours."""

from __future__ import annotations

from opennki.diag.catalogue import CATALOGUE, Entry
from opennki.diag.make import NkiRegisterError, NkiValidationError, diagnostic, error, fail
from opennki.diag.records import (
    Diagnostic,
    InternalError,
    Label,
    Location,
    OpenNkiError,
    OpenNkiUsageError,
    OpenNkiWarning,
    Severity,
)
from opennki.diag.render import render_json, render_text

__all__ = [
    "CATALOGUE",
    "Diagnostic",
    "Entry",
    "InternalError",
    "Label",
    "Location",
    "NkiRegisterError",
    "NkiValidationError",
    "OpenNkiError",
    "OpenNkiUsageError",
    "OpenNkiWarning",
    "Severity",
    "diagnostic",
    "error",
    "fail",
    "render_json",
    "render_text",
]

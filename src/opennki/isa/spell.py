"""Pointing at one argument of a call in a user's source."""

from __future__ import annotations

import ast

from msgspec.structs import replace

from opennki.diag import Label, Location

__all__ = ["operand_label"]


def operand_label(location: Location, argument: str, text: str) -> Label:
    """Return a label on the keyword `argument` of the call at `location`, or on the whole call.

    Only calls that stand on one line are taken apart: the record keeps one line of source.
    """
    if not argument or location.line != location.end_line:
        return Label(location, text)
    source = location.text[location.column : location.end_column]
    try:
        call = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return Label(location, text)
    if not isinstance(call, ast.Call):
        return Label(location, text)
    shift = location.column + len(source) - len(source.lstrip())
    for keyword in call.keywords:
        if keyword.arg == argument and keyword.end_col_offset is not None:
            return Label(
                replace(
                    location, column=shift + keyword.col_offset, end_column=shift + keyword.end_col_offset
                ),
                text,
            )
    return Label(location, text)

"""Rendering diagnostics as the JSON that the command line prints with `--json`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from opennki.diag.records import Diagnostic, Label, Location

__all__ = ["json_safe", "render_json", "to_dict"]

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def render_json(diagnostics: Iterable[Diagnostic]) -> str:
    """Return the one JSON object of the command line: `{"schema": 1, "findings": […]}`.

    Equal diagnostics give equal text. It is ASCII, so that any standard output can carry it.
    """
    import json

    return json.dumps({"schema": 1, "findings": [to_dict(d) for d in diagnostics]}, indent=2, allow_nan=False)


def to_dict(diagnostic: Diagnostic) -> dict[str, JsonValue]:
    """Return `diagnostic` as plain JSON values.

    Always code, severity, message, rule, location, notes, help, related and data; `labels` (the places after
    the first), `callers` and `core` only where there are any. Lines and columns count from 1, `end_column`
    is the one behind the last; a place without a known line has only its file, function and label.
    """
    result: dict[str, JsonValue] = {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "rule": diagnostic.rule,
        "location": _label(diagnostic.labels[0]) if diagnostic.labels else None,
        "notes": list(diagnostic.notes),
        "help": list(diagnostic.help),
        "related": list(diagnostic.related),
        "data": json_safe(diagnostic.data),
    }
    if len(diagnostic.labels) > 1:
        result["labels"] = [_label(label) for label in diagnostic.labels[1:]]
    if diagnostic.callers:
        result["callers"] = [_location(caller) for caller in diagnostic.callers]
    if diagnostic.core is not None:
        result["core"] = diagnostic.core
    return result


def _label(label: Label) -> dict[str, JsonValue]:
    return {**_location(label.location), "label": label.text}


def _location(location: Location) -> dict[str, JsonValue]:
    if location.line <= 0:
        return {"file": location.file, "function": location.function}
    return {
        "file": location.file,
        "line": location.line,
        "column": location.column + 1,
        "end_line": max(location.end_line, location.line),
        "end_column": location.end_column + 1,
        "function": location.function,
        "text": location.text,
    }


def json_safe(value: Any) -> JsonValue:
    """Return `value` as JSON can carry it.

    NumPy scalars and arrays become Python's; enums their name; tuples and sets lists; NaN and the infinities
    the strings "NaN", "Infinity", "-Infinity"; records objects; everything else its text without addresses.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, str):
        return str(value)
    return _composite(value)


def _composite(value: Any) -> JsonValue:
    if isinstance(value, Struct):
        return {name: json_safe(item) for name, item in asdict(value).items()}
    if isinstance(value, Mapping):
        return {_key(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(item) for item in value]
    if isinstance(value, set | frozenset):
        import json

        return sorted((json_safe(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    listed = getattr(value, "tolist", None)  # NumPy and ml_dtypes, without importing either
    if callable(listed):
        plain = listed()
        return json_safe(plain) if type(plain) is not type(value) else _text(value)
    return _text(value)


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _key(key: Any) -> str:
    return key if type(key) is str else str(json_safe(key))


def _text(value: Any) -> str:
    return _ADDRESS.sub("", str(value))

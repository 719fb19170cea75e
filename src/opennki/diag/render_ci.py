"""Rendering diagnostics for continuous integration: GitHub workflow commands and SARIF 2.1.0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opennki.diag.catalogue import CATALOGUE
from opennki.diag.records import Diagnostic, Label, Location, Severity
from opennki.diag.render_json import JsonValue, json_safe

__all__ = ["render_github", "render_sarif"]

_COMMANDS = {Severity.error: "error", Severity.warning: "warning", Severity.hint: "notice"}
_LEVELS = {Severity.error: "error", Severity.warning: "warning", Severity.hint: "note"}
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render_github(diagnostics: Iterable[Diagnostic]) -> str:
    """Return one workflow command a diagnostic, which GitHub shows beside the line in a pull request.

    `::error file=k.py,line=4,col=5,title=CODE::headline`; notes and help are further lines of the message.
    """
    return "\n".join(_command(diagnostic) for diagnostic in diagnostics)


def _command(diagnostic: Diagnostic) -> str:
    properties = []
    location = diagnostic.location
    if location is not None:
        properties.append(f"file={_property(location.file)}")
        if location.line > 0:
            properties += [f"line={location.line}", f"col={location.column + 1}"]
    properties.append(f"title={_property(diagnostic.code)}")
    return f"::{_COMMANDS[diagnostic.severity]} {','.join(properties)}::{_data(_message(diagnostic))}"


def _message(diagnostic: Diagnostic) -> str:
    """The headline, then a line for the label, for each note and for each help."""
    lines = [diagnostic.message]
    if diagnostic.labels and diagnostic.labels[0].text:
        lines.append(diagnostic.labels[0].text)
    lines += [f"note: {note}" for note in diagnostic.notes]
    lines += [f"help: {help}" for help in diagnostic.help]
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def render_sarif(diagnostics: Iterable[Diagnostic]) -> str:
    """Return `diagnostics` as one SARIF 2.1.0 log; the rules are the catalogue's entries that occur."""
    found = tuple(diagnostics)
    codes = sorted({diagnostic.code for diagnostic in found})
    run: dict[str, JsonValue] = {
        "tool": {"driver": {"name": "opennki", "rules": [_rule(code) for code in codes]}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic, codes) for diagnostic in found],
    }
    import json

    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, allow_nan=False)


def _rule(code: str) -> dict[str, JsonValue]:
    entry = CATALOGUE[code]
    return {
        "id": code,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.cause},
        "help": {"text": f"{entry.fix}\nopennki explain {code}"},
        "defaultConfiguration": {"level": _LEVELS[entry.severity]},
    }


def _result(diagnostic: Diagnostic, codes: Sequence[str]) -> dict[str, JsonValue]:
    result: dict[str, JsonValue] = {
        "ruleId": diagnostic.code,
        "ruleIndex": codes.index(diagnostic.code),
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": _message(diagnostic)},
    }
    if diagnostic.location is not None:
        result["locations"] = [_physical(diagnostic.location)]
    others = [_other(label) for label in diagnostic.labels[1:]]
    others += [
        _other(Label(caller, f"called from here, in `{caller.function}`")) for caller in diagnostic.callers
    ]
    if others:
        result["relatedLocations"] = list(others)
    result["properties"] = {
        "rule": diagnostic.rule,
        "core": diagnostic.core,
        "related": list(diagnostic.related),
        "data": json_safe(diagnostic.data),
    }
    return result


def _other(label: Label) -> dict[str, JsonValue]:
    place = _physical(label.location)
    if label.text:
        place["message"] = {"text": label.text}
    return place


def _physical(location: Location) -> dict[str, JsonValue]:
    from urllib.parse import quote  # importing it costs 2 ms

    place: dict[str, JsonValue] = {
        "artifactLocation": {"uri": quote(location.file.replace("\\", "/"), errors="replace")}
    }
    if location.line > 0:
        place["region"] = _region(location)
    return {"physicalLocation": place}


def _region(location: Location) -> dict[str, JsonValue]:
    end_line = max(location.end_line, location.line)
    region: dict[str, JsonValue] = {"startLine": location.line, "startColumn": location.column + 1}
    if end_line > location.line or location.end_column > location.column:
        region |= {"endLine": end_line, "endColumn": location.end_column + 1}
    return region

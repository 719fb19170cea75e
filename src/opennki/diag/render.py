"""Rendering diagnostics: the text that a person reads, and the choice among the four forms."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Literal, assert_never

from opennki.diag.records import Diagnostic, Label, Location, Severity
from opennki.diag.render_ci import render_github, render_sarif
from opennki.diag.render_json import render_json, to_dict

__all__ = ["Form", "render", "render_github", "render_json", "render_sarif", "render_text", "to_dict"]

Form = Literal["text", "json", "github", "sarif"]

_TAB = "    "
_INDENT = "  "
_SOURCE_INDENT = "      "
_RESET = "\x1b[0m"
_BOLD = "\x1b[1m"
_COLOURS = {Severity.error: "\x1b[1;31m", Severity.warning: "\x1b[1;33m", Severity.hint: "\x1b[1;36m"}


def render(diagnostics: Iterable[Diagnostic], form: Form = "text", *, color: bool = False) -> str:
    """Return `diagnostics` in the form asked for; `color` matters to text alone."""
    match form:
        case "text":
            return render_text(diagnostics, color=color)
        case "json":
            return render_json(diagnostics)
        case "github":
            return render_github(diagnostics)
        case "sarif":
            return render_sarif(diagnostics)
        case _:
            assert_never(form)


def render_text(diagnostics: Iterable[Diagnostic], *, color: bool = False) -> str:
    """Return the text of `diagnostics`: headline, places with carets, notes, help, and where to read more.

    Nothing is wrapped. Several are set apart by an empty line and counted at the end.
    """
    found = tuple(diagnostics)
    blocks = ["\n".join(_lines(diagnostic, color)) for diagnostic in found]
    if len(found) > 1:
        blocks.append(_count(found))
    return "\n\n".join(blocks)


def _lines(diagnostic: Diagnostic, color: bool) -> Iterable[str]:
    kind = _paint(f"{diagnostic.severity.value}[{diagnostic.code}]", _COLOURS[diagnostic.severity], color)
    yield f"{kind}: {_paint(_printable(diagnostic.message), _BOLD, color)}"
    caret_colour = _COLOURS[diagnostic.severity] if color else ""
    before: Location | None = None
    for label in diagnostic.labels:
        yield from _place(label, before, caret_colour)
        before = label.location
    for caller in diagnostic.callers:
        yield f"{_INDENT}called from {_position(caller)} in `{_printable(caller.function)}`"
    if diagnostic.core is not None:
        yield _entry("core", str(diagnostic.core), color)
    if diagnostic.rule is not None:
        yield _entry("rule", diagnostic.rule, color)
    for note in diagnostic.notes:
        yield _entry("note", note, color)
    for help in diagnostic.help:
        yield _entry("help", help, color)
    if diagnostic.related:
        yield _entry("related", ", ".join(diagnostic.related), color)
    yield _entry("more", f"opennki explain {diagnostic.code}", color)


def _entry(name: str, text: str, color: bool) -> str:
    """One `name: text` line; the further lines of a text with several stand under the first one's start."""
    first, *rest = (_printable(line) for line in text.split("\n"))
    hanging = _INDENT + " " * (len(name) + 2)
    return "\n".join(
        (f"{_INDENT}{_paint(f'{name}:', _BOLD, color)} {first}", *(hanging + line for line in rest))
    )


def _place(label: Label, before: Location | None, caret_colour: str) -> Iterable[str]:
    """The file line, the source line and the caret run of one label.

    A label on the line of the one before adds a caret run only.
    """
    location = label.location
    again = before is not None and (before.file, before.line) == (location.file, location.line)
    if not again:
        yield f"{_INDENT}{_position(location)}"
    if not location.text.strip():
        if label.text:
            yield _SOURCE_INDENT + _printable(label.text)
        return
    lead, caret, source = _underline(location)
    if not again:
        yield _SOURCE_INDENT + source
    run = f"{caret} {_printable(label.text)}".rstrip()
    yield _SOURCE_INDENT + lead + (f"{caret_colour}{run}{_RESET}" if caret_colour else run)


def _underline(location: Location) -> tuple[str, str, str]:
    """Return the space before the caret run, the run, and the source line, all in terminal columns.

    A span over several lines is underlined to the end of its first one; a place without columns as a whole.
    """
    text = location.text.rstrip()
    start = len(text) - len(text.lstrip())
    column, end = location.column, location.end_column
    if not _has_columns(location):
        column, end = start, len(text)
    elif location.end_line > location.line:
        end = len(text)
    column = min(max(column, start), len(text))
    end = min(max(end, column), len(text))
    lead = " " * _width(_printable(text[start:column]))
    return lead, "^" * max(1, _width(_printable(text[column:end]))), _printable(text[start:])


def _position(location: Location) -> str:
    """Return `file:line:column` as far as it is known, the column counted from 1."""
    file = _printable(location.file)
    if location.line <= 0:
        return file
    if not _has_columns(location):
        return f"{file}:{location.line}"
    return f"{file}:{location.line}:{location.column + 1}"


def _has_columns(location: Location) -> bool:
    return location.end_column > location.column or location.end_line > location.line or location.column > 0


def _printable(text: str) -> str:
    """Return `text` on one line, tabs as four spaces, control characters and lone surrogates as escapes."""
    if text.isprintable():
        return text
    return "".join(_TAB if c == "\t" else c if _is_shown(c) else _escaped(c) for c in text)


def _is_shown(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _width(text: str) -> int:
    """Return the terminal columns of `text`: two for a wide character, none for a combining one."""
    return sum(_columns(c) for c in text) if not text.isascii() else len(text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _paint(text: str, colour: str, color: bool) -> str:
    return f"{colour}{text}{_RESET}" if color else text


def _count(diagnostics: tuple[Diagnostic, ...]) -> str:
    parts = []
    for severity in Severity:
        count = sum(d.severity is severity for d in diagnostics)
        if count:
            parts.append(f"{count} {severity.value}{'s' if count > 1 else ''}")
    return ", ".join(parts)

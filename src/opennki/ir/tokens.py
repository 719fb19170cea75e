"""Tokens of the text form: splitting lines, grouping them by braces, reading one line after another.

Whatever is malformed ends in ONKI505 with its line and column.
"""

from __future__ import annotations

import json
import re
import struct
from typing import NoReturn

from msgspec import Struct

from opennki.diag import Location, fail

__all__ = ["Cursor", "Line", "float_text", "name_text", "read_lines", "string_text"]

MAX_DEPTH = 100
"""How deep braces and tuples nest at most."""

_INTEGER_LIMIT = 1 << 64
_BLANKS = " \t\r"
_TOKEN = re.compile(
    r"""[ \t\r]*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<float>-?[0-9]+(?:\.[0-9]+(?:e[+-]?[0-9]+)?|e[+-]?[0-9]+)|(?:-?inf|nan(?::[0-9a-f]{16})?)(?![\w./-]))
    | (?P<integer>-?[0-9]+)
    | (?P<word>[^\W\d][\w./-]*)
    | (?P<mark>\.\.|[][(){},:=%$@\#+;])
    )""",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d][\w./-]*")
_RESERVED = {"none", "true", "false", "inf", "nan"}
_QUIET_NAN = 0x7FF8000000000000


class Token(Struct, frozen=True, gc=False):
    """A token: its kind (string, float, integer, word, mark, end), its text and its column."""

    kind: str
    text: str
    column: int


class Line(Struct):
    """A line that is not blank, with the lines between its `{` and the matching `}`; None without braces."""

    number: int
    text: str
    tokens: list[Token]
    children: list[Line] | None = None


def string_text(text: str) -> str:
    """Return `text` in double quotes, with everything that cannot be seen escaped as in JSON."""
    if text.isascii():
        return json.dumps(text)
    shown = "".join(c if c.isprintable() and not c.isascii() else json.dumps(c)[1:-1] for c in text)
    return f'"{shown}"'


def name_text(name: str) -> str:
    """Return a name as it stands in the text: bare where that is unmistakable, else quoted."""
    return name if _WORD.fullmatch(name) and name not in _RESERVED else string_text(name)


def float_text(value: float) -> str:
    """Return a float so that it reads back bit for bit, the payload of a NaN included.

    >>> float_text(-0.0), float_text(1e-5), float_text(float("nan"))
    ('-0.0', '1e-05', 'nan')
    """
    if value == value:
        return repr(value)
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    return "nan" if bits == _QUIET_NAN else f"nan:{bits:016x}"


def _float_of(text: str) -> float:
    if not text.startswith("nan"):
        return float(text)
    bits = int(text[4:], 16) if len(text) > 3 else _QUIET_NAN
    value: float = struct.unpack(">d", struct.pack(">Q", bits))[0]
    return value


def _malformed(number: int, text: str, column: int, end: int, reason: str) -> NoReturn:
    at = Location("IR text", number, number, column, max(end, column + 1), "", text)
    fail("ONKI505", at=at, line=number, column=column + 1, reason=reason)


def _split(number: int, text: str) -> list[Token]:
    tokens = []
    at = 0
    for match in _TOKEN.finditer(text):
        if match.start() != at or match.lastgroup is None:
            break
        kind = match.lastgroup
        tokens.append(Token(kind, match[kind], match.start(kind)))
        at = match.end()
    rest = text[at:].lstrip(_BLANKS)
    if rest:
        column = len(text) - len(rest)
        _malformed(number, text, column, column + 1, f"`{rest[0]}` means nothing here")
    return tokens


def read_lines(text: str) -> list[Line]:
    """Return the lines of `text` grouped by braces: a line that ends with `{` holds those up to its `}`."""
    top: list[Line] = []
    opened: list[Line] = []
    here = top
    for number, raw in enumerate(text.split("\n"), 1):
        tokens = _split(number, raw)
        if not tokens:
            continue
        if [token.text for token in tokens if token.kind == "mark"] == ["}"] and len(tokens) == 1:
            if not opened:
                _malformed(number, raw, tokens[0].column, tokens[0].column + 1, "nothing is open here")
            opened.pop()
            here = (opened[-1].children or []) if opened else top
            continue
        line = Line(number, raw, tokens)
        here.append(line)
        if tokens[-1].kind == "mark" and tokens[-1].text == "{":
            tokens.pop()
            line.children = here = []
            opened.append(line)
            if len(opened) > MAX_DEPTH:
                _malformed(number, raw, 0, len(raw), f"braces nest deeper than {MAX_DEPTH}")
    if opened:
        last = opened[-1]
        _malformed(last.number, last.text, len(last.text) - 1, len(last.text), "this brace is never closed")
    return top


class Cursor:
    """Reads the tokens of one line. It has state: how far it has come."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.at = 0

    def fail(self, reason: str) -> NoReturn:
        """Raise ONKI505 at the next token."""
        token = self._next
        _malformed(self.line.number, self.line.text, token.column, token.column + len(token.text), reason)

    @property
    def _next(self) -> Token:
        if self.at < len(self.line.tokens):
            return self.line.tokens[self.at]
        return Token("end", "", len(self.line.text))

    @property
    def is_done(self) -> bool:
        """True at the end of the line."""
        return self.at >= len(self.line.tokens)

    def sees(self, text: str) -> bool:
        """True if `text` is the next mark or word."""
        tokens, at = self.line.tokens, self.at
        return at < len(tokens) and tokens[at].text == text and tokens[at].kind in ("mark", "word")

    def takes(self, text: str) -> bool:
        """Take the next mark or word if it is `text`, and say whether it was."""
        if not self.sees(text):
            return False
        self.at += 1
        return True

    def expect(self, *texts: str) -> None:
        """Take these marks and words."""
        for text in texts:
            if not self.takes(text):
                self.fail(f"expected `{text}`")

    def end(self) -> None:
        """Refuse anything left on the line."""
        if not self.is_done:
            self.fail(f"unexpected `{self._next.text}`")

    def _take(self, kinds: tuple[str, ...], expected: str) -> Token:
        token = self._next
        if token.kind not in kinds:
            self.fail(f"expected {expected}")
        self.at += 1
        return token

    def sees_kind(self, *kinds: str) -> bool:
        """True if the next token is of one of these kinds."""
        return self._next.kind in kinds

    def word(self, expected: str = "a word") -> str:
        """Take a bare word."""
        return self._take(("word",), expected).text

    def name(self, expected: str = "a name") -> str:
        """Take a bare or quoted name."""
        return self.string() if self.sees_kind("string") else self.word(expected)

    def string(self) -> str:
        """Take a quoted string."""
        token = self._take(("string",), "a quoted text")
        try:
            value = str(json.loads(token.text))
            value.encode()
        except ValueError:  # a lone surrogate, too
            self.at -= 1
            self.fail("this text is not quoted as JSON quotes")
        return value

    def integer(self) -> int:
        """Take an integer of at most 64 bits."""
        token = self._take(("integer",), "an integer")
        value = int(token.text) if len(token.text) <= 21 else _INTEGER_LIMIT
        if not -_INTEGER_LIMIT // 2 <= value < _INTEGER_LIMIT:
            self.at -= 1
            self.fail("this integer has more than 64 bits")
        return value

    def number(self) -> int | float:
        """Take an integer or a float."""
        if self.sees_kind("float"):
            return _float_of(self._take(("float",), "a number").text)
        return self.integer()

    def integers(self, close: str) -> tuple[int, ...]:
        """Take integers separated by commas, up to and with `close`; a comma may follow the last one."""
        values: list[int] = []
        while not self.takes(close):
            values.append(self.integer())
            if not self.sees(close):
                self.expect(",")
        return tuple(values)

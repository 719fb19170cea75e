"""Parsing the text form of `ir/text.py` back into programs and artifacts.

A malformed text ends in ONKI505 with line and column. Parsing checks the form, `ir/verify.py` the meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from opennki.diag import Location
from opennki.ir.parse_code import (
    ProgramReader,
    read_attributes,
    read_body,
    read_member,
    read_pattern,
    read_place,
    read_whole,
    shown_label,
)
from opennki.ir.program import MAX_LOOP_DEPTH, Facts
from opennki.ir.tokens import Cursor, Line, read_lines
from opennki.ir.types import (
    Buffer,
    Constant,
    IndexKind,
    Input,
    KernelArtifact,
    Layout,
    Origin,
    Output,
    Program,
    Signature,
    Space,
    Structure,
)

__all__ = ["TEXT_VERSION", "parse_artifact", "parse_program"]

TEXT_VERSION = 1
T = TypeVar("T")


def parse_program(text: str, facts: Facts) -> Program:
    """Return the program of one core whose text is `text`. Errors: ONKI505."""
    lines = _Lines(text)
    program = _core(lines.next("core"), facts)
    lines.end()
    return program


def parse_artifact(text: str, facts: Facts) -> KernelArtifact:
    """Return the artifact whose text is `text`. Errors: ONKI505."""
    lines = _Lines(text)
    head = lines.next("opennki-ir")
    if _rest(head, Cursor.integer) != TEXT_VERSION:
        Cursor(head).fail(f"this text is not of version {TEXT_VERSION}")
    kernel = _rest(lines.next("kernel"), Cursor.name)
    target = _rest(lines.next("target"), Cursor.name)
    degree = lines.next("lnc")
    location = _rest(lines.next("location"), _location)
    signature = Signature(
        inputs=tuple(_rest(line, _input) for line in lines.all("input")),
        constants=tuple(_rest(line, _constant) for line in lines.all("constant")),
        outputs=tuple(_rest(line, _output) for line in lines.all("output")),
        returns=_rest(lines.next("returns"), _structure),
    )
    programs = tuple(_core(line, facts) for line in lines.all("core"))
    if _rest(degree, Cursor.integer) != len(programs):
        Cursor(degree).fail(f"the text has {len(programs)} cores")
    constants = tuple(data for line in lines.all("data") for data in _data(line))
    if len(constants) != len(signature.constants):
        Cursor(head).fail(f"the bytes of {len(constants)} of {len(signature.constants)} constants are there")
    lines.end()
    return KernelArtifact(kernel, target, location, signature, programs, constants)


class _Lines:
    """The lines of a text, one after another. It has state: how far it has come."""

    def __init__(self, text: str) -> None:
        self.lines = read_lines(text)
        self.at = 0

    def all(self, word: str) -> list[Line]:
        """Take all next lines that start with `word`."""
        start = self.at
        while self.at < len(self.lines) and Cursor(self.lines[self.at]).sees(word):
            self.at += 1
        return self.lines[start : self.at]

    def next(self, word: str) -> Line:
        """Take the next line, which must start with `word`."""
        if self.at >= len(self.lines):
            end = Cursor(self.lines[-1] if self.lines else Line(1, "", []))
            end.at = len(end.line.tokens)
            end.fail(f"expected `{word}`, the text ends")
        line = self.lines[self.at]
        Cursor(line).expect(word)
        self.at += 1
        return line

    def end(self) -> None:
        """Refuse anything left."""
        if self.at < len(self.lines):
            Cursor(self.lines[self.at]).fail("unexpected line")


def _rest(line: Line, read: Callable[[Cursor], T]) -> T:
    """Return what `read` makes of a line behind its first word, and refuse anything left or opened."""
    cursor = Cursor(line)
    cursor.word()
    if line.children is not None:
        cursor.at = 0
        cursor.fail("nothing can be opened here")
    value = read(cursor)
    cursor.end()
    return value


# The signature


def _input(c: Cursor) -> Input:
    name, dtype, shape, key = _tensor(c)
    return Input(name, key, shape, dtype, c.takes("written"))


def _constant(c: Cursor) -> Constant:
    name, dtype, shape, key = _tensor(c)
    c.expect("sha256", "=")
    return Constant(name, key, shape, dtype, c.string())


def _output(c: Cursor) -> Output:
    name, dtype, shape, key = _tensor(c)
    c.expect("@")
    offset = c.integer()
    pattern = read_pattern(c)
    alias = -1
    if c.takes("alias"):
        c.expect("=")
        alias = c.integer()
    return Output(name, key, shape, dtype, offset, pattern, alias)


def _tensor(c: Cursor) -> tuple[str, str, tuple[int, ...], str]:
    name = c.name()
    c.expect(":")
    dtype, shape = _type(c)
    c.expect("=")
    return name, dtype, shape, c.name("a key")


def _type(c: Cursor) -> tuple[str, tuple[int, ...]]:
    dtype = c.name("a dtype")
    c.expect("[")
    return dtype, c.integers("]")


def _structure(c: Cursor, depth: int = 0) -> Structure:
    if depth > MAX_LOOP_DEPTH:
        c.fail(f"the return value nests deeper than {MAX_LOOP_DEPTH}")
    if c.takes("none"):
        return Structure("none")
    if c.takes("#"):
        return Structure("leaf", c.integer())
    if c.takes("["):
        return Structure("list", items=_items(c, "]", depth))
    if c.takes("("):
        return Structure("tuple", items=_items(c, ")", depth))
    c.expect("{")
    keys: list[str] = []
    items: list[Structure] = []
    while not c.takes("}"):
        keys.append(c.string())
        c.expect(":")
        items.append(_structure(c, depth + 1))
        if not c.sees("}"):
            c.expect(",")
    return Structure("dict", keys=tuple(keys), items=tuple(items))


def _items(c: Cursor, close: str, depth: int) -> tuple[Structure, ...]:
    items: list[Structure] = []
    while not c.takes(close):
        items.append(_structure(c, depth + 1))
        if not c.sees(close):
            c.expect(",")
    return tuple(items)


def _data(line: Line) -> list[bytes]:
    from base64 import b64decode

    constants = []
    for number, one in enumerate(_block(line, "data")):
        c = Cursor(one)
        if c.integer() != number or one.children is None:
            c.at = 0
            c.fail(f"expected `{number} {{`")
        c.end()
        text = "".join(read_whole(inner, Cursor.string) for inner in one.children)
        try:
            constants.append(b64decode(text, validate=True))
        except ValueError:
            c.at = 0
            c.fail("these bytes are no base64")
    return constants


def _block(line: Line, word: str) -> list[Line]:
    """Return the lines in the braces of `word { … }`."""
    c = Cursor(line)
    c.expect(word)
    c.end()
    if line.children is None:
        c.fail("expected `{`")
    return line.children


# A program


def _core(line: Line, facts: Facts) -> Program:
    c = Cursor(line)
    c.expect("core")
    core = c.integer()
    c.end()
    if line.children is None:
        c.fail("expected `{`")
    p = ProgramReader(facts)
    blocks: dict[str, Line] = {}
    buffers = []
    for inner in line.children:
        c = Cursor(inner)
        if c.sees("%"):
            buffers.append(inner)
            continue
        word = c.word("a buffer or a block")
        c.at = 0
        if word not in ("code", "locations", "opcodes", "layouts", "attributes") or word in blocks:
            c.fail(f"`{word}` cannot stand here")
        blocks[word] = inner
    _tables(p, blocks)
    for inner in buffers:
        read_whole(inner, lambda c: _buffer(c, p))
    if "code" not in blocks:
        Cursor(line).fail("the core has no `code`")
    body = read_body(_block(blocks["code"], "code"), p)
    return Program(
        core=core,
        opcodes=tuple(p.opcodes.entries),
        buffers=tuple(p.buffers),
        layouts=tuple(p.layouts.entries),
        attrs=tuple(p.attrs.entries),
        locations=tuple(p.locations),
        body=body,
    )


def _tables(p: ProgramReader, blocks: dict[str, Line]) -> None:
    def lines(word: str) -> list[Line]:
        return _block(blocks[word], word) if word in blocks else []

    for line in lines("locations"):
        p.locations.append(read_whole(line, lambda c: _numbered_location(c, len(p.locations))))
    if "opcodes" in blocks:
        for name in _rest(blocks["opcodes"], _names):
            p.opcodes.number(name)
    for line in lines("layouts"):
        p.layouts.number(read_whole(line, _layout))
    for line in lines("attributes"):
        p.attrs.number(read_whole(line, read_attributes))


def _names(c: Cursor) -> list[str]:
    c.expect("(")
    names: list[str] = []
    while not c.takes(")"):
        names.append(c.name())
        if not c.sees(")"):
            c.expect(",")
    return names


def _numbered_location(c: Cursor, number: int) -> Location:
    c.expect("@")
    if c.integer() != number:
        c.at = 0
        c.fail(f"expected `@{number}`")
    c.expect("=")
    return _location(c)


def _location(c: Cursor) -> Location:
    file = c.name("a file")
    line = c.integer()
    c.expect(":")
    column = c.integer()
    c.expect("..")
    end_line = c.integer()
    c.expect(":")
    end_column = c.integer()
    c.expect("in")
    function = c.name()
    text = c.string()
    caller = -1
    if c.takes("from"):
        c.expect("@")
        caller = c.integer()
    return Location(file, line, end_line, column, end_column, function, text, caller)


def _layout(c: Cursor) -> Layout:
    space = read_member(c, Space)
    dtype = c.name("a dtype")
    pattern = read_pattern(c)
    c.expect("start", "=")
    start = c.integer()
    c.expect("bank", "=")
    bank = c.integer()
    index = IndexKind.none
    if c.takes("index"):
        c.expect("=")
        index = read_member(c, IndexKind)
    return Layout(space, dtype, pattern, start, bank, index)


def _buffer(c: Cursor, p: ProgramReader) -> None:
    c.expect("%")
    name = c.name()
    label = (name, c.integer() if c.takes("#") else None)
    number = len(p.buffers) if label[1] is None else label[1]
    c.expect(":")
    space = read_member(c, Space)
    dtype, shape = _type(c)
    c.expect("=")
    origin = read_member(c, Origin)
    key, address, loop = name, None, -1
    if c.takes("key"):
        c.expect("=")
        key = c.name("a key")
    if c.takes("address"):
        c.expect("=", "(")
        pair = c.integers(")")
        if len(pair) != 2:
            c.fail("expected a partition and a byte")
        address = (pair[0], pair[1])
    if c.takes("loop"):
        c.expect("=")
        loop = c.integer()
    if label in p.labels:
        c.at = 0
        c.fail(f"there are two buffers `{shown_label(label)}`")
    buffer = Buffer(number, name, key, space, shape, dtype, origin, address, loop, read_place(c, p))
    p.labels[label] = buffer
    p.buffers.append(buffer)

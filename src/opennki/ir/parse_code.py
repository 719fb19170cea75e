"""Parsing the code of a program's text form: loops, instructions, operands, views."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Generic, TypeVar

from opennki.diag import Location
from opennki.ir.codec import encode_attributes
from opennki.ir.notation import Slice, default_layout, pattern_of
from opennki.ir.program import MAX_LOOP_DEPTH, Facts, RowFacts
from opennki.ir.tokens import Cursor, Line
from opennki.ir.types import (
    ATTRIBUTE_DEPTH,
    AttrValue,
    Buffer,
    Engine,
    Index,
    IndexKind,
    Instruction,
    Layout,
    Loop,
    LoopKind,
    Operand,
    Register,
    Space,
    View,
)

__all__ = [
    "OWN_FIELDS",
    "ProgramReader",
    "read_attributes",
    "read_body",
    "read_member",
    "read_pattern",
    "read_place",
    "read_whole",
    "shown_label",
]

OWN_FIELDS = ("on", "after", "name")
"""What an instruction's text has beside the names of its row."""

_ENGINES = {engine.name: engine.value for engine in Engine}
M = TypeVar("M", bound=Enum)
T = TypeVar("T")


class _Table(Generic[T]):
    """A table of a program. It has state: entries are numbered as they turn up, or as the text lists them."""

    def __init__(self, key: Callable[[T], Hashable]) -> None:
        self.key = key
        self.entries: list[T] = []
        self.numbers: dict[Hashable, int] = {}

    def number(self, entry: T) -> int:
        """Return the number of `entry`, a new one if it is not there yet."""
        key = self.key(entry)
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.entries)
            self.entries.append(entry)
        return found


class ProgramReader:
    """A program while it is read. It has state: its tables grow."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.buffers: list[Buffer] = []
        self.labels: dict[tuple[str, int | None], Buffer] = {}
        self.locations: list[Location] = []
        self.opcodes: _Table[str] = _Table(lambda name: name)
        self.layouts: _Table[Layout] = _Table(lambda layout: layout)
        self.attrs: _Table[tuple[AttrValue, ...]] = _Table(encode_attributes)


def read_whole(line: Line, read: Callable[[Cursor], T]) -> T:
    """Return what `read` makes of a whole line."""
    cursor = Cursor(line)
    value = read(cursor)
    cursor.end()
    if line.children is not None:
        cursor.at = 0
        cursor.fail("nothing can be opened here")
    return value


def read_member(c: Cursor, enum: type[M]) -> M:
    """Take a word that is the value of a member of `enum`, and return the member."""
    word = c.word()
    for member in enum:
        if member.value == word:
            return member
    c.at -= 1
    c.fail(f"expected one of {', '.join(f'`{member.value}`' for member in enum)}")


def read_pattern(c: Cursor) -> tuple[tuple[int, int], ...]:
    """Take `[(step, count), …]`."""
    c.expect("[")
    pairs: list[tuple[int, int]] = []
    while not c.takes("]"):
        c.expect("(")
        pair = c.integers(")")
        if len(pair) != 2:
            c.fail("expected a step and a count")
        pairs.append((pair[0], pair[1]))
        if not c.sees("]"):
            c.expect(",")
    return tuple(pairs)


def read_place(c: Cursor, p: ProgramReader) -> int:
    """Read `; k.py:12 @3`, which must agree with the table; nothing means -1."""
    if not c.takes(";"):
        return -1
    start = c.at
    file = c.name("a file")
    c.expect(":")
    line = c.integer()
    c.expect("@")
    number = c.integer()
    if not 0 <= number < len(p.locations):
        c.at -= 1
        c.fail(f"there is no location @{number}")
    found = p.locations[number]
    if (found.file, found.line) != (file, line):
        c.at = start
        c.fail(f"location @{number} is `{found.file}:{found.line}`")
    return number


def shown_label(label: tuple[str, int | None]) -> str:
    """Return a buffer's label as it stands in the text."""
    return f"%{label[0]}" if label[1] is None else f"%{label[0]}#{label[1]}"


def read_body(lines: list[Line], p: ProgramReader, depth: int = 0) -> tuple[Instruction | Loop, ...]:
    """Return the instructions and loops that `lines` describe."""
    if depth > MAX_LOOP_DEPTH:
        Cursor(lines[0]).fail(f"loops nest deeper than {MAX_LOOP_DEPTH}")
    return tuple(
        [
            read_whole(line, lambda c: _instruction(c, p)) if line.children is None else _loop(line, p, depth)
            for line in lines
        ]
    )


def _loop(line: Line, p: ProgramReader, depth: int) -> Loop:
    c = Cursor(line)
    kind = read_member(c, LoopKind)
    c.expect("#")
    number = c.integer()
    induction = _register(c)
    lower: Operand = None
    upper: Operand = None
    step = 1
    if c.takes("="):
        lower = _operand(c, p)
        c.expect("to")
        upper = _operand(c, p)
        c.expect("step")
        step = c.integer()
    at = read_place(c, p)
    c.end()
    return Loop(number, kind, induction, lower, upper, step, read_body(line.children or [], p, depth + 1), at)


# An instruction


def _instruction(c: Cursor, p: ProgramReader) -> Instruction:
    name = c.name("an instruction")
    opcode = p.opcodes.number(name)
    if c.takes("("):
        operands = _operands(c, p, ")")
        values = read_attributes(c)
    else:
        row = p.facts.get(name)
        if row is None:
            c.at = 0
            c.fail(f"the operands of `{name}`, which is no known instruction, need parentheses")
        operands, values = _named(c, p, row)
    attrs = p.attrs.number(values)
    c.expect("on", "=")
    engine = c.integer() if c.sees_kind("integer") else _engine(c)
    after: tuple[int, ...] = ()
    if c.takes("after"):
        c.expect("=", "(")
        after = c.integers(")")
    own = None
    if c.takes("name"):
        c.expect("=")
        own = c.name()
    return Instruction(opcode, operands, attrs, engine, read_place(c, p), after, own)


def _engine(c: Cursor) -> int:
    word = c.word("an engine")
    if word not in _ENGINES:
        c.at -= 1
        c.fail(f"expected one of {', '.join(f'`{name}`' for name in _ENGINES)}")
    return _ENGINES[word]


def _named(c: Cursor, p: ProgramReader, row: RowFacts) -> tuple[tuple[Operand, ...], tuple[AttrValue, ...]]:
    """Read `role=operand … attribute=value …` up to one of our own fields; what is left out is None."""
    roles = {role.name: role for role in row.roles}
    operands: dict[str, tuple[Operand, ...]] = {}
    values: dict[str, AttrValue] = {}
    while not any(c.sees(field) for field in OWN_FIELDS):
        name = c.word("an operand or an attribute")
        if name in operands or name in values or not (name in roles or name in row.attributes):
            c.at -= 1
            c.fail(f"`{name}` is no operand or attribute that can stand here")
        c.expect("=")
        if name not in roles:
            values[name] = _attribute(c)
        elif roles[name].many:
            c.expect("[")
            operands[name] = _operands(c, p, "]")
        else:
            operands[name] = (_operand(c, p),)
    found: list[Operand] = []
    for role in row.roles:
        found += operands.get(role.name, () if role.many else (None,))
    return tuple(found), tuple(values.get(name) for name in row.attributes)


def _operands(c: Cursor, p: ProgramReader, close: str) -> tuple[Operand, ...]:
    operands: list[Operand] = []
    while not c.takes(close):
        operands.append(_operand(c, p))
        if not c.sees(close):
            c.expect(",")
    return tuple(operands)


def read_attributes(c: Cursor) -> tuple[AttrValue, ...]:
    """Take the values of all attributes in parentheses, in the row's order."""
    c.expect("(")
    return _attribute_items(c, 0)


def _attribute_items(c: Cursor, depth: int) -> tuple[AttrValue, ...]:
    if depth > ATTRIBUTE_DEPTH:
        c.fail(f"attributes nest deeper than {ATTRIBUTE_DEPTH}")
    items: list[AttrValue] = []
    while not c.takes(")"):
        items.append(_attribute(c, depth))
        if not c.sees(")"):
            c.expect(",")
    return tuple(items)


def _attribute(c: Cursor, depth: int = 0) -> AttrValue:
    if c.takes("("):
        return _attribute_items(c, depth + 1)
    if c.sees_kind("integer", "float"):
        return c.number()
    if c.takes("none"):
        return None
    if c.sees("true") or c.sees("false"):
        return c.word() == "true"
    return c.name("an attribute's value")


def _operand(c: Cursor, p: ProgramReader) -> Operand:
    if c.sees("%"):
        return _view(c, p)
    if c.sees("$"):
        return _register(c)
    return None if c.takes("none") else c.number()


def _register(c: Cursor) -> Register:
    c.expect("$")
    number = c.integer()
    return Register(number, c.name("a dtype") if c.takes(":") else "int32")


def _view(c: Cursor, p: ProgramReader, depth: int = 0) -> View:
    start = c.at
    c.expect("%")
    label = (c.name(), c.integer() if c.takes("#") else None)
    buffer = p.labels.get(label)
    if buffer is None or depth > 1:
        c.at = start
        c.fail(
            f"there is no buffer `{shown_label(label)}`" if buffer is None else "an index has no index itself"
        )
    dtype = c.name("a dtype") if c.takes(":") else buffer.dtype
    if c.takes("@"):
        offset = c.integer()
        pattern = read_pattern(c)
    else:
        offset, pattern = _slices(c, buffer)
    index = _index(c, p) if depth == 0 and c.takes("+") else None
    usual = default_layout(buffer, dtype, offset, pattern, index.kind if index else IndexKind.none)
    layout = _unusual(c, usual) if c.takes("{") else usual
    return View(buffer.id, offset, p.layouts.number(layout), index)


def _slices(c: Cursor, buffer: Buffer) -> tuple[int, tuple[tuple[int, int], ...]]:
    start = c.at
    c.expect("[")
    slices: list[Slice] = []
    while not c.takes("]"):
        first = c.integer()
        if c.takes(":"):
            stop = c.integer()
            slices.append((first, stop, c.integer() if c.takes(":") else 1))
        else:
            slices.append(first)
        if not c.sees("]"):
            c.expect(",")
    found = pattern_of(buffer.shape, tuple(slices))
    if found is None:
        c.at = start
        c.fail(f"these are no slices of the shape {list(buffer.shape)}")
    return found


def _index(c: Cursor, p: ProgramReader) -> Index:
    kind = read_member(c, IndexKind)
    c.expect("(")
    source = _view(c, p, depth=1) if c.sees("%") else _register(c)
    c.expect(",", "step", "=")
    step = c.integer()
    c.expect(",", "extent", "=")
    extent = c.integer()
    axis = 0
    if c.takes(","):
        c.expect("axis", "=")
        axis = c.integer()
    c.expect(")")
    return Index(kind, source, step, extent, axis)


def _unusual(c: Cursor, usual: Layout) -> Layout:
    space, start, bank, index = usual.space, usual.start_partition, usual.bank_offset_bytes, usual.index
    while not c.takes("}"):
        field = c.word("`space`, `start`, `bank` or `index`")
        c.expect("=")
        if field == "space":
            space = read_member(c, Space)
        elif field == "start":
            start = c.integer()
        elif field == "bank":
            bank = c.integer()
        elif field == "index":
            index = read_member(c, IndexKind)
        else:
            c.fail(f"a layout has no `{field}`")
        if not c.sees("}"):
            c.expect(",")
    return Layout(space, usual.dtype, usual.pattern, start, bank, index)

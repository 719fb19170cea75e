"""Hypothesis strategies for sound programs and artifacts of any content, and the facts of their rows."""

from __future__ import annotations

import hashlib
import struct

from hypothesis import strategies as st
from msgspec import Struct

from opennki.diag import Location
from opennki.ir.codec import encode_attributes
from opennki.ir.dtypes import DTYPES
from opennki.ir.program import RoleFacts, RowFacts, size_bytes, spread
from opennki.ir.types import (
    AttrValue,
    Buffer,
    Constant,
    Engine,
    Index,
    IndexKind,
    Input,
    Instruction,
    KernelArtifact,
    Layout,
    Loop,
    LoopKind,
    Operand,
    Origin,
    Output,
    Program,
    Register,
    Signature,
    Space,
    Structure,
    View,
)

Draw = st.DrawFn

# UTF-8 holds no lone surrogates, and what it cannot hold is in no artifact.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.sampled_from(["t", "a_b", "k.py:3#0", "none", "nan", "1st", "", "größe", 'q"\\', "on"]) | TEXTS
INT64 = st.integers(-(1 << 63), (1 << 64) - 1)
FLOATS = st.binary(min_size=8, max_size=8).map(lambda b: float(struct.unpack(">d", b)[0])) | st.sampled_from(
    [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-5, 1e16, 0.1]
)
SMALL = st.integers(-3, 300)
DTYPE = st.sampled_from(sorted(DTYPES))
PATTERNS = st.lists(st.tuples(st.integers(-70_000, 70_000), st.integers(1, 128)), max_size=4).map(tuple)
REGISTERS = st.builds(Register, st.integers(0, 40), st.sampled_from(["int32", "int64"]))
ATTRIBUTES: st.SearchStrategy[AttrValue] = st.recursive(
    st.none() | st.booleans() | INT64 | FLOATS | NAMES,
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
ROLES = [
    RoleFacts("dst"),
    RoleFacts("src", optional=True, number=True, register=True),
    RoleFacts("on_true", optional=True, number=True, register=True),
    RoleFacts("srcs", optional=True, number=True, register=True, many=True),
]
FACTS = {
    "one": RowFacts((ROLES[0],), ("op",)),
    "two": RowFacts((ROLES[0], ROLES[1]), ()),
    "many": RowFacts((ROLES[0], ROLES[3], ROLES[2]), ("count", "mode")),
    "clash": RowFacts((ROLES[1],), ("after", "on")),
    "none": RowFacts((), ("name",)),
    "odd name": RowFacts((ROLES[1], ROLES[2]), ("a", "b", "c")),
}


class _Tables(Struct):
    """The tables of a program while its code is drawn."""

    buffers: tuple[Buffer, ...]
    layouts: dict[Layout, int]
    attrs: dict[bytes, tuple[int, tuple[AttrValue, ...]]]
    locations: int
    loops: list[int]


def _number(table: dict[Layout, int], layout: Layout) -> int:
    return table.setdefault(layout, len(table))


@st.composite
def locations(draw: Draw, count: int) -> tuple[Location, ...]:
    """Draw a table of locations; each was called from an earlier one or from none."""
    return tuple(
        draw(st.builds(Location, NAMES, SMALL, SMALL, SMALL, SMALL, NAMES, TEXTS, st.integers(-1, i - 1)))
        for i in range(count)
    )


@st.composite
def buffers(draw: Draw, places: int) -> tuple[Buffer, ...]:
    """Draw buffers whose ids are their places and whose keys differ."""
    shapes = st.lists(st.integers(1, 128), min_size=1, max_size=4).map(tuple)
    return tuple(
        Buffer(
            i,
            draw(NAMES),
            f"{draw(NAMES)}#{i}",
            draw(st.sampled_from(Space)),
            draw(shapes),
            draw(DTYPE),
            draw(st.sampled_from(Origin)),
            draw(st.none() | st.tuples(st.integers(0, 96), st.integers(0, 16384))),
            draw(st.integers(-1, 5)),
            draw(st.integers(-1, places - 1)),
        )
        for i in range(draw(st.integers(1, 5)))
    )


@st.composite
def views(draw: Draw, tables: _Tables, *, indexed: bool = True) -> View:
    """Draw a view: slices of its buffer, or anything."""
    buffer = draw(st.sampled_from(tables.buffers))
    index = draw(_indices(tables)) if indexed and draw(st.booleans()) else None
    offset, pattern = draw(_slices(buffer.shape) | st.tuples(st.integers(-10, 100_000), PATTERNS))
    kind = index.kind if index else IndexKind.none
    odd = draw(st.booleans())
    layout = Layout(
        draw(st.sampled_from(Space)) if odd else buffer.space,
        draw(DTYPE) if draw(st.booleans()) else buffer.dtype,
        pattern,
        draw(st.integers(0, 127)),
        draw(st.integers(0, 2047)),
        draw(st.sampled_from(IndexKind)) if odd else kind,
    )
    return View(buffer.id, offset, _number(tables.layouts, layout), index)


@st.composite
def _slices(draw: Draw, shape: tuple[int, ...]) -> tuple[int, tuple[tuple[int, int], ...]]:
    offset, step, pairs = 0, 1, []
    for size in reversed(shape):
        start = draw(st.integers(0, size - 1))
        offset += start * step
        if draw(st.booleans()):
            stride = draw(st.integers(1, max(1, (size - start) // 2)))
            pairs.append((stride * step, draw(st.integers(1, (size - start + stride - 1) // stride))))
        step *= size
    return offset, tuple(reversed(pairs))


@st.composite
def _indices(draw: Draw, tables: _Tables) -> Index:
    source = draw(REGISTERS) if draw(st.booleans()) else draw(views(tables, indexed=False))
    return Index(draw(st.sampled_from(IndexKind)), source, draw(SMALL), draw(SMALL), draw(st.integers(0, 2)))


def operands(tables: _Tables) -> st.SearchStrategy[Operand]:
    """Return a strategy for anything that may be an operand."""
    return views(tables) | REGISTERS | FLOATS | INT64 | st.none()


@st.composite
def instructions(draw: Draw, tables: _Tables, opcodes: tuple[str, ...]) -> Instruction:
    """Draw an instruction, usually as its row says."""
    opcode = draw(st.integers(0, len(opcodes) - 1))
    row = FACTS.get(opcodes[opcode])
    count, values = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    if row is not None and draw(st.integers(0, 4)) > 0:
        count = len(row.roles) + (draw(st.integers(-1, 2)) if any(role.many for role in row.roles) else 0)
        values = len(row.attributes)
        assert spread(row, count) is not None
    attributes = tuple(draw(st.lists(ATTRIBUTES, min_size=values, max_size=values)))
    key = encode_attributes(attributes)
    number, _ = tables.attrs.setdefault(key, (len(tables.attrs), attributes))
    return Instruction(
        opcode,
        tuple(draw(st.lists(operands(tables), min_size=count, max_size=count))),
        number,
        draw(st.integers(0, len(Engine))),
        draw(st.integers(-1, tables.locations - 1)),
        draw(st.lists(st.integers(0, 9), max_size=2).map(tuple)),
        draw(st.none() | NAMES),
    )


@st.composite
def bodies(
    draw: Draw, tables: _Tables, opcodes: tuple[str, ...], depth: int = 0
) -> tuple[Instruction | Loop, ...]:
    """Draw instructions and, up to three deep, loops."""
    items: list[Instruction | Loop] = []
    for _ in range(draw(st.integers(0, 4))):
        if depth < 3 and draw(st.integers(0, 3)) == 0:
            tables.loops.append(len(tables.loops))
            lower, upper = [draw(REGISTERS | INT64 | st.none()) for _ in range(2)]
            items.append(
                Loop(
                    tables.loops[-1],
                    draw(st.sampled_from(LoopKind)),
                    draw(REGISTERS),
                    lower,
                    upper,
                    draw(SMALL),
                    draw(bodies(tables, opcodes, depth + 1)),
                    draw(st.integers(-1, tables.locations - 1)),
                )
            )
        else:
            items.append(draw(instructions(tables, opcodes)))
    return tuple(items)


@st.composite
def programs(draw: Draw, core: int = 0) -> Program:
    """Draw a program whose tables hold each entry once, in any order, used or not."""
    count = draw(st.integers(1, 4))
    opcodes = tuple(
        draw(st.lists(st.sampled_from(sorted(FACTS)) | NAMES, min_size=1, max_size=5, unique=True))
    )
    tables = _Tables(draw(buffers(count)), {}, {}, count, [])
    for layout in draw(st.lists(st.builds(Layout, st.sampled_from(Space), DTYPE, PATTERNS), max_size=2)):
        _number(tables.layouts, layout)
    body = draw(bodies(tables, opcodes))
    attributes = tuple(values for _, values in tables.attrs.values())
    return Program(
        core, opcodes, tables.buffers, tuple(tables.layouts), attributes, draw(locations(count)), body
    )


@st.composite
def structures(draw: Draw, outputs: int, depth: int = 0) -> Structure:
    """Draw a return value made of the outputs."""
    kinds = ["none", *(["leaf"] if outputs else []), *(["tuple", "list", "dict"] if depth < 3 else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "none":
        return Structure("none")
    if kind == "leaf":
        return Structure("leaf", draw(st.integers(0, outputs - 1)))
    items = tuple(draw(structures(outputs, depth + 1)) for _ in range(draw(st.integers(0, 3))))
    if kind == "dict":
        keys = draw(st.lists(TEXTS, min_size=len(items), max_size=len(items), unique=True))
        return Structure("dict", keys=tuple(keys), items=items)
    return Structure("tuple" if kind == "tuple" else "list", items=items)


@st.composite
def artifacts(draw: Draw) -> KernelArtifact:
    """Draw an artifact of one or two programs, with inputs, constants and outputs."""
    shapes = st.lists(st.integers(1, 4), max_size=3).map(tuple)
    inputs = draw(st.lists(st.builds(Input, NAMES, NAMES, shapes, DTYPE, st.booleans()), max_size=2))
    outputs = draw(
        st.lists(
            st.builds(Output, NAMES, NAMES, shapes, DTYPE, SMALL, PATTERNS, st.integers(-1, 1)), max_size=2
        )
    )
    constants, data = [], []
    for _ in range(draw(st.integers(0, 2))):
        shape, dtype = draw(shapes), draw(DTYPE)
        size = size_bytes(shape, dtype)
        data.append(draw(st.binary(min_size=size, max_size=size)))
        digest = hashlib.sha256(data[-1]).hexdigest()
        constants.append(Constant(draw(NAMES), draw(NAMES), shape, dtype, digest))
    return KernelArtifact(
        kernel=draw(NAMES),
        target=draw(st.sampled_from(["trn1", "inf2", "trn2", "trn3"])),
        location=draw(locations(1))[0],
        signature=Signature(tuple(inputs), tuple(constants), tuple(outputs), draw(structures(len(outputs)))),
        programs=tuple(draw(programs(core)) for core in range(draw(st.integers(1, 2)))),
        constants=tuple(data),
    )

"""Programs and artifacts built by hand, an instruction at a time: what the analyses read, with no trace."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter
from typing import Any

from opennki.diag import Location
from opennki.ir.dtypes import DTYPES
from opennki.ir.program import size_bytes, steps_of
from opennki.ir.types import (
    AttrValue,
    Buffer,
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
from opennki.isa.attributes import KINDS
from opennki.isa.table import BY_NAME, OPCODES

KERNEL = Location("kernels.py", 4, 4, 4, 9, "split", "def split(x):")


class ProgramBuilder:
    """One core's program. It has state since it is filled an instruction at a time."""

    def __init__(self, core: int = 0) -> None:
        self.core = core
        self.buffers: list[Buffer] = []
        self.layouts: list[Layout] = []
        self.attrs: list[tuple[AttrValue, ...]] = []
        self.locations: list[Location] = []
        self.body: list[Instruction | Loop] = []

    def location(self, line: int, text: str = "", caller: int = -1) -> int:
        """Return the number of a location at `line`."""
        text = text or f"    line_{line}()"
        place = Location("kernels.py", line, line, 4, len(text), "split", text, caller)
        return _intern(self.locations, place)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "float32",
        space: Space = Space.shared_hbm,
        origin: Origin = Origin.local,
        line: int = 5,
    ) -> Buffer:
        """Allocate a buffer."""
        number = len(self.buffers)
        place = self.location(line, f"    {name} = nl.ndarray(...)")
        buffer = Buffer(number, name, name, space, tuple(shape), dtype, origin, None, -1, place)
        self.buffers.append(buffer)
        return buffer

    def view(self, buffer: Buffer, *slices: slice, dtype: str = "", index: Index | None = None) -> View:
        """Return a view of `buffer`; axes without a slice are whole. With `dtype`, the last axis is in it."""
        dtype = dtype or buffer.dtype
        ratio = DTYPES[buffer.dtype].bytes / DTYPES[dtype].bytes
        shape = (*buffer.shape[:-1], int(buffer.shape[-1] * ratio))
        offset, pattern = 0, []
        for axis, (count, step) in enumerate(zip(shape, steps_of(shape), strict=True)):
            taken = range(count)[slices[axis]] if axis < len(slices) else range(count)
            offset += taken.start * step
            pattern.append((step * taken.step, len(taken)))
        return self.access(buffer, offset, pattern, dtype=dtype, index=index)

    def access(
        self,
        buffer: Buffer,
        offset: int,
        pattern: Sequence[tuple[int, int]],
        *,
        dtype: str = "",
        index: Index | None = None,
    ) -> View:
        """Return a view by offset and pattern."""
        dtype = dtype or buffer.dtype
        pitch = size_bytes(buffer.shape[1:], buffer.dtype) // DTYPES[dtype].bytes
        start = offset // pitch if buffer.space.is_on_chip else 0
        kind = index.kind if index is not None else IndexKind.none
        layout = Layout(buffer.space, dtype, tuple(pattern), start, 0, kind)
        return View(buffer.id, offset, _intern(self.layouts, layout), index)

    def instruction(self, name: str, *operands: Operand, line: int = 9, **attributes: Any) -> Instruction:
        """Make an instruction, attributes left out at their defaults; it is not appended."""
        row = BY_NAME[name]
        parameters = row.signature.parameters
        values = []
        for attribute in row.attributes:
            value = attributes.pop(attribute.name, parameters[attribute.name].default)
            assert value is not Parameter.empty, attribute.name
            values.append(KINDS[attribute.annotation].canonical(value))
        assert not attributes
        number = _intern(self.attrs, tuple(values))
        opcode = OPCODES.index(name)
        return Instruction(opcode, operands, number, row.engines[0].value, self.location(line))

    def add(self, name: str, *operands: Operand, line: int = 9, **attributes: Any) -> Instruction:
        """Append an instruction."""
        made = self.instruction(name, *operands, line=line, **attributes)
        self.body.append(made)
        return made

    def loop(
        self,
        body: Sequence[Instruction | Loop],
        lower: Operand,
        upper: Operand,
        step: int = 1,
        number: int = 0,
    ) -> Loop:
        """Append a counted loop over register `number`."""
        register = Register(number, "int32")
        made = Loop(number, LoopKind.counted, register, lower, upper, step, tuple(body), self.location(8))
        self.body.append(made)
        return made

    def program(self) -> Program:
        """Return the program."""
        return Program(
            self.core,
            OPCODES,
            tuple(self.buffers),
            tuple(self.layouts),
            tuple(self.attrs),
            tuple(self.locations),
            tuple(self.body),
        )


def artifact(
    *builders: ProgramBuilder,
    outputs: Sequence[Output] = (),
    inputs: Sequence[Input] = (),
    target: str = "trn2",
    kernel: str = "split",
) -> KernelArtifact:
    """Return an artifact of the builders' programs; outputs default to the whole tensor `out`."""
    if not outputs and any(buffer.name == "out" for buffer in builders[0].buffers):
        outputs = [whole(next(buffer for buffer in builders[0].buffers if buffer.name == "out"))]
    returns = Structure("tuple", items=tuple(Structure("leaf", i) for i in range(len(outputs))))
    return KernelArtifact(
        kernel,
        target,
        KERNEL,
        Signature(tuple(inputs), (), tuple(outputs), returns),
        tuple(builder.program() for builder in builders),
    )


def whole(buffer: Buffer) -> Output:
    """Return the output that is all of `buffer`."""
    pattern = tuple(zip(steps_of(buffer.shape), buffer.shape, strict=True))
    return Output(buffer.name, buffer.key, buffer.shape, buffer.dtype, 0, pattern)


def split(
    shape: tuple[int, int] = (128, 16), shares: Sequence[slice] = (slice(0, 64), slice(64, 128))
) -> KernelArtifact:
    """Return an artifact in which each core copies its share of the rows from `x` to `out`."""
    builders = []
    for core, share in enumerate(shares):
        builder = ProgramBuilder(core)
        x = builder.tensor("x", shape, origin=Origin.input, line=4)
        out = builder.tensor("out", shape)
        tile = builder.tensor("tile", (len(range(shape[0])[share]), shape[1]), space=Space.sbuf, line=6)
        builder.add("dma_copy", builder.view(tile), builder.view(x, share), line=7)
        builder.add("dma_copy", builder.view(out, share), builder.view(tile), line=9)
        builders.append(builder)
    return artifact(*builders, inputs=[Input("x", "x", shape, "float32")])


def _intern(table: list[Any], value: Any) -> int:
    if value not in table:
        table.append(value)
    return table.index(value)

"""Looking at programs: instructions in order, loops, buffers by key, and the row facts that readers need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Literal

from msgspec import Struct

from opennki.ir.dtypes import DTYPES
from opennki.ir.types import Buffer, Instruction, Loop, LoopKind, Output, Program, Space, View

__all__ = [
    "MAX_LOOP_DEPTH",
    "MAX_RANK",
    "Facts",
    "RoleFacts",
    "RowFacts",
    "buffers_by_key",
    "first_use",
    "instructions",
    "is_whole",
    "loop_depth",
    "loops",
    "row_pitch",
    "size_bytes",
    "spread",
    "steps_of",
    "trip_count",
]

MAX_LOOP_DEPTH = 64
"""How deep loops nest at most. Readers recurse over loops, so a file must not choose the depth."""

MAX_RANK = 16
"""How many axes a buffer or an access has at most."""


class RoleFacts(Struct, frozen=True):
    """One operand of a row as readers of programs see it: its name and what may stand there.

    `many`: a list of views, spread out among the operands; a row has at most one. An empty `spaces` means
    that the role takes a view of any memory space.
    """

    name: str
    optional: bool = False
    number: bool = False
    register: bool = False
    view: bool = True
    many: bool = False
    spaces: frozenset[Space] = frozenset()


class RowFacts(Struct, frozen=True):
    """What a reader of programs needs to know of a row: names, in the order of the stored tuples.

    `attributes` names every stored value, the length of a `many` role included. `sync` says how the
    instruction meets other cores, None if it does not.
    """

    roles: tuple[RoleFacts, ...]
    attributes: tuple[str, ...] = ()
    sync: Literal["barrier", "exchange", "collective"] | None = None


Facts = Mapping[str, RowFacts]
"""The facts of every row by the instruction's name."""


def spread(row: RowFacts, count: int) -> tuple[RoleFacts, ...] | None:
    """Return the role of each of `count` operands, the `many` role repeated; None for an impossible count."""
    many = [k for k, role in enumerate(row.roles) if role.many]
    if not many:
        return row.roles if count == len(row.roles) else None
    length = count - (len(row.roles) - 1)
    if length < 0:
        return None
    at = many[0]
    return row.roles[:at] + (row.roles[at],) * length + row.roles[at + 1 :]


def instructions(program: Program) -> list[Instruction]:
    """Return the instructions in program order, loops opened and not counted.

    The place of an instruction in this list is its *position*, which `Instruction.after` refers to.
    """
    found: list[Instruction] = []
    _collect(program.body, found)
    return found


def _collect(body: tuple[Instruction | Loop, ...], found: list[Instruction]) -> None:
    for item in body:
        if type(item) is Instruction:
            found.append(item)
        elif type(item) is Loop:
            _collect(item.body, found)


def first_use(program: Program) -> tuple[list[int], list[int], list[int]]:
    """Return the numbers of opcodes, layouts and attribute tuples in the order of their first use."""
    opcodes: dict[int, None] = {}
    layouts: dict[int, None] = {}
    attrs: dict[int, None] = {}
    for i in instructions(program):
        opcodes[i.opcode] = attrs[i.attrs] = None
        for operand in i.operands:
            if isinstance(operand, View):
                if operand.index is not None and isinstance(operand.index.source, View):
                    layouts[operand.index.source.layout] = None
                layouts[operand.layout] = None
    return list(opcodes), list(layouts), list(attrs)


def loops(program: Program) -> Iterator[Loop]:
    """Yield the loops in program order, an outer one before those in its body."""
    waiting = [item for item in reversed(program.body) if type(item) is Loop]
    while waiting:
        loop = waiting.pop()
        yield loop
        waiting.extend(item for item in reversed(loop.body) if type(item) is Loop)


def is_whole(output: Output, shape: tuple[int, ...], dtype: str) -> bool:
    """True if an output is all of a buffer as it lies there: no part, no permutation, no other dtype."""
    if (output.offset, output.shape, output.dtype) != (0, shape, dtype):
        return False
    steps = [step if count > 1 else 1 for step, count in output.pattern]
    return steps == [step if count > 1 else 1 for step, count in zip(steps_of(shape), shape, strict=True)]


def trip_count(loop: Loop) -> int | None:
    """Return how often a counted loop turns, None where only the run knows."""
    lower, upper = loop.lower, loop.upper
    if loop.kind is not LoopKind.counted or type(lower) is not int or type(upper) is not int:
        return None
    return max(0, -((lower - upper) // loop.step))


def loop_depth(program: Program) -> int:
    """Return how deep loops nest: 0 for a straight program. Does not recurse."""
    depth = 0
    level = [item for item in program.body if type(item) is Loop]
    while level:
        depth += 1
        level = [item for loop in level for item in loop.body if type(item) is Loop]
    return depth


def buffers_by_key(program: Program) -> dict[str, Buffer]:
    """Return the buffers by key: who a buffer is on every core."""
    return {buffer.key: buffer for buffer in program.buffers}


def steps_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major steps of `shape` in elements.

    >>> steps_of((128, 4, 8))
    (32, 8, 1)
    """
    steps = []
    step = 1
    for count in reversed(shape):
        steps.append(step)
        step *= count
    return tuple(reversed(steps))


def size_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return how many bytes a tensor of `shape` and `dtype` holds."""
    return prod(shape) * DTYPES[dtype].bytes


def row_pitch(buffer: Buffer, dtype: str) -> int:
    """Return how many elements of `dtype` a partition of an on-chip buffer holds, 0 if no whole number."""
    row_bytes = size_bytes(buffer.shape[1:], buffer.dtype)
    return 0 if row_bytes % DTYPES[dtype].bytes else row_bytes // DTYPES[dtype].bytes

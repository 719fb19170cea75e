"""Effects: what an instruction touches, from its roles, indices, state and synchronisation.

The analyses know instructions through effects and through nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from opennki.ir.program import trip_count
from opennki.ir.types import (
    Engine,
    Index,
    IndexKind,
    Instruction,
    Layout,
    Loop,
    Operand,
    Program,
    Register,
    View,
)
from opennki.isa.define import Access, Role, Row
from opennki.isa.table import BY_NAME

__all__ = ["WRITES", "Effect", "EffectReader", "Turns", "effects", "program_effects"]

WRITES = (Access.WRITE, Access.UPDATE, Access.WRITE_WHERE, Access.ACCUMULATE)
"""The accesses that store: an UPDATE reads first, an ACCUMULATE reads what was written before."""

_WRITE_WHERE = Access.WRITE_WHERE  # looking a member up in its class costs as much as making an effect
_ENGINES = {engine.value: engine for engine in Engine}


class Effect(Struct, frozen=True, gc=False):
    """One access of an instruction.

    `buffer` and `register` are numbers of the program, -1 where the effect is none on a buffer or register;
    `state` names hidden engine state. `region` is the access without its place, `offset` the place, in
    elements of the region's dtype; the region of an indexed view covers all that the index may pick. It is
    `exact` if all of the region is certainly accessed; not so behind an index or a predicate, or in a loop
    that may not turn. An effect in a loop stands for all turns. `actor` is the engine, or `dma` for a queue.
    """

    access: Access
    buffer: int
    region: Layout | None
    offset: int
    exact: bool
    core: int
    actor: Engine
    location: int
    state: str | None = None
    register: int = -1


class Turns(Struct, frozen=True, gc=False):
    """The values that a loop's induction register takes: `count` of them from `first` on, `step` apart."""

    first: int
    step: int
    count: int


class _Plan(NamedTuple):
    """What a row does with one set of attributes: access and lanes of each operand, access of its state."""

    operands: tuple[tuple[Access, slice | None], ...]
    state: tuple[Access, str] | None


_NO_TURNS: Mapping[int, Turns] = {}


class EffectReader:
    """Reads the effects of one program's instructions.

    State: what rows say is worked out once for each opcode and attributes, and kept, as are widened regions.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._layouts = program.layouts
        self._plans: dict[tuple[int, int], _Plan] = {}
        self._regions: dict[tuple[object, ...], tuple[Layout, int, bool]] = {}

    def read(
        self, instruction: Instruction, *, certain: bool = True, turns: Mapping[int, Turns] = _NO_TURNS
    ) -> list[Effect]:
        """Return the effects of `instruction`, in the order of its operands, state last.

        `certain`: it runs at least once. `turns` are the known values of the loop registers around it.
        """
        plan = self._plans.get((instruction.opcode, instruction.attrs)) or self._plan(instruction)
        core, actor, location = self._program.core, _ENGINES[instruction.engine], instruction.location
        layouts = self._layouts
        found: list[Effect] = []
        for operand, (access, lanes) in zip(instruction.operands, plan.operands, strict=True):
            if type(operand) is View:
                if operand.index is None and lanes is None:
                    region, offset = layouts[operand.layout], operand.offset
                    exact = certain
                else:
                    if operand.index is not None:
                        found.append(self._source(operand.index, instruction, certain))
                    region, shift, is_known = self._region(operand, lanes, turns)
                    offset, exact = operand.offset + shift, certain and is_known
                if access is _WRITE_WHERE:
                    exact = False
                found.append(Effect(access, operand.buffer, region, offset, exact, core, actor, location))
            elif type(operand) is Register:
                found.append(Effect(access, -1, None, 0, certain, core, actor, location, register=operand.id))
        if plan.state is not None:
            access, name = plan.state
            exact = certain and access is not _WRITE_WHERE
            found.append(Effect(access, -1, None, 0, exact, core, actor, location, name))
        return found

    def _plan(self, instruction: Instruction) -> _Plan:
        row = BY_NAME[self._program.opcodes[instruction.opcode]]
        attrs = row.decode(self._program.attrs[instruction.attrs])
        operands = tuple(
            (role.access(attrs), role.lanes(attrs) if role.lanes is not None else None)
            for role in _roles(row, len(instruction.operands))
        )
        state = None if row.state is None else (row.state.access(attrs), row.state.name)
        plan = self._plans[instruction.opcode, instruction.attrs] = _Plan(operands, state)
        return plan

    def _source(self, index: Index, instruction: Instruction, certain: bool) -> Effect:
        """The read of the tile or register that an index comes from."""
        core, actor, location = self._program.core, _ENGINES[instruction.engine], instruction.location
        source = index.source
        if isinstance(source, View):
            region = self._layouts[source.layout]
            return Effect(Access.READ, source.buffer, region, source.offset, certain, core, actor, location)
        return Effect(Access.READ, -1, None, 0, certain, core, actor, location, register=source.id)

    def _region(
        self, view: View, lanes: slice | None, turns: Mapping[int, Turns]
    ) -> tuple[Layout, int, bool]:
        """Return what a view may touch, where that starts from its offset, and whether it touches all."""
        index = view.index
        known = _turns_of(index, turns)
        step, extent, axis = (index.step, index.extent, index.axis) if index is not None else (0, 0, 0)
        key = (view.layout, step, extent, axis, known, str(lanes))
        found = self._regions.get(key)
        if found is None:
            layout = self._layouts[view.layout]
            pattern = list(layout.pattern)
            shift = 0
            if lanes is not None and pattern:
                first, stop, stride = lanes.indices(pattern[0][1])
                shift = pattern[0][0] * first
                pattern[0] = (pattern[0][0] * stride, len(range(first, stop, stride)))
            if known is not None:
                shift += step * known.first
                pattern.append((step * known.step, known.count))
            elif index is not None and index.kind in (IndexKind.vector, IndexKind.columns):
                pattern[axis] = (step, extent)
            elif index is not None:
                pattern.append((step, extent))
            is_known = index is None or known is not None
            region = replace(layout, pattern=tuple(pattern), index=IndexKind.none)
            found = self._regions[key] = (region, shift, is_known)
        return found


def _roles(row: Row, count: int) -> Iterator[Role]:
    """Yield the role of each operand: a `many` role is spread out over what the others leave."""
    for role in row.roles:
        for _ in range(1 + count - len(row.roles) if role.many else 1):
            yield role


def _turns_of(index: Index | None, turns: Mapping[int, Turns]) -> Turns | None:
    """Return the values of an index if it is a loop's register and they are all legal."""
    if index is None or isinstance(index.source, View):
        return None
    known = turns.get(index.source.id)
    if known is None:
        return None
    ends = (known.first, known.first + known.step * (known.count - 1))
    return known if min(ends) >= 0 and max(ends) < index.extent else None


def effects(program: Program, instruction: Instruction) -> Iterator[Effect]:
    """Yield the effects of one instruction that is in no loop; `EffectReader` is faster for many.

    Beside the operands they are the tiles and registers that indices are read from, and hidden state.
    """
    yield from EffectReader(program).read(instruction)


def program_effects(
    program: Program, buffers: frozenset[int] | None = None
) -> Iterator[tuple[Instruction, Effect]]:
    """Yield each instruction of a program with each of its effects, in program order.

    With `buffers`, only instructions with an operand in one of them; indices do not count. The body of a loop
    that never turns has no effects.
    """
    yield from _body(EffectReader(program), program.body, buffers, True, _NO_TURNS)


def _body(
    reader: EffectReader,
    body: tuple[Instruction | Loop, ...],
    buffers: frozenset[int] | None,
    certain: bool,
    turns: Mapping[int, Turns],
) -> Iterator[tuple[Instruction, Effect]]:
    for item in body:
        if type(item) is Instruction:
            if buffers is None or _touches(item.operands, buffers):
                for effect in reader.read(item, certain=certain, turns=turns):
                    yield item, effect
        elif type(item) is Loop:
            known = _loop_turns(item)
            if known is None:
                yield from _body(reader, item.body, buffers, False, turns)
            elif known.count:
                inner = {**turns, item.induction.id: known}
                yield from _body(reader, item.body, buffers, certain, inner)


def _touches(operands: tuple[Operand, ...], buffers: frozenset[int]) -> bool:
    for operand in operands:  # noqa: SIM110  # a generator costs three times as much
        if type(operand) is View and operand.buffer in buffers:
            return True
    return False


def _loop_turns(loop: Loop) -> Turns | None:
    """Return the turns of a loop, None where they are known at run time only."""
    count = trip_count(loop)
    return None if count is None or type(loop.lower) is not int else Turns(loop.lower, loop.step, count)

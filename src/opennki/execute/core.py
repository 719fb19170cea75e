"""One core's program as closures: storage by liveness, loops, meetings with the other cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from opennki.execute.limits import check_memory
from opennki.execute.machine import Machine, Step
from opennki.execute.memory import Arena, Storage, buffer_bytes, new_storage
from opennki.execute.rendezvous import Rendezvous
from opennki.ir.types import (
    Buffer,
    Instruction,
    Loop,
    LoopKind,
    Operand,
    Program,
    Register,
    Space,
    View,
)
from opennki.isa.define import Access, Exchange, Row
from opennki.isa.layout import TileLayout
from opennki.isa.table import BY_NAME
from opennki.targets import Target

__all__ = ["CoreProgram", "meeting_step"]

Array = np.ndarray[Any, Any]
Body = Sequence[Instruction | Loop]

_BLOCK = 256  # instructions between two looks for an interrupt


class CoreProgram:
    """A prepared program. State: its private storage, engine state and registers."""

    def __init__(
        self,
        program: Program,
        target: Target,
        shared: Mapping[str, Storage],
        meeting: Callable[[], Rendezvous],
    ) -> None:
        self.program = program
        self.target = target
        self.meeting = meeting
        self.rows = tuple(BY_NAME[name] for name in program.opcodes)
        self.machine = Machine(program.core, target, self.rows, keeps_views=True, place=self._place)
        self.layouts = [TileLayout(i, record, 1) for i, record in enumerate(program.layouts)]
        self.arenas: dict[Space, Arena] = {}
        self.storages: dict[int, Storage] = {
            number: shared[buffer.key]
            for number, buffer in enumerate(program.buffers)
            if buffer.space is Space.shared_hbm
        }
        self._pool: dict[int, list[Array]] = {}
        self.held_bytes = 0
        self._attrs: dict[tuple[int, int], dict[str, Any]] = {}
        self.machine.dynamic |= _dynamic_buffers(program)
        self.steps = self._prepare(program.body, -1)

    def _place(self, location: int) -> dict[str, Any]:
        """The keywords of a diagnostic for a location's number."""
        locations = self.program.locations
        callers = []
        caller = locations[location].caller
        while caller >= 0:
            callers.append(locations[caller])
            caller = callers[-1].caller
        return {"at": locations[location], "callers": callers, "core": self.program.core}

    # Preparing ------------------------------------------------------------------------------------------

    def _prepare(self, body: Body, loop: int) -> list[Step]:
        """Return the closures of a body; buffers that it owns get storage from first to last use in it."""
        steps: list[Step] = []
        ends: dict[int, list[int]] = {}
        for number, last in self._last_uses(body, loop).items():
            ends.setdefault(last, []).append(number)
        for position, item in enumerate(body):
            if isinstance(item, Loop):
                for number in _used(item.body):
                    if number not in self.storages and self.program.buffers[number].loop != item.id:
                        self._begin(number, None, steps)
                steps.append(self._loop(item))
            else:
                for operand in item.operands:
                    if type(operand) is View and (
                        operand.buffer not in self.storages or operand.index is not None
                    ):
                        self._begin_view(operand, item, steps)
                steps.append(self._step(item))
            for number in ends.get(position, ()):
                self._end(number)
        return steps

    def _begin_view(self, view: View, item: Instruction, steps: list[Step]) -> None:
        if view.buffer not in self.storages:
            self._begin(view.buffer, item, steps)
        if view.index is not None and isinstance(view.index.source, View):
            self._begin_view(view.index.source, item, steps)

    def _last_uses(self, body: Body, loop: int) -> dict[int, int]:
        """The last item of a body that touches each buffer that the body owns."""
        found: dict[int, int] = {}
        buffers = self.program.buffers
        for position, item in enumerate(body):
            if isinstance(item, Loop):
                for number in _used(item.body):
                    if buffers[number].loop == loop:
                        found[number] = position
                continue
            for operand in item.operands:
                if operand.__class__ is View:
                    if buffers[operand.buffer].loop == loop:
                        found[operand.buffer] = position
                    if operand.index is not None:
                        for number in _views_of(operand.index.source):
                            found[number] = position
        return found

    def _begin(self, number: int, item: Instruction | None, steps: list[Step]) -> None:
        """Give a buffer its storage; fill it unless this instruction overwrites all of it."""
        buffer = self.program.buffers[number]
        if buffer.address is not None:
            arena = self._arena(buffer.space)
            placed = self.storages[number] = arena.place(buffer)
            steps.append(lambda: arena.claim(buffer, placed))
            return
        size = buffer_bytes(buffer)
        free = self._pool.get(size)
        if not free:
            at = self.program.locations[buffer.location] if buffer.location >= 0 else None
            core, cores = self.program.core, self.meeting().cores
            check_memory(self.held_bytes, size, tensor=buffer.name, at=at, core=core, cores=cores)
            self.held_bytes += size
        storage = new_storage(buffer, free.pop() if free else None)
        self.storages[number] = storage
        if item is None or not self._overwrites(item, number, buffer):
            steps.append(lambda: storage.fill_unwritten(buffer))

    def _end(self, number: int) -> None:
        """Give storage back: nothing later touches the buffer."""
        buffer = self.program.buffers[number]
        if buffer.space is not Space.shared_hbm and buffer.address is None:
            self._pool.setdefault(buffer_bytes(buffer), []).append(self.storages[number].raw)

    def _overwrites(self, item: Instruction, number: int, buffer: Buffer) -> bool:
        """True if `item` writes all of a buffer and reads nothing of it."""
        row = self.rows[item.opcode]
        if row.has_many:
            return False
        attrs = self._decoded(item)
        covers = False
        for role, operand in zip(row.roles, item.operands, strict=True):
            if not isinstance(operand, View):
                continue
            if operand.index is not None:
                return False  # it may be skipped, and it reads the tile that the index is in
            if operand.buffer != number:
                continue
            if role.access(attrs) not in (Access.WRITE, Access.ACCUMULATE):
                return False
            layout = self.layouts[operand.layout]
            covers = layout.elements * layout.info.bytes == buffer_bytes(buffer) and 0 not in layout.strides
        return covers

    def _arena(self, space: Space) -> Arena:
        if space not in self.arenas:
            target = self.target
            pitch = (
                target.psum_bytes_per_partition if space is Space.psum else target.sbuf_bytes_per_partition
            )
            self.arenas[space] = Arena(target.partitions, pitch)
        return self.arenas[space]

    def _decoded(self, item: Instruction) -> dict[str, Any]:
        key = (item.opcode, item.attrs)
        found = self._attrs.get(key)
        if found is None:
            found = self._attrs[key] = self.rows[item.opcode].decode(self.program.attrs[item.attrs])
        return found

    def _step(self, item: Instruction) -> Step:
        row, attrs = self.rows[item.opcode], self._decoded(item)
        if row.sync is None:
            return self.machine.prepare(item, attrs, self.layouts, self.storages.__getitem__)
        where = (row.name, self.program.locations[item.location])
        return meeting_step(
            self.machine, row, item, attrs, self.layouts, self.storages.__getitem__, self.meeting, where
        )

    # Loops ----------------------------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> Step:
        steps = self._prepare(loop.body, loop.id)
        registers, number, written = self.machine.registers, loop.induction.id, self.machine.written
        fresh = [i for i in self.machine.dynamic if self.program.buffers[i].loop == loop.id]

        def turn() -> None:
            self.meeting().check()
            for i in fresh:
                written.pop(i, None)
            for step in steps:
                step()

        def counted() -> None:
            for value in range(self._value(loop.lower), self._value(loop.upper), loop.step):
                registers[number] = value
                turn()

        def conditional() -> None:
            while registers.get(number, 0) != 0:
                turn()

        return counted if loop.kind is LoopKind.counted else conditional

    def _value(self, bound: Operand) -> int:
        if isinstance(bound, Register):
            return self.machine.registers.get(bound.id, 0)
        return int(bound)  # type: ignore[arg-type]  # a bound is an int or a register

    # Running --------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Walk the closures."""
        self.machine.reset()
        for arena in self.arenas.values():
            arena.reset()
        check = self.meeting().check
        steps = self.steps
        with np.errstate(all="ignore"):
            for start in range(0, len(steps), _BLOCK):
                check()
                for step in steps[start : start + _BLOCK]:
                    step()


def meeting_step(
    machine: Machine,
    row: Row,
    item: Instruction,
    attrs: dict[str, Any],
    layouts: Sequence[TileLayout],
    storage_of: Callable[[int], Storage],
    meeting: Callable[[], Rendezvous],
    where: Any,
) -> Step:
    """Return the step in which a core waits for the others, and perhaps swaps a tile with one."""
    assert row.sync is not None
    core = machine.core
    channel = (row.name, row.sync.channel(attrs), row.sync.group(attrs))
    if not isinstance(row.sync.kind, Exchange):

        def barrier() -> None:
            here = meeting()
            if here.cores > 1:
                here.barrier(core, channel, where)

        return barrier
    peers = row.sync.peers(attrs) if row.sync.peers is not None else (core, core)
    return machine.exchange(
        item,
        attrs,
        layouts,
        storage_of,
        lambda value: meeting().exchange(core, channel, where, value, peers),
    )


def _used(body: Body) -> Iterable[int]:
    """The buffers that a body touches, loops inside it included."""
    found: set[int] = set()
    for item in body:
        if isinstance(item, Loop):
            found.update(_used(item.body))
            continue
        for operand in item.operands:
            found.update(_views_of(operand))
    return found


def _views_of(operand: Any) -> Iterable[int]:
    """The buffers that an operand touches: its own, and the tile that its index is read from."""
    found = []
    while isinstance(operand, View):
        found.append(operand.buffer)
        operand = operand.index.source if operand.index is not None else None
    return found


def _dynamic_buffers(program: Program) -> set[int]:
    """The PSUM buffers of which only the run knows what has been written.

    Those touched in a loop deeper than the one that allocates them, and those with a run-time address.
    """
    found: set[int] = set()

    def walk(body: Body, loop: int) -> None:
        for item in body:
            if isinstance(item, Loop):
                walk(item.body, item.id)
                continue
            for operand in item.operands:
                if isinstance(operand, View):
                    buffer = program.buffers[operand.buffer]
                    moves = operand.index is not None
                    if buffer.space is Space.psum and (moves or buffer.loop != loop):
                        found.add(operand.buffer)

    if any(isinstance(item, Loop) for item in program.body) or any(
        layout.index.value != "none" for layout in program.layouts
    ):
        walk(program.body, -1)
    return found

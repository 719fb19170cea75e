"""The machine around the semantics, once for all rows: operands, conversions, accumulation, state.

`prepare` turns one instruction into a closure over resolved NumPy views. The same closure runs in a compiled
program and, at once, in a simulation, so both give the same bits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
from msgspec import Struct

from opennki.diag import InternalError, fail
from opennki.execute import general
from opennki.execute.columns import ColumnAccess
from opennki.execute.convert import bits_dtype
from opennki.execute.memory import Storage
from opennki.execute.store import Writer, converting, writer
from opennki.execute.views import Viewer
from opennki.execute.written import WrittenMap
from opennki.ir.dtypes import DTYPES
from opennki.ir.types import Engine, IndexKind, Instruction, Register, Space, View
from opennki.isa.columns import group_of
from opennki.isa.define import Access, Call, Load, Row
from opennki.isa.layout import TileLayout
from opennki.targets import Target

__all__ = ["Machine", "Step"]

Array = np.ndarray[Any, Any]
Step = Callable[[], None]
Loaded = tuple[Any, Callable[[], Any] | None]
"""An operand: an array or number that is read every time, or a function that makes it."""

_SPECIAL = ("out", "engine", "target")
_WIDENED: dict[Load, np.dtype[Any]] = {Load.F32: np.dtype(np.float32), Load.INTEGER: np.dtype(np.int64)}


class _Read(Struct, frozen=True):
    """A role that is read: its place among the operands, how it reaches the semantics, `count` of a list."""

    position: int
    load: Load
    shaped: bool
    count: int | None = None


class _Write(Struct, frozen=True):
    """A role that is written."""

    position: int
    access: Access
    name: str


class _Plan:
    """What all instructions of one row, attributes, engine and layouts share. State: filled once.

    `is_general`: an operand has a run-time address, is a register, or is a list.
    """

    __slots__ = ("bits", "function", "is_general", "reads", "state", "writes")

    def __init__(self, call: Call, operands: Sequence[Any], layouts: Sequence[TileLayout | None]) -> None:
        row = call.row
        self.reads: list[_Read] = []
        self.writes: list[_Write] = []
        self.bits: np.dtype[Any] | None = None
        self.is_general = row.has_many or any(
            isinstance(op, Register) or (layout is not None and layout.is_indirect)
            for op, layout in zip(operands, layouts, strict=True)
        )
        position = 0
        for role in row.roles:
            access = role.access(call.attrs)
            count = call.attrs["count"] if role.many else None
            layout = layouts[position]
            if access is Access.READ:
                load = role.load(call) if callable(role.load) else role.load
                self.reads.append(_Read(position, load, role.shaped, count))
                if load is Load.BITS and layout is not None and self.bits is None:
                    self.bits = bits_dtype(layout.info)
            elif access is not Access.ORDER and operands[position] is not None:
                self.writes.append(_Write(position, access, role.name))
            position += 1 if count is None else count
        self.state = row.state.access(call.attrs) if row.state is not None else None
        self.function = _bound_semantics(call, self._first_dtype(operands, layouts))

    def _first_dtype(self, operands: Sequence[Any], layouts: Sequence[TileLayout | None]) -> str | None:
        """The dtype of the first operand that is written."""
        if not self.writes:
            return None
        position = self.writes[0].position
        layout, operand = layouts[position], operands[position]
        return (
            layout.dtype if layout is not None else operand.dtype if isinstance(operand, Register) else None
        )


def _bound_semantics(call: Call, dtype: str | None) -> Callable[..., Any]:
    """The semantics with all their keywords filled in; of an exchange, what was received."""
    function = call.row.rules.get("semantics")
    if function is None:
        if call.row.sync is None:
            raise InternalError(f"{call.row.name} has no semantics to run")
        return lambda received: received
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    keywords = {n: v for n, v in call.attrs.items() if takes_all or n in parameters}
    special = {
        "out": DTYPES[dtype] if dtype is not None else None,
        "engine": call.engine,
        "target": call.target,
    }
    keywords |= {n: special[n] for n in _SPECIAL if n in parameters}
    return partial(function, **keywords) if keywords else function


class Machine:
    """The machine of one core. State: plans and views by combination, engine state, PSUM's written maps.

    `keeps_views`: views of one buffer and window are made once; a simulation, whose buffers come and go,
    makes them anew.
    """

    def __init__(
        self,
        core: int,
        target: Target,
        rows: Sequence[Row],
        *,
        keeps_views: bool,
        place: Callable[[int], dict[str, Any]],
    ) -> None:
        self.core = core
        self.target = target
        self.rows = rows
        self.keeps_views = keeps_views
        self.place = place
        self.registers: dict[int, int] = {}
        self.dynamic: set[int] = set()
        self.states: dict[str, Array] = {}
        self.written: dict[int, WrittenMap] = {}
        self._plans: dict[Any, _Plan] = {}
        self._viewers: dict[tuple[int, bool, bool], Viewer] = {}
        self._loads: dict[tuple[int, int, int, Load, bool], Loaded] = {}

    def reset(self) -> None:
        """Forget engine state before a run."""
        for state in self.states.values():
            state.fill(np.nan)
        self.registers.clear()
        for number in self.dynamic:
            self.written.pop(number, None)

    def prepare(
        self,
        instruction: Instruction,
        attrs: dict[str, Any],
        layouts: Sequence[TileLayout],
        storage_of: Callable[[int], Storage],
    ) -> Step:
        """Return the closure that runs `instruction` on the views of its operands."""
        operands = instruction.operands
        kinds = tuple([op.layout if type(op) is View else type(op) for op in operands])
        key = (instruction.opcode, instruction.attrs, instruction.engine, kinds)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(instruction, attrs, layouts)
        if plan.is_general or (self.dynamic and not self.dynamic.isdisjoint(_buffers(operands))):
            return self._general_step(instruction, plan, attrs, layouts, storage_of)
        loads: list[Loaded] = []
        for read in plan.reads:
            operand = operands[read.position]
            if type(operand) is View:
                window = (operand.buffer, operand.offset, operand.layout, read.load, read.shaped)
                found = self._loads.get(window)
                loads.append(found or self._load(operand, read, layouts, storage_of))
            else:
                loads.append((_number(operand, read.load, plan.bits), None))
        writers = [
            self._writer(operands[w.position], w.access, plan.bits is not None, layouts, storage_of)  # type: ignore[arg-type]  # writes are views here
            for w in plan.writes
        ]
        if plan.state is None and len(writers) == 1:
            return _simple_step(plan.function, loads, writers[0])
        return self._full_step(self.rows[instruction.opcode], plan, loads, writers, operands, layouts)

    def _plan(self, instruction: Instruction, attrs: dict[str, Any], layouts: Sequence[TileLayout]) -> _Plan:
        row = self.rows[instruction.opcode]
        operands = instruction.operands
        found = [layouts[op.layout] if isinstance(op, View) else None for op in operands]
        facts: dict[str, Any] = {}
        position = 0
        for role in row.roles:
            if role.many:
                facts[role.name] = tuple(found[position : position + attrs["count"]])
                position += attrs["count"]
                continue
            layout = found[position]
            facts[role.name] = operands[position] if layout is None else layout
            position += 1
        call = Call(row, facts, attrs, Engine(instruction.engine), self.target)
        return _Plan(call, operands, found)

    def _viewer(self, number: int, layouts: Sequence[TileLayout], shaped: bool, bits: bool) -> Viewer:
        key = (number, shaped, bits)
        found = self._viewers.get(key)
        if found is None:
            found = self._viewers[key] = Viewer(layouts[number].record, shaped=shaped, bits=bits)
        return found

    def _load(
        self,
        view: View,
        read: _Read,
        layouts: Sequence[TileLayout],
        storage_of: Callable[[int], Storage],
    ) -> Loaded:
        key = (view.buffer, view.offset, view.layout, read.load, read.shaped)
        found = self._loads.get(key)
        if found is None:
            viewer = self._viewer(view.layout, layouts, read.shaped, read.load is Load.BITS)
            array = viewer.view(storage_of(view.buffer), view.offset)
            found = _loaded(array, read, viewer)
            if self.keeps_views:
                self._loads[key] = found
        return found

    def _writer(
        self,
        view: View,
        access: Access,
        bits: bool,
        layouts: Sequence[TileLayout],
        storage_of: Callable[[int], Storage],
    ) -> Writer:
        info = layouts[view.layout].info
        viewer = self._viewer(view.layout, layouts, False, bits and info.is_integer)
        storage = storage_of(view.buffer)
        how: Access | Array = access
        if viewer.layout.space is Space.psum:
            how = self._accumulation(access, view, viewer, storage)
        return writer(how, viewer.view(storage, view.offset), info.name, bits and info.is_integer)

    def written_map(self, number: int, row_bytes: int) -> WrittenMap:
        """Return what has been written of a PSUM buffer so far."""
        found = self.written.get(number)
        if found is None:
            found = self.written[number] = WrittenMap(row_bytes)
        return found

    def _accumulation(self, access: Access, view: View, viewer: Viewer, storage: Storage) -> Access | Array:
        """Settle a write to PSUM: add to elements written since their allocation, overwrite fresh ones."""
        written = self.written_map(view.buffer, storage.row_bytes)
        fresh = (
            True
            if access is not Access.ACCUMULATE
            else written.fresh(view.offset, view.layout, viewer.layout)
        )
        written.add(view.offset, view.layout, viewer.layout)
        if access is not Access.ACCUMULATE:
            return access
        if fresh is True:
            return Access.WRITE
        return Access.UPDATE if fresh is False else fresh

    # The general form -----------------------------------------------------------------------------------

    def _general_step(
        self,
        instruction: Instruction,
        plan: _Plan,
        attrs: dict[str, Any],
        layouts: Sequence[TileLayout],
        storage_of: Callable[[int], Storage],
    ) -> Step:
        """A step with run-time addresses, registers or lists of operands."""
        row = self.rows[instruction.opcode]
        group = group_of(Engine(instruction.engine))
        fault = self._fault(instruction, row)
        reader = _Reader(self, layouts, storage_of, general.skips(attrs), fault, group)
        reads = [self._general_read(instruction.operands, read, plan, reader) for read in plan.reads]
        writes = [self._general_write(instruction.operands[w.position], w, plan, reader) for w in plan.writes]
        state = None
        if plan.state is not None:
            state = (self._state(row, plan, instruction.operands, layouts),)
        return general.GeneralStep(plan.function, reads, writes, [w.name for w in plan.writes], state)

    def exchange(
        self,
        instruction: Instruction,
        attrs: dict[str, Any],
        layouts: Sequence[TileLayout],
        storage_of: Callable[[int], Storage],
        swap: Callable[[Any], Any],
    ) -> Step:
        """Return the step that sends what the row reads through `swap` and stores what comes back."""
        operands = instruction.operands
        found = [layouts[op.layout] if isinstance(op, View) else None for op in operands]
        row = self.rows[instruction.opcode]
        facts = {role.name: layout for role, layout in zip(row.roles, found, strict=True)}
        plan = _Plan(Call(row, facts, attrs, Engine(instruction.engine), self.target), operands, found)
        reader = _Reader(self, layouts, storage_of, False, self._fault(instruction, row), 0)
        (read,) = [self._general_read(operands, r, plan, reader) for r in plan.reads]
        (write,) = [self._general_write(operands[w.position], w, plan, reader) for w in plan.writes]
        return lambda: write(swap(np.array(read()[0])), None)

    def _fault(self, instruction: Instruction, row: Row) -> general.Fault:
        location = instruction.location

        def fault(value: int, extent: int, where: tuple[int, ...] | None) -> NoReturn:
            names = ("partition", "column")
            said = " and ".join(f"{name} {at}" for name, at in zip(names, where or (), strict=False))
            fail(
                "ONKI704",
                **self.place(location),
                notes=[f"the index is the one in {said} of its tile"] if said else [],
                help=(f"keep the offsets between 0 and {extent - 1}",) if "column" in said else (),
                instruction=row.name,
                value=value,
                extent=extent,
                last=extent - 1,
            )

        return fault

    def _general_read(
        self, operands: Sequence[Any], read: _Read, plan: _Plan, reader: _Reader
    ) -> general.Read:
        if read.count is not None:
            items = [reader.read(operands[read.position + i], read, plan.bits) for i in range(read.count)]
            return lambda: _gathered(items)
        return reader.read(operands[read.position], read, plan.bits)

    def _general_write(self, operand: Any, write: _Write, plan: _Plan, reader: _Reader) -> general.Write:
        return reader.write(operand, write.access, plan.bits is not None)

    def dynamic_write(
        self,
        view: View,
        how: Access,
        viewer: Viewer,
        storage: Storage,
        target: Array,
        dtype: str,
        bits: bool,
    ) -> general.Write:
        """A store to PSUM of which only the run knows what has been written before."""

        def write(value: Any, mask: Any) -> None:
            settled = self._accumulation(how, view, viewer, storage)
            general.masked_write(settled, target, dtype, bits)(value, mask)

        return write

    def _full_step(
        self,
        row: Row,
        plan: _Plan,
        loads: list[Loaded],
        writers: list[Writer],
        operands: Sequence[Any],
        layouts: Sequence[TileLayout],
    ) -> Step:
        """A step with hidden state or several results."""
        state = self._state(row, plan, operands, layouts)
        by_name = {w.name: write for w, write in zip(plan.writes, writers, strict=True)}
        first = writers[0] if writers else None
        function, has_state = plan.function, plan.state is not None

        def step() -> None:
            args = [value if load is None else load() for value, load in loads]
            if has_state:
                args.append(state)
            result = function(*args)
            if not isinstance(result, dict):
                if first is not None:
                    first(result)
                return
            for name, write in by_name.items():
                write(result[name])
            if state is not None and "state" in result:
                state[...] = result["state"]

        return step

    def _state(
        self, row: Row, plan: _Plan, operands: Sequence[Any], layouts: Sequence[TileLayout]
    ) -> Array | None:
        """The lanes of the hidden state that an instruction works on; None where it uses no state."""
        if row.state is None or (plan.state is Access.READ and len(plan.writes) < 2):
            return None
        full = self.states.get(row.state.name)
        if full is None:
            full = self.states[row.state.name] = np.full((self.target.partitions, 1), np.nan, np.float32)
        first = next(op for op in operands if isinstance(op, View))
        layout = layouts[first.layout]
        lanes: Array = full[layout.start_partition : layout.start_partition + layout.partitions]
        return lanes


class _Reader:
    """Makes the readers and writers of one instruction in the general form."""

    __slots__ = ("fault", "group", "layouts", "machine", "skips", "storage_of")

    def __init__(
        self,
        machine: Machine,
        layouts: Sequence[TileLayout],
        storage_of: Callable[[int], Storage],
        skips: bool,
        fault: general.Fault,
        group: int,
    ) -> None:
        self.machine = machine
        self.layouts = layouts
        self.storage_of = storage_of
        self.skips = skips
        self.fault = fault
        self.group = group

    def _indexed(self, view: View, *, shaped: bool, bits: bool) -> general.IndexedAccess:
        assert view.index is not None
        source = view.index.source
        if isinstance(source, Register):
            registers, number = self.machine.registers, source.id
            read: Callable[[], Any] = lambda: registers.get(number, 0)  # noqa: E731  # two ways to read
        else:
            viewer = self.machine._viewer(source.layout, self.layouts, True, False)
            array = viewer.view(self.storage_of(source.buffer), source.offset)
            is_one = view.index.kind is IndexKind.scalar
            read = (lambda: array.reshape(-1)[0]) if is_one else (lambda: array)
        viewer = self.machine._viewer(view.layout, self.layouts, shaped, bits)
        return general.IndexedAccess(view, viewer, self.storage_of(view.buffer), read, self.skips)

    def _columns(self, view: View, *, bits: bool) -> ColumnAccess:
        assert view.index is not None
        source = view.index.source
        assert isinstance(source, View)  # an invariant: verify_views
        machine, layouts = self.machine, self.layouts
        index = machine._viewer(source.layout, layouts, True, False).view(
            self.storage_of(source.buffer), source.offset
        )
        storage = self.storage_of(view.buffer)
        return ColumnAccess(view, layouts[view.layout].record, storage, index, self.group, bits)

    def _written_by(self, view: View) -> Callable[[], WrittenMap] | None:
        """How to get at the map of what a PSUM buffer holds; None elsewhere."""
        if self.layouts[view.layout].space is not Space.psum:
            return None
        return partial(self.machine.written_map, view.buffer, self.storage_of(view.buffer).row_bytes)

    def read(self, operand: Any, read: _Read, width: np.dtype[Any] | None) -> general.Read:
        """Return the reader of one operand: its value, and which rows are legal."""
        if isinstance(operand, Register):
            registers = self.machine.registers
            return lambda: (registers.get(operand.id, 0), None)
        if not isinstance(operand, View):
            number = _number(operand, read.load, width)
            return lambda: (number, None)
        machine = self.machine
        if operand.index is None:
            value, make = machine._load(operand, read, self.layouts, self.storage_of)
            return lambda: (value if make is None else make(), None)
        bits, fault = read.load is Load.BITS, self.fault
        if operand.index.kind is IndexKind.scalar:
            access = self._indexed(operand, shaped=read.shaped, bits=bits)

            def single() -> tuple[Any, Any]:
                value, make = _loaded(access.scalar(fault), read, access.viewer)
                return value if make is None else make(), None

            return single
        is_vector = operand.index.kind is IndexKind.vector
        source: general.IndexedAccess | ColumnAccess = (
            self._indexed(operand, shaped=True, bits=bits) if is_vector else self._columns(operand, bits=bits)
        )
        plan = _Read(read.position, read.load, True)
        viewer = machine._viewer(operand.layout, self.layouts, True, bits)

        def picked() -> tuple[Any, Any]:
            rows, mask = source.gather(fault)
            value, make = _loaded(rows, plan, viewer)
            return value if make is None else make(), mask

        return picked

    def write(self, operand: Any, how: Access, bits: bool) -> general.Write:
        """Return the writer of one operand."""
        machine = self.machine
        if isinstance(operand, Register):
            registers = machine.registers

            def set_register(value: Any, mask: Any) -> None:
                registers[operand.id] = int(value)

            return set_register
        info = self.layouts[operand.layout].info
        bits = bits and info.is_integer
        if operand.index is None:
            storage = self.storage_of(operand.buffer)
            viewer = machine._viewer(operand.layout, self.layouts, False, bits)
            target = viewer.view(storage, operand.offset)
            if operand.buffer in machine.dynamic:
                return machine.dynamic_write(operand, how, viewer, storage, target, info.name, bits)
            if viewer.layout.space is Space.psum:
                return general.masked_write(
                    machine._accumulation(how, operand, viewer, storage), target, info.name, bits
                )
            return general.masked_write(how, target, info.name, bits)
        fault = self.fault
        if operand.index.kind is IndexKind.columns:
            columns = self._columns(operand, bits=bits)
            return columns.writer(how, info.name, bits, fault, self._written_by(operand))
        access = self._indexed(operand, shaped=True, bits=bits)
        if operand.index.kind is IndexKind.vector:
            convert = converting(np.empty(0, access.viewer.dtype), info.name, bits)
            return lambda value, mask: access.scatter(convert(value), mask, fault)

        def write(value: Any, mask: Any) -> None:
            target = access.scalar(fault)
            kind: Access | Array = how
            if access.viewer.layout.space is Space.psum:
                place = View(operand.buffer, _offset_of(target, access.storage, info.bytes), operand.layout)
                kind = machine._accumulation(how, place, access.viewer, access.storage)
            general.masked_write(kind, target, info.name, bits)(value, mask)

        return write


def _offset_of(target: Array, storage: Storage, size: int) -> int:
    """The element at which an access starts, from its address."""
    first: int = target.__array_interface__["data"][0] - storage.raw.__array_interface__["data"][0]
    return (first - storage.base_bytes) // size


def _gathered(items: Sequence[general.Read]) -> tuple[Any, Any]:
    """Read a list of operands; a row is legal if it is in all of them."""
    values, mask = [], None
    for item in items:
        value, legal = item()
        values.append(value)
        if legal is not None:
            mask = legal if mask is None else mask & legal
    return values, mask


def _buffers(operands: Sequence[Any]) -> list[int]:
    return [op.buffer for op in operands if op.__class__ is View]


def _number(operand: Any, load: Load, width: np.dtype[Any] | None) -> Any:
    """A number as the semantics see it: float32, or the bits of an integer, or as it is."""
    if operand is None or load is Load.RAW:
        return operand
    if load is Load.BITS:
        kind = width or np.dtype(np.uint32)
        return kind.type(int(operand) & ((1 << (8 * kind.itemsize)) - 1))
    return np.int64(operand) if load is Load.INTEGER else np.float32(operand)


def _loaded(array: Array, read: _Read, viewer: Viewer) -> Loaded:
    """An operand as array or as function that converts, or brings together, what it reads."""
    kind = _WIDENED.get(read.load, array.dtype)
    if not read.shaped and not viewer.is_matrix:
        rows = array.shape[0] if viewer.layout.space.is_on_chip else 1
        return None, lambda: array.reshape(rows, -1).astype(kind)
    if array.dtype != kind:
        return None, partial(array.astype, kind)
    return array, None


def _simple_step(function: Callable[..., Any], loads: list[Loaded], write: Writer) -> Step:
    """A step with one result and no state, in as few Python calls as may be."""
    if len(loads) == 1:
        value, load = loads[0]
        if load is None:
            return lambda: write(function(value))
        return lambda: write(function(load()))
    if len(loads) == 2:
        (first, make_first), (second, make_second) = loads
        if make_first is None and make_second is None:
            return lambda: write(function(first, second))
        if make_first is not None and make_second is not None:
            return lambda: write(function(make_first(), make_second()))
    elif all(load is None for _, load in loads):
        values = [value for value, _ in loads]
        return lambda: write(function(*values))
    return lambda: write(function(*[v if load is None else load() for v, load in loads]))

"""The machine around the semantics, once for all rows: operands, conversions, accumulation, state.

`prepare` turns one instruction into a closure over resolved NumPy views. The same closure runs in a compiled
program and, at once, in a simulation, so both give the same bits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from opennki.diag import InternalError
from opennki.execute.convert import bits_dtype
from opennki.execute.memory import Storage
from opennki.execute.store import Writer, writer
from opennki.execute.views import Viewer
from opennki.execute.written import WrittenMap
from opennki.ir.dtypes import DTYPES
from opennki.ir.types import Engine, Instruction, Space, View
from opennki.isa.define import Access, Call, Load, Row
from opennki.isa.layout import TileLayout
from opennki.targets import Target

__all__ = ["Machine", "Step"]

Array = np.ndarray[Any, Any]
Step = Callable[[], None]
Loaded = tuple[Any, Callable[[], Any] | None]
"""An operand: an array or number that is read every time, or a function that makes it."""

_SPECIAL = ("out", "engine", "target")


class _Read(Struct, frozen=True):
    """A role that is read: its place among the operands and how it reaches the semantics."""

    position: int
    load: Load
    shaped: bool


class _Write(Struct, frozen=True):
    """A role that is written."""

    position: int
    access: Access
    name: str


class _Plan:
    """What all instructions of one row, attributes, engine and layouts share. State: filled once."""

    __slots__ = ("bits", "function", "reads", "state", "writes")

    def __init__(self, call: Call, layouts: Sequence[TileLayout | None]) -> None:
        row = call.row
        self.reads: list[_Read] = []
        self.writes: list[_Write] = []
        self.bits: np.dtype[Any] | None = None
        for position, role in enumerate(row.roles):
            access = role.access(call.attrs)
            layout = layouts[position]
            if access is Access.READ:
                load = role.load(call) if callable(role.load) else role.load
                self.reads.append(_Read(position, load, role.shaped))
                if load is Load.BITS and layout is not None and self.bits is None:
                    self.bits = bits_dtype(layout.info)
            elif access is not Access.ORDER and layout is not None:
                self.writes.append(_Write(position, access, role.name))
        self.state = row.state.access(call.attrs) if row.state is not None else None
        first = layouts[self.writes[0].position] if self.writes else None
        self.function = _bound_semantics(call, first)


def _bound_semantics(call: Call, first: TileLayout | None) -> Callable[..., Any]:
    """The semantics with all their keywords filled in."""
    function = call.row.rules.get("semantics")
    if function is None:
        raise InternalError(f"{call.row.name} has no semantics to run")
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    keywords = {n: v for n, v in call.attrs.items() if takes_all or n in parameters}
    special = {
        "out": DTYPES[first.dtype] if first is not None else None,
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

    def __init__(self, core: int, target: Target, rows: Sequence[Row], *, keeps_views: bool) -> None:
        self.core = core
        self.target = target
        self.rows = rows
        self.keeps_views = keeps_views
        self.states: dict[str, Array] = {}
        self.written: dict[int, WrittenMap] = {}
        self._plans: dict[Any, _Plan] = {}
        self._viewers: dict[tuple[int, bool, bool], Viewer] = {}
        self._loads: dict[tuple[int, int, int, Load, bool], Loaded] = {}

    def reset(self) -> None:
        """Forget engine state before a run."""
        for state in self.states.values():
            state.fill(np.nan)

    def prepare(
        self,
        instruction: Instruction,
        attrs: dict[str, Any],
        layouts: Sequence[TileLayout],
        storage_of: Callable[[int], Storage],
    ) -> Step:
        """Return the closure that runs `instruction` on the views of its operands."""
        operands = instruction.operands
        kinds = tuple([op.layout if op.__class__ is View else op.__class__ for op in operands])
        key = (instruction.opcode, instruction.attrs, instruction.engine, kinds)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(instruction, attrs, layouts)
        loads: list[Loaded] = []
        for read in plan.reads:
            operand = operands[read.position]
            if isinstance(operand, View):
                loads.append(self._load(operand, read, layouts, storage_of))
            else:
                loads.append((_number(operand, read.load, plan.bits), None))
        writers = [
            self._writer(operands[w.position], w.access, plan.bits is not None, layouts, storage_of)  # type: ignore[arg-type]  # a view
            for w in plan.writes
        ]
        if plan.state is None and len(writers) == 1:
            return _simple_step(plan.function, loads, writers[0])
        return self._full_step(self.rows[instruction.opcode], plan, loads, writers, operands, layouts)

    def _plan(self, instruction: Instruction, attrs: dict[str, Any], layouts: Sequence[TileLayout]) -> _Plan:
        row = self.rows[instruction.opcode]
        if row.has_many:
            raise InternalError(f"{row.name}: lists of operands come with the rows that have them")
        found = [layouts[op.layout] if isinstance(op, View) else None for op in instruction.operands]
        facts = {
            role.name: op if layout is None else layout
            for role, op, layout in zip(row.roles, instruction.operands, found, strict=True)
        }
        return _Plan(Call(row, facts, attrs, Engine(instruction.engine), self.target), found)

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

    def _accumulation(self, access: Access, view: View, viewer: Viewer, storage: Storage) -> Access | Array:
        """Settle a write to PSUM: add to elements written since their allocation, overwrite fresh ones."""
        written = self.written.get(view.buffer)
        if written is None:
            written = self.written[view.buffer] = WrittenMap(storage.row_bytes)
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
    kinds: dict[Load, np.dtype[Any]] = {
        Load.F32: np.dtype(np.float32),
        Load.INTEGER: np.dtype(np.int64),
    }
    kind = kinds.get(read.load, array.dtype)
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

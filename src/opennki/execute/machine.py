"""The machine around the semantics, once for all rows: operands, conversions, stores, accumulation, state.

`prepare` turns one instruction into a closure over resolved NumPy views. The same closure runs in a compiled
program and, at once, in a simulation, so both give the same bits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from opennki.diag import InternalError
from opennki.execute.convert import bits_dtype, converter
from opennki.execute.memory import Storage, matrix_of
from opennki.execute.written import WrittenMap
from opennki.ir.dtypes import DTYPES
from opennki.ir.types import Engine, Instruction, Layout, Space, View
from opennki.isa.define import Access, Call, Load, Role, Row, Where
from opennki.isa.layout import TileLayout
from opennki.targets import Target

__all__ = ["Machine", "Step"]

Array = np.ndarray[Any, Any]
Step = Callable[[], None]
Writer = Callable[[Any], None]

_SPECIAL = ("out", "engine", "target")


class _Plan:
    """What all instructions of one row, attributes, engine and layouts share. State: filled once."""

    __slots__ = ("accesses", "function", "loads", "reads_bits", "state", "writes")

    def __init__(self, call: Call, layouts: Sequence[TileLayout | None]) -> None:
        row = call.row
        self.accesses = [role.access(call.attrs) for role in row.roles]
        self.loads = [role.load(call) if callable(role.load) else role.load for role in row.roles]
        self.reads_bits = any(
            load is Load.BITS
            for load, access in zip(self.loads, self.accesses, strict=True)
            if access is Access.READ
        )
        self.writes = [i for i, a in enumerate(self.accesses) if a not in (Access.READ, Access.ORDER)]
        self.state = row.state.access(call.attrs) if row.state is not None else None
        self.function = _bound_semantics(call, layouts, self.writes)


def _bound_semantics(
    call: Call, layouts: Sequence[TileLayout | None], writes: list[int]
) -> Callable[..., Any] | None:
    """The semantics with all its keywords filled in."""
    function = call.row.rules.get("semantics")
    if function is None:
        return None
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    keywords = {n: v for n, v in call.attrs.items() if takes_all or n in parameters}
    first = layouts[writes[0]] if writes else None
    special = {
        "out": DTYPES[first.dtype] if first is not None else None,
        "engine": call.engine,
        "target": call.target,
    }
    keywords |= {n: special[n] for n in _SPECIAL if n in parameters}
    return partial(function, **keywords) if keywords else function  # type: ignore[no-any-return]


class Machine:
    """The machine of one core. State: plans by combination, engine state, PSUM's written maps."""

    def __init__(self, core: int, target: Target, rows: Sequence[Row]) -> None:
        self.core = core
        self.target = target
        self.rows = rows
        self.states: dict[str, Array] = {}
        self.written: dict[int, WrittenMap] = {}
        self._plans: dict[Any, _Plan] = {}

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
        row = self.rows[instruction.opcode]
        if row.has_many:
            raise InternalError(f"{row.name}: lists of operands come with the rows that have them")
        operands = instruction.operands
        kinds = tuple([op.layout if op.__class__ is View else op.__class__ for op in operands])  # type: ignore[union-attr]
        key = (instruction.opcode, instruction.attrs, instruction.engine, kinds)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(row, attrs, instruction, layouts)
        loads: list[tuple[Any, Callable[[], Any] | None]] = []
        writers: list[tuple[str, Writer]] = []
        bits_width: np.dtype[Any] | None = None
        for role, access, load, operand in zip(row.roles, plan.accesses, plan.loads, operands, strict=True):
            if operand.__class__ is View:
                layout = layouts[operand.layout].record  # type: ignore[union-attr]
                storage = storage_of(operand.buffer)  # type: ignore[union-attr]
                if access is Access.READ:
                    loader = _loader(role, load, storage, operand, layout)  # type: ignore[arg-type]
                    if load is Load.BITS and bits_width is None:
                        bits_width = bits_dtype(DTYPES[layout.dtype])
                    loads.append(loader)
                elif access is not Access.ORDER:
                    how = self._accumulation(access, operand, layout, storage)  # type: ignore[arg-type]
                    writers.append(
                        (role.name, _writer(how, storage, operand, layout, plan.reads_bits))  # type: ignore[arg-type]
                    )
            elif access is Access.READ:
                loads.append((_number(operand, load, bits_width), None))
        if plan.function is None:
            raise InternalError(f"{row.name} has no semantics to run")
        if row.state is None and len(writers) == 1:
            return _simple_step(plan.function, loads, writers[0][1])
        return self._full_step(row, plan, loads, writers, operands, layouts)

    def _plan(
        self, row: Row, attrs: dict[str, Any], instruction: Instruction, layouts: Sequence[TileLayout]
    ) -> _Plan:
        found = [layouts[op.layout] if isinstance(op, View) else None for op in instruction.operands]
        facts = {
            role.name: op if layout is None else layout
            for role, op, layout in zip(row.roles, instruction.operands, found, strict=True)
        }
        call = Call(row, facts, attrs, Engine(instruction.engine), self.target)
        return _Plan(call, found)

    def _accumulation(self, access: Access, view: View, layout: Layout, storage: Storage) -> Access | Array:
        """Settle what a write does: where a PSUM element has been written since its allocation, it is added to."""
        if layout.space is not Space.psum:
            return access
        written = self.written.get(view.buffer)
        if written is None:
            written = self.written[view.buffer] = WrittenMap(storage.row_bytes)
        if access is Access.ACCUMULATE:
            fresh = written.fresh(view.offset, layout)
            written.add(view.offset, layout)
            if fresh is True:
                return Access.WRITE
            return Access.UPDATE if fresh is False else fresh
        written.add(view.offset, layout)
        return access

    def _full_step(
        self,
        row: Row,
        plan: _Plan,
        loads: list[tuple[Any, Callable[[], Any] | None]],
        writers: list[tuple[str, Writer]],
        operands: Sequence[Any],
        layouts: Sequence[TileLayout],
    ) -> Step:
        """A step with hidden state or several results."""
        function = plan.function
        assert function is not None
        state: Array | None = None
        if row.state is not None and (plan.state is not Access.READ or len(writers) > 1):
            full = self.states.get(row.state.name)
            if full is None:
                full = self.states[row.state.name] = np.full((128, 1), np.nan, np.float32)
            first = next(op for op in operands if isinstance(op, View))
            layout = layouts[first.layout]
            state = full[layout.start_partition : layout.start_partition + layout.partitions]
        by_name = dict(writers)
        first_name = writers[0][0] if writers else ""
        has_state = row.state is not None

        def step() -> None:
            args = [value if load is None else load() for value, load in loads]
            if has_state:
                args.append(state)
            result = function(*args)
            if not isinstance(result, dict):
                by_name[first_name](result)
                return
            for name, write in by_name.items():
                write(result[name])
            if state is not None and "state" in result:
                state[...] = result["state"]

        return step


def _number(operand: Any, load: Load, width: np.dtype[Any] | None) -> Any:
    """A number as the semantics see it: float32, or the bits of an integer, or as it is."""
    if operand is None or load is Load.RAW:
        return operand
    if load is Load.BITS:
        kind = width or np.dtype(np.uint32)
        return kind.type(int(operand) & ((1 << (8 * kind.itemsize)) - 1))
    if load is Load.INTEGER:
        return np.int64(operand)
    return np.float32(operand)


def _loader(
    role: Role, load: Load, storage: Storage, view: View, layout: Layout
) -> tuple[Any, Callable[[], Any] | None]:
    """Return either the array that is read every time, or a function that makes it."""
    info = DTYPES[layout.dtype]
    array = storage.array(view.offset, layout, bits_dtype(info) if load is Load.BITS else None)
    if not role.shaped:
        matrix = matrix_of(array, layout.space.is_on_chip)
        if matrix is None:
            rows = array.shape[0] if layout.space.is_on_chip else 1
            shape = (rows, -1)
            if load is Load.F32:
                return None, lambda: array.reshape(shape).astype(np.float32)
            if load is Load.INTEGER:
                return None, lambda: array.reshape(shape).astype(np.int64)
            return None, lambda: array.reshape(shape)
        array = matrix
    if load is Load.F32 and array.dtype != np.float32:
        return None, partial(array.astype, np.float32)
    if load is Load.INTEGER:
        return None, partial(array.astype, np.int64)
    return array, None


def _simple_step(
    function: Callable[..., Any], loads: list[tuple[Any, Callable[[], Any] | None]], write: Writer
) -> Step:
    """A step with one result and no state, in as few Python calls as may be."""
    makers = [load for _, load in loads]
    values = [value for value, _ in loads]
    if all(load is None for load in makers):
        if len(values) == 1:
            (only,) = values
            return lambda: write(function(only))
        if len(values) == 2:
            first, second = values
            return lambda: write(function(first, second))
        return lambda: write(function(*values))
    if len(values) == 1 and makers[0] is not None:
        (make,) = makers
        return lambda: write(function(make()))
    return lambda: write(function(*[v if load is None else load() for v, load in loads]))


def _writer(how: Access | Array, storage: Storage, view: View, layout: Layout, bits: bool) -> Writer:
    """Return the function that stores a result: converted, added, or where a mask says."""
    info = DTYPES[layout.dtype]
    array = storage.array(view.offset, layout, bits_dtype(info) if bits and info.is_integer else None)
    target = matrix_of(array, layout.space.is_on_chip)
    target = array if target is None else target
    convert = converter(layout.dtype) if not (bits and info.is_integer) else partial(_as_bits, target.dtype)
    shape = target.shape
    if isinstance(how, np.ndarray):
        return _masked_writer(target, how.reshape(shape), convert)
    if how is Access.UPDATE:
        return _adding_writer(target, convert)
    if how is Access.WRITE_WHERE:
        return _choosing_writer(target, convert)
    if layout.dtype == "float32" and not bits:

        def write_float32(value: Any) -> None:
            if value.dtype != np.float32:
                value = value.astype(np.float32)
            target[...] = value if value.shape == shape or value.ndim == 0 else value.reshape(shape)

        return write_float32

    def write(value: Any) -> None:
        value = convert(value)
        target[...] = value if value.shape == shape or value.ndim == 0 else value.reshape(shape)

    return write


def _as_bits(kind: np.dtype[Any], value: Any) -> Array:
    return np.asarray(value).astype(kind)


def _adding_writer(target: Array, convert: Callable[[Any], Array]) -> Writer:
    shape = target.shape
    if target.dtype == np.float32:

        def add_float32(value: Any) -> None:
            np.add(target, np.asarray(value, dtype=np.float32).reshape(shape), out=target)

        return add_float32

    def add(value: Any) -> None:
        target[...] = convert(target.astype(np.float32) + np.asarray(value, dtype=np.float32).reshape(shape))

    return add


def _masked_writer(target: Array, fresh: Array, convert: Callable[[Any], Array]) -> Writer:
    shape = target.shape

    def write(value: Any) -> None:
        new = np.asarray(value, dtype=np.float32).reshape(shape)
        target[...] = convert(np.where(fresh, new, target.astype(np.float32) + new))

    return write


def _choosing_writer(target: Array, convert: Callable[[Any], Array]) -> Writer:
    shape = target.shape

    def write(value: Any) -> None:
        if not isinstance(value, Where):
            raise InternalError("a predicated store got no mask")
        mask = np.broadcast_to(np.asarray(value.mask).reshape(-1, *shape[1:]), shape)
        new = np.broadcast_to(convert(value.value), shape)
        target[mask] = new[mask]

    return write

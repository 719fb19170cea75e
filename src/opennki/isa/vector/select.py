"""Rows that choose between tiles by a predicate on the Vector engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from opennki.ir.dtypes import DTypeInfo
from opennki.ir.types import Engine
from opennki.isa.attributes import Op
from opennki.isa.checks import (
    Numbers,
    dtype_among,
    equal_dtypes,
    equal_free,
    equal_partitions,
    not_both_in_psum,
    per_partition_column,
    rule,
)
from opennki.isa.cost import Cost, cycles
from opennki.isa.define import (
    ON_CHIP,
    Access,
    Call,
    Load,
    State,
    Where,
    instruction,
    reads,
    writes,
    writes_where,
)
from opennki.isa.enums import ReduceCmd
from opennki.isa.layout import Tile
from opennki.isa.operators import OPERATORS, Operator
from opennki.isa.samples import Sampler

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]

ACCUMULATOR = "vector.accumulator"
_UNSIGNED = ("uint8", "uint16", "uint32")
_MAXIMUM = OPERATORS["maximum"]


@instruction(
    engines=(Engine.vector,),
    columns_rule="TENSOR_COPY_PREDICATED-05",
    dst=writes_where(ON_CHIP, columns=True),
    src=reads(ON_CHIP, load=Load.RAW, number=True),
    predicate=reads(ON_CHIP, load=Load.RAW, columns=True),
    checks=(
        equal_partitions("TENSOR_COPY_PREDICATED-02", "dst", "predicate", "src"),
        equal_free("TENSOR_COPY_PREDICATED-02", "dst", "predicate", "src"),
        dtype_among("TENSOR_COPY_PREDICATED-03", "predicate", _UNSIGNED),
        equal_dtypes("TENSOR_COPY_PREDICATED-04", "dst", "src"),
        not_both_in_psum("TENSOR_COPY_PREDICATED-01", "src", "predicate"),
    ),
    source="nki/api/nki/isa/__init__.py:446",
)
def tensor_copy_predicated(
    dst: Tile,
    src: float | Tile,
    predicate: Tile,
    reverse_pred: bool = False,
    name: str | None = None,
) -> None:
    """Copy `src`, a tile or a number, to the elements of `dst` whose predicate is not 0 (`reverse_pred`: 0).

    All `[P<=128, free]` of one size; `predicate` is uint8, uint16 or uint32; `src` and `dst` have one dtype
    and bits are copied; other elements of `dst` stay. `src` and `predicate` not both in PSUM. `dst` and
    `predicate` may be `.indirect()` views.

    Errors: ONKI201, ONKI202, ONKI205. Source: nki/api/nki/isa/__init__.py:446.
    """


@tensor_copy_predicated.semantics
def _predicated(src: Any, predicate: Any, *, reverse_pred: bool, out: DTypeInfo) -> Where:
    value = src if isinstance(src, np.ndarray) else _number(src, out)
    return Where(value, np.not_equal(predicate, 0) ^ reverse_pred)


def _number(value: float, out: DTypeInfo) -> Any:
    """A number as the store takes it: integers exactly, all else as float32."""
    return (
        np.asarray(int(value), out.storage) if out.is_integer and value == int(value) else np.float32(value)
    )


@tensor_copy_predicated.cost
def _predicated_cost(call: Call) -> Cost:
    free = call.free("dst")
    return cycles(free if call.any_in_psum("src", "predicate") else 2 * free)


@tensor_copy_predicated.samples
def _predicated_samples(t: Sampler) -> Samples:
    yield {"dst": t.sbuf(128, 8), "src": t.psum(128, 8), "predicate": t.sbuf(128, 8, dtype="uint8")}
    yield {"dst": t.sbuf(4, 3, dtype="int32"), "src": 5, "predicate": t.psum(4, 3, dtype="uint32")}
    yield {
        "dst": t.sbuf(1, 1, dtype="bfloat16"),
        "src": t.sbuf(1, 1, dtype="bfloat16"),
        "predicate": t.sbuf(1, 1, dtype="uint16"),
        "reverse_pred": True,
    }


@tensor_copy_predicated.rejects
def _predicated_rejects(t: Sampler) -> Rejects:
    u8 = t.sbuf(8, 8, dtype="uint8")
    yield (
        "TENSOR_COPY_PREDICATED-01",
        {
            "dst": t.sbuf(8, 8),
            "src": t.psum(8, 8),
            "predicate": t.psum(8, 8, dtype="uint8"),
        },
    )
    yield "TENSOR_COPY_PREDICATED-02", {"dst": t.sbuf(8, 7), "src": 0.0, "predicate": u8}
    yield "TENSOR_COPY_PREDICATED-02", {"dst": t.sbuf(8, 8), "src": t.sbuf(4, 8), "predicate": u8}
    yield (
        "TENSOR_COPY_PREDICATED-03",
        {
            "dst": t.sbuf(8, 8),
            "src": 0.0,
            "predicate": t.sbuf(8, 8, dtype="int8"),
        },
    )
    yield (
        "TENSOR_COPY_PREDICATED-04",
        {
            "dst": t.sbuf(8, 8),
            "src": t.sbuf(8, 8, dtype="bfloat16"),
            "predicate": u8,
        },
    )


def _accumulator(attrs: Mapping[str, Any]) -> Access:
    """`idle` may change the registers (isa:2955), so it counts as a write of unknown extent."""
    kinds = {ReduceCmd.reset_reduce: Access.WRITE, ReduceCmd.reduce: Access.UPDATE}
    return kinds.get(attrs["reduce_cmd"], Access.WRITE_WHERE)


def _bad_command(call: Call) -> Numbers:
    cmd = call.attrs["reduce_cmd"]
    if cmd in (ReduceCmd.idle, ReduceCmd.reduce, ReduceCmd.reset_reduce):
        return None
    return {"cmd": cmd.name, "role": "reduce_cmd"}


def _not_maximum(call: Call) -> Numbers:
    op: Operator = call.attrs["reduce_op"]
    return None if op.name == "maximum" else {"op": op.name, "role": "reduce_op"}


def _wide_source(call: Call) -> Numbers:
    dtype = call.tile("on_true").dtype
    return {"dtype": dtype, "role": "on_true"} if dtype in ("tfloat32", "int32", "uint32") else None


def _result_dtype(call: Call) -> Numbers:
    layout = call.layout("reduce_res")
    return None if layout is None or layout.info.is_float else {"dtype": layout.dtype, "role": "reduce_res"}


@instruction(
    engines=(Engine.vector,),
    dst=writes(ON_CHIP),
    predicate=reads(ON_CHIP, load=Load.RAW),
    on_true=reads(ON_CHIP),
    on_false=reads(ON_CHIP, number=True),
    reduce_res=writes(ON_CHIP, optional=True),
    state=State(ACCUMULATOR, _accumulator),
    checks=(
        equal_partitions("SELECT_REDUCE-02", "dst", "predicate", "on_true"),
        equal_free("SELECT_REDUCE-02", "dst", "predicate", "on_true"),
        not_both_in_psum("SELECT_REDUCE-01", "on_true", "predicate"),
        rule(
            "ONKI202",
            "SELECT_REDUCE-03",
            "`{instruction}` cannot select from `on_true` in {dtype}",
            _wide_source,
            help="use float32, or a 16- or 8-bit type",
        ),
        per_partition_column("SELECT_REDUCE-04", "on_false", "on_true"),
        dtype_among("SELECT_REDUCE-05", "predicate", ("int8", "uint8", "int16", "uint16")),
        per_partition_column("SELECT_REDUCE-06", "reduce_res", "on_true", number=False),
        rule(
            "ONKI202",
            "SELECT_REDUCE-06",
            "`{instruction}` needs a float type for `reduce_res`, got {dtype}",
            _result_dtype,
            help="allocate `reduce_res` as float32",
        ),
        rule(
            "ONKI206",
            "SELECT_REDUCE-06",
            "`{instruction}` reduces with `nl.maximum` only, not with `nl.{op}`",
            _not_maximum,
            help="leave `reduce_op` out",
        ),
        rule(
            "ONKI206",
            "SELECT_REDUCE-07",
            "`{instruction}` has no reduce_cmd.{cmd}",
            _bad_command,
            help="use idle, reduce or reset_reduce",
        ),
    ),
    source="nki/api/nki/isa/__init__.py:2899",
)
def select_reduce(
    dst: Tile,
    predicate: Tile,
    on_true: Tile,
    on_false: float | Tile,
    reduce_res: Tile | None = None,
    reduce_cmd: ReduceCmd = ReduceCmd.idle,
    reduce_op: Op = _MAXIMUM,
    reverse_pred: bool = False,
    name: str | None = None,
) -> None:
    """Write `on_true` where the predicate is not 0 and `on_false` elsewhere, and perhaps reduce by maximum.

    `[P<=128, free]` of one size; `predicate` is an 8- or 16-bit integer; `on_false` a number or a tile
    `[P, 1]`. `reset_reduce` sets the engine's accumulator (one value a partition) to the maximum of the
    results, `reduce` takes it into account; `reduce_res` `[P, 1]` receives it. NaN wins (NumPy's maximum;
    chosen).

    Errors: ONKI201, ONKI202, ONKI205, ONKI206. Source: nki/api/nki/isa/__init__.py:2899.
    """


@select_reduce.semantics
def _select(
    predicate: Any, on_true: Any, on_false: Any, state: Any, *, reduce_cmd: ReduceCmd, reverse_pred: bool
) -> Any:
    chosen = np.where(np.not_equal(predicate, 0) ^ reverse_pred, on_true, on_false)
    if reduce_cmd is ReduceCmd.idle:
        return {"dst": chosen, "reduce_res": state, "state": state}
    best = np.max(chosen, axis=1, keepdims=True)
    total = best if reduce_cmd is ReduceCmd.reset_reduce else np.maximum(best, state)
    return {"dst": chosen, "reduce_res": total, "state": total}


@select_reduce.cost
def _select_cost(call: Call) -> Cost:
    return cycles(2 * call.free("dst"), "assumed")


@select_reduce.samples
def _select_samples(t: Sampler) -> Samples:
    call = {
        "dst": t.sbuf(16, 8),
        "predicate": t.sbuf(16, 8, dtype="uint8"),
        "on_true": t.psum(16, 8),
        "on_false": -5.0,
    }
    yield call
    yield {**call, "on_false": t.sbuf(16, 1), "reverse_pred": True}
    yield {**call, "reduce_cmd": ReduceCmd.reset_reduce, "reduce_res": t.sbuf(16, 1)}
    yield {
        "dst": t.sbuf(1, 1, dtype="bfloat16"),
        "predicate": t.psum(1, 1, dtype="int16"),
        "on_true": t.sbuf(1, 1, dtype="float16"),
        "on_false": 0.5,
        "reduce_cmd": ReduceCmd.reset_reduce,
    }


@select_reduce.rejects
def _select_rejects(t: Sampler) -> Rejects:
    call = {
        "dst": t.sbuf(16, 8),
        "predicate": t.sbuf(16, 8, dtype="uint8"),
        "on_true": t.sbuf(16, 8),
        "on_false": 0.0,
    }
    yield "SELECT_REDUCE-01", {**call, "predicate": t.psum(16, 8, dtype="uint8"), "on_true": t.psum(16, 8)}
    yield "SELECT_REDUCE-02", {**call, "dst": t.sbuf(16, 7)}
    yield "SELECT_REDUCE-03", {**call, "on_true": t.sbuf(16, 8, dtype="int32")}
    yield "SELECT_REDUCE-04", {**call, "on_false": t.sbuf(16, 2)}
    yield "SELECT_REDUCE-05", {**call, "predicate": t.sbuf(16, 8, dtype="uint32")}
    yield "SELECT_REDUCE-06", {**call, "reduce_res": t.sbuf(16, 1, dtype="int32")}
    yield "SELECT_REDUCE-06", {**call, "reduce_op": OPERATORS["add"]}
    yield "SELECT_REDUCE-07", {**call, "reduce_cmd": ReduceCmd.load_reduce}

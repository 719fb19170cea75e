"""The activation row of the Scalar engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from opennki.ir.types import Engine
from opennki.isa.attributes import Op
from opennki.isa.checks import Numbers, dtype_among, equal_free, equal_partitions, per_partition_column, rule
from opennki.isa.cost import MIN_II, Cost, cycles
from opennki.isa.define import ON_CHIP, Access, Call, State, instruction, reads, writes
from opennki.isa.enums import ReduceCmd
from opennki.isa.layout import Tile
from opennki.isa.operators import OPERATORS, Operator
from opennki.isa.samples import Sampler

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]

ACCUMULATOR = "scalar.accumulator"
_ACCUMULATING = (ReduceCmd.reduce, ReduceCmd.reset_reduce)


def _accumulator(attrs: Mapping[str, Any]) -> Access:
    """What each command does to the engine's accumulator registers."""
    return {
        ReduceCmd.idle: Access.READ,
        ReduceCmd.reset: Access.WRITE,
        ReduceCmd.reduce: Access.UPDATE,
        ReduceCmd.reset_reduce: Access.WRITE,
        ReduceCmd.load_reduce: Access.WRITE,
    }[attrs["reduce_cmd"]]


def _no_function(call: Call) -> Numbers:
    op: Operator = call.attrs["op"]
    return None if op.activation is not None else {"op": op.name, "role": "op"}


def _scalar_bias(call: Call) -> Numbers:
    if call.generation == 2 and isinstance(call.operands["bias"], (int, float)):
        return {"role": "bias", "partitions": call.tile("data").partitions}
    return None


def _tf32_bias(call: Call) -> Numbers:
    layout = call.layout("bias")
    return {"role": "bias"} if layout is not None and layout.dtype == "tfloat32" else None


def _biased_reciprocal(call: Call) -> Numbers:
    if call.generation == 2 and call.attrs["op"].name == "reciprocal" and call.operands["bias"] is not None:
        return {"role": "bias"}
    return None


def _reduction(call: Call) -> Numbers:
    op: Operator | None = call.attrs["reduce_op"]
    if op is not None and op.name != "add":
        return {"problem": f"can reduce with `nl.add` only, not with `nl.{op.name}`", "role": "reduce_op"}
    if op is None and call.attrs["reduce_cmd"] in _ACCUMULATING:
        return {
            "problem": f"needs `reduce_op=nl.add` for reduce_cmd.{call.attrs['reduce_cmd'].name}",
            "role": "reduce_cmd",
        }
    return None


def _no_load(call: Call) -> Numbers:
    return {"role": "reduce_cmd"} if call.attrs["reduce_cmd"] is ReduceCmd.load_reduce else None


_FUNCTION_CHECKS = (
    rule(
        "ONKI206",
        "ACTIVATION-10",
        "`{instruction}` has no function `nl.{op}`",
        _no_function,
        help="use one of the activation functions, for example `nl.exp`; see `opennki isa activation`",
    ),
    equal_partitions("ACTIVATION-05", "dst", "data"),
    equal_free("ACTIVATION-05", "dst", "data"),
    per_partition_column("ACTIVATION-02", "scale", "data"),
    dtype_among("ACTIVATION-02", "scale", ("float32",)),
    per_partition_column("ACTIVATION-03", "bias", "data"),
    rule(
        "ONKI207",
        "ACTIVATION-03",
        "`{instruction}` on {target} takes a tile as `bias`, not a number",
        _scalar_bias,
        help="fill a tile `[{partitions}, 1]` with `nisa.memset` and pass it, or trace for trn2 or trn3",
    ),
    rule(
        "ONKI202",
        "ACTIVATION-03",
        "`{instruction}` cannot take a `bias` in tfloat32",
        _tf32_bias,
        help="allocate the bias as float32",
    ),
    rule(
        "ONKI207",
        "ACTIVATION-08",
        "`{instruction}` with `nl.reciprocal` cannot take a `bias` on {target}",
        _biased_reciprocal,
        help="add the bias in an instruction of its own, or use `nisa.reciprocal`",
    ),
)


@instruction(
    engines=(Engine.scalar,),
    space_rule="ACTIVATION-01",
    dst=writes(ON_CHIP, columns=True),
    data=reads(ON_CHIP, columns=True),
    bias=reads(ON_CHIP, number=True, optional=True),
    scale=reads(ON_CHIP, number=True),
    reduce_res=writes(ON_CHIP, optional=True),
    state=State(ACCUMULATOR, _accumulator),
    checks=(
        *_FUNCTION_CHECKS,
        rule(
            "ONKI206",
            "ACTIVATION-04",
            "`{instruction}` {problem}",
            _reduction,
            help="write `reduce_op=nl.add`, or leave `reduce_cmd` out",
        ),
        rule(
            "ONKI206",
            "ACTIVATION-07",
            "`{instruction}` has no reduce_cmd.load_reduce",
            _no_load,
            help="use idle, reset, reduce or reset_reduce",
        ),
        per_partition_column("ACTIVATION-06", "reduce_res", "data", number=False),
    ),
    source="nki/api/nki/isa/__init__.py:1336",
)
def activation(
    dst: Tile,
    op: Op,
    data: Tile,
    bias: float | Tile | None = None,
    scale: float | Tile = 1.0,
    reduce_op: Op | None = None,
    reduce_res: Tile | None = None,
    reduce_cmd: ReduceCmd = ReduceCmd.idle,
    name: str | None = None,
) -> None:
    """Write `op(data * scale + bias)` to `dst` on the Scalar engine, both `[P<=128, free]` in SBUF or PSUM.

    float32 inside, one rounding to `dst.dtype`. `scale` is a number or a float32 tile `[P, 1]`; `bias` a tile
    `[P, 1]` or, from NeuronCore-v3, a number. The engine's accumulator, one float32 a partition, is reset,
    left alone or added to by `reduce_cmd` with the sum of the results along the free axes; `reduce_res`
    `[P, 1]` receives its value. `data` and `dst` may be `.indirect()` views.

    Errors: ONKI201, ONKI202, ONKI205, ONKI206, ONKI207. Source: nki/api/nki/isa/__init__.py:1336.
    """


def _applied(op: Operator, data: Any, bias: Any, scale: Any) -> Any:
    x = data if isinstance(scale, np.float32) and scale == 1.0 else data * scale
    return op.activation(x if bias is None else x + bias)  # type: ignore[misc]  # ACTIVATION-10


@activation.semantics
def _activation(
    data: Any,
    bias: Any,
    scale: Any,
    state: Any,
    *,
    op: Operator,
    reduce_op: Operator | None,
    reduce_cmd: ReduceCmd,
) -> Any:
    result = _applied(op, data, bias, scale)
    if reduce_cmd is ReduceCmd.idle and state is None:
        return result
    total = np.zeros_like(state) if reduce_cmd in (ReduceCmd.reset, ReduceCmd.reset_reduce) else state
    if reduce_cmd in _ACCUMULATING:
        total = total + np.sum(result, axis=1, keepdims=True, dtype=np.float32)
    return {"dst": result, "reduce_res": total, "state": total}


@activation.cost
def _activation_cost(call: Call) -> Cost:
    extra = MIN_II if call.layout("reduce_res") is not None else 0
    return cycles(max(MIN_II, call.free("dst")) + extra)


@activation.samples
def _activation_samples(t: Sampler) -> Samples:
    tile = {"dst": t.sbuf(128, 16), "data": t.psum(128, 16)}
    for op in OPERATORS.values():
        if op.activation is not None:
            yield {**tile, "op": op, "scale": 0.5}
    yield {**tile, "op": OPERATORS["exp"], "bias": t.sbuf(128, 1), "scale": t.sbuf(128, 1)}
    yield {
        "dst": t.sbuf(1, 1, dtype="bfloat16"),
        "data": t.sbuf(1, 1, dtype="int32"),
        "op": OPERATORS["copy"],
        "bias": t.psum(1, 1, dtype="bfloat16"),
    }
    yield {
        "dst": t.sbuf(8, 4, 3),
        "data": t.sbuf(8, 12),
        "op": OPERATORS["square"],
        "reduce_op": OPERATORS["add"],
        "reduce_res": t.sbuf(8, 1),
        "reduce_cmd": ReduceCmd.reset_reduce,
    }
    if t.generation >= 3:
        yield {**tile, "op": OPERATORS["sqrt"], "bias": 0.25}


@activation.rejects
def _activation_rejects(t: Sampler) -> Rejects:
    tile = {"dst": t.sbuf(128, 16), "data": t.sbuf(128, 16), "op": OPERATORS["exp"]}
    yield "ACTIVATION-10", {**tile, "op": OPERATORS["add"]}
    yield "ACTIVATION-02", {**tile, "scale": t.sbuf(128, 1, dtype="bfloat16")}
    yield "ACTIVATION-02", {**tile, "scale": t.sbuf(128, 2)}
    yield "ACTIVATION-03", {**tile, "bias": t.sbuf(64, 1)}
    yield "ACTIVATION-03", {**tile, "bias": t.sbuf(128, 1, dtype="tfloat32")}
    yield "ACTIVATION-04", {**tile, "reduce_op": OPERATORS["maximum"]}
    yield "ACTIVATION-04", {**tile, "reduce_cmd": ReduceCmd.reduce}
    yield "ACTIVATION-05", {**tile, "dst": t.sbuf(128, 15)}
    yield "ACTIVATION-05", {**tile, "dst": t.sbuf(127, 16)}
    yield (
        "ACTIVATION-06",
        {
            **tile,
            "reduce_op": OPERATORS["add"],
            "reduce_res": t.sbuf(128, 2),
            "reduce_cmd": ReduceCmd.reset_reduce,
        },
    )
    yield (
        "ACTIVATION-07",
        {
            **tile,
            "reduce_op": OPERATORS["add"],
            "reduce_cmd": ReduceCmd.load_reduce,
        },
    )
    yield "ACTIVATION-01", {**tile, "data": t.hbm(128, 16)}
    if t.generation == 2:
        yield "ACTIVATION-03", {**tile, "bias": 1.0}
        yield "ACTIVATION-08", {**tile, "op": OPERATORS["reciprocal"], "bias": t.sbuf(128, 1)}


def _reduces_elsewhere(call: Call) -> Numbers:
    op: Operator = call.attrs["reduce_op"]
    if op.name == "add" or (call.generation > 2 and op.name in ("maximum", "minimum")):
        return None
    allowed = "`nl.add`" if call.generation == 2 else "`nl.add`, `nl.maximum` and `nl.minimum`"
    return {"op": op.name, "allowed": allowed, "role": "reduce_op"}


@instruction(
    engines=(Engine.scalar,),
    space_rule="ACTIVATION-01",
    dst=writes(ON_CHIP, columns=True),
    data=reads(ON_CHIP, columns=True),
    reduce_res=writes(ON_CHIP, optional=True),
    bias=reads(ON_CHIP, number=True, optional=True),
    scale=reads(ON_CHIP, number=True),
    state=State(ACCUMULATOR, lambda attrs: Access.WRITE),
    checks=(
        *_FUNCTION_CHECKS,
        rule(
            "ONKI206",
            "ACTIVATION_REDUCE-01",
            "`{instruction}` reduces with {allowed} on {target}, not with `nl.{op}`",
            _reduces_elsewhere,
            help="write `reduce_op=nl.add`",
        ),
        per_partition_column("ACTIVATION_REDUCE-02", "reduce_res", "data", number=False),
    ),
    source="nki/api/nki/isa/__init__.py:1461",
)
def activation_reduce(
    dst: Tile,
    op: Op,
    data: Tile,
    reduce_op: Op,
    reduce_res: Tile | None,
    bias: float | Tile | None = None,
    scale: float | Tile = 1.0,
    name: str | None = None,
) -> None:
    """Write `op(data * scale + bias)` to `dst` and its reduction along the free axes to `reduce_res`.

    What `activation` with `reduce_cmd.reset_reduce` does; the engine's accumulator keeps the result.

    Errors: ONKI201, ONKI202, ONKI205 to ONKI207. Source: nki/api/nki/isa/__init__.py:1461.
    """


@activation_reduce.semantics
def _activation_reduce(
    data: Any, bias: Any, scale: Any, state: Any, *, op: Operator, reduce_op: Operator
) -> Any:
    result = _applied(op, data, bias, scale)
    total = reduce_op.reduce(result)  # type: ignore[misc]  # ACTIVATION_REDUCE-01
    return {"dst": result, "reduce_res": total, "state": total}


@activation_reduce.cost
def _activation_reduce_cost(call: Call) -> Cost:
    return cycles(max(MIN_II, call.free("dst")) + MIN_II)


@activation_reduce.samples
def _activation_reduce_samples(t: Sampler) -> Samples:
    call = {
        "dst": t.sbuf(128, 16),
        "data": t.psum(128, 16),
        "op": OPERATORS["exp"],
        "reduce_op": OPERATORS["add"],
        "reduce_res": t.sbuf(128, 1),
    }
    yield call
    yield {**call, "bias": t.sbuf(128, 1), "scale": t.sbuf(128, 1)}
    if t.generation > 2:
        yield {**call, "reduce_op": OPERATORS["maximum"], "reduce_res": None}


@activation_reduce.rejects
def _activation_reduce_rejects(t: Sampler) -> Rejects:
    call = {
        "dst": t.sbuf(128, 16),
        "data": t.sbuf(128, 16),
        "op": OPERATORS["exp"],
        "reduce_op": OPERATORS["add"],
        "reduce_res": t.sbuf(128, 1),
    }
    yield "ACTIVATION_REDUCE-01", {**call, "reduce_op": OPERATORS["multiply"]}
    yield "ACTIVATION_REDUCE-02", {**call, "reduce_res": t.sbuf(128, 2)}
    yield "ACTIVATION-02", {**call, "scale": t.sbuf(128, 2)}
    yield "ACTIVATION-05", {**call, "dst": t.sbuf(127, 16)}

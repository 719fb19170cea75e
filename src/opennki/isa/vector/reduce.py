"""Rows that reduce along the free axes on the Vector engine."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from opennki.ir.types import Engine
from opennki.isa.attributes import Ints, Op
from opennki.isa.checks import Numbers, equal_partitions, integers_for_bitvec, rule
from opennki.isa.cost import Cost, cycles
from opennki.isa.define import ON_CHIP, Call, Load, instruction, reads, writes
from opennki.isa.layout import Tile
from opennki.isa.operators import OPERATORS, Operator
from opennki.isa.samples import Sampler

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]


def _kept(call: Call) -> int | None:
    """Number of leading axes that stay, None when the axes are not the last ones."""
    rank = len(call.tile("data").shape)
    axes = sorted(axis + rank if axis < 0 else axis for axis in call.attrs["axis"])
    kept = rank - len(axes)
    return kept if axes and kept >= 1 and axes == list(range(kept, rank)) else None


def _spelled(axes: tuple[int, ...]) -> object:
    """Axes as a kernel writes them: one number, or a list."""
    return axes[0] if len(axes) == 1 else list(axes)


def _bad_axes(call: Call) -> Numbers:
    if _kept(call) is not None:
        return None
    return {"axis": _spelled(call.attrs["axis"]), "shape": list(call.tile("data").shape), "role": "axis"}


def _bad_result(call: Call) -> Numbers:
    kept = _kept(call)
    if kept is None:
        return None
    wanted = prod(call.tile("data").shape[1:kept])
    got = call.free("dst")
    return None if wanted == got else {"wanted": wanted, "got": got, "role": "dst"}


def _no_reduction(call: Call) -> Numbers:
    op: Operator = call.attrs["op"]
    return None if op.reduce is not None else {"op": op.name, "role": "op"}


def _negated_bits(call: Call) -> Numbers:
    op: Operator = call.attrs["op"]
    return {"op": op.name, "role": "negate"} if call.attrs["negate"] and op.is_bitvec else None


@instruction(
    engines=(Engine.vector,),
    space_rule="TENSOR_REDUCE-06",
    dst=writes(ON_CHIP, columns=True),
    data=reads(
        ON_CHIP,
        load=lambda call: Load.BITS if call.attrs["op"].is_bitvec else Load.F32,
        shaped=True,
        columns=True,
    ),
    checks=(
        equal_partitions("TENSOR_REDUCE-04", "dst", "data"),
        rule(
            "ONKI206",
            "TENSOR_REDUCE-01",
            "`{instruction}` reduces the last free axes of {shape}, not axis={axis}",
            _bad_axes,
            help="name trailing axes such as `axis=-1`; axis 0 is the partition axis: transpose first",
        ),
        rule(
            "ONKI206",
            "GEN-25",
            "`{instruction}` cannot reduce with `nl.{op}`",
            _no_reduction,
            help="use `nl.add`, `nl.subtract`, `nl.multiply`, `nl.maximum`, `nl.minimum`, "
            "a logical or a bit operator",
        ),
        rule(
            "ONKI205",
            "TENSOR_REDUCE-05",
            "`{instruction}` leaves {wanted} elements per partition, `dst` has {got}",
            _bad_result,
            help="give `dst` {wanted} elements per partition",
        ),
        rule(
            "ONKI206",
            "TENSOR_REDUCE-03",
            "`{instruction}` cannot negate the result of the bit operator `nl.{op}`",
            _negated_bits,
            help="leave `negate` out",
        ),
        integers_for_bitvec("TENSOR_REDUCE-02", "op", "data", "dst"),
    ),
    source="nki/api/nki/isa/__init__.py:1161",
)
def tensor_reduce(
    dst: Tile,
    op: Op,
    data: Tile,
    axis: Ints,
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> None:
    """Reduce the trailing free axes of `data` with `op` into `dst`, `[P<=128, what is left]`.

    `axis` is an int or a sequence of ints, the last axes of the tile, never axis 0. Arithmetic in float32,
    one rounding to `dst.dtype`; `negate` multiplies the result by -1. Bit operators take integers and see
    bits. A fold by `nl.subtract` is the first element less all others (derived).

    Errors: ONKI201, ONKI202, ONKI205, ONKI206. Source: nki/api/nki/isa/__init__.py:1161.
    """


@tensor_reduce.semantics
def _tensor_reduce(data: Any, *, op: Operator, axis: tuple[int, ...], negate: bool, keepdims: bool) -> Any:
    kept = data.shape[: data.ndim - len(axis)]
    result = op.reduce(data.reshape(*kept, -1))  # type: ignore[misc]  # GEN-25
    return np.negative(result) if negate else result


@tensor_reduce.cost
def _tensor_reduce_cost(call: Call) -> Cost:
    fast = call.tile("data").dtype == "bfloat16" and call.attrs["op"].name in ("add", "maximum")
    return cycles(call.free("data") / (2 if fast else 1))


@tensor_reduce.samples
def _tensor_reduce_samples(t: Sampler) -> Samples:
    ops = OPERATORS
    yield {"dst": t.sbuf(128, 1), "op": ops["add"], "data": t.psum(128, 512), "axis": (1,)}
    yield {"dst": t.sbuf(8, 3), "op": ops["maximum"], "data": t.sbuf(8, 3, 5), "axis": -1}
    yield {"dst": t.sbuf(8, 1), "op": ops["minimum"], "data": t.sbuf(8, 3, 5), "axis": (1, 2), "negate": True}
    yield {
        "dst": t.sbuf(8, 3, 1, dtype="bfloat16"),
        "op": ops["multiply"],
        "data": t.sbuf(8, 3, 5, dtype="bfloat16"),
        "axis": [2],
        "keepdims": True,
    }
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        yield {
            "dst": t.sbuf(4, 1, dtype="int16"),
            "op": ops[op],
            "data": t.sbuf(4, 7, dtype="int16"),
            "axis": 1,
        }
    for op in ("subtract", "logical_and", "logical_or", "logical_xor"):
        yield {"dst": t.sbuf(1, 1), "op": ops[op], "data": t.sbuf(1, 4), "axis": 1}


@tensor_reduce.rejects
def _tensor_reduce_rejects(t: Sampler) -> Rejects:
    add = OPERATORS["add"]
    yield "TENSOR_REDUCE-01", {"dst": t.sbuf(8, 5), "op": add, "data": t.sbuf(8, 3, 5), "axis": 1}
    yield "TENSOR_REDUCE-01", {"dst": t.sbuf(8, 1), "op": add, "data": t.sbuf(8, 3), "axis": (0, 1)}
    yield "TENSOR_REDUCE-01", {"dst": t.sbuf(8, 1), "op": add, "data": t.sbuf(8, 3), "axis": ()}
    yield "TENSOR_REDUCE-05", {"dst": t.sbuf(8, 2), "op": add, "data": t.sbuf(8, 3), "axis": 1}
    yield "TENSOR_REDUCE-04", {"dst": t.sbuf(7, 1), "op": add, "data": t.sbuf(8, 3), "axis": 1}
    yield "GEN-25", {"dst": t.sbuf(8, 1), "op": OPERATORS["power"], "data": t.sbuf(8, 3), "axis": 1}
    yield (
        "TENSOR_REDUCE-02",
        {"dst": t.sbuf(8, 1), "op": OPERATORS["bitwise_or"], "data": t.sbuf(8, 3), "axis": 1},
    )
    yield (
        "TENSOR_REDUCE-03",
        {
            "dst": t.sbuf(8, 1, dtype="int8"),
            "op": OPERATORS["bitwise_or"],
            "data": t.sbuf(8, 3, dtype="int8"),
            "axis": 1,
            "negate": True,
        },
    )

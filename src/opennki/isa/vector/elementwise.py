"""Two tiles combined element by element on the Vector and GpSimd engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opennki.ir.dtypes import DTypeInfo
from opennki.ir.types import Engine, Space
from opennki.isa.attributes import Op
from opennki.isa.checks import (
    Numbers,
    equal_free,
    equal_partitions,
    integers_for_bitvec,
    not_both_in_psum,
    operators_available,
    rule,
)
from opennki.isa.cost import Cost, cycles
from opennki.isa.define import ON_CHIP, Call, Load, instruction, reads, writes
from opennki.isa.layout import Tile
from opennki.isa.operators import OPERATORS, Operator
from opennki.isa.samples import Sampler

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]

_WORDS = ("int32", "uint32")


def _all_words(call: Call) -> bool:
    return all(layout.dtype in _WORDS for _, layout in call.layouts())


def _pair_engine(call: Call) -> Engine:
    """GpSimd for `power` and for 32-bit integers, which it adds exactly; Vector otherwise (isa:1035)."""
    op: Operator = call.attrs["op"]
    if op.engine is not None:
        return op.engine
    if op.integer is not None and _all_words(call) and not call.any_in_psum():
        return Engine.gpsimd
    return Engine.vector


def _pair_load(call: Call) -> Load:
    op: Operator = call.attrs["op"]
    if op.is_bitvec:
        return Load.BITS
    if call.engine is Engine.gpsimd and op.integer is not None and _all_words(call):
        return Load.INTEGER
    return Load.F32


def _not_binary(call: Call) -> Numbers:
    op: Operator = call.attrs["op"]
    return None if op.binary is not None else {"op": op.name, "role": "op"}


def _wrong_engine(call: Call) -> Numbers:
    op: Operator = call.attrs["op"]
    wanted = Engine.vector if op.is_bitvec else op.engine
    if wanted is None or call.engine is wanted:
        return None
    return {"op": op.name, "engine": call.engine.name, "wanted": wanted.name, "role": "engine"}


@instruction(
    engines=(Engine.vector, Engine.gpsimd),
    choose=_pair_engine,
    engine_rule="TENSOR_TENSOR-05",
    columns_rule="TENSOR_TENSOR-08",
    dst=writes(ON_CHIP, columns=True),
    data1=reads(ON_CHIP, load=_pair_load, columns=True),
    data2=reads(ON_CHIP, load=_pair_load),
    checks=(
        equal_partitions("TENSOR_TENSOR-01", "data1", "data2", "dst"),
        equal_free("TENSOR_TENSOR-01", "data1", "data2", "dst"),
        rule(
            "ONKI206",
            "TENSOR_TENSOR-07",
            "`{instruction}` needs an operator with two operands, `nl.{op}` is none of this instruction",
            _not_binary,
            help="use a binary operator such as `nl.add`; functions of one operand go to `nisa.activation`",
        ),
        operators_available(
            "GEN-27",
            "op",
            help="use `nl.maximum` or `nl.minimum` of absolute values, or trace for trn3",
        ),
        not_both_in_psum("TENSOR_TENSOR-02", "data1", "data2"),
        integers_for_bitvec("TENSOR_TENSOR-03", "op", "data1", "data2", "dst"),
        rule(
            "ONKI206",
            "TENSOR_TENSOR-04",
            "`{instruction}` with `nl.{op}` runs on the {wanted} engine, not on {engine}",
            _wrong_engine,
            help="leave `engine` out",
        ),
    ),
    source="nki/api/nki/isa/__init__.py:1019",
)
def tensor_tensor(
    dst: Tile,
    data1: Tile,
    data2: Tile,
    op: Op,
    engine: Engine = Engine.unknown,
    name: str | None = None,
) -> None:
    """Write `data1 op data2` to `dst`, element by element, all `[P<=128, free]` of one size.

    Arithmetic in float32, one rounding to `dst.dtype`. 32-bit integers in SBUF go to GpSimd and are exact,
    wrapping at 32 bits. Bit operators take integers and see bits. `nl.power` runs on GpSimd. At most one
    input in PSUM, none on GpSimd. Comparisons and logical operators give 1 or 0. `dst` and `data1` may be
    `.indirect()` views.

    Errors: ONKI201, ONKI202, ONKI205, ONKI206, ONKI207. Source: nki/api/nki/isa/__init__.py:1019.
    """


@tensor_tensor.semantics
def _tensor_tensor(data1: Any, data2: Any, *, op: Operator, out: DTypeInfo) -> Any:
    if data1.dtype == np.int64:
        return _wrapped(op.integer(data1, data2), out)  # type: ignore[misc]  # the load checked it
    return op.binary(data1, data2)  # type: ignore[misc]  # TENSOR_TENSOR-07


def _wrapped(value: Any, out: DTypeInfo) -> Any:
    """Keep the low 32 bits of an exact result."""
    return np.asarray(value).astype(np.int64).astype(out.storage)


@tensor_tensor.cost
def _tensor_tensor_cost(call: Call) -> Cost:
    if call.engine is Engine.gpsimd:
        return cycles(2 * call.free("dst"), "assumed")
    layouts = [layout for _, layout in call.layouts()]
    fast = call.any_in_psum("data1", "data2") or (
        call.attrs["op"].name in ("add", "subtract", "multiply")
        and all(
            layout.dtype == "bfloat16" and layout.space is Space.sbuf and layout.strides[-1] == 1
            for layout in layouts
        )
    )
    return cycles(call.free("dst") * (1 if fast else 2))


@tensor_tensor.samples
def _tensor_tensor_samples(t: Sampler) -> Samples:
    bf16, i32, u8 = "bfloat16", "int32", "uint8"
    ops = OPERATORS
    yield {"dst": t.sbuf(128, 512), "data1": t.sbuf(128, 512), "data2": t.psum(128, 512), "op": ops["add"]}
    yield {
        "dst": t.sbuf(128, 8, dtype=bf16),
        "data1": t.sbuf(128, 8, dtype=bf16),
        "data2": t.sbuf(128, 8, dtype=bf16),
        "op": ops["multiply"],
    }
    for op in ("add", "subtract", "multiply", "maximum", "less_equal"):
        yield {
            "dst": t.sbuf(16, 8, dtype=i32),
            "data1": t.sbuf(16, 8, dtype=i32),
            "data2": t.sbuf(16, 8, dtype=i32),
            "op": ops[op],
        }
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"):
        yield {
            "dst": t.sbuf(4, 6, dtype=u8),
            "data1": t.sbuf(4, 6, dtype=u8),
            "data2": t.sbuf(4, 6, dtype=u8),
            "op": ops[op],
        }
    for op in ("equal", "not_equal", "greater", "less", "logical_and", "logical_or", "logical_xor", "power"):
        yield {"dst": t.sbuf(1, 5), "data1": t.sbuf(1, 5), "data2": t.sbuf(1, 5), "op": ops[op]}
    yield {
        "dst": t.sbuf(64, 4, 3),
        "data1": t.sbuf(64, 24).slice((0, 64), (0, 24, 2)),
        "data2": t.sbuf(64, 12),
        "op": ops["minimum"],
    }
    if t.generation >= 4:
        for op in ("abs_max", "abs_min"):
            yield {"dst": t.sbuf(2, 5), "data1": t.sbuf(2, 5), "data2": t.sbuf(2, 5), "op": ops[op]}


@tensor_tensor.rejects
def _tensor_tensor_rejects(t: Sampler) -> Rejects:
    ops = OPERATORS
    wide = {"dst": t.sbuf(128, 8), "data1": t.sbuf(128, 8), "op": ops["add"]}
    yield "TENSOR_TENSOR-01", {**wide, "data2": t.sbuf(1, 8)}
    yield "TENSOR_TENSOR-01", {**wide, "data2": t.sbuf(128, 1)}
    tiles = {"dst": t.sbuf(8, 8), "data1": t.sbuf(8, 8), "data2": t.sbuf(8, 8)}
    yield "TENSOR_TENSOR-02", {**tiles, "data1": t.psum(8, 8), "data2": t.psum(8, 8), "op": ops["add"]}
    yield "TENSOR_TENSOR-03", {**tiles, "op": ops["bitwise_and"]}
    yield "TENSOR_TENSOR-04", {**tiles, "op": ops["power"], "engine": Engine.vector}
    yield "GEN-15", {**tiles, "data1": t.psum(8, 8), "op": ops["power"]}
    yield "TENSOR_TENSOR-07", {**tiles, "op": ops["exp"]}
    yield "TENSOR_TENSOR-05", {**tiles, "op": ops["add"], "engine": Engine.scalar}
    if t.generation < 4:
        yield "GEN-27", {**tiles, "op": ops["abs_max"]}

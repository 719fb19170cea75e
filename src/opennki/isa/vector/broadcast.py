"""A tile combined with numbers or per-partition columns on the Vector, Scalar and GpSimd engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opennki.ir.types import Engine
from opennki.isa.attributes import Op
from opennki.isa.checks import (
    Numbers,
    any_columns,
    dtype_among,
    equal_free,
    equal_partitions,
    integers_for_bitvec,
    operators_available,
    per_partition_column,
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


def _stages(call: Call) -> Iterator[tuple[str, Operator, Any]]:
    for op, operand in (("op0", "operand0"), ("op1", "operand1")):
        if call.attrs[op] is not None:
            yield op, call.attrs[op], call.operands[operand]


def _scalar_engine(call: Call) -> Engine:
    """GpSimd for `rsqrt`, which only it has in this instruction; Vector otherwise (isa:1157)."""
    wants_gpsimd = any(op.name == "rsqrt" for _, op, _ in _stages(call))
    return Engine.gpsimd if wants_gpsimd and not call.any_in_psum() else Engine.vector


def _scalar_load(call: Call) -> Load:
    return Load.BITS if call.attrs["op0"].is_bitvec else Load.F32


def _is_arithmetic(call: Call) -> bool:
    op: Operator = call.attrs["op0"]
    return op.is_arithmetic


def _half_stage(call: Call) -> Numbers:
    op1, operand1 = call.attrs["op1"], call.operands["operand1"]
    if op1 is None and operand1 is not None:
        return {"given": "operand1", "missing": "op1", "role": "operand1"}
    if op1 is not None and operand1 is None and op1.unary is None:
        return {"given": "op1", "missing": "operand1", "role": "op1"}
    return None


def _mixed_kinds(call: Call) -> Numbers:
    op0, op1 = call.attrs["op0"], call.attrs["op1"]
    if op1 is None or op0.is_bitvec == op1.is_bitvec:
        return None
    return {"first": op0.name, "second": op1.name, "role": "op1"}


def _address_arithmetic(call: Call) -> Numbers:
    """The documents exclude a form for addresses and do not define it; assumed: 32-bit integers only."""
    dtypes = (call.tile("data").dtype, call.tile("dst").dtype)
    if _is_arithmetic(call) and any_columns(call) and all(dtype in _WORDS for dtype in dtypes):
        return {"role": "data", "dtypes": " and ".join(dtypes)}
    return None


def _no_such_stage(call: Call) -> Numbers:
    for name, op, _ in _stages(call):
        if op.binary is None and op.unary is None:
            return {"op": op.name, "role": name}
    return None


def _no_operand(call: Call) -> Numbers:
    """A binary stage needs its operand, a unary one takes None or 0."""
    for name, op, operand in _stages(call):
        role = "operand" + name[-1]
        if op.binary is None and operand is not None and operand != 0:
            return {"op": op.name, "role": role, "wanted": "None or 0"}
        if op.binary is not None and operand is None:
            return {"op": op.name, "role": role, "wanted": "a number or a tile"}
    return None


def _bits_off_vector(call: Call) -> Numbers:
    if call.attrs["op0"].is_bitvec and call.engine is not Engine.vector:
        return {"op": call.attrs["op0"].name, "engine": call.engine.name, "role": "engine"}
    return None


def _float_for_bits(call: Call) -> Numbers:
    for name, op, operand in _stages(call):
        if op.is_bitvec and isinstance(operand, float) and operand != int(operand):
            return {"op": op.name, "value": operand, "role": "operand" + name[-1]}
    return None


_SCALAR_ENGINE_PAIRS = (("multiply", "add"), ("multiply", None), ("add", None))


def _pair(pair: tuple[str, str | None]) -> str:
    """Two operators as a message spells them."""
    return " and then ".join(f"`nl.{name}`" for name in pair if name is not None)


def _scalar_engine_pair(call: Call) -> Numbers:
    if call.engine is not Engine.scalar:
        return None
    op1 = call.attrs["op1"]
    pair = (call.attrs["op0"].name, None if op1 is None else op1.name)
    if call.generation < 3:
        return {
            "pair": _pair(pair),
            "why": f"{call.target.name} has no tensor_scalar there",
            "role": "engine",
        }
    if pair not in _SCALAR_ENGINE_PAIRS:
        return {"pair": _pair(pair), "why": "it has (multiply, add), (multiply) and (add)", "role": "engine"}
    return None


def _gpsimd_without_rsqrt(call: Call) -> Numbers:
    if call.engine is not Engine.gpsimd or any(op.name == "rsqrt" for _, op, _ in _stages(call)):
        return None
    return {"op": call.attrs["op0"].name, "role": "engine"}


def _new_unary(call: Call) -> Numbers:
    if call.generation >= 4 or call.attrs["op0"].name not in ("square", "relu"):
        return None
    return {"op": call.attrs["op0"].name, "role": "op0"}


@instruction(
    engines=(Engine.vector, Engine.scalar, Engine.gpsimd),
    choose=_scalar_engine,
    space_rule="TENSOR_SCALAR-01",
    columns_rule="TENSOR_SCALAR-10",
    dst=writes(ON_CHIP, columns=True),
    data=reads(ON_CHIP, load=_scalar_load, columns=True),
    operand0=reads(ON_CHIP, load=_scalar_load, number=True, optional=True, keyed=True),
    operand1=reads(ON_CHIP, load=_scalar_load, number=True, optional=True, keyed=True),
    checks=(
        equal_partitions("TENSOR_SCALAR-11", "data", "dst"),
        equal_free("TENSOR_SCALAR-11", "data", "dst"),
        rule(
            "ONKI206",
            "TENSOR_SCALAR-12",
            "`{instruction}` has no operator `nl.{op}`",
            _no_such_stage,
            help="functions such as `nl.exp` go to `nisa.activation`",
        ),
        rule(
            "ONKI206",
            "TENSOR_SCALAR-03",
            "`{instruction}` is given `{given}` without `{missing}`",
            _half_stage,
            help="give both `op1` and `operand1`, or neither",
        ),
        rule(
            "ONKI206",
            "TENSOR_SCALAR-04",
            "`{instruction}` cannot mix a bit operator and an arithmetic one: `nl.{first}` and `nl.{second}`",
            _mixed_kinds,
            help="use two instructions",
        ),
        rule(
            "ONKI206",
            "TENSOR_SCALAR-08",
            "`{instruction}` with `nl.{op}` needs {wanted} for `{role}`",
            _no_operand,
            help="give {wanted} for `{role}`",
        ),
        rule(
            "ONKI206",
            "TENSOR_SCALAR-05",
            "`{instruction}` with the bit operator `nl.{op}` runs on the vector engine, not on {engine}",
            _bits_off_vector,
            help="leave `engine` out",
        ),
        rule(
            "ONKI202",
            "TENSOR_SCALAR-05",
            "`{instruction}` with the bit operator `nl.{op}` needs an integer for `{role}`, got {value}",
            _float_for_bits,
            help="pass an int",
        ),
        integers_for_bitvec("TENSOR_SCALAR-05", "op0", "data", "dst", "operand0", "operand1"),
        per_partition_column("TENSOR_SCALAR-01", "operand0", "data"),
        per_partition_column("TENSOR_SCALAR-01", "operand1", "data"),
        dtype_among("TENSOR_SCALAR-02", "operand0", ("float32",), only_if=_is_arithmetic),
        dtype_among("TENSOR_SCALAR-02", "operand1", ("float32",), only_if=_is_arithmetic),
        rule(
            "ONKI206",
            "TENSOR_SCALAR-06",
            "`{instruction}` cannot run {pair} on the scalar engine: {why}",
            _scalar_engine_pair,
            help="leave `engine` out: the vector engine has all operators",
        ),
        rule(
            "ONKI206",
            "TENSOR_SCALAR-07",
            "`{instruction}` runs on the gpsimd engine for `nl.rsqrt` only, not for `nl.{op}`",
            _gpsimd_without_rsqrt,
            help="leave `engine` out",
        ),
        rule(
            "ONKI207",
            "TENSOR_SCALAR-09",
            "`{instruction}` has `nl.{op}` as op0 from NeuronCore-v4 on, which {target} is not",
            _new_unary,
            help="write `nl.maximum` with 0.0 for relu, `nisa.activation(op=nl.{op})`, or trace for trn3",
        ),
        operators_available("GEN-27", "op0", "op1", help="trace for trn3"),
        rule(
            "ONKI206",
            "TENSOR_SCALAR-10",
            "`{instruction}` takes no `.indirect()` view in arithmetic on 32-bit integers alone: "
            "`data` and `dst` are {dtypes}",
            _address_arithmetic,
            help="gather into a tile with `nisa.tensor_copy` first, and compute on that",
        ),
    ),
    source="nki/api/nki/isa/__init__.py:1081",
)
def tensor_scalar(
    dst: Tile,
    data: Tile,
    op0: Op,
    operand0: float | Tile | None,
    reverse0: bool = False,
    op1: Op | None = None,
    operand1: float | Tile | None = None,
    reverse1: bool = False,
    engine: Engine = Engine.unknown,
    name: str | None = None,
) -> None:
    """Write `(data op0 operand0) op1 operand1` to `dst`; operands are numbers or float32 tiles `[P, 1]`.

    `data` and `dst` are `[P<=128, free]` in SBUF or PSUM. `reverse0`, `reverse1` swap the sides of an
    operator. Arithmetic in float32, rounded to `dst.dtype` once at the end; bit operators take integers, see
    bits and run on Vector. Operators of one operand take None or 0. `nl.rsqrt` runs on GpSimd.

    Errors: ONKI201, ONKI202, ONKI205, ONKI206, ONKI207. Source: nki/api/nki/isa/__init__.py:1081.
    """


@tensor_scalar.semantics
def _tensor_scalar(
    data: Any,
    operand0: Any,
    operand1: Any,
    *,
    op0: Operator,
    reverse0: bool,
    op1: Operator | None,
    reverse1: bool,
) -> Any:
    result = _stage(op0, data, operand0, reverse0)
    return result if op1 is None else _stage(op1, result, operand1, reverse1)


def _stage(op: Operator, data: Any, operand: Any, reverse: bool) -> Any:
    if op.binary is None:
        return op.unary(data)  # type: ignore[misc]  # TENSOR_SCALAR-12
    return op.binary(operand, data) if reverse else op.binary(data, operand)


@tensor_scalar.cost
def _tensor_scalar_cost(call: Call) -> Cost:
    return cycles(call.free("dst") * (4 if call.engine is Engine.gpsimd else 1))


@tensor_scalar.samples
def _tensor_scalar_samples(t: Sampler) -> Samples:
    ops = OPERATORS
    tile = {"dst": t.sbuf(128, 16), "data": t.sbuf(128, 16)}
    yield {**tile, "op0": ops["multiply"], "operand0": 2.0, "op1": ops["add"], "operand1": 1.0}
    yield {**tile, "op0": ops["subtract"], "operand0": t.sbuf(128, 1), "reverse0": True}
    yield {
        **tile,
        "op0": ops["add"],
        "operand0": t.psum(128, 1),
        "op1": ops["subtract"],
        "operand1": t.sbuf(128, 1),
        "reverse1": True,
    }
    yield {**tile, "op0": ops["rsqrt"], "operand0": 0.0}
    yield {**tile, "op0": ops["abs"], "operand0": None}
    yield {**tile, "op0": ops["add"], "operand0": 1e-6, "op1": ops["power"], "operand1": -0.5}
    yield {
        "dst": t.sbuf(8, 3, dtype="uint16"),
        "data": t.sbuf(8, 3, dtype="uint16"),
        "op0": ops["left_shift"],
        "operand0": 3,
        "op1": ops["bitwise_and"],
        "operand1": 255,
    }
    yield {
        "dst": t.sbuf(8, 3, dtype="int8"),
        "data": t.sbuf(8, 3, dtype="int8"),
        "op0": ops["invert"],
        "operand0": None,
    }
    yield {"dst": t.sbuf(1, 1, dtype="bfloat16"), "data": t.psum(1, 1), "op0": ops["less"], "operand0": 0.5}
    if t.generation >= 3:
        yield {
            **tile,
            "op0": ops["multiply"],
            "operand0": 3.0,
            "op1": ops["add"],
            "operand1": -1.0,
            "engine": Engine.scalar,
        }
    if t.generation >= 4:
        yield {**tile, "op0": ops["square"], "operand0": None}


@tensor_scalar.rejects
def _tensor_scalar_rejects(t: Sampler) -> Rejects:
    ops = OPERATORS
    tile = {"dst": t.sbuf(128, 16), "data": t.sbuf(128, 16)}
    bits = {"dst": t.sbuf(128, 16, dtype="int32"), "data": t.sbuf(128, 16, dtype="int32")}
    yield (
        "TENSOR_SCALAR-11",
        {
            "dst": t.sbuf(128, 15),
            "data": t.sbuf(128, 16),
            "op0": ops["add"],
            "operand0": 1.0,
        },
    )
    yield "TENSOR_SCALAR-02", {**tile, "op0": ops["add"], "operand0": t.sbuf(128, 1, dtype="bfloat16")}
    yield "TENSOR_SCALAR-01", {**tile, "op0": ops["add"], "operand0": t.sbuf(128, 2)}
    yield "TENSOR_SCALAR-01", {**tile, "op0": ops["add"], "operand0": t.sbuf(64, 1)}
    yield "TENSOR_SCALAR-01", {**bits, "op0": ops["bitwise_or"], "operand0": t.sbuf(128, 2, dtype="int32")}
    yield "TENSOR_SCALAR-03", {**tile, "op0": ops["add"], "operand0": 1.0, "operand1": 1.0}
    yield "TENSOR_SCALAR-03", {**tile, "op0": ops["add"], "operand0": 1.0, "op1": ops["add"]}
    yield (
        "TENSOR_SCALAR-04",
        {
            **bits,
            "op0": ops["bitwise_or"],
            "operand0": 1,
            "op1": ops["add"],
            "operand1": 1,
        },
    )
    yield "TENSOR_SCALAR-05", {**tile, "op0": ops["bitwise_or"], "operand0": 1}
    yield "TENSOR_SCALAR-05", {**bits, "op0": ops["bitwise_or"], "operand0": 1.5}
    yield "TENSOR_SCALAR-07", {**tile, "op0": ops["add"], "operand0": 1.0, "engine": Engine.gpsimd}
    yield "TENSOR_SCALAR-08", {**tile, "op0": ops["abs"], "operand0": 1.0}
    yield "TENSOR_SCALAR-08", {**tile, "op0": ops["add"], "operand0": None}
    yield "TENSOR_SCALAR-12", {**tile, "op0": ops["exp"], "operand0": 0.0}
    yield "TENSOR_SCALAR-06", {**tile, "op0": ops["subtract"], "operand0": 1.0, "engine": Engine.scalar}
    if t.generation < 4:
        yield "TENSOR_SCALAR-09", {**tile, "op0": ops["relu"], "operand0": 0.0}
        yield "GEN-27", {**tile, "op0": ops["abs_max"], "operand0": 0.0}

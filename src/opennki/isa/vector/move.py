"""Rows that copy, fill and invert tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opennki.ir.dtypes import DTypeInfo
from opennki.ir.types import Engine
from opennki.isa.activations import reciprocal as _inverse
from opennki.isa.checks import Numbers, any_columns, equal_free, equal_partitions, rule
from opennki.isa.cost import MIN_II, Cost, cycles
from opennki.isa.define import ON_CHIP, Call, Load, instruction, reads, writes
from opennki.isa.layout import Tile
from opennki.isa.samples import Sampler

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]


def _scalar_on_gen2(call: Call) -> Numbers:
    if call.engine is Engine.scalar and call.generation == 2:
        return {"role": "engine"}
    return None


def _columns_engine(call: Call) -> Numbers:
    if call.engine is Engine.gpsimd and any_columns(call):
        return {"role": "engine", "engine": call.engine.name}
    return None


@instruction(
    engines=(Engine.vector, Engine.scalar, Engine.gpsimd),
    dst=writes(ON_CHIP, load=Load.RAW, columns=True),
    src=reads(ON_CHIP, load=Load.RAW, columns=True),
    space_rule="TENSOR_COPY-02",
    engine_rule="TENSOR_COPY-03",
    checks=(
        equal_partitions("TENSOR_COPY-01", "dst", "src"),
        equal_free("TENSOR_COPY-01", "dst", "src"),
        rule(
            "ONKI207",
            "TENSOR_COPY-04",
            "`{instruction}` does not run on the scalar engine of {target}",
            _scalar_on_gen2,
            help="write `nisa.activation(dst=…, op=nl.copy, data=…)`, or use the vector engine",
        ),
        rule(
            "ONKI206",
            "TENSOR_COPY-05",
            "`{instruction}` of an `.indirect()` view runs on the vector or scalar engine, not on {engine}",
            _columns_engine,
            help="leave `engine` out",
        ),
    ),
    source="nki/api/nki/isa/__init__.py:384",
)
def tensor_copy(dst: Tile, src: Tile, engine: Engine = Engine.unknown, name: str | None = None) -> None:
    """Copy `src` to `dst` on chip, `[P<=128, free]`, equal partitions and elements per partition.

    Equal dtypes copy bits. Unequal ones convert through float32: integers above 2**24 lose bits, integers are
    rounded to even and saturated. Vector, Scalar (not on trn1) or GpSimd (no PSUM). Both may be `.indirect()`
    views, on Vector and Scalar.

    Errors: ONKI201, ONKI205, ONKI206, ONKI207. Source: nki/api/nki/isa/__init__.py:384.
    """


@tensor_copy.semantics
def _copy(src: Any) -> Any:
    return src


@tensor_copy.cost
def _copy_cost(call: Call) -> Cost:
    return cycles(call.free("dst"))


@tensor_copy.samples
def _copy_samples(t: Sampler) -> Samples:
    yield {"dst": t.sbuf(128, 512), "src": t.psum(128, 512)}
    yield {"dst": t.sbuf(1, 1), "src": t.sbuf(1, 1)}
    yield {"dst": t.sbuf(32, 8, dtype="int8"), "src": t.sbuf(32, 8), "engine": Engine.vector}
    yield {"dst": t.sbuf(16, 4, 6, dtype="bfloat16"), "src": t.sbuf(16, 24, dtype="int32")}
    yield {"dst": t.sbuf(64, 8).slice((0, 64), (0, 8, 2)), "src": t.sbuf(64, 4), "engine": Engine.gpsimd}
    if t.generation >= 3:
        yield {"dst": t.psum(64, 8), "src": t.sbuf(64, 8), "engine": Engine.scalar}


@tensor_copy.rejects
def _copy_rejects(t: Sampler) -> Rejects:
    yield "TENSOR_COPY-01", {"dst": t.sbuf(128, 8), "src": t.sbuf(64, 8)}
    yield "TENSOR_COPY-01", {"dst": t.sbuf(128, 8), "src": t.sbuf(128, 9)}
    yield "TENSOR_COPY-02", {"dst": t.hbm(128, 8), "src": t.sbuf(128, 8)}
    yield "GEN-15", {"dst": t.sbuf(8, 8), "src": t.psum(8, 8), "engine": Engine.gpsimd}
    yield "TENSOR_COPY-03", {"dst": t.sbuf(8, 8), "src": t.sbuf(8, 8), "engine": Engine.tensor}
    if t.generation == 2:
        yield "TENSOR_COPY-04", {"dst": t.sbuf(8, 8), "src": t.sbuf(8, 8), "engine": Engine.scalar}


def _unfit_value(call: Call) -> Numbers:
    dst, value = call.tile("dst"), call.operands["value"]
    info = dst.info
    if info.kind == "packed":
        return {"dtype": dst.dtype, "value": value, "why": "packed elements take 0 only"} if value else None
    if not info.is_integer:
        return None
    if isinstance(value, float):
        return {"dtype": dst.dtype, "value": value, "why": "it is a float", "rule": "MEMSET-04"}
    limits = np.iinfo(info.storage)
    if not limits.min <= value <= limits.max:
        return {"dtype": dst.dtype, "value": value, "why": f"{dst.dtype} holds {limits.min} to {limits.max}"}
    return None


@instruction(
    engines=(Engine.vector, Engine.gpsimd),
    dst=writes(ON_CHIP),
    value=reads(frozenset(), load=Load.RAW, number=True, keyed=True),
    engine_rule="MEMSET-01",
    checks=(
        rule(
            "ONKI206",
            "MEMSET-03",
            "`{instruction}` cannot fill {dtype} with {value}: {why}",
            _unfit_value,
            help="give a value that {dtype} can hold: an int for an integer dtype",
        ),
    ),
    source="nki/api/nki/isa/__init__.py:431",
)
def memset(dst: Tile, value: float, engine: Engine = Engine.unknown, name: str | None = None) -> None:
    """Fill `dst`, a tile `[P<=128, free]` in SBUF or PSUM, with a number known while tracing.

    Integers are exact; other values are rounded to `dst.dtype` from float32. Packed x4 dtypes take 0 only.

    Errors: ONKI101 (no number), ONKI206 (a value that the dtype cannot hold).
    Source: nki/api/nki/isa/__init__.py:431.
    """


@memset.semantics
def _fill(value: Any, *, out: DTypeInfo) -> Any:
    if out.is_integer or out.kind == "packed":
        return np.asarray(int(value), dtype=out.storage)
    return np.float32(value)


@memset.cost
def _fill_cost(call: Call) -> Cost:
    dst = call.tile("dst")
    is_zero_16bit = call.operands["value"] == 0 and dst.info.bytes == 2
    return cycles(max(MIN_II, dst.free_elements / (2 if is_zero_16bit else 1)))


@memset.samples
def _fill_samples(t: Sampler) -> Samples:
    yield {"dst": t.sbuf(128, 512), "value": 0.0}
    yield {"dst": t.psum(16, 8), "value": -0.0}
    yield {"dst": t.sbuf(4, 3, dtype="int32"), "value": 16777217}
    yield {"dst": t.sbuf(4, 3, dtype="uint8"), "value": 255}
    yield {"dst": t.sbuf(4, 3, dtype="bfloat16"), "value": 1.0000001, "engine": Engine.gpsimd}
    yield {"dst": t.sbuf(4, 3, dtype="bool"), "value": 2.0}
    yield {"dst": t.sbuf(4, 3, dtype="float8_e4m3fn_x4"), "value": 0}


@memset.rejects
def _fill_rejects(t: Sampler) -> Rejects:
    yield "MEMSET-03", {"dst": t.sbuf(4, 3, dtype="float8_e4m3fn_x4"), "value": 1}
    yield "MEMSET-03", {"dst": t.sbuf(4, 3, dtype="uint8"), "value": 256}
    yield "MEMSET-04", {"dst": t.sbuf(4, 3, dtype="int32"), "value": 2.0}
    yield "MEMSET-01", {"dst": t.sbuf(4, 3), "value": 0.0, "engine": Engine.scalar}
    yield "GEN-15", {"dst": t.psum(4, 3), "value": 0.0, "engine": Engine.gpsimd}
    yield "GEN-SPACE", {"dst": t.hbm(4, 3), "value": 0.0}


@instruction(
    engines=(Engine.vector,),
    dst=writes(ON_CHIP),
    data=reads(ON_CHIP),
    checks=(
        equal_partitions("RECIPROCAL-01", "dst", "data"),
        equal_free("RECIPROCAL-01", "dst", "data"),
    ),
    source="nki/api/nki/isa/__init__.py:2388",
)
def reciprocal(dst: Tile, data: Tile, name: str | None = None) -> None:
    """Write 1/data to `dst` on the Vector engine, both `[P<=128, free]` in SBUF or PSUM.

    float32 inside, one rounding to `dst.dtype`; 1/0 is infinity with the sign of the zero.

    Errors: ONKI201, ONKI205. Source: nki/api/nki/isa/__init__.py:2388.
    """


@reciprocal.semantics
def _reciprocal(data: Any) -> Any:
    return _inverse(data)


@reciprocal.cost
def _reciprocal_cost(call: Call) -> Cost:
    return cycles(8 * call.free("dst"))


@reciprocal.samples
def _reciprocal_samples(t: Sampler) -> Samples:
    yield {"dst": t.sbuf(128, 64), "data": t.psum(128, 64)}
    yield {"dst": t.sbuf(1, 1, dtype="bfloat16"), "data": t.sbuf(1, 1, dtype="int32")}


@reciprocal.rejects
def _reciprocal_rejects(t: Sampler) -> Rejects:
    yield "RECIPROCAL-01", {"dst": t.sbuf(128, 64), "data": t.sbuf(128, 63)}
    yield "RECIPROCAL-01", {"dst": t.sbuf(128, 64), "data": t.sbuf(127, 64)}
    yield "GEN-SPACE", {"dst": t.sbuf(128, 64), "data": t.hbm(128, 64)}

"""The transpose of the Tensor and Vector engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opennki.ir.types import Engine, Space
from opennki.isa.checks import Numbers, equal_dtypes, rule
from opennki.isa.cost import MIN_II, Cost, cycles
from opennki.isa.define import ON_CHIP, Call, Load, instruction, reads, writes
from opennki.isa.layout import Tile
from opennki.isa.samples import Sampler
from opennki.isa.tensor.matmul import ARRAY
from opennki.targets import Target

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]

_VECTOR_BLOCK = 32  # rows and columns that the Vector engine transposes, nki/api/nki/isa/__init__.py:829


def _transpose_engine(call: Call) -> Engine:
    """Tensor where the spaces fit it (SBUF to PSUM), Vector otherwise."""
    fits = call.tile("data").space is Space.sbuf and call.tile("dst").space is Space.psum
    return Engine.tensor if fits else Engine.vector


def _transpose_spaces(call: Call) -> Numbers:
    if call.engine is not Engine.tensor:
        return None
    data, dst = call.tile("data"), call.tile("dst")
    if data.space is Space.sbuf and dst.space is Space.psum:
        return None
    role = "data" if data.space is not Space.sbuf else "dst"
    return {"data": data.space.value, "dst": dst.space.value, "role": role}


def _transpose_shape(call: Call) -> Numbers:
    data, dst = call.tile("data"), call.tile("dst")
    wanted, got = [data.free_elements, data.partitions], [dst.partitions, dst.free_elements]
    return None if wanted == got else {"wanted": wanted, "got": got, "role": "dst"}


def _transpose_size(call: Call) -> Numbers:
    limit = _VECTOR_BLOCK if call.engine is Engine.vector else ARRAY
    data = call.tile("data")
    got = [data.partitions, data.free_elements]
    if max(got) <= limit:
        return None
    return {"engine": call.engine.name, "limit": [limit, limit], "got": got, "role": "data"}


def _inexact_transpose(call: Call) -> Numbers:
    if call.engine is Engine.tensor and call.generation == 2 and call.tile("data").info.is_float:
        return {"role": "data"}
    return None


def _wide_fp8(call: Call) -> Numbers:
    if call.engine is Engine.tensor and call.generation == 3 and call.tile("data").info.bytes == 1:
        return {"dtype": call.tile("dst").dtype, "role": "dst"}
    return None


@instruction(
    engines=(Engine.tensor, Engine.vector),
    choose=_transpose_engine,
    space_rule="NC_TRANSPOSE-01",
    engine_rule="NC_TRANSPOSE-04",
    dst=writes(ON_CHIP, load=Load.RAW),
    data=reads(ON_CHIP, load=Load.RAW),
    checks=(
        equal_dtypes("NC_TRANSPOSE-02", "data", "dst"),
        rule(
            "ONKI201",
            "NC_TRANSPOSE-01",
            "`{instruction}` on the tensor engine goes from sbuf to psum, "
            "`data` is in {data}, `dst` in {dst}",
            _transpose_spaces,
            help="use the vector engine for tiles up to [32, 32], or allocate `dst` in psum",
        ),
        rule(
            "ONKI205",
            "NC_TRANSPOSE-07",
            "`{instruction}` turns `data` into {wanted}, `dst` is {got}",
            _transpose_shape,
            help="allocate `dst` as {wanted}",
        ),
        rule(
            "ONKI204",
            "NC_TRANSPOSE-03",
            "`{instruction}` on the {engine} engine takes {limit} at most, `data` is {got}",
            _transpose_size,
            help="split `data`, or use the tensor engine (sbuf to psum) for tiles up to [128, 128]",
        ),
        rule(
            "ONKI404",
            "NC_TRANSPOSE-05",
            "`{instruction}` on the tensor engine of {target} spreads NaN and infinities of `data`",
            _inexact_transpose,
            help="replace them first, use the vector engine, or trace for trn2 or trn3",
            warning=True,
        ),
        rule(
            "ONKI404",
            "NC_TRANSPOSE-06",
            "documents disagree on `{instruction}` of 8-bit data on {target}: one says `dst` keeps {dtype}, "
            "another that psum receives 16-bit elements",
            _wide_fp8,
            help="check on hardware",
            warning=True,
        ),
    ),
    source="nki/api/nki/isa/__init__.py:829",
)
def nc_transpose(dst: Tile, data: Tile, engine: Engine = Engine.unknown, name: str | None = None) -> None:
    """Write `data`, `[P, free]` with its free axes flattened, transposed to `dst`, `[free, P]`.

    Tensor engine: from SBUF to PSUM, up to `[128, 128]`. Vector engine: SBUF or PSUM on both sides, up to
    `[32, 32]`. One dtype on both sides; bits are kept, but for NaN and infinities on trn1's Tensor engine,
    which multiplies by an identity matrix.

    Errors: ONKI201, ONKI202, ONKI204, ONKI205, ONKI206. Source: nki/api/nki/isa/__init__.py:829.
    """


@nc_transpose.semantics
def _nc_transpose(data: Any, *, engine: Engine, target: Target) -> Any:
    if engine is Engine.tensor and target.generation == 2:
        values = data.astype(np.float32)
        if not np.isfinite(values).all():  # what a product with the identity does to them
            return np.matmul(values.T, np.eye(data.shape[0], dtype=np.float32))
    return data.T


@nc_transpose.cost
def _nc_transpose_cost(call: Call) -> Cost:
    data = call.tile("data")
    if call.engine is Engine.vector:
        return cycles(data.free_elements)
    return cycles(max(data.partitions, min(MIN_II, data.free_elements)))


@nc_transpose.samples
def _nc_transpose_samples(t: Sampler) -> Samples:
    yield {"dst": t.psum(128, 128), "data": t.sbuf(128, 128)}
    yield {"dst": t.psum(12, 8, dtype="bfloat16"), "data": t.sbuf(8, 3, 4, dtype="bfloat16")}
    yield {"dst": t.sbuf(32, 32), "data": t.psum(32, 32), "engine": Engine.vector}
    yield {"dst": t.sbuf(1, 5, dtype="int32"), "data": t.sbuf(5, 1, dtype="int32")}


@nc_transpose.rejects
def _nc_transpose_rejects(t: Sampler) -> Rejects:
    yield "NC_TRANSPOSE-01", {"dst": t.sbuf(8, 8), "data": t.sbuf(8, 8), "engine": Engine.tensor}
    yield "NC_TRANSPOSE-02", {"dst": t.psum(8, 8), "data": t.sbuf(8, 8, dtype="bfloat16")}
    yield "NC_TRANSPOSE-03", {"dst": t.psum(128, 33), "data": t.sbuf(33, 128), "engine": Engine.vector}
    yield "NC_TRANSPOSE-03", {"dst": t.sbuf(33, 32), "data": t.sbuf(32, 33)}
    yield "NC_TRANSPOSE-07", {"dst": t.psum(8, 9), "data": t.sbuf(8, 9)}
    yield "NC_TRANSPOSE-04", {"dst": t.psum(8, 8), "data": t.sbuf(8, 8), "engine": Engine.scalar}

"""The matrix product of the Tensor engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opennki.ir.dtypes import DTypeInfo
from opennki.ir.types import Engine
from opennki.isa.attributes import Ints
from opennki.isa.checks import Numbers, any_columns, dtype_among, equal_partitions, rule
from opennki.isa.cost import MIN_II, Cost, cycles
from opennki.isa.define import PSUM, SBUF, Call, Load, accumulates, instruction, reads
from opennki.isa.enums import MatmulPerfMode
from opennki.isa.layout import Tile, TileLayout
from opennki.isa.samples import Sampler
from opennki.targets import Target

__all__ = ["ARRAY", "nc_matmul"]

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]

_FP8 = ("float8_e4m3", "float8_e5m2")
_NARROW = (*_FP8, "bfloat16", "float16")
_WIDE = ("tfloat32", "float32")
ARRAY = 128  # rows and columns of the systolic array, trainium_inferentia2_arch.rst


def _inputs(call: Call) -> tuple[str, ...]:
    return (*_NARROW, *_WIDE) + (("float8_e4m3fn",) if call.generation >= 4 else ())


def _is_double(call: Call) -> bool:
    return call.attrs["perf_mode"] is MatmulPerfMode.double_row


def _columns(call: Call, role: str) -> int:
    """Free size of an input as the product sees it: half of the elements when two rows are contracted."""
    return call.free(role) // (2 if _is_double(call) else 1)


def _mixed_widths(call: Call) -> Numbers:
    a, b = call.tile("stationary").dtype, call.tile("moving").dtype
    return {"first": a, "second": b, "role": "moving"} if (a in _WIDE) != (b in _WIDE) else None


def _mixed_fp8(call: Call) -> Numbers:
    pair = {call.tile("stationary").dtype, call.tile("moving").dtype}
    return {"role": "moving"} if pair == {"float8_e4m3", "float8_e4m3fn"} else None


def _dst_dtype(call: Call) -> Numbers:
    dst = call.tile("dst").dtype
    if call.attrs["is_transpose"] and call.generation >= 3:
        return _transposed_dtype(call.tile("stationary"), dst)
    allowed = call.target.matmul_dst_dtypes
    if dst in allowed:
        return None
    return {"role": "dst", "dtype": dst, "allowed": " or ".join(allowed), "why": f"on {call.target.name}"}


def _transposed_dtype(data: TileLayout, dst: str) -> Numbers:
    allowed = (data.dtype, "bfloat16", "float16", "uint16") if data.info.bytes == 1 else (data.dtype,)
    if dst in allowed:
        return None
    return {
        "role": "dst",
        "dtype": dst,
        "allowed": " or ".join(allowed),
        "why": f"for a transpose of {data.dtype}",
    }


def _too_deep(call: Call) -> Numbers:
    size = call.attrs["tile_size"]
    limit = size[0] if len(size) == 2 else ARRAY
    got = call.tile("stationary").partitions
    return {"got": got, "limit": limit, "role": "stationary"} if got > limit else None


def _too_tall(call: Call) -> Numbers:
    size = call.attrs["tile_size"]
    limit = size[1] if len(size) == 2 else call.target.gemm_stationary_fmax
    got = _columns(call, "stationary")
    return {"got": got, "limit": limit, "role": "stationary"} if got > limit else None


def _too_wide(call: Call) -> Numbers:
    dst = call.tile("dst").dtype
    limits = dict(call.target.gemm_moving_fmax)
    limit = limits.get(dst, limits["float32"])
    got = _columns(call, "moving")
    rule_id = "NC_MATMUL-09" if call.generation < 4 else "NC_MATMUL-10"
    return {"got": got, "limit": limit, "role": "moving", "rule": rule_id} if got > limit else None


def _result_shape(call: Call) -> Numbers:
    wanted = [_columns(call, "stationary"), _columns(call, "moving")]
    got = [call.tile("dst").partitions, call.free("dst")]
    return None if wanted == got else {"wanted": wanted, "got": got, "role": "dst"}


def _over_bank(call: Call) -> Numbers:
    if call.generation >= 4:
        return None
    dst = call.tile("dst")
    reach = 1 + sum(step * (count - 1) for step, count in dst.record.pattern[1:])
    end = dst.record.bank_offset_bytes + reach * dst.info.bytes
    limit = call.target.psum_bank_bytes_per_partition
    return (
        {"end": end, "start": dst.record.bank_offset_bytes, "limit": limit, "role": "dst"}
        if end > limit
        else None
    )


def _no_perf_mode(call: Call) -> Numbers:
    return {"role": "perf_mode"} if _is_double(call) and call.generation < 3 else None


def _double_dtype(call: Call) -> Numbers:
    allowed = _FP8 + (("float8_e4m3fn",) if call.generation >= 4 else ())
    for role in ("stationary", "moving"):
        if _is_double(call) and call.tile(role).dtype not in allowed:
            return {"role": role, "dtype": call.tile(role).dtype, "allowed": " or ".join(allowed)}
    return None


def _double_shape(call: Call) -> Numbers:
    for role in ("stationary", "moving"):
        shape = call.tile(role).shape
        if _is_double(call) and (len(shape) < 3 or shape[1] != 2):
            return {"role": role, "shape": list(shape)}
    return None


def _double_columns(call: Call) -> Numbers:
    size = call.attrs["tile_size"]
    return (
        {"size": size[1], "role": "tile_size"}
        if _is_double(call) and len(size) == 2 and size[1] != ARRAY
        else None
    )


def _double_transpose(call: Call) -> Numbers:
    return {"role": "is_transpose"} if _is_double(call) and call.attrs["is_transpose"] else None


def _half_tiling(call: Call) -> Numbers:
    position, size = call.attrs["tile_position"], call.attrs["tile_size"]
    if len(position) == len(size) and len(size) in (0, 2):
        return None
    return {
        "position": list(position),
        "size": list(size),
        "role": "tile_position" if position else "tile_size",
    }


def _tile_sizes(call: Call) -> Numbers:
    allowed = (128, 64) if call.generation == 2 else (128, 64, 32)
    for size in call.attrs["tile_size"]:
        if size not in allowed:
            return {"size": size, "allowed": ", ".join(map(str, allowed)), "role": "tile_size"}
    return None


def _tile_start(call: Call) -> Numbers:
    position, size = call.attrs["tile_position"], call.attrs["tile_size"]
    for what, start, extent in zip(("row", "column"), position, size, strict=False):
        if extent > 0 and (start < 0 or start % extent or start + extent > ARRAY):
            return {"what": what, "start": start, "extent": extent, "role": "tile_position"}
    return None


def _column_tiling(call: Call) -> Numbers:
    position, size = call.attrs["tile_position"], call.attrs["tile_size"]
    if len(size) == 2 and len(position) == 2 and (position[1] != 0 or size[1] != ARRAY):
        return {"column": position[1], "size": size[1], "role": "tile_size"}
    return None


def _columns_transpose(call: Call) -> Numbers:
    return {"role": "moving"} if call.attrs["is_transpose"] and any_columns(call, "moving") else None


def _columns_position(call: Call) -> Numbers:
    position = call.attrs["tile_position"]
    if any_columns(call) and any(position or ()):
        return {"position": list(position), "role": "tile_position"}
    return None


def _columns_dtype(call: Call) -> Numbers:
    allowed = (*_NARROW, "float8_e4m3fn")
    for role in ("stationary", "moving"):
        dtype = call.tile(role).dtype
        if any_columns(call, role) and dtype not in allowed:
            return {"role": role, "dtype": dtype, "allowed": " or ".join(allowed)}
    return None


_SHAPE_HELP = "allocate `dst` as {wanted}, float32 in psum"


@instruction(
    engines=(Engine.tensor,),
    space_rule="NC_MATMUL-01",
    dst=accumulates(PSUM, when=lambda attrs: attrs["accumulate"], columns=True),
    stationary=reads(SBUF, load=lambda call: _matmul_load(call), columns=True),
    moving=reads(SBUF, load=lambda call: _matmul_load(call), columns=True),
    checks=(
        dtype_among("NC_MATMUL-02", "stationary", _inputs),
        dtype_among("NC_MATMUL-02", "moving", _inputs),
        rule(
            "ONKI202",
            "NC_MATMUL-03",
            "`{instruction}` cannot mix float8_e4m3 and float8_e4m3fn",
            _mixed_fp8,
            help="convert one of the two with `nisa.tensor_copy`",
        ),
        rule(
            "ONKI202",
            "NC_MATMUL-04",
            "`{instruction}` takes float32 with float32 only: `stationary` is {first}, `moving` is {second}",
            _mixed_widths,
            help="convert one of the two with `nisa.tensor_copy`",
        ),
        rule(
            "ONKI202",
            "NC_MATMUL-05",
            "`{instruction}` needs `dst` in {allowed} {why}, got {dtype}",
            _dst_dtype,
            help="allocate the psum tile as {allowed} and convert with `nisa.tensor_copy` afterwards",
        ),
        equal_partitions("NC_MATMUL-06", "stationary", "moving"),
        rule(
            "ONKI206",
            "NC_MATMUL-18",
            "`{instruction}` needs two numbers each for `tile_position` and `tile_size`, "
            "got {position} and {size}",
            _half_tiling,
            help="give both, for example `tile_position=(0, 0), tile_size=(64, 128)`, or neither",
        ),
        rule(
            "ONKI206",
            "NC_MATMUL-19",
            "`{instruction}` has no array tiles of {size} on {target}, only of {allowed}",
            _tile_sizes,
            help="use one of {allowed}",
        ),
        rule(
            "ONKI206",
            "NC_MATMUL-20",
            "`{instruction}` must start its array tile on a multiple of {extent} within 128, "
            "the {what} starts on {start}",
            _tile_start,
            help="choose the start from the multiples of {extent}",
        ),
        rule(
            "ONKI207",
            "NC_MATMUL-13",
            "`{instruction}` has no perf_mode on {target}",
            _no_perf_mode,
            help="leave `perf_mode` out, or trace for trn2 or trn3",
        ),
        rule(
            "ONKI202",
            "NC_MATMUL-14",
            "`{instruction}` with double_row needs `{role}` in {allowed}, got {dtype}",
            _double_dtype,
            help="convert `{role}` to {allowed}",
        ),
        rule(
            "ONKI205",
            "NC_MATMUL-15",
            "`{instruction}` with double_row needs `{role}` as [K, 2, columns], got {shape}",
            _double_shape,
            help="allocate `{role}` as [K, 2, columns]: two contracted rows in each partition",
        ),
        rule(
            "ONKI203",
            "NC_MATMUL-07",
            "`{instruction}` can contract {limit} partitions, `stationary` has {got}",
            _too_deep,
            help="contract in steps of {limit} partitions and accumulate",
        ),
        rule(
            "ONKI204",
            "NC_MATMUL-08",
            "`{instruction}` can take {limit} columns of `stationary`, it has {got}",
            _too_tall,
            help="split `stationary` along its free axis in steps of {limit}",
        ),
        rule(
            "ONKI204",
            "NC_MATMUL-09",
            "`{instruction}` can take {limit} columns of `moving` on {target}, it has {got}",
            _too_wide,
            help="split `moving` along its free axis in steps of {limit}",
        ),
        rule(
            "ONKI205",
            "NC_MATMUL-11",
            "`{instruction}` gives {wanted} (columns of `stationary`, columns of `moving`), `dst` is {got}",
            _result_shape,
            help=_SHAPE_HELP,
        ),
        rule(
            "ONKI204",
            "NC_MATMUL-12",
            "`{instruction}` must write within one psum bank of {limit} bytes per partition on {target}, "
            "`dst` spans bytes {start} to {end}",
            _over_bank,
            help="start `dst` on a bank (a multiple of 512 float32 elements), or split `moving`",
        ),
        rule(
            "ONKI206",
            "NC_MATMUL-16",
            "`{instruction}` cannot combine double_row with column tiles of {size}",
            _double_columns,
            help="use `tile_size=(rows, 128)`",
        ),
        rule(
            "ONKI206",
            "NC_MATMUL-17",
            "`{instruction}` cannot combine double_row with is_transpose",
            _double_transpose,
            help="leave one of the two out",
        ),
        rule(
            "ONKI206",
            "NC_MATMUL-29",
            "`{instruction}` with is_transpose takes no `.indirect()` view as `moving`",
            _columns_transpose,
            help="gather `moving` into a tile with `nisa.tensor_copy` first",
        ),
        rule(
            "ONKI206",
            "NC_MATMUL-30",
            "`{instruction}` of an `.indirect()` view must start its array tile at (0, 0), not at {position}",
            _columns_position,
            help="leave `tile_position` and `tile_size` out",
        ),
        rule(
            "ONKI202",
            "NC_MATMUL-31",
            "`{instruction}` takes an `.indirect()` view as `{role}` in {allowed}, got {dtype}",
            _columns_dtype,
            help="convert `{role}` to bfloat16 with `nisa.tensor_copy` first",
        ),
        rule(
            "ONKI404",
            "NC_MATMUL-23",
            "documents disagree on column tiling: one allows start_column {column} with column_size {size}, "
            "another only 0 with 128",
            _column_tiling,
            help="check on hardware, or use row tiling only",
            warning=True,
        ),
    ),
    source="nki/api/nki/isa/__init__.py:489",
)
def nc_matmul(
    dst: Tile,
    stationary: Tile,
    moving: Tile,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: Ints | None = (),
    tile_size: Ints | None = (),
    perf_mode: MatmulPerfMode = MatmulPerfMode.none,
    name: str | None = None,
) -> None:
    """Write or add `stationary.T @ moving` to `dst`: `[K<=128, M<=128]`, `[K, N]` in SBUF, `[M, N]` in PSUM.

    N is at most 512 on trn1 and trn2 (one psum bank), 4096 (float32) or 8192 (bfloat16) on trn3. Products and
    sums in float32; `dst` is float32, on trn3 also bfloat16. `accumulate` False overwrites, True adds, None
    adds where the psum element has been written since its allocation and overwrites elsewhere. `double_row`
    contracts `[K, 2, …]` fp8 tiles over K and the axis of 2. `is_transpose` (from trn2) moves bits: with an
    identity matrix as `moving` the result is `stationary` transposed, NaN and infinities included.
    `tile_position` and `tile_size` pick a part of the 128 x 128 array; the result does not depend on them.

    Errors: ONKI201 to ONKI207. Source: nki/api/nki/isa/__init__.py:489.
    """


def _matmul_load(call: Call) -> Load:
    return Load.RAW if call.attrs["is_transpose"] and call.generation >= 3 else Load.F32


def _is_identity(x: Any) -> bool:
    return x.shape[0] == x.shape[1] and bool(np.array_equal(x, np.eye(x.shape[0], dtype=x.dtype)))


def _moved(bits: Any, out: DTypeInfo) -> Any:
    """Elements moved as bits; 8-bit ones land in the low half of 16-bit elements (trainium2_arch.rst:204)."""
    if bits.dtype.itemsize == 1 and out.bytes == 2:
        return np.ascontiguousarray(bits).view(np.uint8).astype(np.uint16).view(out.storage)
    return bits


@nc_matmul.semantics
def _nc_matmul(
    stationary: Any,
    moving: Any,
    *,
    is_transpose: bool,
    perf_mode: MatmulPerfMode,
    out: DTypeInfo,
    target: Target,
    **_: Any,
) -> Any:
    if is_transpose and target.generation >= 3:
        if _is_identity(moving):
            return _moved(stationary.T, out)
        if _is_identity(stationary):
            return _moved(moving, out)
        stationary, moving = stationary.astype(np.float32), moving.astype(np.float32)
    if perf_mode is MatmulPerfMode.double_row:
        rows = 2 * stationary.shape[0]
        stationary, moving = stationary.reshape(rows, -1), moving.reshape(rows, -1)
    return np.matmul(stationary.T, moving)


@nc_matmul.cost
def _nc_matmul_cost(call: Call) -> Cost:
    passes = 4 if call.tile("moving").dtype == "float32" else 1
    return cycles(passes * max(min(MIN_II, _columns(call, "stationary")), _columns(call, "moving")))


@nc_matmul.samples
def _nc_matmul_samples(t: Sampler) -> Samples:
    bf16, fp8 = "bfloat16", "float8_e4m3"
    square = {
        "dst": t.psum(128, 512),
        "stationary": t.sbuf(128, 128, dtype=bf16),
        "moving": t.sbuf(128, 512, dtype=bf16),
    }
    yield square
    for accumulate in (True, False):
        yield {**square, "accumulate": accumulate}
    yield {"dst": t.psum(1, 1), "stationary": t.sbuf(1, 1), "moving": t.sbuf(1, 1)}
    yield {"dst": t.psum(3, 5), "stationary": t.sbuf(7, 3), "moving": t.sbuf(7, 5), "is_moving_onezero": True}
    yield {
        "dst": t.psum(16, 8, 4),
        "stationary": t.sbuf(64, 16, dtype=fp8),
        "moving": t.sbuf(64, 8, 4, dtype="float8_e5m2"),
        "tile_position": (64, 0),
        "tile_size": (64, 128),
    }
    if t.generation >= 3:
        yield {
            "dst": t.psum(16, 24, dtype=bf16),
            "stationary": t.sbuf(24, 16, dtype=bf16),
            "moving": t.sbuf(24, 24, dtype=bf16),
            "is_transpose": True,
        }
        yield {
            "dst": t.psum(4, 6),
            "stationary": t.sbuf(128, 2, 4, dtype=fp8),
            "moving": t.sbuf(128, 2, 6, dtype=fp8),
            "perf_mode": MatmulPerfMode.double_row,
        }
    if t.generation >= 4:
        yield {
            "dst": t.psum(16, 8192, dtype=bf16),
            "stationary": t.sbuf(8, 16, dtype=bf16),
            "moving": t.sbuf(8, 8192, dtype=bf16),
        }


@nc_matmul.rejects
def _nc_matmul_rejects(t: Sampler) -> Rejects:
    bf16 = "bfloat16"
    small = {"dst": t.psum(8, 4), "stationary": t.sbuf(16, 8), "moving": t.sbuf(16, 4)}
    yield "NC_MATMUL-01", {**small, "dst": t.sbuf(8, 4)}
    yield "NC_MATMUL-01", {**small, "moving": t.psum(16, 4)}
    yield "NC_MATMUL-02", {**small, "moving": t.sbuf(16, 4, dtype="int32")}
    yield "NC_MATMUL-04", {**small, "moving": t.sbuf(16, 4, dtype=bf16)}
    yield "NC_MATMUL-05", {**small, "dst": t.psum(8, 4, dtype="float16")}
    yield "NC_MATMUL-06", {**small, "moving": t.sbuf(15, 4)}
    yield "NC_MATMUL-07", {**small, "tile_position": (0, 0), "tile_size": (64, 128), **_deep(t)}
    yield "NC_MATMUL-08", {**small, "dst": t.psum(128, 4), "stationary": t.sbuf(16, 129)}
    yield "NC_MATMUL-11", {**small, "dst": t.psum(8, 5)}
    yield "NC_MATMUL-18", {**small, "tile_size": (64, 128)}
    yield "NC_MATMUL-19", {**small, "tile_position": (0, 0), "tile_size": (48, 128)}
    yield "NC_MATMUL-20", {**small, "tile_position": (32, 0), "tile_size": (64, 128)}
    double = {"perf_mode": MatmulPerfMode.double_row}
    if t.generation < 3:
        yield "NC_MATMUL-13", {**small, **double}
        yield "NC_MATMUL-19", {**small, "tile_position": (0, 0), "tile_size": (32, 128)}
    else:
        fp8 = {
            "dst": t.psum(4, 6),
            "stationary": t.sbuf(16, 2, 4, dtype="float8_e4m3"),
            "moving": t.sbuf(16, 2, 6, dtype="float8_e4m3"),
            **double,
        }
        yield "NC_MATMUL-14", {**fp8, "moving": t.sbuf(16, 2, 6, dtype=bf16)}
        yield "NC_MATMUL-15", {**fp8, "moving": t.sbuf(16, 12, dtype="float8_e4m3")}
        yield "NC_MATMUL-16", {**fp8, "tile_position": (0, 0), "tile_size": (128, 64)}
        yield "NC_MATMUL-17", {**fp8, "is_transpose": True, "dst": t.psum(4, 6, dtype="float8_e4m3")}
    if t.generation < 4:
        yield "NC_MATMUL-09", {**small, "dst": t.psum(8, 513), "moving": t.sbuf(16, 513)}
        window = t.psum(8, 1024).slice((0, 8), (256, 768))
        yield "NC_MATMUL-12", {**small, "dst": window, "moving": t.sbuf(16, 512)}
        yield "NC_MATMUL-02", {**small, "moving": t.sbuf(16, 4, dtype="float8_e4m3fn")}
    else:
        yield (
            "NC_MATMUL-10",
            {
                "dst": t.psum(8, 4096),
                "stationary": t.sbuf(16, 8),
                "moving": t.sbuf(16, 4097),
            },
        )
        yield (
            "NC_MATMUL-03",
            {
                **small,
                "stationary": t.sbuf(16, 8, dtype="float8_e4m3"),
                "moving": t.sbuf(16, 4, dtype="float8_e4m3fn"),
            },
        )


def _deep(t: Sampler) -> dict[str, Any]:
    return {"stationary": t.sbuf(65, 8), "moving": t.sbuf(65, 4)}

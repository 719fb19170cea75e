"""The DMA row that adds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np

from opennki.ir.types import Engine, IndexKind
from opennki.isa.attributes import Floats, Op
from opennki.isa.checks import Numbers, rule
from opennki.isa.cost import Cost, dma_time
from opennki.isa.define import HBM, SBUF, Call, instruction, reads, writes
from opennki.isa.enums import OobMode
from opennki.isa.layout import Tile, TileLayout
from opennki.isa.operators import OPERATORS, Operator
from opennki.isa.samples import Sampler

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]

_MAX_SOURCES = 16


def _sources(call: Call) -> tuple[TileLayout, ...]:
    found: tuple[TileLayout, ...] = call.operands["srcs"]
    return found


def _is_indexed(layout: TileLayout) -> bool:
    return layout.record.index is IndexKind.vector


def _reads_and_writes(call: Call) -> bool:
    """True for the read-modify-write forms: a run-time row index on a side."""
    return any(_is_indexed(layout) for layout in (*_sources(call), call.tile("dst")))


def _no_add(call: Call) -> Numbers:
    op: Operator = call.attrs["reduce_op"]
    return None if op.name == "add" else {"op": op.name, "role": "reduce_op"}


def _scaled(call: Call) -> Numbers:
    scales = call.attrs["scales"]
    if scales and any(scale != 1.0 for scale in scales):
        return {"scales": list(scales), "role": "scales"}
    return None


def _too_many(call: Call) -> Numbers:
    count = len(_sources(call))
    return {"count": count, "limit": _MAX_SOURCES, "role": "srcs"} if count > _MAX_SOURCES else None


def _other_count(call: Call) -> Numbers:
    wanted = call.tile("dst").elements
    for i, layout in enumerate(_sources(call)):
        if layout.elements != wanted:
            return {"i": i, "got": layout.elements, "wanted": wanted, "role": "srcs"}
    return None


def _not_two(call: Call) -> Numbers:
    if _reads_and_writes(call) and len(_sources(call)) != 2:
        return {"count": len(_sources(call)), "role": "srcs"}
    return None


def _not_unique(call: Call) -> Numbers:
    return {"role": "unique_indices"} if not call.attrs["unique_indices"] else None


def _odd_form(call: Call) -> Numbers:
    if not _reads_and_writes(call):
        return None
    dst, sources = call.tile("dst"), _sources(call)
    indexed = [layout for layout in sources if _is_indexed(layout)]
    plain = [layout for layout in sources if not _is_indexed(layout)]
    scatter = _is_indexed(dst) and len(indexed) == 1 and all(s.is_on_chip for s in plain)
    gather = not _is_indexed(dst) and dst.is_on_chip and len(indexed) == 1
    return None if scatter or gather else {"role": "srcs"}


def _run_time_address(call: Call) -> Numbers:
    for name, layout in call.layouts():
        if layout.record.index is IndexKind.scalar:
            return {"role": name}
    return None


def _skips_nothing(call: Call) -> Numbers:
    if call.attrs["oob_mode"] is OobMode.skip and not _reads_and_writes(call):
        return {"role": "oob_mode"}
    return None


@instruction(
    engines=(Engine.dma,),
    dst=writes(HBM | SBUF, shaped=True),
    srcs=reads(HBM | SBUF, many=True, shaped=True),
    any_partition=True,
    space_rule="DMA_COMPUTE-05",
    checks=(
        rule(
            "ONKI206",
            "DMA_COMPUTE-01",
            "`{instruction}` can reduce with `nl.add` only, not with `nl.{op}`",
            _no_add,
            help="write `reduce_op=nl.add`",
        ),
        rule(
            "ONKI206",
            "DMA_COMPUTE-02",
            "`{instruction}` takes scales of 1.0 only, got {scales}",
            _scaled,
            help="scale with `nisa.tensor_scalar` first, and leave `scales` out",
        ),
        rule(
            "ONKI204",
            "DMA_COMPUTE-03",
            "`{instruction}` takes {limit} sources at most, got {count}",
            _too_many,
            help="add in several instructions",
        ),
        rule(
            "ONKI205",
            "DMA_COMPUTE-04",
            "`{instruction}` needs equal element counts: `srcs[{i}]` has {got}, `dst` has {wanted}",
            _other_count,
            help="give all of them {wanted} elements",
        ),
        rule(
            "ONKI206",
            "DMA_COMPUTE-07",
            "`{instruction}` with a run-time row index takes two sources, got {count}",
            _not_two,
            help="pass the indexed tensor and the data",
        ),
        rule(
            "ONKI206",
            "DMA_COMPUTE-08",
            "`{instruction}` needs unique_indices=True",
            _not_unique,
            help="make the indices unique, and leave `unique_indices` out",
        ),
        rule(
            "ONKI206",
            "DMA_COMPUTE-06",
            "`{instruction}` needs addresses known before the run, `{role}` has a scalar_offset",
            _run_time_address,
            help="copy that part with `nisa.dma_copy` first",
        ),
        rule(
            "ONKI206",
            "DMA_COMPUTE-11",
            "`{instruction}` skips out-of-bound indices only where it has a `vector_offset`",
            _skips_nothing,
            help="leave `oob_mode` out",
        ),
        rule(
            "ONKI206",
            "DMA_COMPUTE-10",
            "`{instruction}` adds into indexed rows of HBM from SBUF, or from indexed rows of HBM into SBUF, "
            "nothing else",
            _odd_form,
            help="index `dst` and the one source that is the same view, or only a source in HBM",
        ),
    ),
    source="nki/api/nki/isa/__init__.py:2656",
)
def dma_compute(
    dst: Tile,
    srcs: list[Tile],
    reduce_op: Op,
    scales: Floats | None = None,
    unique_indices: bool = True,
    oob_mode: OobMode = OobMode.error,
    name: str | None = None,
) -> None:
    """Write the sum of up to 16 sources to `dst`, all in HBM or SBUF with one number of elements.

    Added in float32, in the order of the list, rounded to `dst.dtype` once. With a run-time row index it is
    a read-modify-write of two sources: scatter (`dst` and one source are the same indexed view in HBM) or
    gather (one source is an indexed view in HBM).

    Errors: ONKI201, ONKI204 to ONKI206. Source: nki/api/nki/isa/__init__.py:2656.
    """


@dma_compute.semantics
def _dma_compute(srcs: list[Any], *, out: Any, **_: Any) -> Any:
    return reduce(np.add, [source.reshape(srcs[0].shape) for source in srcs])


@dma_compute.cost
def _dma_compute_cost(call: Call) -> Cost:
    return dma_time(call, "dst")


@dma_compute.samples
def _dma_compute_samples(t: Sampler) -> Samples:
    add = OPERATORS["add"]
    yield {"dst": t.sbuf(16, 8), "srcs": [t.hbm(16, 8), t.sbuf(16, 8)], "reduce_op": add}
    yield {"dst": t.hbm(4, 2, dtype="bfloat16"), "srcs": [t.hbm(8, dtype="int32")] * 3, "reduce_op": add}
    yield {"dst": t.sbuf(1, 1), "srcs": [t.sbuf(1, 1)], "reduce_op": add, "scales": [1.0]}


@dma_compute.rejects
def _dma_compute_rejects(t: Sampler) -> Rejects:
    call = {"dst": t.sbuf(16, 8), "srcs": [t.hbm(16, 8), t.hbm(16, 8)], "reduce_op": OPERATORS["add"]}
    yield "DMA_COMPUTE-01", {**call, "reduce_op": OPERATORS["multiply"]}
    yield "DMA_COMPUTE-02", {**call, "scales": [1.0, 0.5]}
    yield "DMA_COMPUTE-03", {**call, "srcs": [t.hbm(16, 8)] * 17}
    yield "DMA_COMPUTE-04", {**call, "srcs": [t.hbm(16, 8), t.hbm(16, 7)]}
    yield "DMA_COMPUTE-05", {**call, "srcs": [t.hbm(16, 8), t.psum(16, 8)]}
    yield "DMA_COMPUTE-11", {**call, "oob_mode": OobMode.skip}
    yield "DMA_COMPUTE-08", {**call, "unique_indices": False}

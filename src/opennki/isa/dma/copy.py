"""Rows that move data with the DMA engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opennki.ir.types import Engine, IndexKind
from opennki.isa.checks import Numbers, equal_elements, rule
from opennki.isa.cost import Cost, dma_time
from opennki.isa.define import HBM, SBUF, Call, Load, instruction, reads, writes
from opennki.isa.enums import DgeMode, OobMode
from opennki.isa.layout import Tile
from opennki.isa.samples import Sampler

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]


def _priority(call: Call) -> Numbers:
    priority = call.attrs["priority"]
    if priority is None:
        return None
    if call.generation < 4:
        return {"priority": priority, "why": f"{call.target.name} has no priorities", "role": "priority"}
    if not 0 <= priority <= 3:
        return {"priority": priority, "why": "priorities are 0 to 3", "role": "priority"}
    return None


def _hwdge(call: Call) -> Numbers:
    if call.attrs["dge_mode"] is DgeMode.hwdge and call.generation < 3:
        return {"role": "dge_mode"}
    return None


def _trigger(call: Call) -> Numbers:
    engine, mode = call.attrs["engine"], call.attrs["dge_mode"]
    if engine is Engine.unknown:
        return None
    if mode is not DgeMode.hwdge or engine not in (Engine.sync, Engine.scalar):
        return {"engine": engine.name, "mode": mode.name, "role": "engine"}
    return None


def _kinds(call: Call) -> set[IndexKind]:
    return {layout.record.index for _, layout in call.layouts()} - {IndexKind.none}


def _vector_mode(call: Call) -> Numbers:
    mode = call.attrs["dge_mode"]
    if IndexKind.vector in _kinds(call) and mode not in (DgeMode.unknown, DgeMode.swdge):
        rule_id = "DMA_COPY-09" if mode is DgeMode.hwdge else "DMA_COPY-08"
        return {"mode": mode.name, "role": "dge_mode", "rule": rule_id}
    return None


def _software_indices(call: Call) -> Numbers:
    software = IndexKind.vector in _kinds(call) or call.attrs["dge_mode"] is DgeMode.swdge
    return {"role": ""} if _kinds(call) and software and call.generation < 3 else None


def _static_mode(call: Call) -> Numbers:
    return {"role": "dge_mode"} if _kinds(call) and call.attrs["dge_mode"] is DgeMode.none else None


def _packed_cast(call: Call) -> Numbers:
    dst, src = call.tile("dst"), call.tile("src")
    if dst.dtype != src.dtype and "packed" in (dst.info.kind, src.info.kind):
        return {"from": src.dtype, "to": dst.dtype, "role": "src"}
    return None


@instruction(
    engines=(Engine.dma,),
    dst=writes(HBM | SBUF, load=Load.RAW, shaped=True),
    src=reads(HBM | SBUF, load=Load.RAW, shaped=True),
    any_partition=True,
    space_rule="DMA_COPY-02",
    checks=(
        equal_elements("DMA_COPY-01", "dst", "src"),
        rule(
            "ONKI206",
            "DMA_COPY-05",
            "`{instruction}` cannot take priority={priority}: {why}",
            _priority,
            help="leave `priority` out, or give 0 to 3 on trn3",
        ),
        rule(
            "ONKI207",
            "DMA_COPY-06",
            "`{instruction}` with dge_mode.hwdge needs NeuronCore-v3 or newer, which {target} is not",
            _hwdge,
            help="leave `dge_mode` out, or trace for trn2 or trn3",
        ),
        rule(
            "ONKI206",
            "DMA_COPY-07",
            "`{instruction}` takes engine={engine} with dge_mode.hwdge only, and only sync or scalar; "
            "here dge_mode is {mode}",
            _trigger,
            help="write `dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.sync`, or leave `engine` out",
        ),
        rule(
            "ONKI206",
            "DMA_COPY-08",
            "`{instruction}` with a `vector_offset` makes its descriptors in software, "
            "not by dge_mode.{mode}",
            _vector_mode,
            help="leave `dge_mode` out",
        ),
        rule(
            "ONKI207",
            "DMA_COPY-10",
            "`{instruction}` makes descriptors for run-time indices in software from NeuronCore-v3 on, "
            "{target} is older",
            _software_indices,
            help="trace for trn2 or trn3, or copy with static views",
        ),
        rule(
            "ONKI206",
            "DMA_COPY-11",
            "`{instruction}` with dge_mode.none needs addresses known before the run, here one is an index",
            _static_mode,
            help="leave `dge_mode` out",
        ),
        rule(
            "ONKI202",
            "DMA_COPY-13",
            "`{instruction}` cannot convert packed elements: {from} to {to}",
            _packed_cast,
            help="give both sides one dtype, or look at one of them through `.view(…)`",
        ),
    ),
    source="nki/api/nki/isa/__init__.py:246",
)
def dma_copy(
    dst: Tile,
    src: Tile,
    priority: int | None = None,
    oob_mode: OobMode = OobMode.error,
    dge_mode: DgeMode = DgeMode.unknown,
    engine: Engine = Engine.unknown,
    name: str | None = None,
) -> None:
    """Copy `src` to `dst` with the DMA engines, element by element in row-major order of both views.

    Both in HBM or SBUF, with the same number of elements; shapes may differ. Equal dtypes copy bits; unequal
    ones convert through float32: integers above 2**24 lose bits. `priority` (0 to 3, lower is sooner) exists
    from NeuronCore-v4. `dge_mode` says who makes the descriptors, `engine` (sync or scalar) which queue
    triggers hardware ones. `oob_mode` decides about run-time indices outside of their axis.

    Errors: ONKI201 (PSUM), ONKI205 (element counts), ONKI202 (packed dtypes), ONKI206, ONKI207 (options).
    Source: nki/api/nki/isa/__init__.py:246.
    """


@dma_copy.semantics
def _semantics(src: Any, **_: Any) -> Any:
    return src


@dma_copy.cost
def _cost(call: Call) -> Cost:
    return dma_time(call, "dst", "src")


@dma_copy.samples
def _samples(t: Sampler) -> Samples:
    yield {"dst": t.sbuf(128, 512), "src": t.hbm(128, 512)}
    yield {"dst": t.hbm(16, 8), "src": t.sbuf(16, 8)}
    yield {"dst": t.sbuf(4, 24), "src": t.hbm(4, 7, 9).slice((0, 4), (1, 5), (2, 8))}
    yield {"dst": t.sbuf(8, 16, dtype="bfloat16"), "src": t.hbm(128)}
    yield {"dst": t.hbm(1, 1, dtype="int32"), "src": t.sbuf(1, 1, dtype="float32")}
    yield {"dst": t.sbuf(16, 8, dtype="int64"), "src": t.hbm(16, 8, dtype="int64")}
    yield {"dst": t.hbm(6, 4).slice((0, 6, 2), (0, 4)), "src": t.hbm(3, 4)}
    if t.generation >= 3:
        yield {
            "dst": t.sbuf(128, 8),
            "src": t.hbm(128, 8),
            "dge_mode": DgeMode.hwdge,
            "engine": Engine.sync,
        }
    if t.generation >= 4:
        yield {"dst": t.sbuf(128, 8), "src": t.hbm(128, 8), "priority": 3}


@dma_copy.rejects
def _rejects(t: Sampler) -> Rejects:
    yield "DMA_COPY-01", {"dst": t.sbuf(128, 256), "src": t.hbm(128, 512)}
    yield "DMA_COPY-02", {"dst": t.psum(128, 8), "src": t.hbm(128, 8)}
    yield "DMA_COPY-07", {"dst": t.sbuf(8, 8), "src": t.hbm(8, 8), "engine": Engine.sync}
    yield "DMA_COPY-13", {"dst": t.sbuf(8, 8, dtype="float32"), "src": t.hbm(8, 8, dtype="float8_e4m3fn_x4")}
    if t.generation < 4:
        yield "DMA_COPY-05", {"dst": t.sbuf(8, 8), "src": t.hbm(8, 8), "priority": 0}
    else:
        yield "DMA_COPY-05", {"dst": t.sbuf(8, 8), "src": t.hbm(8, 8), "priority": 4}
    if t.generation < 3:
        yield "DMA_COPY-06", {"dst": t.sbuf(8, 8), "src": t.hbm(8, 8), "dge_mode": DgeMode.hwdge}

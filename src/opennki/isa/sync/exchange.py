"""The row in which two cores swap tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opennki.ir.types import Engine
from opennki.isa.checks import Numbers, equal_dtypes, rule
from opennki.isa.cost import Cost, dma_time
from opennki.isa.define import SBUF, Call, Exchange, Load, Sync, instruction, reads, writes
from opennki.isa.enums import DmaEngine
from opennki.isa.layout import Tile
from opennki.isa.samples import Sampler

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]

_GPSIMD_BYTES = {4: 1024, 2: 512, 1: 256}  # bytes per partition by element width, isa:3005


def _one_core(call: Call) -> Numbers:
    return {"role": ""} if call.degree == 1 else None


def _no_rank(call: Call) -> Numbers:
    for role in ("send_to_rank", "recv_from_rank"):
        if call.attrs[role] not in (0, 1):
            return {"role": role, "rank": call.attrs[role]}
    return None


def _other_shape(call: Call) -> Numbers:
    src, dst = call.tile("src"), call.tile("dst")
    if src.shape == dst.shape:
        return None
    return {"src_shape": list(src.shape), "dst_shape": list(dst.shape), "role": "dst"}


def _too_long(call: Call) -> Numbers:
    src = call.tile("src")
    if call.attrs["dma_engine"] is not DmaEngine.gpsimd_dma:
        return None
    limit = _GPSIMD_BYTES.get(src.info.bytes, 1024)
    needed = src.free_elements * src.info.bytes
    return {"needed": needed, "limit": limit, "role": "src"} if needed > limit else None


def _engine(call: Call) -> Engine:
    """GpSimd carries `gpsimd_dma` itself (isa:2999)."""
    return Engine.gpsimd if call.attrs["dma_engine"] is DmaEngine.gpsimd_dma else Engine.dma


@instruction(
    engines=(Engine.dma, Engine.gpsimd),
    choose=_engine,
    since=3,
    since_rule="SENDRECV-01",
    space_rule="SENDRECV-03",
    src=reads(SBUF, load=Load.RAW, shaped=True),
    dst=writes(SBUF, load=Load.RAW),
    any_partition=True,
    sync=Sync(
        Exchange(),
        group=lambda attrs: (0, 1),
        channel=lambda attrs: attrs["pipe_id"],
        peers=lambda attrs: (attrs["send_to_rank"], attrs["recv_from_rank"]),
    ),
    checks=(
        rule(
            "ONKI206",
            "SENDRECV-01",
            "`{instruction}` needs two cores, the kernel runs at LNC=1",
            _one_core,
            help="launch the kernel with LNC=2, or guard the call with `if nl.num_programs(0) == 2:`",
        ),
        rule(
            "ONKI206",
            "SENDRECV-02",
            "`{instruction}` knows the ranks 0 and 1, `{role}` is {rank}",
            _no_rank,
            help="write `1 - nl.program_id(0)`",
        ),
        equal_dtypes("SENDRECV-04", "src", "dst"),
        rule(
            "ONKI205",
            "SENDRECV-04",
            "`{instruction}` needs equal shapes: `src` is {src_shape}, `dst` is {dst_shape}",
            _other_shape,
            help="allocate `dst` as {src_shape}",
        ),
        rule(
            "ONKI204",
            "SENDRECV-05",
            "`{instruction}` with gpsimd_dma moves {limit} bytes per partition, `src` has {needed}",
            _too_long,
            help="use `dma_engine=nisa.dma_engine.dma`, or split the tile",
        ),
    ),
    source="nki/api/nki/isa/__init__.py:2971",
)
def sendrecv(
    src: Tile,
    dst: Tile,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: DmaEngine = DmaEngine.dma,
    name: str | None = None,
) -> None:
    """Send `src` to the core `send_to_rank` and write what `recv_from_rank` sends to `dst`, both in SBUF.

    From NeuronCore-v3, at degree 2. Same dtype and shape on both sides and on both cores; calls of one
    `pipe_id` meet.
    Errors: ONKI201, ONKI202, ONKI204 to ONKI207; at run time ONKI701 when the peer never comes.
    Source: nki/api/nki/isa/__init__.py:2971.
    """


@sendrecv.cost
def _sendrecv_cost(call: Call) -> Cost:
    return dma_time(call, "src", "dst")


@sendrecv.samples
def _sendrecv_samples(t: Sampler) -> Samples:
    if t.generation >= 3:
        yield {
            "src": t.sbuf(128, 8),
            "dst": t.sbuf(128, 8),
            "send_to_rank": 1,
            "recv_from_rank": 1,
            "pipe_id": 0,
        }


@sendrecv.rejects
def _sendrecv_rejects(t: Sampler) -> Rejects:
    call = {
        "src": t.sbuf(128, 8),
        "dst": t.sbuf(128, 8),
        "send_to_rank": 0,
        "recv_from_rank": 0,
        "pipe_id": 0,
    }
    if t.generation < 3:
        yield "SENDRECV-01", call
        return
    yield "SENDRECV-02", {**call, "send_to_rank": 2}
    yield "SENDRECV-03", {**call, "dst": t.psum(128, 8)}
    yield "SENDRECV-04", {**call, "dst": t.sbuf(128, 8, dtype="int32")}
    yield "SENDRECV-04", {**call, "dst": t.sbuf(128, 9)}
    yield (
        "SENDRECV-05",
        {
            **call,
            "src": t.sbuf(128, 257),
            "dst": t.sbuf(128, 257),
            "dma_engine": DmaEngine.gpsimd_dma,
        },
    )

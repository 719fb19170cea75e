"""What an instruction costs: engine cycles or nanoseconds, and how sure that is."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from opennki.ir.types import Space
from opennki.isa.define import Call
from opennki.isa.layout import TileLayout

__all__ = ["GPSIMD_START", "MIN_II", "Cost", "cycles", "dma_time", "is_fast_16bit"]

MIN_II = 64  # smallest initiation interval in cycles, nki.api.shared.rst "Engine Selection"
GPSIMD_START = 150  # nki/api v2.26 isa:289

Basis = Literal["published", "inferred", "assumed"]


class Cost(Struct, frozen=True):
    """`cycles` of the instruction's engine, or `nanoseconds` for DMA; the other one is 0."""

    cycles: float
    nanoseconds: float
    basis: Basis


def cycles(count: float, basis: Basis = "published") -> Cost:
    """A cost in engine cycles, never below the smallest initiation interval."""
    return Cost(max(float(MIN_II), float(count)), 0.0, basis)


def is_fast_16bit(layout: TileLayout) -> bool:
    """True for 16-bit tiles in SBUF with a contiguous innermost dimension: the fast path of gen3's Vector."""
    return layout.space is Space.sbuf and layout.info.bytes == 2 and layout.strides[-1] == 1


def dma_time(call: Call, *roles: str) -> Cost:
    """The time of a DMA: a fixed start, then rows at the engines' bandwidth with a floor a row.

    Basis: 1,300 ns fixed (published); rows below about 2,450 bytes cost as much as 2,450 (inferred from the
    published curve); all 16 engines share the bytes.
    """
    target = call.target
    slowest = 0.0
    for role in roles:
        layout = call.tile(role)
        run = 1
        for step, count in reversed(layout.record.pattern):
            if step != run:
                break
            run *= count
        rows = layout.elements / max(run, 1)
        row_bytes = max(run * layout.info.bytes, 2450)
        slowest = max(slowest, rows * row_bytes / target.dma.core_effective_gbps)
    return Cost(0.0, 1300.0 + slowest, "inferred")

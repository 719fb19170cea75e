"""What tracing an instruction costs: operands sliced at the call, whole tiles, and through functions."""

from __future__ import annotations

from benchmarks.kernels import FULL, product_chained, product_sliced, product_whole, trace_product
from benchmarks.measure import (
    Figure,
    Result,
    figure,
    per_instruction,
    result,
    slowness,
    take_turns,
)

__all__ = ["run"]

BUDGET_US = 5.0  # design: tracing with every operand sliced at the call, collector frozen
BUDGET_CHAIN_US = 1.0  # design: the call chain kept as interned pairs


def run(quick: bool) -> Result:
    """Trace a tiled matrix product of at least 100,000 instructions, and what calls through functions add."""
    repeats = FULL.repeats(1_000 if quick else 100_000)
    seconds = take_turns(
        {
            "sliced": lambda: trace_product(product_sliced, FULL, repeats),
            "whole": lambda: trace_product(product_whole, FULL, repeats),
        },
        rounds=2 if quick else 9,
    )
    count = repeats * FULL.instructions
    return result(
        "Tracing a tiled matrix product",
        [
            figure(
                "tracing, operands sliced at the call",
                per_instruction(seconds["sliced"], count),
                "µs/instruction",
                "processor time of a trace without cache, every operand of every call a slice made there",
                slowness=slowness(seconds),
                budget=BUDGET_US,
            ),
            figure(
                "tracing, whole tiles",
                per_instruction(seconds["whole"], count),
                "µs/instruction",
                "the same product, its operands sliced once before the loops",
                slowness=slowness(seconds),
            ),
            _chained(quick),
        ],
        instructions=count,
    )


def _chained(quick: bool) -> Figure:
    """Return what two function calls add: a small difference, so many short rounds."""
    repeats = FULL.repeats(1_000 if quick else 10_000)
    count = repeats * FULL.instructions
    seconds = take_turns(
        {
            "sliced": lambda: trace_product(product_sliced, FULL, repeats),
            "chained": lambda: trace_product(product_chained, FULL, repeats),
        },
        rounds=2 if quick else 61,
    )
    times = (per_instruction(seconds[name], count) for name in ("chained", "sliced"))
    return figure(
        "tracing through two functions, more than without",
        [chained - sliced for chained, sliced in zip(*times, strict=True)],
        "µs/instruction",
        "the same product, every instruction two function calls away from the kernel: the difference",
        slowness=slowness(seconds),
        budget=BUDGET_CHAIN_US,
    )

"""What tracing an instruction costs: operands sliced at the call, whole tiles, and through functions."""

from __future__ import annotations

from benchmarks.kernels import (
    FULL,
    count_instructions,
    product_chained,
    product_sliced,
    product_whole,
    trace_product,
)
from benchmarks.measure import (
    REFERENCE,
    Result,
    figure,
    in_iterations,
    per_instruction,
    reference_us,
    result,
    take_turns,
)

__all__ = ["run"]

BUDGET_US = 5.0  # design: tracing with every operand sliced at the call, collector frozen
BUDGET_CHAIN_US = 1.0  # design: the call chain kept as interned pairs


def run(quick: bool) -> Result:
    """Trace a tiled matrix product of at least 100,000 instructions in three ways of writing it."""
    repeats = FULL.repeats(1_000 if quick else 100_000)
    rounds = 2 if quick else 9
    seconds = take_turns(
        {
            "sliced": lambda: trace_product(product_sliced, FULL, repeats),
            "whole": lambda: trace_product(product_whole, FULL, repeats),
            "chained": lambda: trace_product(product_chained, FULL, repeats),
        },
        rounds,
    )
    count = count_instructions(trace_product(product_sliced, FULL, repeats))
    times = {name: per_instruction(seconds[name], count) for name in ("sliced", "whole", "chained")}
    more = [chained - sliced for chained, sliced in zip(times["chained"], times["sliced"], strict=True)]

    def relative(name: str) -> float:
        return in_iterations(seconds, name, count)

    return result(
        "Tracing a tiled matrix product",
        [
            figure(
                "tracing, operands sliced at the call",
                times["sliced"],
                "µs/instruction",
                "processor time of a trace without cache, every operand of every call a slice made there",
                budget=BUDGET_US,
                relative=relative("sliced"),
                relative_to=REFERENCE,
            ),
            figure(
                "tracing, whole tiles",
                times["whole"],
                "µs/instruction",
                "the same product, its operands sliced once before the loops",
                relative=relative("whole"),
                relative_to=REFERENCE,
            ),
            figure(
                "tracing through two functions, more than without",
                more,
                "µs/instruction",
                "the same product, every instruction two function calls away from the kernel: the difference",
                budget=BUDGET_CHAIN_US,
            ),
        ],
        instructions=count,
        reference_us=reference_us(seconds),
    )

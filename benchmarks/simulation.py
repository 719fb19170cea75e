"""What `nki.simulate` costs an instruction, at both degrees, on tiles whose arithmetic hardly counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.kernels import OPERATIONS, SMALL, count_instructions, product_sliced, repeated, trace_product
from benchmarks.measure import (
    Result,
    figure,
    per_instruction,
    result,
    slowness,
    take_turns,
)
from opennki import nki

__all__ = ["run"]


def run(quick: bool) -> Result:
    """Simulate the tiled product in small tiles and a loop of one instruction, each at degree 1 and 2."""
    repeats = SMALL.repeats(300 if quick else 10_000)
    count = count_instructions(trace_product(product_sliced, SMALL, repeats))
    turns: dict[str, Callable[[], object]] = {}
    for degree in (1, 2):
        turns[f"simulating a product, degree {degree}"] = _product(degree, repeats)
        turns[f"simulating a loop, degree {degree}"] = _loop(degree, count)
    counts = {name: count * (2 if name.endswith("2") else 1) for name in turns}
    seconds = take_turns(turns, rounds=2 if quick else 7)
    return result(
        "Simulating",
        [
            figure(
                name,
                per_instruction(seconds[name], counts[name]),
                "µs/instruction",
                "processor time of `nki.simulate`, over the instructions of all cores",
                slowness=slowness(seconds),
            )
            for name in turns
        ],
        instructions=count,
    )


def _product(degree: int, repeats: int) -> Callable[[], object]:
    rows = SMALL.k * SMALL.k_tiles
    a = np.ones((rows, SMALL.m * SMALL.m_tiles), np.float32)
    b = np.ones((rows, SMALL.n * SMALL.n_tiles), np.float32)
    kernel: Any = nki.simulate(product_sliced[degree])
    return lambda: kernel(a, b, SMALL, repeats)


def _loop(degree: int, repeats: int) -> Callable[[], object]:
    x = np.ones((128, 1), np.float32)
    kernel: Any = nki.simulate(repeated[degree])
    return lambda: kernel(x, OPERATIONS["tensor_tensor"], repeats)

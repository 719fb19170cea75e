"""What preparing an instruction costs, and running one on `[128, 1]` tiles, beside what NumPy alone costs."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import numpy.typing as npt

from benchmarks.kernels import (
    FULL,
    OPERATIONS,
    count_instructions,
    product_sliced,
    trace_product,
    trace_repeated,
)
from benchmarks.measure import (
    Figure,
    Result,
    figure,
    per_instruction,
    result,
    slowness,
    take_turns,
)
from opennki.execute.numpy import Prepared, prepare

__all__ = ["run"]

BUDGET_PREPARE_US = 10.0  # design: preparing, an instruction
BUDGET_RUN_US = 6.0  # design: running, a `[128, 1]` operation
NUMPY_ADD = "np.add(x, y, out=z)"

Array = npt.NDArray[np.generic]


def run(quick: bool) -> Result:
    """Prepare a product of at least 100,000 instructions; run loops of one `[128, 1]` instruction."""
    rounds = 2 if quick else 7
    return result(
        "Preparing and running",
        [
            *_preparing(FULL.repeats(1_000 if quick else 100_000), rounds),
            *_running(500 if quick else 20_000, rounds),
        ],
    )


def _preparing(repeats: int, rounds: int) -> list[Figure]:
    artifact = trace_product(product_sliced, FULL, repeats)
    count = count_instructions(artifact)
    loop = trace_repeated("tensor_tensor", count)
    seconds = take_turns({"product": lambda: prepare(artifact), "loop": lambda: prepare(loop)}, rounds)
    return [
        figure(
            "preparing a product",
            per_instruction(seconds["product"], count),
            "µs/instruction",
            f"processor time of `prepare` on a tiled matrix product of {count:,} instructions",
            slowness=slowness(seconds),
            budget=BUDGET_PREPARE_US,
        ),
        figure(
            "preparing a loop",
            per_instruction(seconds["loop"], count_instructions(loop)),
            "µs/instruction",
            "the same for one `tensor_tensor` again and again on the same tiles",
            slowness=slowness(seconds),
            budget=BUDGET_PREPARE_US,
        ),
    ]


def _running(repeats: int, rounds: int) -> list[Figure]:
    x = np.linspace(1, 2, 128, dtype=np.float32).reshape(128, 1)
    narrow = x.astype(ml_dtypes.bfloat16)
    turns: dict[str, Callable[[], object]] = {NUMPY_ADD: _numpy_loop(x, repeats)}
    for name in OPERATIONS:
        turns[name] = _runner(prepare(trace_repeated(name, repeats)), x)
    turns["tensor_tensor, bfloat16"] = _runner(
        prepare(trace_repeated("tensor_tensor", repeats, "bfloat16")), narrow
    )
    seconds = take_turns(turns, rounds)
    return [
        figure(
            f"running `{name}`" if name != NUMPY_ADD else f"`{NUMPY_ADD}`",
            per_instruction(seconds[name], repeats),
            "µs/instruction",
            "processor time of `run` on `[128, 1]` tiles"
            if name != NUMPY_ADD
            else "NumPy alone on `[128, 1]` arrays, called from a loop: what no executor in NumPy goes below",
            slowness=slowness(seconds),
            budget=BUDGET_RUN_US if name != NUMPY_ADD else None,
        )
        for name in turns
    ]


def _runner(prepared: Prepared, x: Array) -> Callable[[], object]:
    return lambda: prepared.run([x])


def _numpy_loop(x: Array, repeats: int) -> Callable[[], object]:
    y, z = x.copy(), np.empty_like(x)

    def loop() -> None:
        for _ in range(repeats):
            np.add(x, y, out=z)

    return loop

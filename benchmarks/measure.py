"""How figures are measured: processor time, rounds in which everything takes its turn, medians, ratios.

A shared machine is slow now and then. So a figure is the median of rounds, processor time is taken, which
waiting for a processor does not count, and a reference loop runs in every round: what it took there says how
long the figure would be at the speed for which the budgets were set.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct, convert, to_builtins

__all__ = [
    "BUDGET_ITERATION_US",
    "REFERENCE",
    "Figure",
    "Result",
    "cpu_seconds",
    "figure",
    "figures_of",
    "fresh_environment",
    "per_instruction",
    "reference_loop",
    "result",
    "slowness",
    "slowness_now",
    "take_turns",
]

Result = dict[str, object]
"""What a benchmark returns: `title`, `figures`, and details of its own; ready for JSON."""

MICRO = 1e6
REFERENCE = "an iteration of the reference loop"
REFERENCE_ITERATIONS = 100_000

BUDGET_ITERATION_US = 0.25
"""What an iteration of the reference loop takes on a machine at the speed for which the budgets were set.

There the prototype of tracing took 4.0 µs an instruction; beside this loop it takes 16 iterations.
"""


class Figure(Struct, frozen=True):
    """One measured number: the median of `rounds` rounds, with the lowest and the highest of them.

    `scaled` is the median at the speed of the budgets, None where speed is no matter. `budget` is the most
    that it may be, None where there is none; `is_met` compares `scaled` with it, or else `value`.
    """

    name: str
    value: float
    unit: str
    lowest: float
    highest: float
    rounds: int
    says: str
    scaled: float | None = None
    budget: float | None = None
    is_met: bool | None = None


def figure(
    name: str,
    values: Sequence[float],
    unit: str,
    says: str,
    *,
    slowness: Sequence[float] | None = None,
    budget: float | None = None,
) -> Figure:
    """Return the figure of what each round measured, that many times slower than the budgets' speed."""
    middle = _rounded(median(values))
    scaled = None
    if slowness is not None:
        scaled = _rounded(median(one / factor for one, factor in zip(values, slowness, strict=True)))
    return Figure(
        name=name,
        value=middle,
        unit=unit,
        lowest=_rounded(min(values)),
        highest=_rounded(max(values)),
        rounds=len(values),
        says=says,
        scaled=scaled,
        budget=budget,
        is_met=None if budget is None else (middle if scaled is None else scaled) <= budget,
    )


def _rounded(value: float) -> float:
    """Four significant digits: more would be noise."""
    return float(f"{value:.4g}")


def result(title: str, figures: Sequence[Figure], **details: object) -> Result:
    """Return a benchmark's result as plain data."""
    found: Result = to_builtins({"title": title, "figures": list(figures), **details})
    return found


def figures_of(found: Result) -> list[Figure]:
    """Return the figures of a result as records again."""
    return convert(found["figures"], list[Figure])


def cpu_seconds(function: Callable[[], object]) -> float:
    """Return the processor time of one call, in all its threads; what it returns is dropped unmeasured."""
    gc.collect()
    start = time.process_time()
    kept = function()
    seconds = time.process_time() - start
    del kept
    return seconds


def take_turns(functions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the processor seconds of each function in each round, the reference loop among them.

    Within a round everything runs once; every second round runs in reverse order.
    """
    turns = {REFERENCE: reference_loop, **functions}
    for function in functions.values():  # what only the first call pays is no part of a figure
        function()
    found: dict[str, list[float]] = {name: [] for name in turns}
    for i in range(rounds):
        for name in list(turns) if i % 2 == 0 else reversed(turns):
            found[name].append(cpu_seconds(turns[name]))
    return found


def fresh_environment() -> dict[str, str]:
    """Return the environment of a fresh process: this OpenNKI on its path, no settings, bytecode kept."""
    import opennki

    ours = ("NEURON_", "NKI_", "OPENNKI_", "PYTHONDONTWRITEBYTECODE")
    found = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    folder = str(Path(opennki.__file__).parents[1])
    found["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    return found


def per_instruction(seconds: Sequence[float], instructions: int) -> list[float]:
    """Return microseconds for each instruction."""
    return [MICRO * one / instructions for one in seconds]


def slowness_now(iterations: int = 10_000) -> float:
    """Return how many times slower than at the budgets' speed the reference loop is at this moment."""
    seconds = cpu_seconds(lambda: reference_loop(iterations))
    return seconds * MICRO / iterations / BUDGET_ITERATION_US


def slowness(seconds: Mapping[str, Sequence[float]]) -> list[float]:
    """Return how many times slower than at the budgets' speed the reference loop was in each round."""
    return [one * MICRO / REFERENCE_ITERATIONS / BUDGET_ITERATION_US for one in seconds[REFERENCE]]


class _Record(Struct, frozen=True, array_like=True, gc=False):
    buffer: int
    offset: int
    layout: int


def reference_loop(iterations: int = REFERENCE_ITERATIONS) -> list[_Record]:
    """Run the unit of speed: an iteration makes three records and keeps them, each after a look-up.

    That is what the interpreter does when it traces an instruction, so both are slow in the same moments.
    """
    table = {(i, 128): i for i in range(64)}
    kept: list[_Record] = []
    look_up, keep = table.get, kept.append
    for i in range(iterations):
        number = i & 63
        found = look_up((number, 128))
        if found is not None:
            keep(_Record(i, number, found))
            keep(_Record(number, i, found))
            keep(_Record(found, number, i))
    return kept

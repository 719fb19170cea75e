"""How figures are measured: processor time, rounds in which everything takes its turn, medians, ratios.

A shared machine is slow now and then. So a figure is the median of rounds, it is compared with a reference
that ran in the same round, and processor time is taken, which waiting for a processor does not count.
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
    "REFERENCE",
    "Figure",
    "Result",
    "cpu_seconds",
    "figure",
    "figures_of",
    "fresh_environment",
    "in_iterations",
    "median_ratio",
    "per_instruction",
    "reference_loop",
    "reference_us",
    "result",
    "take_turns",
]

Result = dict[str, object]
"""What a benchmark returns: `title`, `figures`, and details of its own; ready for JSON."""

MICRO = 1e6
REFERENCE = "an iteration of the reference loop"
REFERENCE_ITERATIONS = 100_000


class Figure(Struct, frozen=True):
    """One measured number: the median of `rounds` rounds, with the lowest and the highest of them.

    `budget` is the most that it may be, None where there is none; `is_met` compares the median with it.
    `relative` is the figure in multiples of what `relative_to` names, measured in the same rounds.
    """

    name: str
    value: float
    unit: str
    lowest: float
    highest: float
    rounds: int
    says: str
    budget: float | None = None
    is_met: bool | None = None
    relative: float | None = None
    relative_to: str | None = None


def figure(
    name: str,
    values: Sequence[float],
    unit: str,
    says: str,
    *,
    budget: float | None = None,
    relative: float | None = None,
    relative_to: str | None = None,
) -> Figure:
    """Return the figure of what was measured in each round."""
    middle = _rounded(median(values))
    return Figure(
        name=name,
        value=middle,
        unit=unit,
        lowest=_rounded(min(values)),
        highest=_rounded(max(values)),
        rounds=len(values),
        says=says,
        budget=budget,
        is_met=None if budget is None else middle <= budget,
        relative=None if relative is None else _rounded(relative),
        relative_to=relative_to,
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


def reference_us(seconds: Mapping[str, Sequence[float]]) -> float:
    """Return what an iteration of the reference loop took in these rounds, in microseconds."""
    return _rounded(MICRO * median(seconds[REFERENCE]) / REFERENCE_ITERATIONS)


def in_iterations(seconds: Mapping[str, Sequence[float]], name: str, instructions: int) -> float:
    """Return how many iterations of the reference loop an instruction costs: the median over the rounds."""
    iteration = [one / REFERENCE_ITERATIONS for one in seconds[REFERENCE]]
    return median_ratio([one / instructions for one in seconds[name]], iteration)


def median_ratio(values: Sequence[float], to: Sequence[float]) -> float:
    """Return the median of the ratios within a round."""
    return median(one / other for one, other in zip(values, to, strict=True))


class _Record(Struct, frozen=True, array_like=True, gc=False):
    buffer: int
    offset: int
    layout: int


def reference_loop() -> list[_Record]:
    """Run the unit of speed: an iteration makes three records and keeps them, each after a look-up.

    That is what the interpreter does when it traces an instruction, so both are slow in the same moments.
    """
    table = {(i, 128): i for i in range(64)}
    kept: list[_Record] = []
    look_up, keep = table.get, kept.append
    for i in range(REFERENCE_ITERATIONS):
        number = i & 63
        found = look_up((number, 128))
        if found is not None:
            keep(_Record(i, number, found))
            keep(_Record(number, i, found))
            keep(_Record(found, number, i))
    return kept

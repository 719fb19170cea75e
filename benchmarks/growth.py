"""How each stage grows from 1,000 to 1,000,000 instructions: time and memory, a fresh process each size.

The kernel is the tiled product in small tiles; the number of its buffers grows with that of its instructions.
`python -m benchmarks.growth INSTRUCTIONS TIMES` measures one size and prints it as JSON.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from benchmarks.kernels import SMALL, count_instructions, product_sliced, trace_product
from benchmarks.measure import Figure, Result, figure, fresh_environment, result, slowness_now
from opennki.execute.numpy import prepare
from opennki.ir.codec import encode_program
from opennki.ir.verify import verify
from opennki.isa.table import ROW_FACTS

__all__ = ["MEMORY", "STAGES", "Growth", "Size", "draw", "measure_size", "run", "slope"]

T = TypeVar("T")

STAGES = ("tracing", "encoding", "verifying", "preparing", "running")
MEMORY = "peak memory"
TOLERANCE = 0.05  # how far from 1 the slope may be on doubly logarithmic axes
SEEN_IN_MEMORY = 10_000  # instructions: below, what the allocator holds anyway hides what they need
ENOUGH = 20_000  # a small program is measured again until so many instructions have been


class Size(Struct, frozen=True):
    """What one size costs: processor seconds by stage, at the budgets' speed, and bytes over those before."""

    instructions: int
    seconds: dict[str, float]
    peak_bytes: int


class Growth(Struct, frozen=True):
    """All sizes, and the slope of each stage on doubly logarithmic axes: 1 is a cost that stays the same."""

    sizes: list[Size]
    slopes: dict[str, float]


def run(quick: bool) -> Result:
    """Measure every size in fresh processes, the sizes taking turns; fit a straight line to each stage."""
    wanted = [500, 1_000, 2_000] if quick else [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
    rounds, enough = (1, 1) if quick else (5, ENOUGH)
    runs = [[_in_process(count, max(1, enough // count)) for count in wanted] for _ in range(rounds)]
    sizes = [_middle(list(same)) for same in zip(*runs, strict=True)]
    growth = Growth(sizes, _slopes(sizes))
    return result(
        f"Growth from {sizes[0].instructions:,} to {sizes[-1].instructions:,} instructions",
        _figures(growth),
        growth=growth,
    )


def _figures(growth: Growth) -> list[Figure]:
    found: list[Figure] = []
    for stage in STAGES:
        costs = [1e6 * size.seconds[stage] / size.instructions for size in growth.sizes]
        found.append(
            figure(
                stage,
                costs,
                "µs/instruction",
                "processor time at the budgets' speed; median, lowest and highest are those of the sizes",
            )
        )
        found.append(_slope_figure(stage, growth.slopes[stage]))
    found.append(
        figure(
            MEMORY,
            [size.peak_bytes / size.instructions for size in growth.sizes],
            "bytes/instruction",
            "the process's peak over all stages, less what it held before the first; over the sizes",
        )
    )
    found.append(_slope_figure(MEMORY, growth.slopes[MEMORY]))
    return found


def _slope_figure(name: str, slope: float) -> Figure:
    return figure(
        f"{name}, slope off 1",
        [abs(slope - 1)],
        "",
        f"a straight line through all sizes on doubly logarithmic axes has the slope {slope:.3f}",
        budget=TOLERANCE,
    )


def _slopes(sizes: list[Size]) -> dict[str, float]:
    """Return the slope of each stage and of memory, where small programs fill holes that others left."""
    counts = [size.instructions for size in sizes]
    slopes = {stage: slope(counts, [size.seconds[stage] for size in sizes]) for stage in STAGES}
    large = [size for size in sizes if size.instructions >= SEEN_IN_MEMORY] or sizes
    slopes[MEMORY] = slope([size.instructions for size in large], [size.peak_bytes for size in large])
    return slopes


def slope(counts: Sequence[int], costs: Sequence[float]) -> float:
    """Return the slope of the line of least squares on doubly logarithmic axes; 1 for a single point."""
    if len(counts) < 2:
        return 1.0
    return round(float(np.polyfit(np.log10(counts), np.log10(np.maximum(costs, 1e-9)), 1)[0]), 4)


def _middle(same: list[Size]) -> Size:
    """Return the medians of several rounds of one size."""
    return Size(
        same[0].instructions,
        {stage: median(one.seconds[stage] for one in same) for stage in STAGES},
        int(median(one.peak_bytes for one in same)),
    )


def _in_process(instructions: int, times: int) -> Size:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth", str(instructions), str(times)],
        cwd=Path(__file__).parents[1],
        env=fresh_environment(),
        capture_output=True,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Size)


def measure_size(instructions: int, times: int) -> Size:
    """Take one program through all stages, some times over. A smaller one pays for the first time."""
    _through(SMALL.repeats(200), {stage: [] for stage in STAGES})
    before = _held_bytes("VmRSS")
    repeats = SMALL.repeats(instructions)
    seconds: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for _ in range(times):
        count = _through(repeats, seconds)
    return Size(
        count,
        {stage: median(found) for stage, found in seconds.items()},
        max(_held_bytes("VmHWM") - before, 1),
    )


def _through(repeats: int, seconds: dict[str, list[float]]) -> int:
    """Take a program through all stages and note the time of each; return its number of instructions."""

    def timed(stage: str, function: Callable[[], T]) -> T:
        before = slowness_now()
        gc.collect()
        start = time.process_time()
        made = function()
        took = time.process_time() - start
        seconds[stage].append(2 * took / (before + slowness_now()))
        return made

    artifact = timed("tracing", lambda: trace_product(product_sliced, SMALL, repeats))
    timed("encoding", lambda: [encode_program(program) for program in artifact.programs])
    violations = timed("verifying", lambda: verify(artifact, ROW_FACTS))
    if violations:
        raise RuntimeError(violations[0].says)
    prepared = timed("preparing", lambda: prepare(artifact))
    arrays = [np.ones(spec.shape, np.float32) for spec in artifact.signature.inputs]
    timed("running", lambda: prepared.run(arrays))
    return count_instructions(artifact)


def _held_bytes(what: Literal["VmRSS", "VmHWM"]) -> int:
    """Return the memory that this process holds, or the most that it has held, its parent's left out."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{what}:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def draw(found: Result, path: Path) -> Path:
    """Draw the growth of a result as a PNG file."""
    from benchmarks.chart import draw_growth

    return draw_growth(msgspec.convert(found["growth"], Growth), path)


if __name__ == "__main__":
    print(msgspec.json.encode(measure_size(int(sys.argv[1]), int(sys.argv[2]))).decode())

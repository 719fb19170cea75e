"""The picture of growth: time by stage and peak memory over the number of instructions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.growth import MEMORY, STAGES, Growth

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_growth"]

# Okabe and Ito's colours: told apart by every kind of eye.
COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#D55E00", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v")


def draw_growth(growth: Growth, path: Path) -> Path:
    """Draw both panels on doubly logarithmic axes, where a cost in proportion is a line of slope 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.2), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle("A tiled matrix product in small tiles: what each stage costs as the kernel grows")
    counts = [size.instructions for size in growth.sizes]
    for stage, colour, marker in zip(STAGES, COLOURS, MARKERS, strict=True):
        seconds = [size.seconds[stage] for size in growth.sizes]
        each = 1e6 * seconds[-1] / counts[-1]
        label = f"{stage}: {each:.2f} µs each, slope {growth.slopes[stage]:.2f}"
        left.plot(counts, seconds, color=colour, marker=marker, label=label)
    memory = [size.peak_bytes / 1e6 for size in growth.sizes]
    each = 1e6 * memory[-1] / counts[-1]
    label = f"{MEMORY}: {each:,.0f} bytes each, slope {growth.slopes[MEMORY]:.2f}"
    right.plot(counts, memory, color=COLOURS[0], marker="o", label=label)
    lowest = min(growth.sizes[0].seconds.values())
    _finish(left, counts, lowest, "processor time in seconds, at the budgets' speed")
    _finish(right, counts, memory[0], "memory in MB over that before")
    figure.savefig(path, metadata={"Software": "OpenNKI"})
    return path


def _finish(panel: Axes, counts: list[int], lowest: float, label: str) -> None:
    """Scale and name the axes; a dotted line below everything shows the slope 1."""
    low, high = counts[0], counts[-1]
    start = lowest / 2
    panel.plot([low, high], [start, start * high / low], color="grey", linestyle=":", label="slope 1")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("instructions")
    panel.set_ylabel(label)
    panel.grid(True, which="major", alpha=0.3)
    panel.legend(loc="upper left", fontsize=9)

"""The picture of a kernel's coverage: which core writes which part of each output. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil, prod, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from opennki.analyse.coverage import TensorCoverage, coverage
from opennki.analyse.regions import Bits, where
from opennki.diag import fail
from opennki.ir.types import KernelArtifact

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_coverage"]

# Okabe and Ito's palette, which people with any kind of colour vision tell apart.
_CORES = ("#56B4E9", "#E69F00", "#009E73", "#F0E442")
_SEVERAL = "#CC79A7"
_ALARM = "#D55E00"
_PALE_ALARM = "#FBE3D2"
_PALE = "#DDDDDD"
_WHITE = "#FFFFFF"
_INK = "#222222"

_PANELS_IN_A_ROW = 3
_PANEL_WIDTH = 7.4  # inches
_MOST_CELLS = 1024  # of a panel along each axis; finer maps are drawn coarser
_MOST_BOXES = 400  # get a border and a hatch each; beyond that colours alone must do
_MOST_TICKS = 9
_LABELLED = 0.12  # of the panel's height at least, and three times that of its width, hold words

Map = np.ndarray[Any, np.dtype[np.uint8]]


class _Class(Struct, frozen=True):
    """A way of being written: how it looks, what it is called, and the cells that are written so."""

    color: str
    hatch: str
    says: str
    mask: Bits
    ink: str = _INK


class _Box(Struct, frozen=True):
    """A rectangle of one class, in cells; ends are exclusive."""

    number: int
    top: int
    bottom: int
    left: int
    right: int


def draw_coverage(artifact: KernelArtifact, path: str | Path, *, kept: int | None = None) -> Path:
    """Draw which core writes which elements of each output as a PNG file, and return its path.

    With `kept`, what would be lost if only the programs of the first `kept` cores were baked is marked.
    Errors: ONKI010 without matplotlib (the extra `pictures`).
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        fail("ONKI010", what="drawing a picture", package="matplotlib", extra="pictures")
    tensors = coverage(artifact).tensors
    count = max(1, len(tensors))
    columns = min(_PANELS_IN_A_ROW, ceil(sqrt(count)))
    rows = ceil(count / columns)
    height = max((_panel_height(tensor.shape) for tensor in tensors), default=1.0)
    size = (_PANEL_WIDTH * columns, 1.2 + (height + 2) * rows)
    figure = Figure(figsize=size, dpi=110, layout="constrained")
    figure.suptitle(_title(artifact, kept), fontsize=13, color=_INK, linespacing=1.5)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel in panels[len(tensors) :]:
        panel.set_axis_off()
    for panel, tensor in zip(panels, tensors, strict=False):
        _draw(panel, tensor, _classes(tensor, kept))
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", bbox_inches="tight", pad_inches=0.2, metadata={"Software": "OpenNKI"})
    return path


def _panel_height(shape: tuple[int, ...]) -> float:
    """Return the height in inches of a map of roughly the tensor's proportions."""
    rows, columns = prod(shape[:-1]), shape[-1] if shape else 1
    return 1.2 if rows == 1 else min(max(_PANEL_WIDTH * rows / columns, 2.5), 5.2)


def _title(artifact: KernelArtifact, kept: int | None) -> str:
    cores = "1 NeuronCore" if artifact.lnc == 1 else f"{artifact.lnc} NeuronCores"
    subject = f"kernel {artifact.kernel}, traced for {cores} (LNC={artifact.lnc}, {artifact.target})"
    if kept is None or kept >= artifact.lnc:
        return f"Which core writes which part of the output?\n{subject}"
    keeps = "core 0's program" if kept == 1 else f"the programs of the first {kept} cores"
    says = "What is lost keeps whatever the memory held before."
    return f"What would be lost if only {keeps} were kept?\n{subject}\n{says}"


# ----------------------------------------------------------------------------------------------- classes


def _classes(tensor: TensorCoverage, kept: int | None) -> list[_Class]:
    """Return the ways in which cells are written, the more alarming ones last; those that occur."""
    certain = [tensor.cells(mask) for mask in tensor.certain]
    possible = [tensor.cells(mask) for mask in tensor.possible]
    sure = np.sum(certain, axis=0, dtype=np.int16)
    touched = np.sum(possible, axis=0, dtype=np.int16)
    is_lost = np.zeros(sure.shape, np.bool_)
    if kept is not None:
        is_lost = (np.sum(possible[:kept], axis=0, dtype=np.int16) == 0) & (touched > 0)
    found = [
        _Class(_CORES[core % len(_CORES)], "", f"written by core {core}", mask & (touched == 1) & ~is_lost)
        for core, mask in enumerate(certain)
    ]
    found += [
        _Class(_SEVERAL, "\\\\", "written by several cores", (sure > 1) & ~is_lost),
        _Class(
            _PALE,
            "..",
            "may be written: an index or a predicate decides",
            (touched > 0) & ~((sure == 1) & (touched == 1)) & ~(sure > 1) & ~is_lost,
        ),
        _Class(_WHITE, "xx", "written by no core", touched == 0),
    ]
    for core, mask in enumerate(possible):
        if kept is not None and core >= kept:
            sure_mask = is_lost & certain[core]
            says = f"LOST: written by core {core} alone"
            found.append(_Class(_PALE_ALARM, "//", says, sure_mask, _ALARM))
            says = f"LOST: core {core} alone may write it"
            found.append(_Class(_PALE_ALARM, "..", says, is_lost & mask & ~sure_mask, _ALARM))
    return [entry for entry in found if entry.mask.any()]


def _legend(entry: _Class, tensor: TensorCoverage) -> str:
    """Return the words of a class below the map: what it is, where, how much."""
    words = where(entry.mask, tensor.shape)
    return (
        f"{entry.says}: {words}" if words == "all" else f"{entry.says}: {words} ({tensor.share(entry.mask)})"
    )


# ----------------------------------------------------------------------------------------------- drawing


def _draw(panel: Axes, tensor: TensorCoverage, classes: list[_Class]) -> None:
    """Draw one output: a coloured map with ticks at its borders, words inside, and a legend below."""
    from matplotlib.colors import ListedColormap

    rows, columns = prod(tensor.shape[:-1]), tensor.shape[-1] if tensor.shape else 1
    numbers = np.zeros(tensor.grid.cells[: len(tensor.shape)], np.uint8)
    for number, entry in enumerate(classes):
        numbers[entry.mask] = number
    numbers = _coarser(numbers.reshape(-1, numbers.shape[-1] if numbers.ndim else 1))
    boxes = list(_boxes(numbers))
    scale = (rows / numbers.shape[0], columns / numbers.shape[1])
    panel.imshow(
        numbers,
        cmap=ListedColormap([entry.color for entry in classes]),
        vmin=-0.5,
        vmax=len(classes) - 0.5,
        extent=(0, columns, rows, 0),
        aspect="auto",
        interpolation="nearest",
    )
    if len(boxes) <= _MOST_BOXES:
        _outline(panel, boxes, classes, scale)
    _label(panel, boxes, classes, tensor, scale)
    _name_axes(panel, boxes, tensor, scale)
    _add_legend(panel, classes, tensor)


def _coarser(numbers: Map) -> Map:
    """Return a map of bearable size, in which a cell shows the most alarming class of those it stands for."""
    for axis in (0, 1):
        count = numbers.shape[axis]
        if count > _MOST_CELLS:
            starts = np.unique(np.linspace(0, count, _MOST_CELLS, endpoint=False).astype(np.int64))
            numbers = np.maximum.reduceat(numbers, starts, axis=axis)
    return numbers


def _boxes(numbers: Map) -> Iterator[_Box]:
    """Yield the map as rectangles: rows that are equal are taken together, then each run of a class."""
    differs = np.any(numbers[1:] != numbers[:-1], axis=1)
    borders = [0, *(np.flatnonzero(differs) + 1).tolist(), numbers.shape[0]]
    for top, bottom in pairwise(borders):
        row = numbers[top]
        runs = [0, *(np.flatnonzero(row[1:] != row[:-1]) + 1).tolist(), row.size]
        for left, right in pairwise(runs):
            yield _Box(int(row[left]), top, bottom, left, right)


def _outline(panel: Axes, boxes: list[_Box], classes: list[_Class], scale: tuple[float, float]) -> None:
    from matplotlib.patches import Rectangle

    for box in boxes:
        entry = classes[box.number]
        corner = (box.left * scale[1], box.top * scale[0])
        width, height = (box.right - box.left) * scale[1], (box.bottom - box.top) * scale[0]
        panel.add_patch(
            Rectangle(corner, width, height, fill=False, hatch=entry.hatch, edgecolor=entry.ink, linewidth=1)
        )


def _label(
    panel: Axes, boxes: list[_Box], classes: list[_Class], tensor: TensorCoverage, scale: tuple[float, float]
) -> None:
    """Write the words of each class into its largest rectangle, if they fit there."""
    rows = sum({(box.top, box.bottom): box.bottom - box.top for box in boxes}.values())
    columns = max(box.right for box in boxes)
    for number, entry in enumerate(classes):
        own = [box for box in boxes if box.number == number]
        box = max(own, key=lambda box: (box.bottom - box.top) * (box.right - box.left))
        if box.bottom - box.top < _LABELLED * rows or box.right - box.left < 3 * _LABELLED * columns:
            continue
        panel.text(
            (box.left + box.right) / 2 * scale[1],
            (box.top + box.bottom) / 2 * scale[0],
            _legend(entry, tensor).replace(": ", "\n"),
            ha="center",
            va="center",
            fontsize=12,
            color=_INK,
            bbox={"facecolor": _WHITE, "edgecolor": "none", "alpha": 0.85, "boxstyle": "round,pad=0.4"},
        )


def _name_axes(panel: Axes, boxes: list[_Box], tensor: TensorCoverage, scale: tuple[float, float]) -> None:
    rank = len(tensor.shape)
    kind = "input written in place" if tensor.is_in_place else "output"
    panel.set_title(f"{kind} \u201c{tensor.name}\u201d, shape {list(tensor.shape)}", fontsize=12)
    panel.set_xlabel("column" if rank == 2 else "last axis" if rank > 2 else "element")
    panel.set_ylabel("row" if rank == 2 else "row of all leading axes" if rank > 2 else "")
    rows = sorted({edge * scale[0] for box in boxes for edge in (box.top, box.bottom)})
    columns = sorted({edge * scale[1] for box in boxes for edge in (box.left, box.right)})
    if len(rows) <= _MOST_TICKS:
        panel.set_yticks(rows, [f"{row:.0f}" for row in rows] if rank > 1 else ["", ""])
    if len(columns) <= _MOST_TICKS:
        panel.set_xticks(columns, [f"{column:.0f}" for column in columns])


def _add_legend(panel: Axes, classes: list[_Class], tensor: TensorCoverage) -> None:
    from matplotlib.patches import Patch

    panel.legend(
        handles=[
            Patch(facecolor=entry.color, edgecolor=entry.ink, hatch=entry.hatch, label=_legend(entry, tensor))
            for entry in classes
        ],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.12),
        frameon=False,
        fontsize=11,
        handlelength=2.6,
        handleheight=1.7,
    )

"""Sets of elements: strided boxes, bit maps over them, and the words for what a bit map holds."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, product
from math import gcd, prod
from typing import Any, cast

import numpy as np
from msgspec import Struct

__all__ = [
    "Bits",
    "Boxes",
    "Grid",
    "Pairs",
    "Part",
    "describe",
    "normal",
    "part_of",
    "percent",
    "ranges",
    "spread",
    "where",
]

Bits = np.ndarray[Any, np.dtype[np.bool_]]
Pairs = tuple[tuple[int, int], ...]

_SHOWN_RANGES = 3


def normal(pattern: Pairs) -> tuple[int, Pairs]:
    """Return the set of places of an access pattern as (shift, pairs): what it holds, however it is walked.

    Steps are positive and descending, repeated places are dropped, runs are joined; the lowest place is
    `shift` (not positive) from the start of the access.

    >>> normal(((512, 4), (1, 512)))
    (0, ((1, 2048),))
    >>> normal(((-16, 4), (0, 3), (1, 8)))
    (-48, ((16, 4), (1, 8)))
    """
    shift = 0
    kept: list[tuple[int, int]] = []
    for step, count in pattern:
        if step < 0:
            shift += step * (count - 1)
        if step and count > 1:
            kept.append((abs(step), count))
    kept.sort(reverse=True)
    joined: list[tuple[int, int]] = []
    while kept:
        step, count = kept.pop()
        while kept and kept[-1][0] % step == 0 and kept[-1][0] <= step * count:
            outer, turns = kept.pop()
            count += outer // step * (turns - 1)
        joined.append((step, count))
    return shift, tuple(reversed(joined))


class Boxes(Struct, frozen=True):
    """Strided boxes of one form at several places: `offset + Σ step·i`, `i < count`, for each offset.

    `pairs` is normal.
    """

    pairs: Pairs
    offsets: list[int]

    @property
    def grain(self) -> int:
        """The largest number that divides all offsets, all runs and the distances between them."""
        run, outer = self._form()
        offsets = int(np.gcd.reduce(np.asarray(self.offsets, np.int64)))
        return gcd(run, offsets, *(step for step, _ in outer))

    def mark(self, bits: Bits, grain: int) -> None:
        """Set the cells of the boxes in a flat map whose cells are `grain` places each."""
        run, outer = self._form()
        pairs = [*((step // grain, count) for step, count in outer), (1, run // grain)]
        counts = [count for _, count in pairs]
        steps = [step for step, _ in pairs]
        overlaps = prod(counts) > 2 * bits.size
        for offset in self.offsets:
            if overlaps:
                _dilate(bits, offset // grain, pairs)
            else:
                np.ndarray(counts, np.bool_, bits, offset // grain, steps)[...] = True

    def _form(self) -> tuple[int, Pairs]:
        """Return the length of the contiguous runs, and the pairs around them."""
        if self.pairs and self.pairs[-1][0] == 1:
            return self.pairs[-1][1], self.pairs[:-1]
        return 1, self.pairs


def _dilate(bits: Bits, start: int, pairs: list[tuple[int, int]]) -> None:
    """Set what `pairs` reach from `start` in time that grows with the map, however often places coincide."""
    reached = np.zeros_like(bits)
    reached[start] = True
    for step, count in pairs:
        done = 1
        while done < count:
            more = min(done, count - done)
            reached[step * more :] |= reached[: bits.size - step * more].copy()
            done += more
    bits |= reached


class Grid(Struct, frozen=True):
    """How a tensor lies in a flat map of cells.

    `shape` is the tensor's own, `cells` the map's along the same axes: a cell covers `shape[i] // cells[i]`
    elements of axis i. `start` and `steps` find the cells in the flat map, `total` is its length, and `grain`
    the places that a cell stands for.
    """

    shape: tuple[int, ...]
    cells: tuple[int, ...]
    start: int
    steps: tuple[int, ...]
    total: int
    grain: int

    @classmethod
    def of(cls, pattern: Pairs, offset: int, total: int, boxes: Iterable[Boxes]) -> Grid:
        """Return the coarsest grid in which every one of `boxes` is whole cells.

        `pattern` and `offset` are the tensor in a buffer of `total` places. A kernel writes rows or tiles,
        so a map of a large tensor has few cells.
        """
        shift, pairs = normal(pattern)
        own = Boxes(pairs, [offset + shift])
        grain = gcd(total, own.grain, *(some.grain for some in boxes))
        cells = [count for _, count in pattern]
        covered = 1
        for axis in reversed(range(len(pattern))):
            step, count = pattern[axis]
            if count == 1:
                continue
            if step != covered:
                break
            share = gcd(grain // covered, count)
            covered *= share
            cells[axis] = count // share
            if cells[axis] > 1:
                break
        steps = tuple(
            0 if n == 1 else step * (count // n) // covered
            for (step, count), n in zip(pattern, cells, strict=True)
        )
        shape = tuple(count for _, count in pattern)
        return cls(shape, tuple(cells), offset // covered, steps, total // covered, covered)

    def window(self, bits: Bits) -> Bits:
        """Return the tensor's part of a flat map, an axis each."""
        return np.ndarray(self.cells, np.bool_, bits, self.start, self.steps)


def spread(mask: Bits, shape: tuple[int, ...]) -> Bits:
    """Return a mask of cells as a mask of elements."""
    for axis, (cells, count) in enumerate(zip(mask.shape, shape, strict=True)):
        if 1 < cells < count:
            mask = np.repeat(mask, count // cells, axis)
    return np.broadcast_to(mask, shape)


# ---------------------------------------------------------------------------------------------- words


class Part(Struct, frozen=True):
    """A part of a tensor in words: `count` of `total` `unit`, which are `where`."""

    count: int
    total: int
    unit: str
    where: str


def describe(mask: Bits, name: str, shape: tuple[int, ...] | None = None) -> str:
    """Return which elements of the tensor `name` are set in `mask`; ranges include both ends.

    `mask` may be coarser than `shape`: then each of its cells stands for several elements.

    >>> describe(np.arange(128)[:, None] >= np.full(16, 64), "out")
    'rows 64..127 of `out`'
    """
    return f"{where(mask, mask.shape if shape is None else shape)} of `{name}`"


def where(mask: Bits, shape: tuple[int, ...]) -> str:
    """Return which elements of a tensor of `shape` are set in `mask`: ranges, "all" or "nothing"."""
    if mask.all():
        return "all"
    if not mask.any():
        return "nothing"
    part = part_of(mask, shape)
    return f"{part.count} elements {part.where}" if part.where.startswith("within ") else part.where


def part_of(mask: Bits, shape: tuple[int, ...]) -> Part:
    """Return the set elements of `mask` as a part of a tensor of `shape`; at least one is set.

    Whole rows or columns are named as such, a product of ranges by its ranges, anything else by the box
    around it.
    """
    scale = tuple(count // cells for count, cells in zip(shape, mask.shape, strict=True))
    axes = [_used(mask, axis) for axis in range(mask.ndim)]
    set_cells = int(np.count_nonzero(mask))
    is_product = set_cells == prod(int(np.count_nonzero(used)) for used in axes)
    spans = [ranges(used, unit) for used, unit in zip(axes, scale, strict=True)]
    elements = Part(set_cells * prod(scale), prod(shape), "elements", "")
    if not is_product:
        around = [[(span[0][0], span[-1][1])] for span in spans]
        words = _box_words(around, shape).removeprefix("elements ")
        return _named(elements, f"within {words}")
    partial = [axis for axis in range(mask.ndim) if not axes[axis].all()]
    if mask.ndim == 2 and len(partial) <= 1:
        axis = partial[0] if partial else 0
        unit = ("row", "column")[axis]
        count = int(np.count_nonzero(axes[axis])) * scale[axis]
        return Part(count, shape[axis], f"{unit}s", _range_words(spans[axis], unit))
    return _named(elements, _box_words(spans, shape))


def ranges(used: Bits, unit: int = 1) -> list[tuple[int, int]]:
    """Return the ranges (first, last) that are set along an axis whose cells are `unit` elements.

    >>> ranges(np.array([True, True, False, True]), 32)
    [(0, 63), (96, 127)]
    """
    edges = np.flatnonzero(np.diff(used.astype(np.int8), prepend=0, append=0)).reshape(-1, 2) * unit
    return [(first, end - 1) for first, end in edges.tolist()]


def percent(part: int, whole: int) -> str:
    """Return a share in percent with one decimal at most; what is neither nothing nor all never reads so.

    >>> percent(1, 2), percent(1, 3), percent(1, 10**6)
    ('50 %', '33.3 %', 'less than 0.1 %')
    """
    if part * 100 % whole == 0:
        return f"{part * 100 // whole} %"
    if part * 1000 < whole:
        return "less than 0.1 %"
    if (whole - part) * 1000 < whole:
        return "more than 99.9 %"
    return f"{part * 100 / whole:.1f} %"


def _used(mask: Bits, axis: int) -> Bits:
    others = tuple(other for other in range(mask.ndim) if other != axis)
    return cast(Bits, np.logical_or.reduce(mask, axis=others))


def _named(part: Part, words: str) -> Part:
    return Part(part.count, part.total, part.unit, words)


def _range_words(spans: list[tuple[int, int]], unit: str) -> str:
    is_single = len(spans) == 1 and spans[0][0] == spans[0][1]
    words = [_span(*span) for span in spans[:_SHOWN_RANGES]]
    return f"{unit}{'' if is_single else 's'} {_list(words, len(spans))}"


def _box_words(spans: list[list[tuple[int, int]]], shape: tuple[int, ...]) -> str:
    """Return a product of ranges: by rows and columns in two dimensions, else in brackets."""
    if len(spans) == 1:
        return _range_words(spans[0], "element")
    if len(spans) == 2:
        named = zip(spans, ("row", "column"), shape, strict=True)
        partial = [_range_words(span, unit) for span, unit, count in named if span != [(0, count - 1)]]
        return " in ".join(partial) or _range_words(spans[0], "row")
    words = [
        [":"] if span == [(0, count - 1)] and count > 1 else [_span(*item) for item in span[:_SHOWN_RANGES]]
        for span, count in zip(spans, shape, strict=True)
    ]
    boxes = [f"[{', '.join(box)}]" for box in islice(product(*words), _SHOWN_RANGES)]
    return f"elements {_list(boxes, prod(len(span) for span in spans))}"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _list(words: list[str], count: int) -> str:
    """Return the first of `count` words, and how many more there are."""
    more = count - len(words)
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")

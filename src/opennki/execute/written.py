"""Which elements of a PSUM buffer have been written since it was allocated.

Most kernels accumulate again and again into the very same window, which a set of windows answers. Only where
windows overlap in part is a map of elements made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opennki.ir.dtypes import DTYPES
from opennki.ir.types import Layout

__all__ = ["WrittenMap"]

Array = np.ndarray[Any, Any]


class WrittenMap:
    """The written windows of one buffer. State: the windows, and a map of bytes once it is needed."""

    __slots__ = ("_boxes", "_map", "_row_bytes", "_windows")

    def __init__(self, row_bytes: int) -> None:
        self._row_bytes = row_bytes
        self._windows: dict[tuple[int, int], tuple[tuple[int, int, int, int], Layout]] = {}
        self._boxes: list[tuple[int, int, int, int]] = []  # of windows written in part
        self._map: Array | None = None

    def add(self, offset: int, number: int, layout: Layout) -> None:
        """Note a write through the layout of this number."""
        key = (offset, number)
        if key in self._windows:
            return
        self._windows[key] = (self._box(offset, layout), layout)
        if self._map is not None:
            self._region(offset, layout)[...] = True

    def add_some(self, offset: int, layout: Layout, chosen: Array) -> None:
        """Note a write of the `chosen` elements of a window."""
        box = self._box(offset, layout)
        if box not in self._boxes:
            self._boxes.append(box)
        self._mapped()
        self._region(offset, layout)[chosen] = True

    def fresh(self, offset: int, number: int, layout: Layout) -> bool | Array:
        """Return True if no element of a window is written, False if all are, else the mask of fresh ones."""
        if (offset, number) in self._windows:
            return False
        box = self._box(offset, layout)
        known = [other for other, _ in self._windows.values()] + self._boxes
        if not any(_meet(box, other) for other in known):
            return True
        self._mapped()
        written = self._region(offset, layout)[..., 0]
        if written.all():
            return False
        return np.logical_not(written) if written.any() else True

    def _mapped(self) -> None:
        """Make the map of bytes from the windows, once."""
        if self._map is None:
            self._map = np.zeros(0, bool)
            for (at, _), (_, known) in self._windows.items():
                self._region(at, known)[...] = True

    def _box(self, offset: int, layout: Layout) -> tuple[int, int, int, int]:
        """The rows and the bytes of a row that a window spans: first row, end row, first byte, end byte."""
        size = DTYPES[layout.dtype].bytes
        row, byte = divmod(offset * size, self._row_bytes)
        reach = sum(step * (count - 1) for step, count in layout.pattern[1:])
        return row, row + layout.pattern[0][1], byte, byte + (reach + 1) * size

    def _region(self, offset: int, layout: Layout) -> Array:
        """Return the window in the byte map, with the bytes of an element as the last axis."""
        assert self._map is not None
        size = DTYPES[layout.dtype].bytes
        end = (offset + 1 + sum(step * (count - 1) for step, count in layout.pattern)) * size
        if end > self._map.size:
            self._map = np.concatenate([self._map, np.zeros(end - self._map.size, bool)])
        shape = [*[count for _, count in layout.pattern], size]
        strides = [*[step * size for step, _ in layout.pattern], 1]
        return np.ndarray(shape, bool, self._map.data, offset * size, strides)


def _meet(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]

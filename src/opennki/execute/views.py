"""From an access record to a NumPy view, with what one layout needs worked out once."""

from __future__ import annotations

from typing import Any

import numpy as np

from opennki.execute.convert import bits_dtype
from opennki.execute.memory import Storage
from opennki.ir.dtypes import DTYPES
from opennki.ir.types import Layout

__all__ = ["Viewer", "merged"]

Array = np.ndarray[Any, Any]


class Viewer:
    """Makes the views of one layout: element type, shape, and strides in bytes, as a matrix where possible.

    `is_matrix` is False where `[partitions, free]` would need a copy. A Viewer of a `shaped` operand keeps
    the layout's own shape.
    """

    __slots__ = ("dtype", "is_matrix", "layout", "shape", "size", "strides")

    def __init__(self, layout: Layout, *, shaped: bool, bits: bool) -> None:
        info = DTYPES[layout.dtype]
        self.layout = layout
        self.dtype: np.dtype[Any] = bits_dtype(info) if bits else info.storage
        self.size = info.bytes
        pattern = list(layout.pattern)
        matrix = None if shaped else merged(layout)
        self.is_matrix = matrix is not None
        pattern = pattern if matrix is None else matrix
        self.shape = tuple(count for _, count in pattern)
        self.strides = tuple(step * info.bytes for step, _ in pattern)

    def view(self, storage: Storage, offset: int) -> Array:
        """Return the elements at `offset` of a storage."""
        if storage.row_bytes == storage.pitch_bytes:
            start = storage.base_bytes + offset * self.size
            return np.ndarray(self.shape, self.dtype, storage.raw, start, self.strides)
        partition, byte = divmod(offset * self.size, storage.row_bytes)
        start = storage.base_bytes + partition * storage.pitch_bytes + byte
        strides = (storage.pitch_bytes, *self.strides[1:])
        return np.ndarray(self.shape, self.dtype, storage.raw, start, strides)


def merged(layout: Layout) -> list[tuple[int, int]] | None:
    """Return the pattern as `[partitions, free]`, None where the free axes make no single run."""
    pattern = layout.pattern
    rows, free = ([pattern[0]], pattern[1:]) if layout.space.is_on_chip else ([(0, 1)], pattern)
    step, count = 1, 1
    for inner_step, inner_count in reversed(free):
        if inner_count == 1:
            continue
        if count == 1:
            step, count = inner_step, inner_count
        elif inner_step == step * count:
            count *= inner_count
        else:
            return None
    return [*rows, (step, count)]

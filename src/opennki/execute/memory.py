"""Memory of a run: bytes behind buffers, and NumPy views of accesses."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from opennki.execute.convert import fill_value
from opennki.ir.dtypes import DTYPES
from opennki.ir.program import is_whole
from opennki.ir.types import Buffer, Output

__all__ = ["Arena", "Storage", "buffer_bytes", "new_storage", "output_array"]

Array = np.ndarray[Any, Any]


def buffer_bytes(buffer: Buffer) -> int:
    """Bytes of a whole buffer, all partitions."""
    return prod(buffer.shape) * DTYPES[buffer.dtype].bytes


class Storage:
    """The bytes of one buffer. A buffer placed by hand is a window of an arena whose rows are longer."""

    __slots__ = ("base_bytes", "pitch_bytes", "raw", "row_bytes")

    def __init__(self, raw: Array, row_bytes: int, pitch_bytes: int, base_bytes: int = 0) -> None:
        self.raw = raw
        self.row_bytes = row_bytes
        self.pitch_bytes = pitch_bytes
        self.base_bytes = base_bytes

    def whole(self, buffer: Buffer) -> Array:
        """Return the buffer in its own shape."""
        info = DTYPES[buffer.dtype]
        if self.row_bytes == self.pitch_bytes:
            return np.ndarray(buffer.shape, info.storage, self.raw, self.base_bytes)
        inner = [info.bytes] * (len(buffer.shape) - 1)
        for i in range(len(inner) - 2, -1, -1):
            inner[i] = inner[i + 1] * buffer.shape[i + 2]
        return np.ndarray(buffer.shape, info.storage, self.raw, self.base_bytes, [self.pitch_bytes, *inner])

    def fill_unwritten(self, buffer: Buffer) -> None:
        """Make every element read as unwritten memory does."""
        self.whole(buffer).fill(fill_value(DTYPES[buffer.dtype]))


def new_storage(buffer: Buffer, raw: Array | None = None) -> Storage:
    """Return storage of a buffer's own, over `raw` bytes if given."""
    size = buffer_bytes(buffer)
    row = size // buffer.shape[0] if buffer.space.is_on_chip else size
    return Storage(np.empty(size, np.uint8) if raw is None else raw, row, row)


def output_array(output: Output, buffer: Buffer, storage: Storage, source: Array | None) -> Array:
    """Return an output as an array; of an alias, `source` is the caller's array and is looked at, not copied.

    An input that is returned whole is the caller's very array.
    """
    info = DTYPES[output.dtype]
    if source is not None and is_whole(output, buffer.shape, buffer.dtype):
        return source
    shared = source is not None and source.flags.c_contiguous
    raw = source.reshape(-1).view(np.uint8) if source is not None and shared else storage.raw.copy()
    strides = [step * info.bytes for step, _ in output.pattern]
    return np.ndarray(output.shape, info.storage, raw, output.offset * info.bytes, strides)


class Arena:
    """The SBUF or PSUM of a core in which buffers are placed by hand, so that they really overlap.

    State: the bytes, and which of them have belonged to a buffer. A buffer's elements read as unwritten
    unless an earlier buffer has had some of their bytes.
    """

    __slots__ = ("claimed", "pitch_bytes", "raw")

    def __init__(self, partitions: int, pitch_bytes: int) -> None:
        self.raw = np.zeros(partitions * pitch_bytes, np.uint8)
        self.claimed = np.zeros(partitions * pitch_bytes, bool)
        self.pitch_bytes = pitch_bytes

    def place(self, buffer: Buffer) -> Storage:
        """Return the window of the arena that an addressed buffer has."""
        partition, byte = buffer.address or (0, 0)
        row = buffer_bytes(buffer) // buffer.shape[0]
        return Storage(self.raw, row, self.pitch_bytes, partition * self.pitch_bytes + byte)

    def claim(self, buffer: Buffer, storage: Storage) -> None:
        """Make those elements of a buffer unwritten of which no earlier buffer has had a byte."""
        size = DTYPES[buffer.dtype].bytes
        shape = (buffer.shape[0], storage.row_bytes // size, size)
        strides = (self.pitch_bytes, size, 1)
        claimed = np.ndarray(shape, bool, self.claimed.data, storage.base_bytes, strides)
        fresh = np.logical_not(claimed.any(axis=2))
        whole = storage.whole(buffer)
        whole[fresh.reshape(whole.shape)] = fill_value(DTYPES[buffer.dtype])
        claimed[...] = True

    def reset(self) -> None:
        """Forget all claims before a run."""
        self.claimed.fill(False)

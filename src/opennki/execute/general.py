"""Steps of instructions with run-time addresses, registers, or lists of operands: the general, slower form.

A scalar index moves the whole access; a vector index picks a row for each partition. An index outside of its
axis is an error at run time, or, with `oob_mode.skip`, leaves out the instruction or that row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from opennki.execute.memory import Storage
from opennki.execute.store import row_chooser, writer
from opennki.execute.views import Viewer
from opennki.ir.types import Index, View
from opennki.isa.define import Access
from opennki.isa.enums import OobMode

__all__ = ["Fault", "GeneralStep", "IndexedAccess", "Mask", "Skipped"]

Array = np.ndarray[Any, Any]
Mask = Array | None
Read = Callable[[], tuple[Any, Mask]]
Write = Callable[[Any, Mask], None]
Fault = Callable[[int, int, "tuple[int, ...] | None"], NoReturn]
"""Raises the error of an index `value` outside of `0 … extent-1`, read from a partition, or a partition and a
column, of a tile of them."""


class Skipped(Exception):
    """The instruction's only index is outside of its axis, and that is to be skipped."""


class IndexedAccess:
    """A view with a run-time index: resolves the index, reads or writes what it points at."""

    __slots__ = ("index", "offset", "read_index", "skips", "storage", "viewer")

    def __init__(
        self, view: View, viewer: Viewer, storage: Storage, read_index: Callable[[], Any], skips: bool
    ) -> None:
        assert view.index is not None
        self.index: Index = view.index
        self.offset = view.offset
        self.viewer = viewer
        self.storage = storage
        self.read_index = read_index
        self.skips = skips

    def scalar(self, fault: Fault) -> Array:
        """Return the access that a single index gives now."""
        value = int(self.read_index())
        if not 0 <= value < self.index.extent:
            if self.skips:
                raise Skipped
            fault(value, self.index.extent, None)
        return self.viewer.view(self.storage, self.offset + value * self.index.step)

    def rows(self, fault: Fault) -> tuple[Array, Array, Mask]:
        """Return all rows that may be picked, the legal picks, and which picks are legal (None: all)."""
        picks = np.asarray(self.read_index()).reshape(-1).astype(np.int64)[: self.viewer.shape[0]]
        legal = (picks >= 0) & (picks < self.index.extent)
        mask: Mask = None
        if not legal.all():
            if not self.skips:
                first = int(np.argmin(legal))
                fault(int(picks[first]), self.index.extent, (first,))
            mask = legal
        rest = self.viewer
        pitch = self.index.step * rest.size
        shape = (max(self.index.extent, 1), *rest.shape[1:])
        strides = (pitch, *rest.strides[1:])
        start = self.storage.base_bytes + self.offset * rest.size
        table = np.ndarray(shape, rest.dtype, self.storage.raw, start, strides)
        return table, picks, mask

    def gather(self, fault: Fault) -> tuple[Array, Mask]:
        """Return the picked rows; a row whose pick is not legal is some row, and masked."""
        table, picks, mask = self.rows(fault)
        return table[picks if mask is None else np.where(mask, picks, 0)], mask

    def scatter(self, value: Array, mask: Mask, fault: Fault) -> None:
        """Store rows where the picks say, but for masked ones."""
        table, picks, legal = self.rows(fault)
        keep = legal if mask is None else mask if legal is None else mask & legal
        rows = np.broadcast_to(value, (len(picks), *table.shape[1:])) if value.ndim == 0 else value
        rows = rows.reshape(len(picks), *table.shape[1:])
        if keep is None:
            table[picks] = rows
        else:
            table[picks[keep]] = rows[keep]


class GeneralStep:
    """One instruction in the general form: readers, semantics, writers."""

    __slots__ = ("function", "names", "reads", "state", "writes")

    def __init__(
        self,
        function: Callable[..., Any],
        reads: Sequence[Read],
        writes: Sequence[Write],
        names: Sequence[str],
        state: tuple[Array | None] | None,
    ) -> None:
        self.function = function
        self.reads = reads
        self.writes = writes
        self.names = names
        self.state = state

    def __call__(self) -> None:
        """Run the instruction once."""
        mask: Mask = None
        args = []
        try:
            for read in self.reads:
                value, legal = read()
                if legal is not None:
                    mask = legal if mask is None else mask & legal
                args.append(value)
            if self.state is not None:
                args.append(self.state[0])
            result = self.function(*args)
            if not isinstance(result, dict):
                for write in self.writes[:1]:
                    write(result, mask)
                return
            for name, write in zip(self.names, self.writes, strict=True):
                write(result[name], mask)
        except Skipped:
            return
        if self.state is not None and self.state[0] is not None and "state" in result:
            self.state[0][...] = result["state"]


def masked_write(how: Access | Array, target: Array, dtype: str, bits: bool) -> Write:
    """A store to a fixed place, of all rows or of those that a mask keeps."""
    plain = writer(how, target, dtype, bits)
    chosen = row_chooser(target, dtype, bits)

    def write(value: Any, mask: Mask) -> None:
        if mask is None:
            plain(value)
        else:
            chosen(value, mask)

    return write


def skips(attrs: dict[str, Any]) -> bool:
    """True if the instruction leaves out indices that are outside of their axis."""
    return attrs.get("oob_mode") is OobMode.skip

"""Reading and writing `.indirect()` views: columns picked at run time, anew in each group of partitions.

Columns are stored one after the other: of two that go to the same place the last one stays, or, where a
product is added to what is there, both are added. What a PSUM element held before the instruction decides
whether it is overwritten or added to. Assumed; the documents are silent (docs/conformance/indirect.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from opennki.execute.general import Fault, Mask
from opennki.execute.memory import Storage
from opennki.execute.store import converting
from opennki.execute.views import Viewer
from opennki.execute.written import WrittenMap
from opennki.ir.types import IndexKind, Layout, View
from opennki.isa.define import Access, Where

__all__ = ["ColumnAccess"]

Array = np.ndarray[Any, Any]


class ColumnAccess:
    """An `.indirect()` view: reads its offsets, gathers or scatters the columns that they name.

    `group`: as many partitions share their offsets.
    """

    __slots__ = ("_column", "_index", "_row", "_rows", "extent", "offset", "table", "window")

    def __init__(
        self, view: View, layout: Layout, storage: Storage, index: Array, group: int, bits: bool
    ) -> None:
        assert view.index is not None
        (pitch, rows), (_, count) = layout.pattern
        self.extent = view.index.extent
        self.offset = view.offset
        self.window = replace(
            layout, pattern=((pitch, rows), (view.index.step, self.extent)), index=IndexKind.none
        )
        self.table = Viewer(self.window, shaped=True, bits=bits).view(storage, view.offset)
        self._index = index
        at = np.arange(count)
        self._rows = np.arange(rows)[:, None]
        self._row = self._rows // group * group + at % group
        self._column = at // group

    def _picks(self, fault: Fault) -> Array:
        """Return the offsets `[partitions, columns]`, all of them legal."""
        index = self._index.reshape(self._index.shape[0], -1)
        picks: Array = index[self._row, self._column].astype(np.int64)
        wrong = picks >= self.extent  # offsets are unsigned
        if wrong.any():
            row, i = np.argwhere(wrong)[0]
            place = (int(self._row[row, i]), int(self._column[i]))
            fault(int(picks[row, i]), self.extent, place)
        return picks

    def gather(self, fault: Fault) -> tuple[Array, Mask]:
        """Return the picked columns."""
        found: Array = self.table[self._rows, self._picks(fault)]
        return found, None

    def writer(
        self, how: Access, dtype: str, bits: bool, fault: Fault, written: Callable[[], WrittenMap] | None
    ) -> Callable[[Any, Mask], None]:
        """Return the function that stores a result `[partitions, columns]`. `written`: the map of PSUM."""
        convert = converting(self.table, dtype, bits)

        def write(value: Any, mask: Mask) -> None:
            picks = self._picks(fault)
            known = None if written is None else written()
            if isinstance(value, Where):
                chosen = np.asarray(value.mask).reshape(picks.shape)
                self._put(
                    np.nonzero(chosen)[0], picks[chosen], self._shaped(convert(value.value), picks)[chosen]
                )
            elif how is Access.UPDATE or how is Access.ACCUMULATE:
                self._add(picks, value, self._fresh(how, picks, known), convert)
            else:
                self._put(self._rows, picks, self._shaped(convert(value), picks))
            if known is not None:
                touched = np.zeros(self.table.shape, bool)
                touched[self._rows, picks] = True
                known.add_some(self.offset, self.window, touched)

        return write

    def _shaped(self, value: Array, picks: Array) -> Array:
        return np.broadcast_to(value, picks.shape) if value.ndim == 0 else value.reshape(picks.shape)

    def _put(self, rows: Array, picks: Array, value: Array) -> None:
        self.table[rows, picks] = value  # NumPy stores in order, so the last one stays

    def _fresh(self, how: Access, picks: Array, written: WrittenMap | None) -> Array | bool:
        """Which of the picked elements have not been written before: all, none, or a mask."""
        if how is Access.UPDATE or written is None:
            return False
        fresh = written.fresh(self.offset, -1, self.window)
        return fresh if isinstance(fresh, bool) else fresh[self._rows, picks]

    def _add(self, picks: Array, value: Any, fresh: Array | bool, convert: Callable[[Any], Array]) -> None:
        """Add to what is there, column by column where one is picked twice; overwrite what is fresh."""
        new = self._shaped(np.asarray(value, dtype=np.float32), picks)
        is_fresh = np.broadcast_to(fresh, picks.shape)
        ordered = np.sort(picks, axis=1)
        repeats = bool((ordered[:, 1:] == ordered[:, :-1]).any())
        count = picks.shape[1]
        for part in [slice(i, i + 1) for i in range(count)] if repeats else [slice(0, count)]:
            at = picks[:, part]
            sums = self.table[self._rows, at].astype(np.float32) + new[:, part]
            self._put(self._rows, at, convert(np.where(is_fresh[:, part], new[:, part], sums)))

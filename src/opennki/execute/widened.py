"""`NKI_PRECISE_FP=0`: low-precision tensors are kept in float32 while a kernel runs.

Buffers and layouts say `float32` where the kernel says `bfloat16`, `float16` or an FP8, and everything else
stays as it is: offsets and strides are in elements. What only bytes can tell is lost with them: a tensor
cannot be looked at as another dtype, and tensors placed by hand do not overlap.
Source: nki/guides/nki_simulator.rst (low precision is emulated so by default before NKI 0.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
from msgspec.structs import replace

from opennki.diag import Location, fail
from opennki.execute.convert import converter
from opennki.execute.memory import Storage, new_storage, output_array
from opennki.ir.dtypes import DTYPES
from opennki.ir.program import is_whole
from opennki.ir.types import Buffer, Instruction, Layout, Loop, Operand, Output, Program, View
from opennki.isa.layout import TileLayout

__all__ = [
    "SharedBuffer",
    "WidenedLayouts",
    "check_views",
    "widened_buffer",
    "widened_dtype",
    "widened_layout",
    "widened_program",
]

Array = np.ndarray[Any, Any]


def widened_dtype(dtype: str) -> str:
    """Return the dtype in which elements of `dtype` are kept."""
    info = DTYPES[dtype]
    return "float32" if info.is_float and info.bytes < 4 else dtype


def widened_buffer(buffer: Buffer) -> Buffer:
    """Return a buffer as it is kept: in float32 if of low precision, and always at a place of its own."""
    return replace(buffer, dtype=widened_dtype(buffer.dtype), address=None)


def widened_layout(layout: Layout) -> Layout:
    """Return a layout as it is kept."""
    return replace(layout, dtype=widened_dtype(layout.dtype))


def widened_program(program: Program) -> Program:
    """Return a program on kept buffers. Errors: ONKI102 for a tensor looked at as another dtype."""
    for item in _instructions(program.body):
        place = program.locations[item.location]
        check_views(item.operands, program.buffers, program.layouts, {"at": place, "core": program.core})
    return replace(
        program,
        buffers=tuple(widened_buffer(buffer) for buffer in program.buffers),
        layouts=tuple(widened_layout(layout) for layout in program.layouts),
    )


def _instructions(body: Iterable[Instruction | Loop]) -> Iterator[Instruction]:
    for item in body:
        if isinstance(item, Loop):
            yield from _instructions(item.body)
        else:
            yield item


def check_views(
    operands: Iterable[Operand | View], buffers: Any, layouts: Any, place: dict[str, Any]
) -> None:
    """Refuse operands that look at a kept tensor as another dtype. Errors: ONKI102."""
    for operand in operands:
        if isinstance(operand, View):
            refuse_reinterpreted(layouts[operand.layout].dtype, buffers[operand.buffer].dtype, **place)
            if operand.index is not None:
                check_views((operand.index.source,), buffers, layouts, place)


def refuse_reinterpreted(dtype: str, buffer: str, at: Location | None, **place: Any) -> None:
    """Refuse `dtype` for a buffer of another one if either is kept in float32. Errors: ONKI102."""
    if dtype != buffer and (widened_dtype(dtype), widened_dtype(buffer)) != (dtype, buffer):
        fail(
            "ONKI102",
            at=at,
            name=f"NKI_PRECISE_FP=0 with {buffer} viewed as {dtype}",
            help=["unset NKI_PRECISE_FP: tensors then have the bytes of their dtype"],
            **place,
        )


class WidenedLayouts(Sequence[TileLayout]):
    """The layouts of a trace that is still growing, as they are kept. State: those asked for so far."""

    def __init__(self, layouts: Sequence[TileLayout]) -> None:
        self._layouts = layouts
        self._kept: dict[int, TileLayout] = {}

    @overload
    def __getitem__(self, number: int) -> TileLayout: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[TileLayout]: ...
    def __getitem__(self, number: int | slice) -> TileLayout | Sequence[TileLayout]:
        """Return the layout of a number as it is kept."""
        if isinstance(number, slice):
            return [self[i] for i in range(len(self))[number]]
        found = self._kept.get(number)
        if found is None:
            layout = self._layouts[number]
            found = self._kept[number] = TileLayout(number, widened_layout(layout.record), layout.pitch)
        return found

    def __len__(self) -> int:
        """Return how many layouts there are now."""
        return len(self._layouts)


class SharedBuffer:
    """A buffer in shared HBM: as the kernel declares it, as it is kept, and its storage."""

    __slots__ = ("declared", "kept", "precise", "storage")

    def __init__(self, buffer: Buffer, precise: bool) -> None:
        self.declared = buffer
        self.precise = precise
        self.kept = buffer if precise else widened_buffer(buffer)
        self.storage: Storage = new_storage(self.kept)

    def fill(self, values: Array | bytes | None) -> None:
        """Take over the elements of a caller's array, or a constant's bytes; None: it is unwritten."""
        if values is None:
            self.storage.fill_unwritten(self.kept)
            return
        stored = DTYPES[self.declared.dtype].storage
        array = (
            np.frombuffer(values, stored).reshape(self.declared.shape)
            if isinstance(values, bytes)
            else values.view(stored)
        )
        self.storage.whole(self.kept)[...] = array

    def copy_back(self, target: Array) -> None:
        """Copy the buffer into a caller's array, rounded as a store would have."""
        values = converter(self.declared.dtype)(self.storage.whole(self.kept))
        target[...] = values.view(target.dtype)

    def output(self, output: Output, source: Array | None) -> Array:
        """Return an output that lies in this buffer; `source` is the array of which it is an alias.

        Errors: ONKI102 where it is a view of another dtype that is not kept.
        """
        whole = is_whole(output, self.declared.shape, self.declared.dtype)
        if self.precise or (source is not None and (whole or source.flags.c_contiguous)):
            return output_array(output, self.declared, self.storage, source)
        refuse_reinterpreted(output.dtype, self.declared.dtype, None)
        kept = replace(output, dtype=widened_dtype(output.dtype))
        return converter(output.dtype)(output_array(kept, self.kept, self.storage, None))

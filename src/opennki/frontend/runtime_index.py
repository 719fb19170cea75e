"""Run-time indices of views: where the index is read, how far it moves, which values are legal.

Source: nki/deep-dives/nki-aps.rst "Dynamic Access", nki/api/nki/language/__init__.py:546,
facts/constraints.csv GEN-19 to GEN-22, GEN-29 to GEN-33.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from opennki.frontend.recorder import row_bytes
from opennki.frontend.views import ViewError, reshaped, whole
from opennki.ir.dtypes import DTYPES
from opennki.ir.types import Index, IndexKind, Register, Space, View
from opennki.isa.columns import SMALL_GROUP, TENSOR_GROUP, offsets_held
from opennki.isa.layout import Columns, RegisterLayout, TileLayout

if TYPE_CHECKING:
    from opennki.frontend.tensor import NkiTensor

__all__ = [
    "check_axis",
    "check_derived",
    "check_once",
    "check_rows",
    "column_index",
    "is_runtime",
    "pattern_index",
    "scalar_source",
    "vector_source",
]

Shape = tuple[int, ...]


def _called(tensor: NkiTensor) -> str:
    """How messages call a tensor."""
    return f"`{tensor.name}`" if tensor.name else "the tensor"


def is_runtime(value: Any) -> bool:
    """True for a tile, a register or a scalar: an index whose value is known only when the program runs."""
    return isinstance(getattr(value, "layout", None), (TileLayout, RegisterLayout))


def check_once(tensor: NkiTensor) -> None:
    """A view takes one run-time index."""
    if tensor.access.index is not None:
        raise ViewError(
            "ONKI210",
            f"{_called(tensor)} already has a run-time index, a view takes one",
            "compute one combined index first",
            rule="GEN-30",
        )


def check_axis(tensor: NkiTensor, axis: int) -> None:
    """On chip the partition axis takes no run-time index."""
    if tensor.layout.is_on_chip and axis == 0:
        raise ViewError(
            "ONKI210",
            f"the partition axis of {_called(tensor)} in {tensor.buffer.name} takes no run-time index",
            "index a free axis, or move rows with `nisa.dma_copy`",
            rule="GEN-30",
        )


def check_derived(
    tensor: NkiTensor, index: Index, pattern: tuple[int, Shape, Shape], dtype: str | None
) -> None:
    """A view `(start, shape, strides)` of an indexed view keeps picked rows as they are, and the dtype.

    Of picked columns it keeps everything.
    """
    _, shape, strides = pattern
    if index.kind is IndexKind.columns and pattern != (tensor.offset, tensor.shape, tensor.strides):
        raise ViewError(
            "ONKI210",
            f"the columns of {_called(tensor)} are picked at run time, the view cannot be sliced or reshaped",
            "slice the tensor and the index tile, or choose `num_elem`, before `.indirect()`",
            rule="GEN-33",
        )
    first = (shape[0], strides[0])
    if index.kind is IndexKind.vector and first != (tensor.shape[0], tensor.strides[0]):
        raise ViewError(
            "ONKI210",
            f"the rows of {_called(tensor)} are picked at run time and cannot be picked again",
            "slice the other axes, or the index tile",
            rule="GEN-33",
        )
    if dtype is not None and dtype != tensor.dtype:
        raise ViewError(
            "ONKI210",
            f"`view` cannot change the dtype of {_called(tensor)} after a run-time select",
            "change the dtype first",
        )


def check_rows(tensor: NkiTensor, dim: object) -> None:
    """Rows are picked along axis 0 of an HBM tensor."""
    if dim != 0:
        raise ViewError(
            "ONKI210",
            f"rows are picked at run time along axis 0 only, got {dim!r}",
            "permute the axis to the front first",
            rule="GEN-32",
        )
    if tensor.layout.is_on_chip:
        raise ViewError(
            "ONKI210",
            f"rows are picked at run time from HBM only, {_called(tensor)} is in {tensor.buffer.name}",
            "keep the table in HBM",
            rule="GEN-31",
        )


def column_index(tensor: NkiTensor, index: Any, num_elem: int | None) -> tuple[Shape, Shape, Index, Columns]:
    """Return shape, strides and run-time index of the columns that `index` picks, and where it is read.

    Offsets count the elements of a partition of the view `tensor`. Without `num_elem`, as many are used as
    the index holds for every 16 partitions: `index.size` by group, as the snake starts anew in each.
    """
    if not tensor.layout.is_on_chip:
        raise ViewError(
            "ONKI210",
            f"`.indirect()` picks columns of SBUF or PSUM, {_called(tensor)} is in {tensor.buffer.name}",
            "load it with `nisa.dma_copy` first, or pick rows with `.vector_select`",
        )
    check_once(tensor)
    tile = _tile_source(index, "index", "GEN-OFFSETS")
    check_once(tile)
    if tile.dtype != "uint16":
        raise ViewError(
            "ONKI210",
            f"the offsets of `.indirect()` are uint16, {_called(tile)} is {tile.dtype}",
            "allocate it with `dtype=nl.uint16`",
            rule="GEN-OFFSETS",
        )
    rows, width = tile.layout.partitions, tile.layout.free_elements
    if rows != tensor.layout.partitions:
        raise ViewError(
            "ONKI210",
            f"the index of `.indirect()` has as many partitions as {_called(tensor)}, "
            f"{tensor.layout.partitions}, got {rows}",
            f"slice {_called(tensor)} to {rows} partitions"
            if rows < tensor.layout.partitions
            else f"slice {_called(tile)} to {tensor.layout.partitions} partitions",
            rule="GEN-OFFSETS",
        )
    usual = offsets_held(rows, width, SMALL_GROUP)
    most = max(usual, offsets_held(rows, width, TENSOR_GROUP))
    count = usual if num_elem is None else whole(num_elem, "`num_elem`")
    if not 1 <= count <= most:
        raise ViewError(
            "ONKI210",
            f"`num_elem` is 1 to {most}, the offsets that {_called(tile)} {list(tile.shape)} holds "
            f"for a group of partitions, got {count}",
            f"write `num_elem={usual}`, or make the index wider",
            rule="GEN-OFFSETS",
        )
    extent = tensor.layout.free_elements
    (step,) = reshaped(tensor.shape[1:], tensor.strides[1:], (extent,), "indirect")
    placed = tile.handle.buffer.address is not None
    return (
        (rows, count),
        (tensor.strides[0], step),
        Index(IndexKind.columns, tile.access, step, extent, 1),
        Columns(rows, width, tile.layout.start_partition, placed),
    )


def _tile_source(value: Any, what: str, rule: str) -> NkiTensor:
    layout = getattr(value, "layout", None)
    if not isinstance(layout, TileLayout) or not layout.info.is_integer:
        got = f"{layout.dtype}" if isinstance(layout, TileLayout) else type(value).__name__
        raise ViewError("ONKI210", f"`{what}` is read from a tile of integers, got {got}", rule=rule)
    if layout.space is not Space.sbuf:
        raise ViewError(
            "ONKI210",
            f"`{what}` is read from SBUF, {_called(value)} is in {layout.space.name}",
            "load it with `nisa.dma_copy` first",
            rule=rule,
        )
    tile: NkiTensor = value
    return tile


def scalar_source(tensor: NkiTensor, value: Any) -> View | Register:
    """Where a single index is read: a register, or the one element of an SBUF tile."""
    layout = getattr(value, "layout", None)
    if isinstance(layout, RegisterLayout):
        if layout.dtype == "int64" and tensor.layout.is_on_chip:
            raise ViewError(
                "ONKI210", f"an int64 scalar cannot index {_called(tensor)} in {tensor.buffer.name}, only HBM"
            )
        register: Register = value.access
        return register
    tile = _tile_source(value, "scalar_offset", "DMA_COPY-04")
    if tile.size != 1:
        raise ViewError(
            "ONKI210",
            f"`scalar_offset` is one element, {_called(tile)} has {list(tile.shape)}",
            "slice one element: `[0:1, 0:1]`",
            rule="DMA_COPY-04",
        )
    return tile.access


def vector_source(tensor: NkiTensor, value: Any) -> tuple[View, int]:
    """Where one index a partition is read: an SBUF tile `[P, 1]`. Returns the access and P."""
    tile = _tile_source(value, "vector_offset", "DMA_COPY-03")
    if tile.layout.free_elements != 1:
        raise ViewError(
            "ONKI210",
            f"`vector_offset` is one index a partition, {_called(tile)} has {list(tile.shape)}",
            "slice one column: `[:, 0:1]`",
            rule="DMA_COPY-03",
        )
    return tile.access, tile.layout.partitions


def pattern_index(
    tensor: NkiTensor,
    dtype: str,
    pattern: tuple[int, Shape, Shape],
    scalar: Any,
    vector: Any,
    axis: object,
) -> Index | None:
    """Return the run-time index of an explicit pattern `(start, steps, counts)`, None without one.

    One unit of the index moves by the tensor's step along `axis`, whatever the pattern says. Legal values end
    where the pattern would leave the tensor.
    """
    if scalar is None and vector is None:
        return None
    if scalar is not None and vector is not None:
        raise ViewError(
            "ONKI210", "`scalar_offset` and `vector_offset` exclude each other", "give one", rule="GEN-29"
        )
    if isinstance(axis, bool) or not isinstance(axis, int) or not 0 <= axis < tensor.ndim:
        raise ViewError("ONKI210", f"`indirect_dim` {axis!r} is no axis of {list(tensor.shape)}")
    old, new = DTYPES[tensor.dtype].bytes, DTYPES[dtype].bytes
    step = tensor.strides[axis] * old // new
    start, steps, counts = pattern
    if vector is not None:
        check_rows(tensor, axis)
        source, rows = vector_source(tensor, vector)
        if counts[0] > rows:
            raise ViewError(
                "ONKI210",
                f"the pattern has {counts[0]} rows, `vector_offset` has {rows} indices",
                f"write `[[{step}, {rows}], …]`",
                rule="DMA_COPY-03",
            )
        extent = min(tensor.shape[0], _room(tensor, new, start, (0, *steps[1:]), counts, step))
        return Index(IndexKind.vector, source, step, extent, 0)
    check_axis(tensor, axis)
    return Index(
        IndexKind.scalar,
        scalar_source(tensor, scalar),
        step,
        _room(tensor, new, start, steps, counts, step),
        axis,
    )


def _room(tensor: NkiTensor, size: int, start: int, steps: Shape, counts: Shape, step: int) -> int:
    """How many values of an index keep a pattern inside its tensor, or on chip inside a partition's row."""
    buffer = tensor.handle.buffer
    total = prod(buffer.shape) * DTYPES[buffer.dtype].bytes // size
    if tensor.layout.is_on_chip:
        total = row_bytes(buffer) // size
        start, steps, counts = start % total, steps[1:], counts[1:]
    last = start + sum(max(0, s * (c - 1)) for s, c in zip(steps, counts, strict=True))
    return (total - 1 - last) // step + 1 if step > 0 else 1

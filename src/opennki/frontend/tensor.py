"""`NkiTensor`: a view of a buffer, with the documented methods. One class for tracing and simulating."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NoReturn

from msgspec import Struct, msgpack

from opennki.frontend.indexing import SELECT, indexed, pad
from opennki.frontend.recorder import BufferHandle, row_bytes
from opennki.frontend.refuse import refuse, say_offset
from opennki.frontend.runtime_index import (
    check_axis,
    check_derived,
    check_once,
    check_rows,
    column_index,
    is_runtime,
    pattern_index,
    scalar_source,
    vector_source,
)
from opennki.frontend.valueless import Valueless
from opennki.frontend.views import (
    ViewError,
    axis_of,
    check_within,
    group,
    inferred,
    is_contiguous,
    pairs,
    rearranged,
    reinterpreted,
    reshaped,
    scaled_start,
    whole,
    whole_sizes,
)
from opennki.ir.dtypes import DTYPES, canonical
from opennki.ir.types import Index, IndexKind, Space, View
from opennki.isa.layout import Columns, TileLayout

__all__ = ["NkiTensor"]

_REMEMBERED = 1 << 14  # keys of one layout; a kernel that slices it in more ways starts again
_encode = msgpack.Encoder().encode
_FOREIGN = object()  # has no bytes: a key with anything but ints and slices takes the long way


class NkiTensor(Valueless, Struct, eq=False, gc=False):
    """A tensor in SBUF, PSUM or HBM, or a view of one; views share storage and copy nothing.

    On-chip tensors keep the partition axis first; most view methods leave it alone. Source:
    nki/api/nki/language/__init__.py:109.
    """

    handle: BufferHandle
    layout: TileLayout
    access: View
    holds: object = None  # the tile of a run-time index, which must live as long as this view

    # Facts ----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the view's axes."""
        return self.layout.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps of the view's axes, in elements of `dtype`."""
        return self.layout.strides

    @property
    def offset(self) -> int:
        """Elements of `dtype` from the start of the tensor's storage."""
        return self.access.offset

    @property
    def name(self) -> str:
        """The name that the kernel gave to the tensor, or that of the variable it was assigned to."""
        return self.handle.buffer.name

    @property
    def dtype(self) -> str:
        """The element type, for example `"float32"`."""
        return self.layout.dtype

    @property
    def buffer(self) -> Space:
        """The memory region."""
        return self.layout.space

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.layout.shape)

    def is_contiguous(self) -> bool:
        """Return True if the view covers its storage in one run; on chip the partition axis is left out."""
        skip = 1 if self.layout.is_on_chip else 0
        return is_contiguous(self.shape[skip:], self.strides[skip:])

    def get_pattern(self) -> list[list[int]]:
        """Return the access pattern as `[[step, count], …]`, as `ap` takes it."""
        return [list(pair) for pair in self.layout.record.pattern]

    def is_indirect(self) -> bool:
        """Return True if a run-time index takes part in the address."""
        return self.access.index is not None

    def __repr__(self) -> str:
        from opennki.frontend.values import shown_value

        name = f" {self.name}" if self.name else ""
        return f"<NkiTensor{name} {self.dtype}{list(self.shape)} {self.buffer.name}{shown_value(self)}>"

    def __len__(self) -> int:
        return self.layout.shape[0]

    __hash__ = object.__hash__

    # Indexing -------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> NkiTensor:
        """Return a view: integers, slices with steps, `...`, negative indices and `nl.ds`, as NumPy has them.

        On chip an integer on axis 0 keeps the axis with size 1 and the result has at least two axes; in HBM
        it removes the axis, down to one. A range outside of its axis is an error (ONKI208), never clamped.
        """
        layout = self.layout
        if type(key) is not tuple:
            key = (key,)
        try:  # the usual case: this key was seen before. Its bytes tell 1 from True and 1.0
            code = _encode(
                [
                    (i.start, i.stop, i.step) if type(i) is slice else i if type(i) is int else _FOREIGN
                    for i in key
                ]
            )
        except (TypeError, ValueError, OverflowError):
            return self._sliced(key, sys._getframe(1))
        found = layout.slices.get(code) if self.access.index is None else None
        if found is None:
            made = self._sliced(key, sys._getframe(1))
            if self.access.index is None:
                if len(layout.slices) == _REMEMBERED:
                    layout.slices.clear()
                layout.slices[code] = (made.access.offset - self.access.offset, made.layout)
            return made
        moved, child = found
        view = self.access
        return NkiTensor(self.handle, child, View(view.buffer, view.offset + moved, child.id))

    def _sliced(self, key: tuple[Any, ...], frame: Any) -> NkiTensor:  # noqa: C901  # kept in one piece: hot
        """Return the view of a key that was not seen before."""
        layout = self.layout
        shape = layout.shape
        strides = layout.strides
        offset = self.access.offset
        start = 0
        signature = []
        axis = 0
        if len(key) > len(shape) or self.access.index is not None:
            return self._index(key, frame)
        for item in key:
            count = shape[axis]
            if item.__class__ is slice and item.step is None:
                low = item.start
                high = item.stop
                if low is None:
                    low = 0
                if high is None:
                    high = count
                if low.__class__ is not int or high.__class__ is not int or not 0 <= low < high <= count:
                    return self._index(key, frame)
                offset += low * strides[axis]
                signature.append(high - low)
            elif item.__class__ is int and 0 <= item < count:
                low = item
                offset += item * strides[axis]
                signature.append(SELECT)
            else:
                return self._index(key, frame)
            if axis == 0:
                start = low
            axis += 1  # noqa: SIM113  # `enumerate` costs more than this line
        handle = self.handle
        if layout.is_on_chip:
            moved = offset - self.access.offset
            bank = moved % layout.pitch if layout.space is Space.psum else 0
            child_key: Any = (start, bank, *signature)
        else:
            child_key = tuple(signature)
        child = layout.children.get(child_key)
        if child is None:
            child = layout.children[child_key] = self._child(signature, offset)
        view = self.access
        return NkiTensor(handle, child, View(view.buffer, offset, child.id))

    def _child(self, signature: list[int], offset: int) -> TileLayout:
        """Make the layout of a slice: the counts of `signature`, selected axes left out."""
        layout = self.layout
        shape: list[int] = []
        strides: list[int] = []
        for axis, (count, step) in enumerate(zip(layout.shape, layout.strides, strict=True)):
            wanted = signature[axis] if axis < len(signature) else count
            if wanted != SELECT:
                shape.append(wanted)
                strides.append(step)
            elif axis == 0 and layout.is_on_chip:
                shape.append(1)
                strides.append(step)
        pad(shape, strides, layout.is_on_chip)
        return self.handle.recorder.layout(self.handle, layout.dtype, tuple(shape), tuple(strides), offset)

    def _index(self, key: tuple[Any, ...], frame: Any) -> NkiTensor:
        """The general form of indexing; also finds what is wrong with a key."""
        layout = self.layout
        try:
            shape, strides, offset = indexed(
                self._called(), layout.shape, layout.strides, self.access.offset, key, layout.is_on_chip
            )
        except ViewError as problem:
            self._refuse(problem, frame)
        return self._derived(shape, strides, offset, frame=frame)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        """Refuse: a tensor is written by instructions."""
        problem = ViewError(
            "ONKI210",
            f"`{self._called()}[…] = …` writes nothing: tensors are written by instructions",
            "use `nisa.tensor_copy(dst=…, src=…)`, `nisa.dma_copy(dst=…, src=…)` "
            "or `nisa.memset(dst=…, value=…)`",
        )
        self._refuse(problem, sys._getframe(1))

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Return the elements `start` to `end`, every `step`-th, of axis `dim`. Errors: ONKI208, ONKI210."""
        frame = sys._getframe(1)
        axis = self._axis(dim, "slice", frame)
        return self._index((*[slice(None)] * axis, slice(start, end, step)), frame)

    def select(self, dim: int, index: Any) -> NkiTensor:
        """Return element `index` of axis `dim`, without the axis.

        `index` is an int, or known at run time only: a one-element SBUF tile, a register or a scalar; then an
        HBM or free axis, and once a view. Errors: ONKI208, ONKI210, at run time ONKI704.
        """
        frame = sys._getframe(1)
        axis = self._axis(dim, "select", frame)
        if not is_runtime(index):
            return self._index((*[slice(None)] * axis, index), frame)
        try:
            check_once(self)
            check_axis(self, axis)
            source = scalar_source(self, index)
        except ViewError as problem:
            self._refuse(problem, frame)
        found = Index(IndexKind.scalar, source, self.strides[axis], self.shape[axis], axis)
        shape = [*self.shape[:axis], *self.shape[axis + 1 :]]
        strides = [*self.strides[:axis], *self.strides[axis + 1 :]]
        pad(shape, strides, self.layout.is_on_chip)
        return self._derived(
            tuple(shape), tuple(strides), self.access.offset, frame=frame, index=found, holds=index
        )

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """Return a view whose row p is row `vector_offset[p]` of this HBM tensor, chosen at run time.

        `dim` is 0, `vector_offset` an SBUF tile `[P<=128, 1]` of integers.
        Errors: ONKI210, at run time ONKI704.
        """
        frame = sys._getframe(1)
        try:
            check_once(self)
            check_rows(self, dim)
            source, rows = vector_source(self, vector_offset)
        except ViewError as problem:
            self._refuse(problem, frame)
        found = Index(IndexKind.vector, source, self.strides[0], self.shape[0], 0)
        return self._derived(
            (rows, *self.shape[1:]),
            self.strides,
            self.access.offset,
            frame=frame,
            index=found,
            holds=vector_offset,
        )

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """Return a view `[P, num_elem]` of columns picked at run time, the same ones for G partitions.

        In the G partitions from `start` on, a multiple of G, column i is the one at offset
        `index[start + i % G, i // G]`; G is 32 on the Tensor engine, else 16. `index` is a uint16 SBUF tile
        `[P, K]`; by default `num_elem` is what it holds for 16 partitions: 16 * K if 16 divides P.
        From trn3 on. Errors: ONKI209, ONKI210, ONKI704. Source: nki/api/nki/language/__init__.py:546.
        """
        frame = sys._getframe(1)
        try:
            shape, strides, found, columns = column_index(self, index, num_elem)
        except ViewError as problem:
            self._refuse(problem, frame)
        return self._derived(
            shape, strides, self.offset, frame=frame, index=found, holds=index, columns=columns
        )

    # Shapes ---------------------------------------------------------------------------------------------

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        """Return the view with its axes in the order `dims`; on chip axis 0 stays first. Errors: ONKI210."""
        frame = sys._getframe(1)
        order = tuple(dims)
        if sorted(order) != list(range(self.ndim)):
            self._refuse(
                ViewError("ONKI210", f"`permute` needs each of the {self.ndim} axes once, got {order}"), frame
            )
        if self.layout.is_on_chip and order[0] != 0:
            self._keep_partitions("permute", frame)
        return self._derived(
            tuple(self.shape[i] for i in order),
            tuple(self.strides[i] for i in order),
            self.access.offset,
            frame=frame,
        )

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        """Return the view with axis `dim` of size 1 repeated `size` times (step 0). Errors: ONKI210."""
        frame = sys._getframe(1)
        axis = self._axis(dim, "broadcast", frame)
        if self.layout.is_on_chip and axis == 0:
            self._keep_partitions("broadcast", frame)
        try:
            (size,) = whole_sizes((size,), "broadcast")
        except ViewError as problem:
            self._refuse(problem, frame)
        if self.shape[axis] != 1 or size < 1:
            says = (
                "`broadcast` repeats an axis of size 1, "
                f"axis {axis} of {list(self.shape)} has {self.shape[axis]}"
            )
            self._refuse(ViewError("ONKI210", says, "select one element of the axis first"), frame)
        shape, strides = list(self.shape), list(self.strides)
        shape[axis], strides[axis] = size, 0
        return self._derived(tuple(shape), tuple(strides), self.access.offset, frame=frame)

    def expand_dim(self, dim: int) -> NkiTensor:
        """Return the view with a new axis of size 1 at `dim`. Errors: ONKI210."""
        frame = sys._getframe(1)
        try:
            axis = axis_of(dim, self.ndim + 1, "expand_dim")
        except ViewError as problem:
            self._refuse(problem, frame)
        if self.layout.is_on_chip and axis == 0:
            self._keep_partitions("expand_dim", frame)
        step = self.strides[axis] * self.shape[axis] if axis < self.ndim else 1
        shape = (*self.shape[:axis], 1, *self.shape[axis:])
        strides = (*self.strides[:axis], step, *self.strides[axis:])
        return self._derived(shape, strides, self.access.offset, frame=frame)

    def squeeze_dim(self, dim: int) -> NkiTensor:
        """Return the view without axis `dim`, which has size 1. Errors: ONKI210."""
        frame = sys._getframe(1)
        axis = self._axis(dim, "squeeze_dim", frame)
        if self.layout.is_on_chip and axis == 0:
            self._keep_partitions("squeeze_dim", frame)
        if self.shape[axis] != 1:
            problem = (
                "`squeeze_dim` drops an axis of size 1, "
                f"axis {axis} of {list(self.shape)} has {self.shape[axis]}"
            )
            self._refuse(ViewError("ONKI210", problem), frame)
        return self._derived(
            (*self.shape[:axis], *self.shape[axis + 1 :]),
            (*self.strides[:axis], *self.strides[axis + 1 :]),
            self.access.offset,
            frame=frame,
        )

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        """Return the view with axis `dim` split as `shape`, one -1 allowed. Errors: ONKI210, ONKI213."""
        frame = sys._getframe(1)
        axis = self._axis(dim, "reshape_dim", frame)
        if self.layout.is_on_chip and axis == 0:
            self._keep_partitions("reshape_dim", frame)
        try:
            sizes = inferred(whole_sizes(shape, "reshape_dim"), self.shape[axis], "reshape_dim")
            steps = reshaped((self.shape[axis],), (self.strides[axis],), sizes, "reshape_dim")
        except ViewError as problem:
            self._refuse(problem, frame)
        return self._derived(
            (*self.shape[:axis], *sizes, *self.shape[axis + 1 :]),
            (*self.strides[:axis], *steps, *self.strides[axis + 1 :]),
            self.access.offset,
            frame=frame,
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        """Return the view with axes `start_dim` up to `end_dim` itself merged. Errors: ONKI209, ONKI210."""
        frame = sys._getframe(1)
        first = self._axis(start_dim, "flatten_dims", frame)
        last = self._axis(end_dim, "flatten_dims", frame)
        if last < first:
            self._refuse(
                ViewError("ONKI210", f"`flatten_dims` needs start <= end, got {first} and {last}"), frame
            )
        if self.layout.is_on_chip and first == 0 and last > 0:
            self._keep_partitions("flatten_dims", frame)
        merged = prod(self.shape[first : last + 1])
        try:
            step = reshaped(
                self.shape[first : last + 1], self.strides[first : last + 1], (merged,), "flatten_dims"
            )
        except ViewError as problem:
            self._refuse(problem, frame)
        return self._derived(
            (*self.shape[:first], merged, *self.shape[last + 1 :]),
            (*self.strides[:first], *step, *self.strides[last + 1 :]),
            self.access.offset,
            frame=frame,
        )

    def reshape(self, shape: Sequence[int], *more: int) -> NkiTensor:
        """Return the view in another shape, without a copy; on chip axis 0 keeps its size.

        Errors: ONKI213 (another number of elements), ONKI209 (only a copy could have the shape), ONKI210.
        """
        frame = sys._getframe(1)
        sizes = (shape, *more) if isinstance(shape, int) else tuple(shape)
        skip = 1 if self.layout.is_on_chip else 0
        try:
            new = inferred(whole_sizes(sizes, "reshape"), self.size, "reshape")
            if skip and (not new or new[0] != self.shape[0]) and prod(new) == self.size:
                self._keep_partitions("reshape", frame)
            if skip and prod(new) == self.size:
                strides = (self.strides[0], *reshaped(self.shape[1:], self.strides[1:], new[1:]))
            else:
                strides = reshaped(self.shape, self.strides, new)
        except ViewError as problem:
            self._refuse(problem, frame)
        return self._derived(new, strides, self.access.offset, frame=frame)

    def rearrange(
        self,
        src_pattern: Sequence[str | Sequence[str]],
        dst_pattern: Sequence[str | Sequence[str]],
        fixed_sizes: Mapping[str, int] | None = None,
    ) -> NkiTensor:
        """Split, reorder and merge axes by name, as einops does.

        `rearrange(('b', ('h', 'w')), ('b', 'w', 'h'), {'h': 4})` splits the second axis and swaps its parts.
        Errors: ONKI209, ONKI210, ONKI213.
        """
        frame = sys._getframe(1)
        try:
            if self.layout.is_on_chip and group(src_pattern[0]) != group(dst_pattern[0]):
                self._keep_partitions("rearrange", frame)
            shape, strides = rearranged(
                self.shape, self.strides, src_pattern, dst_pattern, dict(fixed_sizes or {})
            )
        except ViewError as problem:
            self._refuse(problem, frame)
        return self._derived(shape, strides, self.access.offset, frame=frame)

    # Escape hatches -------------------------------------------------------------------------------------

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: Any = None,
        indirect_dim: int = 0,
        dtype: object = None,
    ) -> NkiTensor:
        """Return the access pattern `[[step, count], …]` over the tensor's storage, in elements of `dtype`.

        `scalar_offset` (a one-element SBUF tile, a register or a scalar) moves the start by so many elements
        of axis `indirect_dim` at run time; `vector_offset`, an SBUF tile `[P, 1]`, picks a row of an HBM
        tensor for each of the P rows. Without `offset` the access starts where this view starts; with it, so
        many elements from the tensor's start (the documents contradict each other there: ONKI403, a warning,
        on a view that starts elsewhere).
        On chip the first pair is the partition axis and its step is the row size.
        Errors: ONKI208 (leaves the storage), ONKI210 (partition step). Source: nki/deep-dives/nki-aps.rst.
        """
        frame = sys._getframe(1)
        kind = self.dtype if dtype is None else self._dtype(dtype, frame)
        scale_from, scale_to = DTYPES[self.dtype].bytes, DTYPES[kind].bytes
        try:
            start = 0
            if offset is None:
                start = scaled_start(self._called(), self.access.offset, scale_from, scale_to)
            if self.layout.is_on_chip:
                scaled_start(self._called(), row_bytes(self.handle.buffer), 1, scale_to)
            steps, counts = pairs(pattern)
            if offset is not None:
                start = whole(offset, "offset")
                if self.access.offset:
                    say_offset(self, start, frame)
            held = scalar_offset if vector_offset is None else vector_offset
            moved = 1 if vector_offset is None else 0
            index = pattern_index(
                self, kind, (start, steps, counts), scalar_offset, vector_offset, indirect_dim
            )
            reach = (steps[0] * moved, *steps[1:])
            check_within(self._called(), self.handle.buffer, start, reach, counts, kind)
        except ViewError as problem:
            self._refuse(problem, frame)
        return self._derived(
            counts, steps, start, dtype=kind, frame=frame, index=index, fresh=True, holds=held
        )

    def view(self, dtype: object) -> NkiTensor:
        """Return the same bytes as elements of another dtype; the last axis grows or shrinks.

        Errors: ONKI209 (last axis not contiguous), ONKI213 (does not divide), ONKI214 (unknown dtype).
        """
        frame = sys._getframe(1)
        kind = self._dtype(dtype, frame)
        try:
            shape, strides, offset = reinterpreted(
                self.shape, self.strides, self.access.offset, DTYPES[self.dtype], DTYPES[kind]
            )
        except ViewError as problem:
            self._refuse(problem, frame)
        return self._derived(shape, strides, offset, dtype=kind, frame=frame)

    reinterpret_cast = view

    # Making views and errors ----------------------------------------------------------------------------

    def _derived(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        *,
        frame: Any,
        dtype: str | None = None,
        index: Index | None = None,
        fresh: bool = False,
        holds: object = None,
        columns: Columns | None = None,
    ) -> NkiTensor:
        """Return a view with another shape; a run-time index goes along unless the view is `fresh`."""
        kept = index if fresh or index is not None else self.access.index
        if kept is not None and index is None:
            columns = self.layout.columns
            try:
                check_derived(self, kept, (offset, shape, strides), dtype)
            except ViewError as problem:
                self._refuse(problem, frame)
        kind = IndexKind.none if kept is None else kept.kind
        recorder = self.handle.recorder
        layout = recorder.layout(
            self.handle, dtype or self.layout.dtype, shape, strides, offset, kind, columns
        )
        return NkiTensor(
            self.handle,
            layout,
            View(self.access.buffer, offset, layout.id, kept),
            self.holds if holds is None else holds,
        )

    def _called(self) -> str:
        return self.name or "the tensor"

    def _axis(self, dim: int, what: str, frame: Any) -> int:
        try:
            return axis_of(dim, self.ndim, what)
        except ViewError as problem:
            self._refuse(problem, frame)

    def _dtype(self, dtype: object, frame: Any) -> str:
        found = canonical(dtype)
        if found is None:
            self._refuse(ViewError("ONKI214", f"{dtype!r} is no element type of NKI"), frame)
        return found

    def _keep_partitions(self, what: str, frame: Any) -> NoReturn:
        self._refuse(
            ViewError(
                "ONKI210",
                f"`{what}` cannot change the partition axis of `{self._called()}` {list(self.shape)} "
                f"in {self.buffer.name}",
                "use `nisa.nc_transpose` or a DMA to move data between partitions",
            ),
            frame,
        )

    def _refuse(self, problem: ViewError, frame: Any) -> NoReturn:
        refuse(self, problem, frame)

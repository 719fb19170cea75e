"""The invariant that every access lies inside its buffer, worked out exactly and remembered by layout."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from opennki.ir.dtypes import DTYPES
from opennki.ir.notation import default_layout
from opennki.ir.program import row_pitch, size_bytes
from opennki.ir.types import Buffer, Index, IndexKind, Layout, Output, Space, View
from opennki.ir.violation import Subject, Violation

__all__ = ["Range", "output_is_inside", "range_of", "views_inside"]


class Range(Struct, frozen=True, gc=False):
    """Where an access may start: `divmod(offset, pitch)` between these bounds, ends included.

    A buffer in HBM has a single row as long as the buffer.
    """

    pitch: int
    first_row: int
    last_row: int
    first: int
    last: int

    def holds(self, offset: int) -> bool:
        """True if an access that starts at `offset` stays inside."""
        row, element = divmod(offset, self.pitch)
        return self.first_row <= row <= self.last_row and self.first <= element <= self.last


def range_of(buffer: Buffer, layout: Layout, index: Index | None) -> Range | str:
    """Return where an access of `layout` may start in `buffer`, or why there is no such place."""
    if layout.space is not buffer.space:
        return f"looks for it in {layout.space.value}"
    if layout.index is not (index.kind if index else IndexKind.none):
        return "has an index of another kind than its layout"
    pairs = list(layout.pattern)
    picks: list[tuple[int, int]] = []
    if index is not None:
        if index.extent < 1:
            return f"has an index of extent {index.extent}"
        if index.kind is IndexKind.columns and (index.axis != 1 or len(pairs) != 2):
            return "has picked columns beside other free axes"
        if index.kind not in (IndexKind.vector, IndexKind.columns):
            picks = [(index.step, index.extent)]
        elif 0 <= index.axis < len(pairs):  # the picked rows or columns replace the axis
            pairs[index.axis] = (index.step, index.extent)
        else:
            return f"has an index along axis {index.axis}"
    if buffer.space.is_on_chip:
        return _on_chip(buffer, layout.dtype, pairs, picks)
    elements = size_bytes(buffer.shape, buffer.dtype) // DTYPES[layout.dtype].bytes
    if not elements:
        return "is shorter than one element"
    low, high = _reach(pairs + picks)
    return Range(elements, 0, 0, -low, elements - 1 - high)


def _on_chip(
    buffer: Buffer, dtype: str, pairs: list[tuple[int, int]], picks: list[tuple[int, int]]
) -> Range | str:
    pitch = row_pitch(buffer, dtype)
    if not pitch:
        return f"holds no whole number of {dtype} in a partition"
    step, count = pairs[0]
    if count > 1 and step % pitch:
        return f"steps over {step} elements from one partition to the next, a row has {pitch}"
    rows, free = [(step // pitch, count)], pairs[1:]
    for step, count in picks:  # an index picks partitions or elements, which its step tells
        if step % pitch:
            free.append((step, count))
        else:
            rows.append((step // pitch, count))
    low_row, high_row = _reach(rows)
    low, high = _reach(free)
    return Range(pitch, -low_row, buffer.shape[0] - 1 - high_row, -low, pitch - 1 - high)


def _reach(pairs: list[tuple[int, int]]) -> tuple[int, int]:
    """Return how far below and above its start an access of `pairs` reaches, the first one not positive."""
    spans = [step * (count - 1) for step, count in pairs]
    return sum(s for s in spans if s < 0), sum(s for s in spans if s > 0)


def views_inside(subject: Subject) -> Iterator[Violation]:
    """Every view lies inside its buffer, whatever its index picks, and starts where its layout says.

    So does the view that an index is read from.
    """
    buffers, layouts = subject.program.buffers, subject.program.layouts
    usual: dict[tuple[int, int], tuple[int, int]] = {}
    sound: set[View] = set()
    for position, i in enumerate(subject.code):
        for operand in i.operands:
            if type(operand) is not View:
                continue
            if operand.index is None:
                key = (operand.buffer, operand.layout)
                bounds = usual.get(key)
                if bounds is None:
                    bounds = usual[key] = _usual_offsets(buffers[key[0]], layouts[key[1]])
                if bounds[0] <= operand.offset <= bounds[1]:
                    continue
            if operand in sound:
                continue
            problems = list(_problems(operand, buffers, layouts))
            for view, problem in problems:
                name = buffers[view.buffer].name
                says = f"instruction {position} looks at `{name}` from element {view.offset} and {problem}"
                yield subject.violation("views_inside", position, says)
            if not problems:
                sound.add(operand)


def _usual_offsets(buffer: Buffer, layout: Layout) -> tuple[int, int]:
    """Return the first and the last legal offset; none in PSUM, where the layout says more than the row."""
    found = range_of(buffer, layout, None)
    row = layout.start_partition - (buffer.address[0] if buffer.address else 0)
    if isinstance(found, str) or buffer.space is Space.psum or not found.first_row <= row <= found.last_row:
        return (1, 0)
    start = row * found.pitch
    return (start + found.first, start + found.last)


def _problems(
    view: View, buffers: tuple[Buffer, ...], layouts: tuple[Layout, ...]
) -> Iterator[tuple[View, str]]:
    buffer, layout = buffers[view.buffer], layouts[view.layout]
    found = range_of(buffer, layout, view.index)
    if isinstance(found, str):
        yield view, found
    elif not found.holds(view.offset):
        yield view, f"leaves its {list(buffer.shape)}"
    elif default_layout(buffer, layout.dtype, view.offset, layout.pattern, layout.index) != layout:
        start = f"partition {layout.start_partition}, byte {layout.bank_offset_bytes} of the bank"
        yield view, f"does not start at {start}"
    if view.index is None:
        return
    source = view.index.source
    if isinstance(source, View):
        yield from _problems(source, buffers, layouts)
        if view.index.kind is IndexKind.columns and not _holds_offsets(layouts[source.layout], layout):
            yield view, "has columns whose offsets are no uint16 tile in SBUF of as many partitions"
    elif view.index.kind is IndexKind.columns:
        yield view, "has columns whose offsets are in a register"
    elif source.dtype not in ("int32", "int64"):
        yield view, f"is indexed by a register of {source.dtype}"


def _holds_offsets(source: Layout, layout: Layout) -> bool:
    """True if a tile can hold the offsets of picked columns; how many it must hold depends on the engine."""
    return (
        source.space is Space.sbuf
        and source.dtype == "uint16"
        and bool(source.pattern)
        and source.pattern[0][1] == layout.pattern[0][1]
    )


def output_is_inside(output: Output, buffer: Buffer) -> bool:
    """True if a returned view lies inside the buffer that it names."""
    if any(count < 1 for _, count in output.pattern):
        return False
    layout = Layout(buffer.space, output.dtype, output.pattern)
    found = range_of(buffer, layout, None)
    return isinstance(found, Range) and found.holds(output.offset)

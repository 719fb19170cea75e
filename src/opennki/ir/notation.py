"""How a view is written: as slices of its buffer where these say it exactly, else as offset and pattern.

`%t[0:128, 0:64]` is `offset` and `pattern` in one; `%t@64[(512, 128), (1, 64)]` spells them out.
"""

from __future__ import annotations

from math import prod

from opennki.ir.dtypes import DTYPES
from opennki.ir.program import row_pitch, steps_of
from opennki.ir.types import Buffer, IndexKind, Layout, Space

__all__ = ["Slice", "default_layout", "pattern_of", "slices_of"]

PSUM_BANK_BYTES = 2048  # bytes of a bank per partition, every generation (NKI architecture guides)

Slice = int | tuple[int, int, int]
"""One axis of a buffer: a position, or start, stop and step with a positive step."""

Pattern = tuple[tuple[int, int], ...]


def pattern_of(shape: tuple[int, ...], slices: tuple[Slice, ...]) -> tuple[int, Pattern] | None:
    """Return offset and pattern of `slices` of a row-major tensor; None if they are no slices of this shape.

    >>> pattern_of((128, 512), ((0, 128, 1), (64, 128, 2)))
    (64, ((512, 128), (2, 32)))
    """
    if len(slices) != len(shape):
        return None
    offset = 0
    pattern = []
    for size, axis_step, one in zip(shape, steps_of(shape), slices, strict=True):
        if isinstance(one, int):
            if not 0 <= one < size:
                return None
            offset += one * axis_step
            continue
        start, stop, step = one
        if step < 1 or not 0 <= start < stop <= size:
            return None
        offset += start * axis_step
        pattern.append((axis_step * step, (stop - start + step - 1) // step))
    return offset, tuple(pattern)


def slices_of(shape: tuple[int, ...], offset: int, pattern: Pattern) -> tuple[Slice, ...] | None:
    """Return the slices that give exactly this offset and pattern, None if there are none.

    >>> slices_of((128, 512), 64, ((512, 128), (2, 32)))
    ((0, 128, 1), (64, 127, 2))
    """
    if not 0 <= offset < prod(shape) or len(pattern) > len(shape):
        return None
    slices: list[Slice] = []
    rest = offset
    pairs = list(pattern)
    for axis, axis_step in enumerate(steps_of(shape)):
        start, rest = divmod(rest, axis_step)
        axes_left = len(shape) - axis
        if pairs and (len(pairs) == axes_left or _belongs(pairs[0], axis_step, shape[axis] * axis_step)):
            step, count = pairs.pop(0)
            stride = max(step // axis_step, 1)
            slices.append((start, start + (count - 1) * stride + 1, stride))
        else:
            slices.append(start)
    found = tuple(slices)
    return found if pattern_of(shape, found) == (offset, pattern) else None


def _belongs(pair: tuple[int, int], axis_step: int, axis_extent: int) -> bool:
    """True if a pair of the pattern walks along the axis whose positions are `axis_step` apart."""
    step, _ = pair
    return axis_step <= step < max(axis_extent, axis_step + 1)


def default_layout(buffer: Buffer, dtype: str, offset: int, pattern: Pattern, index: IndexKind) -> Layout:
    """Return the layout of a view of `buffer`: where it starts follows from the offset.

    The text form takes this for granted and says what differs; in a sound program nothing does.
    """
    if not buffer.space.is_on_chip or dtype not in DTYPES or buffer.dtype not in DTYPES:
        return Layout(buffer.space, dtype, pattern, 0, 0, index)
    partition, byte = buffer.address or (0, 0)
    pitch = row_pitch(buffer, dtype)
    row, element = divmod(offset, pitch) if pitch else (0, 0)
    bank_byte = (byte + element * DTYPES[dtype].bytes) % PSUM_BANK_BYTES if buffer.space is Space.psum else 0
    return Layout(buffer.space, dtype, pattern, partition + row, bank_byte, index)

"""View algebra: new shape and strides (and offset) from old ones. Pure functions; errors are plain sentences.

A `ViewError` carries the code and the sentence; the tensor method that called adds the user's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

from opennki.frontend.valueless import Valueless, is_int
from opennki.ir.dtypes import DTYPES, DTypeInfo
from opennki.ir.program import row_pitch, size_bytes
from opennki.ir.types import Buffer

__all__ = [
    "ViewError",
    "axis_of",
    "check_partitions",
    "check_pattern",
    "check_within",
    "contiguous_strides",
    "group",
    "inferred",
    "is_contiguous",
    "pairs",
    "rearranged",
    "reinterpreted",
    "reshaped",
    "scaled_start",
    "whole",
    "whole_sizes",
]

Shape = tuple[int, ...]
Pattern = Sequence[str | Sequence[str]]


class ViewError(Exception):
    """A view that cannot be. `code` is the diagnostic's, the text its headline, `help` its fix."""

    def __init__(self, code: str, says: str, help: str = "", rule: str | None = None) -> None:
        super().__init__(says)
        self.code = code
        self.help = help
        self.rule = rule


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Row-major strides of a shape, in elements."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def is_contiguous(shape: Shape, strides: Shape) -> bool:
    """True if the view covers its elements in one run (axes of size 1 do not count)."""
    run = 1
    for count, step in zip(reversed(shape), reversed(strides), strict=True):
        if count != 1 and step != run:
            return False
        run *= count
    return True


def _runs(shape: Shape, strides: Shape) -> list[tuple[int, int]]:
    """Merge neighbouring axes into runs `(count, innermost step)`, outermost first."""
    runs: list[tuple[int, int]] = []
    for count, step in zip(shape, strides, strict=True):
        if count == 1:
            continue
        if runs and runs[-1][1] == step * count:
            runs[-1] = (runs[-1][0] * count, step)
        else:
            runs.append((count, step))
    return runs


def reshaped(shape: Shape, strides: Shape, new: Shape, what: str = "reshape") -> Shape:
    """Return the strides of the view as `new`, or fail when only a copy could have that shape."""
    if prod(shape) != prod(new):
        raise ViewError(
            "ONKI213",
            f"`{what}` keeps the number of elements: {list(shape)} has {prod(shape)}, "
            f"{list(new)} has {prod(new)}",
            "give a shape with as many elements",
        )
    if shape == new:
        return strides
    runs = _runs(shape, strides)
    result = [1] * len(new)
    place = len(runs) - 1
    left, step = runs[place] if runs else (1, 1)
    for i in range(len(new) - 1, -1, -1):
        if new[i] == 1:
            result[i] = step
            continue
        if left == 1 and place > 0:
            place -= 1
            left, step = runs[place]
        if left % new[i]:
            raise ViewError(
                "ONKI209",
                f"`{what}` of a view that is not contiguous: shape {list(shape)} with strides "
                f"{list(strides)} cannot be seen as {list(new)}",
                "copy the window into a tile first, then reshape the tile",
            )
        result[i] = step
        step *= new[i]
        left //= new[i]
    return tuple(result)


def reinterpreted(
    shape: Shape, strides: Shape, offset: int, old: DTypeInfo, new: DTypeInfo
) -> tuple[Shape, Shape, int]:
    """Return shape, strides and offset of the same bytes as `new` elements; the last axis gives way."""
    if old.bytes == new.bytes:
        return shape, strides, offset
    if strides[-1] != 1 and shape[-1] != 1:
        raise ViewError(
            "ONKI209",
            f"`view` needs a contiguous last axis: shape {list(shape)} has strides {list(strides)}",
            "copy the window into a tile first",
        )
    outer = [0 if count == 1 else step for count, step in zip(shape[:-1], strides[:-1], strict=True)]
    sizes = [shape[-1] * old.bytes, offset * old.bytes, *[step * old.bytes for step in outer]]
    if any(size % new.bytes for size in sizes):
        raise ViewError(
            "ONKI213",
            f"`view` cannot see {list(shape)} {old.name} as {new.name}: "
            f"{old.bytes}-byte elements do not divide into {new.bytes}",
        )
    last, start, *steps = [size // new.bytes for size in sizes]
    return (*shape[:-1], last), (*steps, 1), start


def scaled_start(name: str, offset: int, old: int, new: int) -> int:
    """Return an offset of `old`-byte elements in elements of `new` bytes."""
    if offset * old % new:
        raise ViewError(
            "ONKI213",
            f"`ap` cannot see `{name}` in {new}-byte elements: {offset * old} bytes do not divide by {new}",
            "choose a dtype whose elements fit",
        )
    return offset * old // new


def pairs(pattern: Any) -> tuple[Shape, Shape]:
    """Return steps and counts of an access pattern."""
    try:
        found = [(whole(step, "step"), whole(count, "count")) for step, count in pattern]
    except (TypeError, ValueError):
        found = []
    if not found or min(count for _, count in found) < 1:
        raise ViewError("ONKI210", f"`ap` needs pairs [step, count] with counts above 0, got {pattern!r}")
    return tuple(step for step, _ in found), tuple(count for _, count in found)


def whole_sizes(sizes: Any, what: str) -> Shape:
    """Return sizes as ints, or fail."""
    return tuple(whole(size, f"size in `{what}`") for size in sizes)


def axis_of(axis: int, rank: int, what: str) -> int:
    """Return a legal axis number, negative ones counted from the end."""
    if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
        raise ViewError("ONKI210", f"`{what}` has no axis {axis!r} in a view of {rank} axes")
    return axis % rank


def inferred(shape: Sequence[int], total: int, what: str) -> Shape:
    """Fill in one -1 of a shape so that it has `total` elements."""
    unknown = [i for i, count in enumerate(shape) if count == -1]
    known = prod(count for count in shape if count != -1)
    if len(unknown) > 1:
        raise ViewError("ONKI210", f"`{what}` can work out one -1, got {list(shape)}")
    if unknown and (known == 0 or total % known):
        raise ViewError("ONKI213", f"`{what}` cannot split {total} elements as {list(shape)}")
    return tuple(total // known if count == -1 else count for count in shape)


def whole(value: Any, what: str) -> int:
    """Return an int, or fail: `value` may be a NumPy integer, not a float or a tensor."""
    if isinstance(value, Valueless):
        raise ViewError(
            "ONKI210",
            f"the {what} of a view must be an int, got a tensor",
            "pick with `.select(axis, t)` or `.ap(…, scalar_offset=t)` what is known at run time only",
        )
    if not is_int(value):
        raise ViewError("ONKI210", f"the {what} of a view must be an int, got {value!r}")
    return index(value)


def _span(start: int, steps: Shape, counts: Shape) -> tuple[int, int]:
    """The lowest and the highest element that a pattern touches."""
    reach = [step * (count - 1) for step, count in zip(steps, counts, strict=True)]
    return start + sum(min(0, r) for r in reach), start + sum(max(0, r) for r in reach)


def check_pattern(name: str, start: int, steps: Shape, counts: Shape, total: int) -> None:
    """Check that a pattern stays inside a tensor of `total` elements."""
    low, high = _span(start, steps, counts)
    if low < 0 or high >= total:
        raise ViewError(
            "ONKI208",
            f"the pattern reaches elements {low} to {high} of `{name}`, which has {total}",
            "shorten the counts, or start earlier",
        )


def check_partitions(name: str, start: int, steps: Shape, counts: Shape, pitch: int) -> None:
    """Check that a pattern on chip walks partitions one by one and stays inside a partition's row."""
    if counts[0] > 1 and steps[0] != pitch:
        raise ViewError(
            "ONKI210",
            f"the first pair of `ap` walks the partitions of `{name}`: "
            f"its step must be the row size {pitch}, got {steps[0]}",
            f"write `[[{pitch}, {counts[0]}], …]`",
        )
    first, last = _span(start % pitch, steps[1:], counts[1:])
    if first < 0 or last >= pitch:
        raise ViewError(
            "ONKI208",
            f"the free pattern reaches elements {first} to {last} of a partition of `{name}`, "
            f"which has {pitch}",
            "stay within one partition's row",
        )


def check_within(name: str, buffer: Buffer, start: int, steps: Shape, counts: Shape, dtype: str) -> None:
    """Check that a pattern stays inside its tensor and, on chip, walks the partitions one by one."""
    total = size_bytes(buffer.shape, buffer.dtype) // DTYPES[dtype].bytes
    check_pattern(name, start, steps, counts, total)
    if buffer.space.is_on_chip:
        check_partitions(name, start, steps, counts, row_pitch(buffer, dtype))


def group(names: str | Sequence[str]) -> tuple[str, ...]:
    """The names of one axis of a pattern."""
    return (names,) if isinstance(names, str) else tuple(names)


def _split_sizes(pattern: Pattern, shape: Shape, sizes: dict[str, int]) -> list[str]:
    """Work out the size of every name in a source pattern; `sizes` is filled in place."""
    if len(pattern) != len(shape):
        raise ViewError("ONKI210", f"`rearrange` names {len(pattern)} axes of {len(shape)}")
    names: list[str] = []
    for axis, count in zip(pattern, shape, strict=True):
        members = group(axis)
        names += members
        found = inferred(tuple(sizes.get(m, -1) for m in members), count, "rearrange")
        if prod(found) != count:
            raise ViewError("ONKI213", f"`rearrange` cannot split an axis of {count} as {members} = {found}")
        sizes.update(zip(members, found, strict=True))
    return names


def rearranged(
    shape: Shape, strides: Shape, source: Pattern, wanted: Pattern, sizes: dict[str, int]
) -> tuple[Shape, Shape]:
    """Return shape and strides after splitting axes by name, reordering and merging them."""
    names = _split_sizes(source, shape, sizes)
    after = [name for axis in wanted for name in group(axis)]
    if sorted(names) != sorted(after) or len(set(names)) != len(names):
        raise ViewError("ONKI210", f"`rearrange` needs the same names on both sides, got {names} and {after}")
    steps: dict[str, int] = {}
    for axis, count, step in zip(source, shape, strides, strict=True):
        members = group(axis)
        steps.update(
            zip(
                members,
                reshaped((count,), (step,), tuple(sizes[m] for m in members), "rearrange"),
                strict=True,
            )
        )
    new_shape, new_strides = [], []
    for axis in wanted:
        members = group(axis)
        counts = tuple(sizes[m] for m in members)
        new_shape.append(prod(counts))
        new_strides.append(
            reshaped(counts, tuple(steps[m] for m in members), (prod(counts),), "rearrange")[0]
        )
    return tuple(new_shape), tuple(new_strides)

"""View algebra: new shape and strides (and offset) from old ones. Pure functions; errors are plain sentences.

A `ViewError` carries the code and the sentence; the tensor method that called adds the user's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

__all__ = ["ViewError", "contiguous_strides", "is_contiguous", "reshaped"]

Shape = tuple[int, ...]


class ViewError(Exception):
    """A view that cannot be. `code` is the diagnostic's, the text its headline, `help` its fix."""

    def __init__(self, code: str, says: str, help: str = "") -> None:
        super().__init__(says)
        self.code = code
        self.help = help


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


def reshaped(shape: Shape, strides: Shape, new: Shape) -> Shape:
    """Return the strides of the view as `new`, or fail when only a copy could have that shape."""
    if prod(shape) != prod(new):
        raise ViewError(
            "ONKI213",
            f"`reshape` keeps the number of elements: {list(shape)} has {prod(shape)}, "
            f"{list(new)} has {prod(new)}",
            "give a shape with as many elements",
        )
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
                f"`reshape` of a view that is not contiguous: shape {list(shape)} with strides "
                f"{list(strides)} cannot be seen as {list(new)}",
                "copy the window into a tile first, then reshape the tile",
            )
        result[i] = step
        step *= new[i]
        left //= new[i]
    return tuple(result)


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

"""What `tensor[key]` means: shape, strides and offset of the view that a key picks. Pure functions."""

from __future__ import annotations

from typing import Any

from opennki.frontend.views import Shape, ViewError, whole

__all__ = ["SELECT", "DynamicSlice", "indexed", "pad"]

SELECT = -1  # in a slicing signature: an integer index


class DynamicSlice:
    """`nl.ds(start, size)`: the slice `start : start + size`."""

    __slots__ = ("size", "start")

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size

    def __repr__(self) -> str:
        return f"ds({self.start}, {self.size})"


def indexed(
    name: str, shape: Shape, strides: Shape, offset: int, key: tuple[Any, ...], on_chip: bool
) -> tuple[Shape, Shape, int]:
    """Return shape, strides and offset of the view that `key` picks. On chip axis 0 stays, with size 1."""
    new_shape: list[int] = []
    new_strides: list[int] = []
    for axis, item in enumerate(_expanded(name, shape, key)):
        low, count, step = _range(name, item, axis, shape[axis], on_chip)
        offset += low * strides[axis]
        if count != SELECT:
            new_shape.append(count)
            new_strides.append(strides[axis] * step)
        elif axis == 0 and on_chip:
            new_shape.append(1)
            new_strides.append(strides[axis])
    pad(new_shape, new_strides, on_chip)
    return tuple(new_shape), tuple(new_strides), offset


def pad(shape: list[int], strides: list[int], on_chip: bool) -> None:
    """Fill a view up to the fewest axes that one has: two on chip, one in HBM."""
    while len(shape) < (2 if on_chip else 1):
        shape.append(1)
        strides.append(1)


def _expanded(name: str, shape: Shape, key: tuple[Any, ...]) -> list[Any]:
    """Fill up a key to one item an axis, `...` spread out."""
    dots = [i for i, item in enumerate(key) if item is Ellipsis]
    if len(dots) > 1:
        raise ViewError("ONKI210", "an index may hold `...` once")
    given = len(key) - len(dots)
    if given > len(shape):
        raise ViewError("ONKI208", f"{given} indices for `{name}`, which has {len(shape)} axes {list(shape)}")
    fill = [slice(None)] * (len(shape) - given)
    if not dots:
        return [*key, *fill]
    return [*key[: dots[0]], *fill, *key[dots[0] + 1 :]]


def _range(name: str, item: Any, axis: int, size: int, on_chip: bool) -> tuple[int, int, int]:
    """Return start, count (or `SELECT`) and step that an index item means on an axis of `size`."""
    if isinstance(item, DynamicSlice):
        item = slice(item.start, item.start + item.size)
    if isinstance(item, slice):
        return _slice(name, item, axis, size, on_chip)
    if item is None or isinstance(item, bool):
        raise ViewError("ONKI210", f"{item!r} is no index", "use `expand_dim` to add an axis")
    index = whole(item, "index")
    if not -size <= index < size:
        raise ViewError(
            "ONKI208",
            f"index {index} leaves axis {axis} of `{name}`, which has {size} {_unit(axis)}",
            f"stay within 0 to {size - 1}",
        )
    return index % size, SELECT, 1


def _slice(name: str, item: slice, axis: int, size: int, on_chip: bool) -> tuple[int, int, int]:
    """Return start, count and step of a slice, negative bounds counted from the end."""
    step = 1 if item.step is None else whole(item.step, "step")
    low = 0 if item.start is None else whole(item.start, "start")
    high = size if item.stop is None else whole(item.stop, "end")
    low = low + size if low < 0 else low
    high = high + size if high < 0 else high
    if step < 1:
        raise ViewError("ONKI210", f"a slice steps forward, got a step of {step}")
    if not 0 <= low < high <= size:
        raise ViewError(
            "ONKI208",
            f"slice {low}:{high} leaves axis {axis} of `{name}`, which has {size} {_unit(axis)}",
            f"shorten the last tile, for example `{low}:min({high}, {size})`"
            if low < size
            else f"stay within 0:{size}",
        )
    if axis == 0 and on_chip and step != 1 and high - low > step:
        raise ViewError(
            "ONKI210",
            f"partitions are taken one by one, got a step of {step} on axis 0 of `{name}`",
            "move the rows together with `nisa.dma_copy` first",
            rule="GEN-05",
        )
    return low, -(-(high - low) // step), step


def _unit(axis: int) -> str:
    return "rows" if axis == 0 else "elements"

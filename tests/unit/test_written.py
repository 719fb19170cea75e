"""The map of written PSUM elements against a plain set of bytes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opennki.execute.written import WrittenMap
from opennki.ir.dtypes import DTYPES
from opennki.ir.types import Layout, Space

ROW_BYTES = 32


class Window(NamedTuple):
    """An access of a buffer with rows of 32 bytes: where it starts and how it looks."""

    offset: int
    layout: Layout

    def elements(self) -> list[frozenset[int]]:
        """Return the bytes of each element, in order."""
        size = DTYPES[self.layout.dtype].bytes
        starts = [
            size * (self.offset + sum(step * i for (step, _), i in zip(self.layout.pattern, at, strict=True)))
            for at in product(*[range(count) for _, count in self.layout.pattern])
        ]
        return [frozenset(range(start, start + size)) for start in starts]


def window(
    row: int, column: int, shape: tuple[int, ...], steps: tuple[int, ...], dtype: str = "float32"
) -> Window:
    pitch = ROW_BYTES // DTYPES[dtype].bytes
    pattern = tuple(zip((pitch, *steps), shape, strict=True))
    return Window(row * pitch + column, Layout(Space.psum, dtype, pattern))


class Map:
    """A `WrittenMap` with the numbers of its layouts, as a machine gives them."""

    def __init__(self) -> None:
        self.map = WrittenMap(ROW_BYTES)
        self.numbers: dict[Layout, int] = {}

    def number(self, layout: Layout) -> int:
        return self.numbers.setdefault(layout, len(self.numbers))

    def add(self, *windows: Window) -> None:
        for one in windows:
            self.map.add(one.offset, self.number(one.layout), one.layout)

    def fresh(self, one: Window) -> list[bool]:
        """Return for each element whether it is fresh."""
        found = self.map.fresh(one.offset, self.number(one.layout), one.layout)
        shape = one.layout.shape
        mask = np.full(shape, found) if isinstance(found, bool) else found
        assert mask.shape == shape
        return [bool(value) for value in mask.ravel()]


def expected(one: Window, written: Iterable[Window]) -> list[bool]:
    """An element is fresh unless some write touched its first byte."""
    bytes_written = {byte for other in written for element in other.elements() for byte in element}
    return [min(element) not in bytes_written for element in one.elements()]


WHOLE = window(0, 0, (4, 8), (1,))
LEFT, RIGHT = window(0, 0, (4, 4), (1,)), window(0, 4, (4, 4), (1,))
MIDDLE = window(0, 2, (4, 4), (1,))


def test_nothing_is_written_at_first() -> None:
    assert Map().fresh(WHOLE) == [True] * 32


def test_the_same_window_again() -> None:
    written = Map()
    written.add(LEFT)
    assert written.fresh(LEFT) == [False] * 16
    assert written.fresh(RIGHT) == [True] * 16


def test_windows_that_overlap_in_part() -> None:
    written = Map()
    written.add(LEFT)
    assert written.fresh(MIDDLE) == [False, False, True, True] * 4
    written.add(MIDDLE)
    assert written.fresh(WHOLE) == [False] * 6 + [True] * 2 + ([False] * 6 + [True] * 2) * 3
    written.add(RIGHT)
    assert written.fresh(WHOLE) == [False] * 32


def test_windows_in_one_box_that_share_no_element() -> None:
    even, odd = window(0, 0, (4, 4), (2,)), window(0, 1, (4, 4), (2,))
    written = Map()
    written.add(even)
    assert written.fresh(odd) == [True] * 16
    assert written.fresh(WHOLE) == [False, True] * 16


def test_windows_of_other_rows() -> None:
    written = Map()
    written.add(window(0, 0, (2, 8), (1,)))
    assert written.fresh(window(2, 0, (2, 8), (1,))) == [True] * 16
    assert written.fresh(window(1, 0, (2, 8), (1,))) == [False] * 8 + [True] * 8


def test_windows_of_another_dtype() -> None:
    written = Map()
    written.add(window(0, 0, (4, 4), (1,), "bfloat16"))
    assert written.fresh(WHOLE) == ([False] * 2 + [True] * 6) * 4
    assert written.fresh(window(0, 0, (4, 16), (1,), "bfloat16")) == ([False] * 4 + [True] * 12) * 4


@pytest.mark.parametrize("first", [LEFT, WHOLE])
def test_adding_twice_changes_nothing(first: Window) -> None:
    written = Map()
    written.add(first, first)
    assert written.fresh(WHOLE) == expected(WHOLE, [first])


def test_a_look_changes_nothing() -> None:
    written = Map()
    written.add(LEFT)
    for _ in range(3):
        assert written.fresh(MIDDLE) == [False, False, True, True] * 4
    assert written.fresh(RIGHT) == [True] * 16


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """A window of a buffer of 4 rows of 8 float32 elements."""
    dtype = draw(st.sampled_from(("float32", "bfloat16")))
    pitch = ROW_BYTES // DTYPES[dtype].bytes
    row = draw(st.integers(0, 3))
    rows = draw(st.integers(1, 4 - row))
    step = draw(st.integers(1, 3))
    count = draw(st.integers(1, (pitch - 1) // step + 1))
    column = draw(st.integers(0, pitch - 1 - step * (count - 1)))
    if count % 2 == 0 and draw(st.booleans()):
        return window(row, column, (rows, 2, count // 2), (step * count // 2, step), dtype)
    return window(row, column, (rows, count), (step,), dtype)


@given(st.lists(windows(), max_size=5), windows())
def test_the_map_is_a_set_of_bytes(written: list[Window], one: Window) -> None:
    found = Map()
    for i, other in enumerate(written):
        assert found.fresh(other) == expected(other, written[:i])
        found.add(other)
    assert found.fresh(one) == expected(one, written)

"""How often counted loops turn, against Python's own ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opennki.ir.program import trip_count
from opennki.ir.types import Loop, LoopKind, Operand, Register


def loop(lower: Operand, upper: Operand, step: int, kind: LoopKind = LoopKind.counted) -> Loop:
    return Loop(0, kind, Register(0, "int32"), lower, upper, step, (), 0)


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-20, 20).filter(bool))
def test_trips_are_those_of_a_range(lower: int, upper: int, step: int) -> None:
    assert trip_count(loop(lower, upper, step)) == len(range(lower, upper, step))


def test_more_trips_than_python_counts() -> None:
    assert trip_count(loop(-(1 << 63), 1 << 63, 1)) == 1 << 64


@pytest.mark.parametrize("bounds", [(Register(1, "int32"), 4), (0, Register(1, "int32"))])
def test_a_register_is_known_to_the_run_only(bounds: tuple[Operand, Operand]) -> None:
    assert trip_count(loop(*bounds, 1)) is None
    assert trip_count(loop(0, 1, 1, LoopKind.conditional)) is None

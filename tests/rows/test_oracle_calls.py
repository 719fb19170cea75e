"""The judge of a case accepts the oracle's own answer and notices one wrong bit, inside or beside it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows.cases import Case, illegal_calls, legal_cases
from tests.rows.conversions import PACKED, Array, bits_of, load
from tests.rows.oracle_calls import disagreement, run, viewed

LEGAL = list(legal_cases())
SOME = LEGAL[::15]


def flipped(array: Array, index: tuple[int, ...]) -> Array:
    """Return the array with the top bit of one element flipped."""
    raw = np.ascontiguousarray(array).view(f"uint{array.dtype.itemsize * 8}").copy()
    raw[index] ^= raw.dtype.type(1 << (array.dtype.itemsize * 8 - 1))
    return raw.view(array.dtype)


def test_names_are_unique_and_the_suite_is_of_the_planned_size() -> None:
    names = [case.id for case in LEGAL]
    assert len(set(names)) == len(names)
    assert 1200 < len(names) < 1650
    refused = [illegal.case.id for illegal in illegal_calls()]
    assert len(set(refused)) == len(refused)


@pytest.mark.parametrize("case", SOME, ids=lambda case: case.id)
def test_the_oracle_accepts_itself_and_no_flipped_bit(case: Case) -> None:
    claims, contents = run(case)
    assert disagreement(case, claims, contents) == ""
    claim = claims[-1]
    spec = case.buffers()[claim.buffer]
    if spec.dtype == "bool" or claim.spec.element in PACKED or claim.spec.element != spec.dtype:
        return
    places = np.argwhere(_sharp(viewed(contents[claim.buffer], claim.spec), spec.dtype))
    if not len(places):
        return
    numbers = viewed(np.arange(int(np.prod(spec.shape))).reshape(spec.shape), claim.spec)
    place = np.unravel_index(int(numbers[tuple(places[0])]), spec.shape)
    broken = {**contents, claim.buffer: flipped(contents[claim.buffer], tuple(int(i) for i in place))}
    assert disagreement(case, claims, broken) != ""


def _sharp(values: Array, dtype: str) -> Array:
    """Return where a flipped top bit must show: not at NaN, nor near zero, where a tolerance may span it."""
    numbers = load(np.ascontiguousarray(values), dtype)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(numbers) > 1)


def test_elements_beside_the_destination_are_judged() -> None:
    case = next(case for case in LEGAL if case.id == "tensor_copy-dense-to-strided-trn3")
    claims, contents = run(case)
    broken = {**contents, "dst": flipped(contents["dst"], (0, 0))}
    assert bits_of(broken["dst"])[0, 0] != bits_of(contents["dst"])[0, 0]
    assert "outside the destination" in disagreement(case, claims, broken)

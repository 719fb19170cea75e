"""What tracing remembers changes nothing: a mistake is refused after a like call that was right, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from opennki import nki
from opennki.diag import OpenNkiError
from tests.unit.nl_run import nl

SMALL = np.zeros((8, 8), np.float32)

SLICES: list[tuple[Any, Any]] = [
    (slice(0, 4), [0, 4, None]),
    (slice(0, 4), (0, 4, None)),
    (slice(0, 4), slice(0, True)),
    (slice(0, 4), slice(0, 4.0)),
    (slice(1, 4), slice(True, 4)),
    (1, True),
    (1, 1.0),
    (1, np.bool_(True)),
]


def code_of(act: Callable[[Any], object]) -> str:
    """Return the code with which a kernel is refused, nothing where it is not."""

    @nki.jit
    def kernel(x: Any) -> Any:
        act(nl.load(x))
        return x

    try:
        nki.simulate(kernel)(SMALL)
    except OpenNkiError as error:
        return error.code
    return ""


@pytest.mark.parametrize(("right", "wrong"), SLICES)
def test_a_key_is_not_taken_for_another(right: Any, wrong: Any) -> None:
    alone = code_of(lambda tile: tile[0:8, wrong])
    after = code_of(lambda tile: (tile[0:8, right], tile[0:8, right], tile[0:8, wrong]))
    assert alone == after


ALLOCATIONS: list[dict[str, Any]] = [
    {"shape": {8: 0, 4: 0}},
    {"shape": {8, 4}},
    {"shape": (8.0, 4)},
    {"shape": (True, 4)},
    {"shape": ((8,), 4)},
    {"name": 0},
    {"name": ()},
    {"dtype": "float31"},
    {"buffer": "sbuf"},
    {"buffer": []},
]


@pytest.mark.parametrize("wrong", ALLOCATIONS)
def test_an_allocation_is_not_taken_for_another(wrong: dict[str, Any]) -> None:
    right = {"shape": (8, 4), "dtype": nl.float32, "buffer": nl.sbuf}
    alone = code_of(lambda tile: nl.ndarray(**{**right, **wrong}))
    after = code_of(lambda tile: (nl.ndarray(**right), nl.ndarray(**right), nl.ndarray(**{**right, **wrong})))
    assert alone == after
    assert alone != ""

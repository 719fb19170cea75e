"""Whose exception it is, and where in the user's source."""

from __future__ import annotations

import json

import numpy as np
import pytest

from opennki.build.kernel_errors import kernel_errors
from opennki.build.places import call_location, is_ours, raised_at
from opennki.build.values import nest
from opennki.diag import InternalError, OpenNkiError
from opennki.ir.types import Structure


def _library() -> None:
    json.loads("{")


def _numpy() -> None:
    np.broadcast_to(np.zeros(3), (2,))


def _ours() -> None:
    nest(Structure("leaf", 3), [])


def _own() -> None:
    raise ValueError("the user's own")


@pytest.mark.parametrize(
    ("raises", "ours", "line"),
    [
        (_library, False, 'json.loads("{")'),
        (_numpy, False, "np.broadcast_to(np.zeros(3), (2,))"),
        (_own, False, 'raise ValueError("the user\'s own")'),
        (_ours, True, 'nest(Structure("leaf", 3), [])'),
    ],
)
def test_whose_exception_it_is(raises: object, ours: bool, line: str) -> None:
    assert callable(raises)
    with pytest.raises((ValueError, IndexError)) as caught:
        raises()
    assert is_ours(caught.value) is ours
    place = raised_at(caught.value)
    assert place is not None
    assert place.text.strip() == line


def test_an_exception_of_the_kernels_own_becomes_a_finding() -> None:
    with pytest.raises(OpenNkiError) as caught, kernel_errors("k"):
        _own()
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("ONKI110", "kernel `k` raised ValueError: the user's own")


@pytest.mark.parametrize("raised", [InternalError("ours"), KeyboardInterrupt()])
def test_what_is_not_the_kernels_passes(raised: BaseException) -> None:
    with pytest.raises(type(raised)) as caught, kernel_errors("k"):
        raise raised
    assert caught.value is raised


def test_an_exception_in_our_code_passes() -> None:
    with pytest.raises(IndexError), kernel_errors("k"):
        _ours()


def test_the_call_is_the_users_line() -> None:
    place = call_location()
    assert place is not None
    assert place.text.strip() == "place = call_location()"
    assert place.function == "test_the_call_is_the_users_line"

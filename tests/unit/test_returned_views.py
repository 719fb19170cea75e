"""A returned view of an input is that view: only all of it, as it lies there, is the input itself."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opennki
from opennki import nki

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "permuted": lambda x: x.permute((1, 0)),
    "a row": lambda x: x[1:2],
    "a column": lambda x: x[:, 2:3],
    "regrouped": lambda x: x.reshape((9, 1)),
}
EXPECTED: dict[str, Callable[[Any], Any]] = VIEWS | {"permuted": lambda x: x.T}
WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "simulated": lambda kernel, x: nki.simulate(kernel)(x),
    "compiled": lambda kernel, x: opennki.compile(kernel, x, lnc=1)(x),
    "called": lambda kernel, x: kernel(x),
}


def returning(view: Callable[[Any], Any]) -> Any:
    @nki.jit
    def grow(x: Any) -> Any:
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=x, src=tile)
        return view(x)

    return grow[1]


@pytest.mark.parametrize("precise", ["0", "1"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", VIEWS)
def test_a_returned_view_is_that_view(
    name: str, way: str, dtype: Any, precise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    monkeypatch.setenv("NKI_PRECISE_FP", precise)
    x = np.arange(9).reshape(3, 3).astype(dtype)
    grown = x + np.ones((), dtype)
    found = WAYS[way](returning(VIEWS[name]), x)
    np.testing.assert_array_equal(x, grown)
    np.testing.assert_array_equal(found, EXPECTED[name](grown))
    assert (found is x) == (name == "whole")

"""Functions of the Scalar engine on many values at once, against the C library's error function."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from opennki.isa import activations

# More than one block of elements, the last one not full; the tails, where a difference from 1 would cancel.
DENSE = np.linspace(-13.0, 9.0, 20_011, dtype=np.float32)
# Functions may be 4 ulp off (docs/conformance/numerics.md); a float64 formula rounded once is half of one.
ULPS = 0.51


def _gelu(x: float) -> float:
    return x * 0.5 * math.erfc(-x / math.sqrt(2.0))


@pytest.mark.parametrize(("name", "function"), [("gelu", _gelu), ("erf", math.erf)])
def test_dense_values(name: str, function: Callable[[float], float]) -> None:
    got = getattr(activations, name)(DENSE)
    wanted = np.array([function(float(value)) for value in DENSE])
    assert got.dtype == np.float32
    ulps = np.abs(got - wanted) / np.spacing(np.abs(wanted).astype(np.float32))
    assert ulps.max() <= ULPS


def test_blocks_do_not_show() -> None:
    wide = np.stack([DENSE, DENSE[::-1]], axis=1)
    for x in (wide, wide[:, 1], wide[::3], wide.T):
        one_by_one = np.array([activations.gelu(value[None])[0] for value in x.reshape(-1)[::997]])
        result = activations.gelu(x)
        assert result.shape == x.shape
        assert result.reshape(-1)[::997].tobytes() == one_by_one.tobytes()


def test_the_complementary_error_function_far_out() -> None:
    x = np.linspace(0.0, 26.5, 5_003)
    wanted = np.array([math.erfc(value) for value in x])
    np.testing.assert_allclose(activations._erfc_positive(x), wanted, rtol=1e-10, atol=0)
    edges = activations._erfc_positive(np.array([27.5, np.inf, np.nan]))
    assert edges[:2].tolist() == [0.0, 0.0]
    assert math.isnan(edges[2])

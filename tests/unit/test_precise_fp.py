"""`NKI_PRECISE_FP=0`: low-precision tensors are kept in float32, simulated and compiled alike."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.diag import OpenNkiError

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")
BF16 = np.dtype(ml_dtypes.bfloat16)

SMALL = 2.0**-10  # 1 + SMALL rounds to 1 in bfloat16, and to something else in float32


@pytest.fixture(autouse=True)
def imprecise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


def both_ways(kernel: Any, *arrays: Any, lnc: int = 1) -> Any:
    """Return what a kernel gives, simulated and compiled, which must be the same bits."""
    copies = [array.copy() for array in arrays]
    simulated = nki.simulate(kernel[lnc])(*arrays)
    compiled = opennki.compile(kernel[lnc], *copies, lnc=lnc)(*copies)
    assert simulated.dtype == compiled.dtype
    assert simulated.tobytes() == compiled.tobytes()
    for one, other in zip(arrays, copies, strict=True):
        assert one.tobytes() == other.tobytes()
    return simulated


def add_and_take_away(x: Any) -> Any:
    """(x + SMALL) - 1 with a low-precision tile between."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs()
    here = nl.program_id(0) * rows
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[here : here + rows])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=SMALL)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=1.0)
    nisa.dma_copy(dst=out[here : here + rows], src=tile)
    return out


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("dtype", [BF16, np.dtype(ml_dtypes.float8_e5m2)], ids=str)
def test_what_a_narrow_tile_loses_stays(dtype: Any, lnc: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((4, 3), dtype)
    kernel = nki.jit(add_and_take_away)
    found = both_ways(kernel, x, lnc=lnc)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.float32), np.full((4, 3), SMALL, np.float32))
    monkeypatch.setenv("NKI_PRECISE_FP", "1")
    np.testing.assert_array_equal(both_ways(kernel, x, lnc=lnc).astype(np.float32), np.zeros((4, 3)))


def test_the_end_is_rounded_as_a_store_would_have(monkeypatch: pytest.MonkeyPatch) -> None:
    @nki.jit
    def scaled(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=nl.float8_e4m3, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=nl.float8_e4m3, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=64.0)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = np.array([[1.0, 3.75, 8.0, -8.0, np.nan, -0.0]], ml_dtypes.float8_e4m3)
    expected = np.array([[64.0, 240.0, 240.0, -240.0, np.nan, -0.0]], np.float32)
    np.testing.assert_array_equal(both_ways(scaled, x).astype(np.float32), expected)


def test_an_input_written_in_place_is_rounded_back() -> None:
    @nki.jit
    def grow(x: Any) -> Any:
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=2.0**-9)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=2.0**-8)
        nisa.dma_copy(dst=x, src=tile)
        return x

    x = np.ones((2, 5), BF16)
    found = both_ways(grow, x)
    # 1 + 3/512 lies nearer to 1 + 1/128 than to 1; rounded after each step it would stay 1
    np.testing.assert_array_equal(found.astype(np.float32), np.full((2, 5), 1 + 2.0**-7))
    np.testing.assert_array_equal(x, found)


def test_an_output_that_is_a_strided_alias_is_narrow_again() -> None:
    @nki.jit
    def columns(x: Any) -> Any:
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=x, src=tile)
        return x[:, 1:3]

    wide = np.arange(24).reshape(2, 12).astype(BF16)
    given = wide[:, ::2]
    copy = given.copy()
    np.testing.assert_array_equal(nki.simulate(columns)(given), copy[:, 1:3])
    np.testing.assert_array_equal(opennki.compile(columns, given, lnc=1)(given), copy[:, 1:3])
    np.testing.assert_array_equal(both_ways(columns, copy), copy[:, 1:3])


def test_constants_matrix_products_and_bits() -> None:
    @nki.jit
    def product(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        weights = nl.ndarray((4, 4), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=weights, src=nl.shared_constant(np.full((4, 4), 1 / 3).astype(BF16)))
        nisa.tensor_scalar(dst=weights, data=weights, op0=nl.add, operand0=SMALL)
        sums = nl.ndarray((4, x.shape[1]), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=sums, stationary=weights, moving=tile)
        nisa.tensor_copy(dst=tile, src=sums)
        turned = nl.ndarray(x.shape[::-1], dtype=x.dtype, buffer=nl.sbuf)
        nisa.nc_transpose(dst=turned, data=tile, engine=nisa.vector_engine)
        nisa.nc_transpose(dst=tile, data=turned, engine=nisa.vector_engine)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = np.ones((4, 4), BF16)
    third = np.float32(np.array(1 / 3).astype(BF16))
    expected = np.full((4, 4), 4 * (third + np.float32(SMALL)), np.float32).astype(BF16)
    np.testing.assert_array_equal(both_ways(product, x), expected)


def test_tiles_placed_by_hand_have_places_of_their_own() -> None:
    @nki.jit
    def placed(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 0))
        b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 64))
        nisa.dma_copy(dst=a, src=x)
        nisa.tensor_scalar(dst=b, data=a, op0=nl.add, operand0=SMALL)
        nisa.tensor_scalar(dst=a, data=b, op0=nl.subtract, operand0=1.0)
        nisa.dma_copy(dst=out, src=a)
        return out

    found = both_ways(placed, np.ones((2, 32), BF16))
    np.testing.assert_array_equal(found.astype(np.float32), np.full((2, 32), SMALL, np.float32))


def test_a_repr_shows_what_is_kept() -> None:
    seen: list[str] = []

    @nki.jit
    def shows(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=SMALL)
        seen.append(repr(tile))
        nisa.dma_copy(dst=out, src=tile)
        return out

    nki.simulate(shows)(np.ones((1, 2), BF16))
    assert "bfloat16" in seen[0]
    assert "[[1.000977 1.000977]]" in seen[0]


def test_a_tensor_looked_at_as_another_dtype_is_refused() -> None:
    @nki.jit
    def looks(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=nl.uint16, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out, src=tile.view(nl.uint16))
        return out

    x = np.ones((2, 4), BF16)
    runs: list[Callable[[], object]] = [
        lambda: nki.simulate(looks)(x),
        lambda: opennki.compile(looks, x, lnc=1)(x),
    ]
    for run in runs:
        with pytest.raises(OpenNkiError) as caught:
            run()
        (found,) = caught.value.diagnostics
        assert found.code == "ONKI102"
        assert "`NKI_PRECISE_FP=0 with bfloat16 viewed as uint16`" in found.message
        assert found.labels[0].location.line == looks.function.__code__.co_firstlineno + 5

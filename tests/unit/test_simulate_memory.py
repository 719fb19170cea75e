"""Simulation: unwritten memory, accumulation in PSUM, the life of storage."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opennki
from opennki import nki
from tests.unit.simulating import Array, hbm, psum, ramp, sbuf

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@pytest.fixture(autouse=True)
def _on_trn2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


# ------------------------------------------------------------------------------------------------ memory


@pytest.mark.parametrize(
    ("dtype", "is_unwritten"),
    [
        ("float32", np.isnan),
        ("bfloat16", lambda a: np.isnan(a.astype(np.float32))),
        ("float8_e4m3", lambda a: np.isnan(a.astype(np.float32))),
        ("int32", lambda a: a == 4),
        ("uint8", lambda a: a == 4),
        ("bool", lambda a: a),
    ],
)
@pytest.mark.parametrize("space", ["sbuf", "hbm", "shared_hbm"])
def test_unwritten_memory(dtype: str, is_unwritten: Callable[[Array], Any], space: str) -> None:
    def kernel(x: Any) -> Any:
        kind = nl.bool_ if dtype == "bool" else getattr(nl, dtype)
        tile = nl.ndarray((2, 3), dtype=kind, buffer=getattr(nl, space))
        out = nl.ndarray((2, 3), dtype=kind, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    simulated = nki.simulate(kernel)(ramp(1))
    assert is_unwritten(simulated).all()
    assert opennki.compile(opennki.trace(kernel, ramp(1)), lnc=1)(ramp(1)).tobytes() == simulated.tobytes()


def test_unwritten_elements_of_an_output_stay_unwritten() -> None:
    def kernel(x: Any) -> Any:
        out = hbm(2, 2)
        nisa.dma_copy(dst=out[0:1], src=x[0:1])
        return out

    first, second = nki.simulate(kernel)(ramp(2, 2))
    assert first.tolist() == [0.0, 1.0]
    assert np.isnan(second).all()


def test_tiles_at_one_address_share_their_bytes() -> None:
    def kernel(x: Any) -> Any:
        words = sbuf(2, 4, address=(0, 64))
        halves = sbuf(2, 8, dtype="int16", address=(0, 64))
        second = sbuf(1, 2, address=(1, 72))
        outs = hbm(2, 8, dtype="int16"), hbm(1, 2)
        nisa.dma_copy(dst=words, src=x)
        nisa.dma_copy(dst=outs[0], src=halves)
        nisa.dma_copy(dst=outs[1], src=second)
        return outs

    x = ramp(2, 4)
    halves, second = nki.simulate(kernel)(x)
    assert np.array_equal(halves, x.view(np.int16))
    assert np.array_equal(second, x[1:, 2:])


def test_tiles_without_an_address_share_nothing() -> None:
    def kernel(x: Any) -> Any:
        placed = sbuf(2, 2, address=(0, 0))
        free = sbuf(2, 2)
        out = hbm(2, 2)
        nisa.dma_copy(dst=placed, src=x)
        nisa.dma_copy(dst=out, src=free)
        return out

    assert np.isnan(nki.simulate(kernel)(ramp(2, 2))).all()


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int16"])
def test_unwritten_integers_at_an_address_read_as_4(dtype: str) -> None:
    def kernel(x: Any) -> Any:
        out = hbm(2, 3, dtype=dtype)
        nisa.dma_copy(dst=out, src=sbuf(2, 3, dtype=dtype, address=(0, 0)))
        return out

    assert (nki.simulate(kernel)(ramp(1)) == 4).all()


# ---------------------------------------------------------------------------------------- accumulation


def ones(k: int, columns: int) -> Any:
    tile = sbuf(k, columns)
    nisa.memset(dst=tile, value=1.0)
    return tile


def result(tile: Any) -> Any:
    """Bring a PSUM tile out."""
    row, out = sbuf(*tile.shape), hbm(*tile.shape)
    nisa.tensor_copy(dst=row, src=tile)
    nisa.dma_copy(dst=out, src=row)
    return out


def both(kernel: Any, *arrays: Array) -> Array:
    """Return a kernel's result, the same when simulated and when compiled, twice."""
    simulated = nki.simulate(kernel)(*arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", opennki.OpenNkiWarning)
        executable = opennki.compile(opennki.trace(kernel, *arrays), lnc=1)
    for _ in range(2):
        assert executable(*arrays).tobytes() == simulated.tobytes()
    return np.asarray(simulated)


def test_accumulation_is_decided_for_each_element() -> None:
    """Each product adds 2 to the columns that are written and overwrites the rest of its window."""

    def kernel(x: Any) -> Any:
        dst = psum(4, 8)
        left, right = ones(2, 4), ones(2, 8)
        for low, high in ((0, 4), (2, 6), (0, 6), (5, 8)):
            nisa.nc_matmul(dst=dst[:, low:high], stationary=left, moving=right[:, low:high])
        return result(dst)

    assert both(kernel, ramp(1)).tolist() == [[4, 4, 6, 6, 4, 6, 2, 2]] * 4


def test_accumulation_over_partitions_and_steps() -> None:
    def kernel(x: Any) -> Any:
        dst = psum(64, 6)
        right = ones(1, 6)
        nisa.nc_matmul(dst=dst[0:32, 0:6:2], stationary=ones(1, 32), moving=right[:, 0:3])
        nisa.nc_matmul(dst=dst[32:64, :], stationary=ones(1, 32), moving=right)
        nisa.nc_matmul(dst=dst, stationary=ones(1, 64), moving=right)
        return result(dst)

    expected = [[2, 1, 2, 1, 2, 1]] * 32 + [[2] * 6] * 32
    assert both(kernel, ramp(1)).tolist() == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((None,), 1),
        ((None, None), 2),
        ((False, False), 1),
        ((False, None), 2),
        ((None, False, None), 2),
        ((False, True, True), 3),
    ],
)
def test_accumulate_flags(flags: tuple[bool | None, ...], expected: float) -> None:
    def kernel(x: Any) -> Any:
        dst = psum(2, 2)
        for flag in flags:
            nisa.nc_matmul(dst=dst, stationary=ones(1, 2), moving=ones(1, 2), accumulate=flag)
        return result(dst)

    assert both(kernel, ramp(1)).tolist() == [[expected] * 2] * 2


def test_any_instruction_counts_as_a_write() -> None:
    def kernel(x: Any) -> Any:
        dst = psum(2, 4)
        nisa.memset(dst=dst[:, 1:2], value=10.0)
        nisa.tensor_copy(dst=dst[:, 2:3], src=ones(2, 1))
        nisa.nc_matmul(dst=dst, stationary=ones(1, 2), moving=ones(1, 4))
        return result(dst)

    assert both(kernel, ramp(1)).tolist() == [[1, 11, 2, 1]] * 2


def test_each_allocation_is_fresh() -> None:
    def kernel(x: Any) -> Any:
        total = hbm(3, 2, 2)
        for turn in range(3):
            dst = psum(2, 2)
            for _ in range(turn + 1):
                nisa.nc_matmul(dst=dst, stationary=ones(1, 2), moving=ones(1, 2))
            row = sbuf(2, 2)
            nisa.tensor_copy(dst=row, src=dst)
            nisa.dma_copy(dst=total[turn], src=row)
        return total

    assert both(kernel, ramp(1)).tolist() == [[[n] * 2] * 2 for n in (1, 2, 3)]


def test_a_new_allocation_at_the_same_address_is_fresh() -> None:
    def kernel(x: Any) -> Any:
        for _ in range(3):
            dst = psum(2, 2, address=(0, 0))
            nisa.nc_matmul(dst=dst, stationary=ones(1, 2), moving=ones(1, 2))
        return result(dst)

    assert both(kernel, ramp(1)).tolist() == [[1, 1]] * 2


def test_a_product_onto_unwritten_psum_that_adds_gives_nan() -> None:
    def kernel(x: Any) -> Any:
        dst = psum(2, 2)
        nisa.nc_matmul(dst=dst, stationary=ones(1, 2), moving=ones(1, 2), accumulate=True)
        return result(dst)

    assert np.isnan(both(kernel, ramp(1))).all()


def test_the_accumulator_of_the_scalar_engine_starts_unwritten_in_each_launch() -> None:
    def kernel(x: Any) -> Any:
        tile, res, out = sbuf(2, 2), sbuf(2, 1), hbm(2, 1)
        nisa.memset(dst=tile, value=1.0)
        command = nisa.reduce_cmd
        for cmd in (command.reset_reduce, command.reduce, command.idle):
            op = None if cmd is command.idle else nl.add
            nisa.activation(dst=tile, op=nl.copy, data=tile, reduce_op=op, reduce_res=res, reduce_cmd=cmd)
        nisa.dma_copy(dst=out, src=res)
        return out

    for _ in range(2):
        assert both(kernel, ramp(1)).tolist() == [[4.0]] * 2


# --------------------------------------------------------------------------------------- life of storage


def test_storage_dies_with_the_last_tensor_that_shows_it() -> None:
    alive: list[weakref.ref[Any]] = []
    counts: list[int] = []

    def kernel(x: Any) -> Any:
        kept = sbuf(2, 2)
        alive.append(weakref.ref(kept.handle.storage.raw))
        for _ in range(4):
            tile = sbuf(2, 2)
            window = tile[:, 0:1]
            nisa.memset(dst=window, value=1.0)
            nisa.tensor_copy(dst=kept[:, 0:1], src=window)
            alive.append(weakref.ref(tile.handle.storage.raw))
            counts.append(sum(ref() is not None for ref in alive))
        del tile
        gc.collect()
        counts.append(sum(ref() is not None for ref in alive))  # the window keeps the last one
        del window
        gc.collect()
        counts.append(sum(ref() is not None for ref in alive))
        return x

    nki.simulate(kernel)(ramp(1))
    assert counts == [2, 2, 2, 2, 2, 1]
    gc.collect()
    assert [ref() for ref in alive] == [None] * 5


def test_a_result_outlives_its_launch() -> None:
    def kernel(x: Any) -> Any:
        out = hbm(2, 2)
        nisa.dma_copy(dst=out, src=x)
        return out

    first = nki.simulate(kernel)(ramp(2, 2))
    second = nki.simulate(kernel)(ramp(2, 2) + 1)
    assert np.array_equal(first, ramp(2, 2))
    assert not np.shares_memory(first, second)


# ------------------------------------------------------------------------------------ small things that bite


def test_bfloat16_arrays_come_and_go_as_they_are() -> None:
    def kernel(x: Any) -> Any:
        tile, out = sbuf(2, 3, dtype="bfloat16"), hbm(2, 3, dtype="bfloat16")
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = ramp(2, 3).astype(ml_dtypes.bfloat16)
    found = nki.simulate(kernel)(x)
    assert found.dtype == ml_dtypes.bfloat16
    assert np.array_equal(found, x + x)


def test_an_operand_may_be_the_destination() -> None:
    def kernel(x: Any) -> Any:
        tile, out = sbuf(2, 6), hbm(2, 6)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_copy(dst=tile[:, 1:6], src=tile[:, 0:5])  # overlaps itself
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = ramp(2, 6)
    assert np.array_equal(both(kernel, x), np.concatenate([x[:, :1], x[:, :5]], axis=1))


def test_findings_are_said_once() -> None:
    def kernel(x: Any) -> Any:
        tile = sbuf(4, 8)
        for _ in range(3):
            tile[:, 4:8].ap([[8, 4], [1, 2]], offset=2)
        return x

    with pytest.warns(opennki.OpenNkiWarning, match="ONKI403") as said:
        nki.simulate(kernel)(ramp(1))
    assert len(said) == 1

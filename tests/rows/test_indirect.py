"""`.indirect()`: columns picked at run time, against an oracle written from the documents."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from opennki import nki
from opennki.diag import OpenNkiError
from tests.rows.columns_kernels import (
    BF16,
    RANDOM,
    both,
    gather,
    picks,
    psum,
    returned,
    sbuf,
    values,
)
from tests.rows.oracle_columns import gathered, offsets, scattered

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@pytest.fixture(autouse=True)
def on_trn3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")


@pytest.mark.parametrize(
    ("partitions", "width", "columns", "count"),
    [
        (1, 1, 1, 1),
        (1, 1, 9, 1),
        (3, 1, 5, 3),
        (3, 4, 5, 2),
        (15, 2, 20, 15),
        (16, 1, 20, 1),
        (16, 2, 20, 16),
        (16, 2, 20, 17),
        (16, 2, 20, 32),
        (16, 8, 20, 128),
        (17, 4, 20, 1),
        (24, 4, 20, 8),
        (40, 3, 7, 5),
        (32, 3, 50, 40),
        (128, 4, 33, 63),
        (128, 4, 33, 64),
    ],
)
def test_a_gather(partitions: int, width: int, columns: int, count: int) -> None:
    data, index = values(partitions, columns), picks(partitions, width, columns)
    np.testing.assert_array_equal(both(gather(count), data, index), gathered(data, index, count))


@pytest.mark.parametrize("engine", ["vector", "scalar"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, BF16], ids=str)
def test_engines_and_dtypes(engine: str, dtype: Any) -> None:
    data, index = values(32, 12).astype(dtype), picks(32, 2, 12)
    found = both(gather(20, engine=nisa.engine[engine]), data, index)
    assert found.dtype == dtype
    assert found.tobytes() == gathered(data, index, 20).tobytes()


@pytest.mark.parametrize(
    ("partitions", "width", "count"), [(128, 4, 64), (16, 3, 48), (24, 2, 8), (4, 1, 4), (1, 5, 1)]
)
def test_the_default_is_what_a_group_of_sixteen_holds(partitions: int, width: int, count: int) -> None:
    data, index = values(partitions, 10), picks(partitions, width, 10)
    found = both(gather(None), data, index)
    assert found.shape == (partitions, count)
    np.testing.assert_array_equal(found, gathered(data, index, count))


def test_a_view_is_picked_from_in_its_own_elements() -> None:
    def kernel(data: Any, index: Any) -> Any:
        window = nl.load(data)[32:64, 4:20:2]
        view = window.indirect(nl.load(index)[:, 1:3], num_elem=30)
        assert view.is_indirect()
        assert view[:, :].shape == view.shape == (32, 30)
        tile = sbuf(32, 30)
        nisa.tensor_copy(dst=tile, src=view)
        return returned(tile)

    data, index = values(64, 24), picks(32, 4, 8)
    expected = gathered(data[32:64, 4:20:2], index[:, 1:3], 30)
    np.testing.assert_array_equal(both(kernel, data, index), expected)


def test_free_axes_count_as_one() -> None:
    def kernel(data: Any, index: Any) -> Any:
        tile = sbuf(16, 5)
        nisa.tensor_copy(dst=tile, src=nl.load(data).reshape((16, 3, 4)).indirect(nl.load(index), 5))
        return returned(tile)

    data, index = values(16, 12), picks(16, 1, 12)
    np.testing.assert_array_equal(both(kernel, data, index), gathered(data, index, 5))


def test_addressed_tiles_are_picked_from() -> None:
    def kernel(data: Any, index: Any) -> Any:
        tile, offsets_ = sbuf(32, 9, address=(32, 64)), sbuf(32, 2, dtype="uint16", address=(32, 1024))
        nisa.dma_copy(dst=tile, src=data)
        nisa.dma_copy(dst=offsets_, src=index)
        result = sbuf(32, 25, address=(64, 2048))
        nisa.tensor_copy(dst=result, src=tile.indirect(offsets_, 25))
        return returned(result)

    data, index = values(32, 9), picks(32, 2, 9)
    np.testing.assert_array_equal(both(kernel, data, index), gathered(data, index, 25))


@pytest.mark.parametrize("lnc", [1, 2])
def test_each_core_picks_its_own(lnc: int) -> None:
    def kernel(data: Any, index: Any) -> Any:
        rows = data.shape[0] // nl.num_programs(0)
        here = nl.ds(nl.program_id(0) * rows, rows)
        out = nl.ndarray((data.shape[0], 20), dtype=data.dtype, buffer=nl.shared_hbm)
        tile = sbuf(rows, 20)
        nisa.tensor_copy(dst=tile, src=nl.load(data[here, :]).indirect(nl.load(index[here, :]), 20))
        nl.store(out[here, :], tile)
        return out

    data, index = values(64, 11), picks(64, 2, 11)
    np.testing.assert_array_equal(both(kernel, data, index, lnc=lnc), gathered(data, index, 20))


def test_offsets_that_a_loop_computes() -> None:
    def kernel(data: Any, index: Any) -> Any:
        tile, moving, total = nl.load(data), nl.load(index), sbuf(16, 16)
        nisa.memset(dst=total, value=0.0)

        def turn(i: Any) -> None:
            nisa.tensor_tensor(dst=total, data1=tile.indirect(moving), data2=total, op=nl.add)
            nisa.tensor_scalar(dst=moving, data=moving, op0=nl.add, operand0=1.0)

        nl.fori_loop(0, 3, turn)
        return returned(total)

    data, index = values(16, 12), picks(16, 1, 10)
    expected = sum(gathered(data, index + np.uint16(i), 16) for i in range(3))
    np.testing.assert_array_equal(both(kernel, data, index), expected)


# ------------------------------------------------------------------------------------------ instructions


def test_a_reduction_of_picked_columns() -> None:
    def kernel(data: Any, index: Any) -> Any:
        tile = sbuf(32, 1)
        nisa.tensor_reduce(dst=tile, op=nl.maximum, data=nl.load(data).indirect(nl.load(index), 9), axis=1)
        return returned(tile)

    data, index = values(32, 12), picks(32, 1, 12)
    expected = gathered(data, index, 9).max(axis=1, keepdims=True)
    np.testing.assert_array_equal(both(kernel, data, index), expected)


@pytest.mark.parametrize("name", ["activation", "activation_reduce"])
def test_functions_of_picked_columns(name: str) -> None:
    def kernel(data: Any, index: Any) -> Any:
        tile, total = sbuf(32, 9), sbuf(32, 1)
        more = {"reduce_op": nl.add, "reduce_res": total} if name == "activation_reduce" else {}
        view = nl.load(data).indirect(nl.load(index), 9)
        getattr(nisa, name)(dst=tile, op=nl.square, data=view, scale=0.5, **more)
        return returned(total if more else tile)

    data, index = values(32, 12), picks(32, 1, 12)
    expected = (gathered(data, index, 9) * 0.5) ** 2
    if name == "activation_reduce":
        expected = expected.sum(axis=1, keepdims=True)  # quarters of small integers: exact in any order
    np.testing.assert_array_equal(both(kernel, data, index), expected)


@pytest.mark.parametrize("engine", ["vector", "gpsimd"])
def test_exact_integers(engine: str) -> None:
    def kernel(data: Any, index: Any) -> Any:
        tile, given = sbuf(16, 16, dtype="int32"), nl.load(data)
        view = given.indirect(nl.load(index))
        chosen = nisa.engine[engine]
        nisa.tensor_tensor(dst=tile, data1=view, data2=given, op=nl.bitwise_xor) if engine == "vector" else (
            nisa.tensor_tensor(dst=tile, data1=view, data2=given, op=nl.add, engine=chosen)
        )
        return returned(tile)

    data = RANDOM.integers(-(2**30), 2**30, (16, 16)).astype(np.int32)
    index = picks(16, 1, 16)
    rows = gathered(data, index, 16)
    np.testing.assert_array_equal(
        both(kernel, data, index), rows ^ data if engine == "vector" else rows + data
    )


@pytest.mark.parametrize(
    ("partitions", "width", "count"), [(32, 2, 64), (64, 2, 33), (128, 1, 32), (20, 1, 20)]
)
def test_the_tensor_engine_has_groups_of_thirty_two(partitions: int, width: int, count: int) -> None:
    def kernel(data: Any, weights: Any, index: Any) -> Any:
        product = psum(4, count)
        moving = nl.load(data).indirect(nl.load(index), num_elem=count)
        nisa.nc_matmul(dst=product, stationary=nl.load(weights), moving=moving)
        tile = sbuf(4, count)
        nisa.tensor_copy(dst=tile, src=product)
        return returned(tile)

    data, weights = values(partitions, 40).astype(BF16), values(partitions, 4).astype(BF16)
    index = picks(partitions, width, 40)
    rows = gathered(data, index, count, 32).astype(np.float64)
    expected = weights.astype(np.float64).T @ rows  # integers below 2**24: exact
    np.testing.assert_array_equal(both(kernel, data, weights, index), expected.astype(np.float32))


def test_a_stationary_tile_is_picked() -> None:
    def kernel(data: Any, moving: Any, index: Any) -> Any:
        product, tile = psum(16, 5), sbuf(16, 5)
        view = nl.load(data).indirect(nl.load(index))
        nisa.nc_matmul(dst=product, stationary=view, moving=nl.load(moving))
        nisa.tensor_copy(dst=tile, src=product)
        return returned(tile)

    data, moving, index = values(32, 20).astype(BF16), values(32, 5).astype(BF16), picks(32, 1, 20)
    rows = gathered(data, index, 16, 32).astype(np.float64)
    expected = rows.T @ moving.astype(np.float64)
    np.testing.assert_array_equal(both(kernel, data, moving, index), expected.astype(np.float32))


# --------------------------------------------------------------------------------------------- scatters


@pytest.mark.parametrize("space", ["sbuf", "psum"])
@pytest.mark.parametrize(("partitions", "count"), [(16, 16), (48, 32), (20, 4), (1, 1)])
def test_a_scatter(space: str, partitions: int, count: int) -> None:
    def kernel(base: Any, value: Any, index: Any) -> Any:
        tile = nl.ndarray(base.shape, dtype=base.dtype, buffer=getattr(nl, space))
        nisa.tensor_copy(dst=tile, src=nl.load(base))
        nisa.tensor_copy(dst=tile.indirect(nl.load(index), count), src=nl.load(value))
        result = sbuf(*base.shape)
        nisa.tensor_copy(dst=result, src=tile)
        return returned(result)

    base, value, index = values(partitions, 7), values(partitions, count), picks(partitions, 2, 7)
    np.testing.assert_array_equal(both(kernel, base, value, index), scattered(base, value, index))


def test_of_two_columns_for_one_place_the_last_stays() -> None:
    def kernel(base: Any, value: Any, index: Any) -> Any:
        tile = nl.load(base)
        nisa.tensor_copy(dst=tile.indirect(nl.load(index)), src=nl.load(value))
        return returned(tile)

    index = np.zeros((128, 64), np.uint16)
    base, value = values(128, 3), np.arange(128 * 1024, dtype=np.float32).reshape(128, 1024)
    base[:, 0] = value[:, -1]
    np.testing.assert_array_equal(both(kernel, value[:, :3] * 0 + base, value, index), base)


def test_a_gather_into_a_scatter() -> None:
    def kernel(base: Any, data: Any, index: Any, places: Any) -> Any:
        tile = nl.load(base)
        nisa.tensor_tensor(
            dst=tile.indirect(nl.load(places), 12),
            data1=nl.load(data).indirect(nl.load(index), 12),
            data2=nl.load(data)[:, 0:12],
            op=nl.multiply,
        )
        return returned(tile)

    base, data = values(32, 30), values(32, 14)
    index, places = picks(32, 1, 14), picks(32, 1, 30)
    product = gathered(data, index, 12) * data[:, :12]
    np.testing.assert_array_equal(both(kernel, base, data, index, places), scattered(base, product, places))


def test_a_predicate_chooses_what_is_scattered() -> None:
    def kernel(base: Any, value: Any, keep: Any, index: Any, other: Any) -> Any:
        tile = nl.load(base)
        nisa.tensor_copy_predicated(
            dst=tile.indirect(nl.load(index), 10),
            src=nl.load(value),
            predicate=nl.load(keep).indirect(nl.load(other), 10),
        )
        return returned(tile)

    base, value = values(16, 12), values(16, 10)
    keep, index, other = picks(16, 6, 2), picks(16, 1, 12), picks(16, 1, 6)
    chosen = gathered(keep, other, 10) != 0
    expected = base.copy()
    for p, row in enumerate(offsets(index, 10, 16)):
        for i, offset in enumerate(row):
            if chosen[p, i]:
                expected[p, offset] = value[p, i]
    np.testing.assert_array_equal(both(kernel, base, value, keep, index, other), expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("repeats", [False, True])
def test_a_product_is_added_where_offsets_say(dtype: str, repeats: bool) -> None:
    def kernel(weights: Any, moving: Any, index: Any) -> Any:
        product = psum(32, 24, dtype=dtype)
        nisa.memset(dst=product, value=1.0)
        view = product.indirect(nl.load(index), 20)
        nisa.nc_matmul(dst=view, stationary=nl.load(weights), moving=nl.load(moving), accumulate=True)
        tile = sbuf(32, 24)
        nisa.tensor_copy(dst=tile, src=product)
        return returned(tile)

    weights = RANDOM.integers(-2, 3, (8, 32)).astype(BF16)
    moving = RANDOM.integers(-2, 3, (8, 20)).astype(BF16)  # sums stay below 256: exact in bfloat16
    places = np.array([RANDOM.permutation(24)[:1] for _ in range(32)])
    index = places.astype(np.uint16) if repeats else RANDOM.permutation(32).astype(np.uint16)[:, None] % 24
    if not repeats:
        index[:20, 0] = RANDOM.permutation(24)[:20]
    value = (weights.astype(np.float32).T @ moving.astype(np.float32)).astype(np.float32)
    expected = scattered(np.ones((32, 24), np.float32), value, index, 32, adds=True)
    np.testing.assert_array_equal(both(kernel, weights, moving, index), expected)


def test_what_was_written_before_decides_between_adding_and_overwriting() -> None:
    def kernel(weights: Any, moving: Any, first: Any, second: Any) -> Any:
        product = psum(32, 8)
        w, m = nl.load(weights), nl.load(moving)
        nisa.nc_matmul(dst=product[:, 0:2], stationary=w, moving=m[:, 0:2])
        nisa.nc_matmul(dst=product.indirect(nl.load(first), 3), stationary=w, moving=m)
        nisa.nc_matmul(dst=product.indirect(nl.load(second), 3), stationary=w, moving=m)
        nisa.nc_matmul(dst=product[:, 4:7], stationary=w, moving=m)
        tile = sbuf(32, 7)
        nisa.tensor_copy(dst=tile, src=product[:, 0:7])
        return returned(tile)

    weights, moving = values(4, 32).astype(BF16), values(4, 3).astype(BF16)
    first, second = np.zeros((32, 1), np.uint16), np.zeros((32, 1), np.uint16)
    first[:3, 0], second[:3, 0] = (1, 3, 4), (2, 3, 5)
    v = weights.astype(np.float32).T @ moving.astype(np.float32)
    a, b, c = v[:, 0:1], v[:, 1:2], v[:, 2:3]
    columns = [a, b + a, a, b + b, c + a, c + b, c]
    np.testing.assert_array_equal(both(kernel, weights, moving, first, second), np.hstack(columns))


# ------------------------------------------------------------------------------------------- precision


def test_low_precision_kept_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_PRECISE_FP", "0")

    def kernel(data: Any, index: Any) -> Any:
        tile = nl.load(data)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=2.0**-10)
        result = sbuf(16, 16, dtype="float32")
        nisa.tensor_copy(dst=result, src=tile.indirect(nl.load(index)))
        return returned(result)

    data, index = np.arange(16 * 9).reshape(16, 9).astype(BF16), picks(16, 1, 9)
    kept = data.astype(np.float32) + np.float32(2.0**-10)
    np.testing.assert_array_equal(both(kernel, data, index), gathered(kept, index, 16))


def test_offsets_seen_in_a_low_precision_tile_are_refused_then(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(data: Any, index: Any) -> Any:
        tile = sbuf(16, 16)
        nisa.tensor_copy(dst=tile, src=nl.load(data).indirect(nl.load(index).view(nl.uint16)))
        return returned(tile)

    data, index = values(16, 9), picks(16, 1, 9)
    np.testing.assert_array_equal(both(kernel, data, index.view(BF16)), gathered(data, index, 16))
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    with pytest.raises(OpenNkiError) as caught:
        nki.simulate(nki.jit(kernel))(data, index.view(BF16))
    assert caught.value.code == "ONKI102"

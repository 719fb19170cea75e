"""`nl` functions that move elements, and products of matrices, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from tests.unit.nl_run import (
    BF16,
    TARGETS,
    assert_close,
    findings,
    nl,
    normal,
    opcodes,
    refusal,
    run,
)

quiet = pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")
"""On trn1 a transpose of floats says that it spreads NaN (ONKI404)."""


# expand_dims and broadcast_to ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "shape"), [(1, (4, 1, 6)), (2, (4, 6, 1)), (-1, (4, 6, 1)), (-2, (4, 1, 6))]
)
def test_expand_dims(axis: int, shape: tuple[int, ...]) -> None:
    x = normal(4, 6)
    result = run(lambda x: nl.expand_dims(x, axis), x)
    assert result.shape == shape
    assert np.array_equal(result, np.expand_dims(x, axis))


def test_expand_dims_is_a_view() -> None:
    def scaled(x: Any) -> Any:
        view = nl.expand_dims(x, 1)
        assert view.handle is x.handle
        return view

    assert opcodes(scaled, normal(4, 6)) == []


@pytest.mark.parametrize(
    ("small", "large"),
    [
        ((4, 1), (4, 6)),
        ((1, 6), (128, 6)),
        ((1, 1), (5, 3)),
        ((3, 1, 5), (3, 4, 5)),
        ((1, 2, 1), (7, 2, 4)),
        ((1, 1, 1), (1, 1, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32, np.uint8])
def test_broadcast_to(small: tuple[int, ...], large: tuple[int, ...], dtype: Any) -> None:
    x = (normal(*small) * 50).astype(dtype)
    result = run(lambda x: nl.broadcast_to(x, large), x)
    assert result.dtype == dtype
    assert result.tobytes() == np.ascontiguousarray(np.broadcast_to(x, large)).tobytes()


def test_broadcast_to_keeps_bits() -> None:
    x = np.array([[np.nan, -0.0, np.inf]], np.float32)
    assert run(lambda x: nl.broadcast_to(x, (3, 3)), x).tobytes() == np.repeat(x, 3, axis=0).tobytes()
    words = np.array([[2**31 - 1, 2**24 + 1]], np.int32)
    assert np.array_equal(run(lambda x: nl.broadcast_to(x, (3, 2)), words), np.repeat(words, 3, axis=0))


def test_broadcast_to_with_a_dtype() -> None:
    x = np.array([[1.5, 2.5, -3.5]], np.float32)
    for shape in ((1, 3), (4, 3)):
        result = run(lambda x, shape=shape: nl.broadcast_to(x, shape, dtype=nl.int32), x)
        assert result.dtype == np.int32
        assert result.tolist() == [[2, 2, -4]] * shape[0]


@pytest.mark.parametrize("large", [(1, 3), (4, 3)])
def test_broadcast_to_from_psum(large: tuple[int, ...]) -> None:
    x = normal(1, 3)
    assert np.array_equal(run(lambda x: nl.broadcast_to(x, large), x, psum=(0,)), np.broadcast_to(x, large))
    wide = run(lambda x: nl.broadcast_to(x, large, dtype=nl.bfloat16), x, psum=(0,))
    assert np.array_equal(wide, np.broadcast_to(x, large).astype(BF16))


def test_broadcast_to_its_own_shape_is_the_tile_itself() -> None:
    def same(x: Any) -> Any:
        assert nl.broadcast_to(x, (2, 3)) is x
        assert nl.broadcast_to(x, (2, 3), dtype=nl.float32) is x
        return x

    assert opcodes(same, normal(2, 3)) == []


# transpose and load_transpose2d --------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(1, 1), (128, 128), (5, 7), (33, 1), (1, 128)])
def test_transpose(shape: tuple[int, int], target: str) -> None:
    x = normal(*shape)
    assert np.array_equal(run(nl.transpose, x, target=target), x.T)


@pytest.mark.parametrize("dtype", [BF16, np.float16, np.int32, np.int16])
def test_transpose_of_other_dtypes(dtype: Any) -> None:
    x = (normal(6, 9) * 100).astype(dtype)
    result = run(nl.transpose, x)
    assert result.dtype == dtype
    assert np.array_equal(result, x.T)


def test_transpose_with_a_dtype_and_from_psum() -> None:
    x = normal(6, 9)
    half = run(lambda x: nl.transpose(x, dtype=nl.bfloat16), x)
    assert np.array_equal(half, x.T.astype(BF16))
    assert np.array_equal(run(nl.transpose, x, psum=(0,)), x.T)
    assert np.array_equal(run(lambda x: nl.transpose(x, dtype=nl.bfloat16), x, psum=(0,)), half)


def test_transpose_leaves_its_result_in_psum() -> None:
    def check(x: Any) -> Any:
        result = nl.transpose(x)
        assert result.buffer == nl.psum
        return result

    assert opcodes(check, normal(4, 6)) == ["nc_transpose", "tensor_copy"]


def test_transpose_says_what_trn1_does_to_nan() -> None:
    (found,) = findings(nl.transpose, normal(4, 6), target="trn1")
    assert (found.code, found.rule) == ("ONKI404", "NC_TRANSPOSE-05")
    assert findings(nl.transpose, normal(4, 6), target="trn2") == []


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(1, 1), (300, 5), (7, 128)])
def test_load_transpose2d(shape: tuple[int, int], dtype: Any) -> None:
    @nki.jit
    def kernel(src: Any) -> Any:
        tile = nl.load_transpose2d(src)
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    x = (normal(*shape) * 50).astype(dtype)
    simulated = nki.simulate(kernel)(x)
    assert simulated.dtype == dtype
    assert np.array_equal(simulated, x.T)
    compiled = opennki.compile(opennki.trace(kernel, x, target="trn2"), lnc=1)(x)
    assert compiled.tobytes() == simulated.tobytes()


def test_load_transpose2d_with_a_dtype_of_a_window() -> None:
    @nki.jit
    def kernel(src: Any) -> Any:
        tile = nl.load_transpose2d(src[2:9, 1:6], dtype=nl.float32)
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    x = normal(10, 8, dtype=BF16)
    assert np.array_equal(nki.simulate(kernel)(x), x[2:9, 1:6].T.astype(np.float32))


# matmul --------------------------------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 7, 3), (128, 128, 512), (3, 128, 1)])
def test_matmul(m: int, k: int, n: int, target: str) -> None:
    x, y = normal(m, k, seed=1), normal(k, n, seed=2)
    result = run(nl.matmul, x, y, target=target)
    assert result.dtype == np.float32
    exact = x.astype(np.float64) @ y.astype(np.float64)
    bound = k * 2.0**-24 * (np.abs(x).astype(np.float64) @ np.abs(y))
    assert (np.abs(result - exact) <= bound + 1e-12).all()
    turned = np.ascontiguousarray(x.T)
    assert np.array_equal(
        run(lambda x, y: nl.matmul(x, y, transpose_x=True), turned, y, target=target), result
    )


@pytest.mark.parametrize("dtype", [BF16, np.float16])
def test_matmul_of_narrow_dtypes_adds_in_float32(dtype: Any) -> None:
    x, y = normal(6, 9, seed=1, dtype=dtype), normal(9, 4, seed=2, dtype=dtype)
    assert_close(run(nl.matmul, x, y), x.astype(np.float64) @ y.astype(np.float64), 64)


def test_matmul_leaves_its_result_in_psum() -> None:
    def check(x: Any, y: Any) -> Any:
        result = nl.matmul(x, y, transpose_x=True)
        assert (result.buffer, result.dtype) == (nl.psum, "float32")
        return result

    x, y = normal(4, 6), normal(4, 3)
    assert opcodes(check, x, y) == ["nc_matmul", "tensor_copy"]
    assert opcodes(lambda x, y: nl.matmul(x, y), x, normal(6, 3)) == [
        "nc_transpose",
        "tensor_copy",
        "nc_matmul",
        "tensor_copy",
    ]


# Errors --------------------------------------------------------------------------------------------------


def test_a_partition_axis_cannot_be_added() -> None:
    found = refusal(lambda x: nl.expand_dims(x, 0), normal(4, 6), line="nl.expand_dims(x, 0)")
    assert found.code == "ONKI210"


@pytest.mark.parametrize("shape", [(4, 6, 1), (4,), (8, 6), (4, 5)])
def test_shapes_that_cannot_be_reached(shape: tuple[int, ...]) -> None:
    found = refusal(lambda x: nl.broadcast_to(x, shape), normal(4, 6), line="nl.broadcast_to(x, shape)")
    assert found.code == "ONKI205"
    assert found.message == (
        f"`nl.broadcast_to` repeats axes of size 1: `x` [4, 6] cannot become {list(shape)}"
    )


def test_a_shape_is_of_ints() -> None:
    found = refusal(lambda x: nl.broadcast_to(x, 4.0), normal(4, 6), line="nl.broadcast_to(x, 4.0)")
    assert (found.code, found.data["role"]) == ("ONKI101", "shape")


def test_a_transpose_has_two_axes() -> None:
    found = refusal(lambda x: nl.transpose(x), normal(4, 3, 2), line="nl.transpose(x)")
    assert found.code == "ONKI205"
    assert found.message == "`nl.transpose` needs two axes, `x` is [4, 3, 2]"
    assert found.help == ("flatten its free axes with a view: `.reshape((4, -1))`",)


def test_a_transpose_has_128_columns() -> None:
    found = refusal(lambda x: nl.transpose(x), normal(4, 129), line="nl.transpose(x)")
    assert (found.code, found.message) == (
        "ONKI204",
        "`nl.transpose` takes 128 columns of `x` at most, it has 129",
    )


def test_matmul_contracts_what_fits() -> None:
    x, y = normal(4, 6), normal(4, 3)
    found = refusal(lambda x, y: nl.matmul(x, y), x, y, line="nl.matmul(x, y)")
    assert found.code == "ONKI205"
    assert found.message == "`nl.matmul` contracts the 6 columns of `x` [4, 6] with the 4 rows of `y` [4, 3]"
    assert found.help == ("give both as many, or say `transpose_x=True`",)
    found = refusal(
        lambda x, y: nl.matmul(x, y, transpose_x=True), y, x[:3], line="nl.matmul(x, y, transpose_x=True)"
    )
    assert found.message == "`nl.matmul` contracts the 4 rows of `x` [4, 3] with the 3 rows of `y` [3, 6]"


def test_matmul_takes_tiles_in_sbuf() -> None:
    found = refusal(
        lambda x, y: nl.matmul(x, y), normal(4, 4), normal(4, 4), psum=(1,), line="nl.matmul(x, y)"
    )
    assert (found.code, found.message) == ("ONKI201", "`nl.matmul` needs `y` in sbuf, it is in psum")


@pytest.mark.parametrize(("columns", "code"), [(513, "ONKI204")])
def test_matmul_takes_512_columns(columns: int, code: str) -> None:
    found = refusal(lambda x, y: nl.matmul(x, y), normal(4, 4), normal(4, columns), line="nl.matmul(x, y)")
    assert (found.code, found.rule) == (code, "NC_MATMUL-09")
    assert found.notes[-1] == "`nc_matmul` is an instruction of this `nl.matmul`"


def test_matmul_takes_floats() -> None:
    x = np.ones((4, 4), np.int32)
    found = refusal(lambda x: nl.matmul(x, x, transpose_x=True), x, line="nl.matmul(x, x, transpose_x=True)")
    assert (found.code, found.rule) == ("ONKI202", "NC_MATMUL-02")


def test_load_transpose2d_reads_hbm() -> None:
    found = refusal(lambda x: nl.load_transpose2d(x), normal(4, 6), line="nl.load_transpose2d(x)")
    assert found.code == "ONKI201"
    assert found.message == "`nl.load_transpose2d` needs `src` in shared_hbm or private_hbm, it is in sbuf"


def test_load_transpose2d_makes_128_partitions() -> None:
    @nki.jit
    def kernel(src: Any) -> Any:
        nl.load_transpose2d(src)

    with pytest.raises(opennki.OpenNkiError) as caught:
        nki.simulate(kernel)(normal(3, 129))
    found = caught.value.diagnostics[0]
    assert found.code == "ONKI212"
    assert found.location is not None
    assert found.location.text.strip() == "nl.load_transpose2d(src)"

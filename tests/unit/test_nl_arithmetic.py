"""`nl` functions of two operands against NumPy in float64 and in exact integers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.diag import OpenNkiWarning
from tests.unit.nl_run import (
    BF16,
    TARGETS,
    Array,
    assert_close,
    findings,
    kernel_of,
    nl,
    normal,
    opcodes,
    refusal,
    run,
)

Binary = Callable[[Any, Any], Any]

EXACT: dict[str, Binary] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": lambda x, y: (x != 0) & (y != 0),
    "logical_or": lambda x, y: (x != 0) | (y != 0),
    "logical_xor": lambda x, y: (x != 0) ^ (y != 0),
}
"""One float32 operation each: the float64 result rounded to float32."""

NEAR: dict[str, tuple[Binary, float]] = {"power": (np.power, 4), "divide": (np.divide, 1.5)}
"""Within so many units in the last place: `power` as the design says, `divide` two roundings."""

BITS: dict[str, Binary] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}

ALL = {**{name: (oracle, 0.0) for name, oracle in EXACT.items()}, **NEAR}


def whole(*shape: int, seed: int = 0, low: int = -3, high: int = 4) -> Array:
    """Return small whole numbers, so that some are equal and some are 0."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.float32)


def operands(name: str, *shape: int, dtype: Any = np.float32) -> tuple[Array, Array]:
    x, y = normal(*shape, seed=1, dtype=dtype), normal(*shape, seed=2, dtype=dtype)
    if name in ("power", "divide"):
        return (np.abs(x) + np.asarray(0.5, dtype)).astype(dtype), y
    if name in ("add", "subtract", "multiply", "maximum", "minimum"):
        return x, y
    return whole(*shape, seed=1).astype(dtype), whole(*shape, seed=2).astype(dtype)


def call(name: str) -> Any:
    function: Any = getattr(nl, name)
    return function


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ALL)
def test_two_tiles(name: str, target: str) -> None:
    x, y = operands(name, 5, 7)
    oracle, ulps = ALL[name]
    result = run(lambda x, y: call(name)(x, y), x, y, target=target)
    assert result.dtype == np.float32
    assert_close(result, oracle(x.astype(np.float64), y.astype(np.float64)), ulps)


@pytest.mark.parametrize("number", [2.5, -1.0, 0.0, 3, True, np.float32(0.1), np.int32(-2)])
@pytest.mark.parametrize("name", ALL)
def test_a_tile_and_a_number(name: str, number: Any) -> None:
    x, _ = operands(name, 3, 5)
    oracle, ulps = ALL[name]
    with np.errstate(all="ignore"):
        expected = oracle(x.astype(np.float64), float(np.float32(number)))
    assert_close(run(lambda x: call(name)(x, number), x), expected, ulps)


@pytest.mark.parametrize("number", [2.5, 0.0, 3, np.float32(0.1)])
@pytest.mark.parametrize("name", ALL)
def test_a_number_and_a_tile(name: str, number: Any) -> None:
    _, y = operands(name, 3, 5)
    oracle, ulps = ALL[name]
    with np.errstate(all="ignore"):
        expected = oracle(float(np.float32(number)), y.astype(np.float64))
    assert_close(run(lambda y: call(name)(number, y), y), expected, ulps)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2, 5), (128, 2)])
@pytest.mark.parametrize("name", ["add", "less", "divide", "power"])
def test_shapes(name: str, shape: tuple[int, ...]) -> None:
    x, y = operands(name, *shape)
    oracle, ulps = ALL[name]
    result = run(lambda x, y: call(name)(x, y), x, y)
    assert result.shape == shape
    assert_close(result, oracle(x.astype(np.float64), y.astype(np.float64)), ulps)


@pytest.mark.parametrize("name", ALL)
def test_bfloat16_is_rounded_once(name: str) -> None:
    x, y = operands(name, 4, 6, dtype=BF16)
    oracle, _ = ALL[name]
    result = run(lambda x, y: call(name)(x, y), x, y)
    assert result.dtype == BF16
    assert_close(result, oracle(x.astype(np.float64), y.astype(np.float64)), 0.51)


def test_the_first_tile_gives_the_dtype() -> None:
    x, y = normal(2, 3, seed=1, dtype=BF16), normal(2, 3, seed=2)
    assert run(nl.add, x, y).dtype == BF16
    assert run(nl.add, y, x).dtype == np.float32
    assert_close(run(nl.add, y, x), y.astype(np.float64) + x.astype(np.float64), 0)


def test_dtype_casts_the_result() -> None:
    x, y = whole(3, 4, seed=1), whole(3, 4, seed=2)
    mask = run(lambda x, y: nl.less(x, y, dtype=nl.uint8), x, y)
    assert mask.dtype == np.uint8
    assert np.array_equal(mask, (x < y).astype(np.uint8))
    half = run(lambda x: nl.multiply(x, 0.5, dtype=nl.int32), np.array([[1, 3, 5, -1, 7]], np.float32))
    assert half.tolist() == [[0, 2, 2, 0, 4]]  # 0.5, 1.5, 2.5, -0.5, 3.5: ties to even


def test_special_values() -> None:
    x = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]], np.float32)
    y = np.array([[1.0, np.inf, np.inf, -0.0, 0.0, np.nan]], np.float32)
    with np.errstate(all="ignore"):
        for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum"):
            expected = ALL[name][0](x.astype(np.float64), y.astype(np.float64))
            assert_close(run(lambda x, y, name=name: call(name)(x, y), x, y), expected, 0)
    assert run(nl.equal, x, y).tolist() == [[0, 1, 0, 1, 1, 0]]
    assert run(nl.not_equal, x, y).tolist() == [[1, 0, 1, 0, 0, 1]]


@pytest.mark.parametrize("psum", [(0,), (1,)])
def test_one_tile_in_psum(psum: tuple[int, ...]) -> None:
    x, y = normal(4, 3, seed=1), normal(4, 3, seed=2)
    assert_close(run(nl.subtract, x, y, psum=psum), x.astype(np.float64) - y, 0)
    assert_close(run(nl.divide, x, y, psum=psum), x / y.astype(np.float64), 1.5)


# Integers ------------------------------------------------------------------------------------------------


def test_words_are_exact_between_tiles_and_float32_beside_a_number() -> None:
    x = np.array([[2**24 + 1, 2**31 - 1, -(2**31), 7]], np.int32)
    y = np.array([[1, 1, -1, 7]], np.int32)
    with np.errstate(over="ignore"):
        for name, oracle in (("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply)):
            result = run(lambda x, y, name=name: call(name)(x, y), x, y)
            assert np.array_equal(result, oracle(x, y))
    assert run(nl.equal, x, x).tolist() == [[1, 1, 1, 1]]
    assert run(lambda x: nl.add(x, 1), np.array([[2**24, 3]], np.int32)).tolist() == [[2**24, 4]]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
@pytest.mark.parametrize("name", BITS)
def test_bits(name: str, dtype: Any) -> None:
    limits = np.iinfo(dtype)
    x = np.array([[0, 1, limits.max, limits.min, 90]], dtype)
    y = np.array([[limits.max, 3, 85, limits.max, 15]], dtype)
    result = run(lambda x, y: call(name)(x, y), x, y)
    assert result.dtype == dtype
    assert np.array_equal(result, BITS[name](x, y))
    assert np.array_equal(run(lambda x: call(name)(x, 85), x), BITS[name](x, dtype(85)))
    assert np.array_equal(run(lambda x: call(name)(85, x), x), BITS[name](dtype(85), x))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_shifts(dtype: Any) -> None:
    x = np.array([[1, 3, 200, 129, 255]], dtype)
    count = np.array([[0, 1, 3, 7, 4]], dtype)
    assert np.array_equal(run(nl.left_shift, x, count), np.left_shift(x, count))
    assert np.array_equal(run(nl.right_shift, x, count), np.right_shift(x, count))
    assert np.array_equal(run(lambda x: nl.left_shift(x, 2), x), np.left_shift(x, dtype(2)))
    assert np.array_equal(run(lambda x: nl.right_shift(200, x), count), np.right_shift(dtype(200), count))


def test_a_right_shift_brings_zeros_in() -> None:
    x = np.array([[-1, -8, 8]], np.int32)
    assert run(lambda x: nl.right_shift(x, 1), x).tolist() == [[2**31 - 1, 2**31 - 4, 4]]


def test_bits_are_converted_by_value() -> None:
    x = np.array([[-1, 5, -128]], np.int8)
    wide = run(lambda x: nl.bitwise_or(x, 0, dtype=nl.int32), x)
    assert wide.dtype == np.int32
    assert wide.tolist() == [[-1, 5, -128]]
    real = run(lambda x, y: nl.bitwise_and(x, y, dtype=nl.float32), x, x)
    assert real.dtype == np.float32
    assert real.tolist() == [[-1, 5, -128]]


def test_a_chain_of_the_migration_guide() -> None:
    index = np.array([[5, 6, 7, 8]], np.int32)
    assert run(lambda x: nl.multiply(nl.bitwise_and(x, y=3), 128), index).tolist() == [[128, 256, 384, 0]]


# By magnitude: trn3 --------------------------------------------------------------------------------------


def test_abs_max_and_abs_min() -> None:
    x = np.array([[-5, 1, 2, -2, np.nan]], np.float32)
    y = np.array([[3, -1, -7, 2, 1]], np.float32)
    assert run(nl.abs_max, x, y, target="trn3").tolist() == [[-5, -1, -7, 2, 1]]
    assert run(nl.abs_min, x, y, target="trn3").tolist() == [[3, -1, 2, 2, 1]]
    assert run(lambda x: nl.abs_max(x, 3), x[:, :4], target="trn3").tolist() == [[-5, 3, 3, 3]]
    assert run(lambda x: nl.abs_max(3, x), x[:, :4], target="trn3").tolist() == [[-5, 3, 3, 3]]


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_abs_max_repeats_a_column(dtype: Any) -> None:
    wide = normal(4, 6, seed=1, dtype=dtype)
    column = normal(4, 1, seed=2, dtype=dtype)
    expected = np.where(np.abs(wide) > np.abs(column), wide, np.broadcast_to(column, wide.shape))
    assert np.array_equal(run(nl.abs_max, wide, column, target="trn3"), expected)
    turned = np.where(np.abs(column) > np.abs(wide), np.broadcast_to(column, wide.shape), wide)
    assert np.array_equal(run(nl.abs_max, column, wide, target="trn3"), turned)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_abs_max_needs_trn3(target: str) -> None:
    found = refusal(lambda x: nl.abs_max(x, 1.0), normal(2, 2), target=target, line="nl.abs_max(x, 1.0)")
    assert (found.code, found.rule) == ("ONKI207", "GEN-27")


# Remainders ----------------------------------------------------------------------------------------------

REMAINDERS = {"mod": np.mod, "fmod": np.fmod}


@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")
@pytest.mark.parametrize("name", REMAINDERS)
def test_remainders_of_whole_numbers_are_exact(name: str) -> None:
    x, y = whole(6, 40, seed=1, low=-4000, high=4001), whole(6, 40, seed=2, low=1, high=60)
    y[::2] *= -1
    oracle = REMAINDERS[name]
    assert np.array_equal(run(lambda x, y: call(name)(x, y), x, y), oracle(x, y))
    assert np.array_equal(run(lambda x: call(name)(x, -7), x), oracle(x, np.float32(-7)))
    assert np.array_equal(run(lambda y: call(name)(100, y), y), oracle(np.float32(100), y))
    words = x.astype(np.int32), y.astype(np.int32)
    result = run(lambda x, y: call(name)(x, y), *words)
    assert result.dtype == np.int32
    assert np.array_equal(result, oracle(*words))


@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", REMAINDERS)
def test_remainders(name: str, target: str) -> None:
    x, y = normal(5, 60, seed=1, scale=30.0), normal(5, 60, seed=2) + np.float32(0.01)
    result = run(lambda x, y: call(name)(x, y), x, y, target=target)
    exact = REMAINDERS[name](x.astype(np.float64), y.astype(np.float64))
    unit = np.spacing(np.abs(x)).astype(np.float64)
    apart = np.abs(result - exact)
    wrapped = np.minimum(
        apart, np.abs(apart - np.abs(y))
    )  # a quotient that float32 rounds to the next whole one
    assert (wrapped <= 2 * unit).all()
    assert (np.abs(result) <= np.abs(y) + unit).all()


@pytest.mark.parametrize("name", REMAINDERS)
def test_remainders_say_that_only_a_simulator_has_them(name: str) -> None:
    x = normal(2, 3)

    def twice(x: Any) -> Any:
        for _ in range(2):
            x = call(name)(x, 4.0)
        return x

    (found,) = findings(twice, x)
    assert (found.code, found.severity.value) == ("ONKI407", "warning")
    assert f"`nl.{name}` runs in the vendor's simulator only" in found.message
    assert found.location is not None
    assert found.location.text.strip() == "x = call(name)(x, 4.0)"
    with pytest.warns(OpenNkiWarning, match=f"nl.{name}"):
        nki.simulate(kernel_of(twice))(x)


# In loops and on two cores ----------------------------------------------------------------------------


def test_in_a_dynamic_loop() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

        def body(i: Any) -> None:
            row = nl.load(x.select(0, i))
            nl.store(out.select(0, i), nl.subtract(nl.multiply(row, 2.0), nl.minimum(row, 0.5)))

        nl.fori_loop(0, x.shape[0], body)
        return out

    x = normal(5, 3, 4)
    expected = np.float32(2) * x - np.minimum(x, np.float32(0.5))
    assert np.array_equal(nki.simulate(kernel)(x), expected)
    assert np.array_equal(opennki.compile(opennki.trace(kernel, x, target="trn2"), lnc=1)(x), expected)


def test_on_two_cores() -> None:
    @nki.jit
    def kernel(x: Any, y: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
        rows = x.shape[0] // nl.num_programs(0)
        part = nl.ds(nl.program_id(0) * rows, rows)
        nl.store(out[part, :], nl.softmax(nl.divide(nl.load(x[part, :]), nl.load(y[part, :]))))
        return out

    x, y = normal(6, 5, seed=1), np.abs(normal(6, 5, seed=2)) + np.float32(0.5)
    one, two = (nki.simulate(kernel[lnc])(x, y) for lnc in (1, 2))
    assert np.array_equal(one, two)
    ratio = x.astype(np.float64) / y
    assert_close(two, np.exp(ratio) / np.exp(ratio).sum(axis=1, keepdims=True), 16)
    compiled = opennki.compile(opennki.trace(kernel, x, y, lnc=2, target="trn2"), lnc=2)(x, y)
    assert np.array_equal(compiled, two)


# Instructions and errors ---------------------------------------------------------------------------------


def test_the_instructions() -> None:
    x = normal(2, 3)
    assert opcodes(lambda x: nl.add(x, x), x) == ["tensor_tensor"]
    assert opcodes(lambda x: nl.add(x, 1.0), x) == ["tensor_scalar"]
    assert opcodes(lambda x: nl.subtract(1.0, x), x) == ["tensor_scalar"]
    assert opcodes(lambda x: nl.divide(x, x), x) == ["reciprocal", "tensor_tensor"]


def test_two_shapes() -> None:
    found = refusal(lambda x, y: nl.add(x, y), normal(4, 6), normal(4, 1), line="nl.add(x, y)")
    assert found.code == "ONKI205"
    assert found.message == "`nl.add` needs one shape for `x` and `y`: [4, 6] and [4, 1]"
    assert found.help == ("repeat the smaller one with a view: `y.broadcast(1, 6)`",)
    found = refusal(lambda x, y: nl.add(x, y), normal(4, 6), normal(1, 6), line="nl.add(x, y)")
    assert found.help == ("repeat the smaller one: `nl.broadcast_to(y, (4, 6))`",)
    found = refusal(lambda x, y: nl.add(x, y), normal(4, 6), normal(4, 5), line="nl.add(x, y)")
    assert found.help == ("slice or reshape one of the two",)


def test_the_help_of_two_shapes_works() -> None:
    x, y = normal(4, 6, seed=1), normal(4, 1, seed=2)
    assert_close(run(lambda x, y: nl.add(x, y.broadcast(1, 6)), x, y), x.astype(np.float64) + y, 0)
    row = normal(1, 6, seed=3)
    result = run(lambda x, y: nl.add(x, nl.broadcast_to(y, (4, 6))), x, row)
    assert_close(result, x.astype(np.float64) + row, 0)


def test_numbers_alone() -> None:
    found = refusal(lambda x: nl.add(1.0, 2.0), normal(2, 2), line="nl.add(1.0, 2.0)")
    assert (found.code, found.message) == ("ONKI101", "`nl.add` needs a tile for `x`, got `1.0` (float)")
    assert found.help == ("at least one of `x` and `y` is a tile",)


def test_an_array_is_no_tile() -> None:
    found = refusal(lambda x: nl.add(x, np.ones((2, 2))), normal(2, 2), line="nl.add(x, np.ones((2, 2)))")
    assert found.code == "ONKI101"
    assert found.message == "`nl.add` needs a tile or a number for `y`, got an object of type `ndarray`"


def test_a_fraction_as_bits() -> None:
    x = np.ones((2, 2), np.int32)
    found = refusal(lambda x: nl.bitwise_and(x, 1.5), x, line="nl.bitwise_and(x, 1.5)")
    assert found.code == "ONKI202"
    assert found.notes[-1] == "`tensor_scalar` is an instruction of this `nl.bitwise_and`"


def test_bits_of_floats() -> None:
    found = refusal(lambda x: nl.bitwise_xor(x, x), normal(2, 2), line="nl.bitwise_xor(x, x)")
    assert (found.code, found.rule) == ("ONKI202", "TENSOR_TENSOR-03")


def test_two_tiles_in_psum() -> None:
    found = refusal(lambda x, y: nl.add(x, y), normal(2, 2), normal(2, 2), psum=(0, 1), line="nl.add(x, y)")
    assert (found.code, found.rule) == ("ONKI201", "TENSOR_TENSOR-02")
    assert found.notes[-1] == "`tensor_tensor` is an instruction of this `nl.add`"


def test_power_of_tiles_runs_on_gpsimd() -> None:
    found = refusal(lambda x, y: nl.power(x, y), normal(2, 2), normal(2, 2), psum=(0,), line="nl.power(x, y)")
    assert (found.code, found.rule) == ("ONKI201", "GEN-15")


def test_an_error_points_at_the_call_among_others() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), nl.multiply(nl.load(x), "2")))
        return out

    with pytest.raises(opennki.OpenNkiError) as caught, patch.dict(os.environ, {"NKI_NC_VERSION": "gen3"}):
        nki.simulate(kernel)(normal(2, 2))
    place = caught.value.diagnostics[0].location
    assert place is not None
    assert place.text[place.column : place.end_column] == 'nl.multiply(nl.load(x), "2")'


def test_numpy_says_nothing() -> None:
    x = np.array([[0.0, np.nan, np.inf]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(lambda x: nl.divide(x, 0.0), x)
        run(lambda x: nl.divide(1.0, x), x)
        run(lambda x: nl.power(x, -1.0), x)

"""`nl` functions of one tile against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from opennki import nki
from tests.rows.oracle_activation import FUNCTIONS
from tests.unit.nl_run import BF16, TARGETS, Array, assert_close, nisa, nl, normal, opcodes, refusal, run

ORACLES: dict[str, Callable[[Any], Any]] = {
    **{name: FUNCTIONS[name] for name in FUNCTIONS if name not in ("sin", "arctan")},
    "negative": np.negative,
    "sqrt": np.sqrt,
    "log": np.log,
    "exp": np.exp,
    "tanh": np.tanh,
    "reciprocal": np.reciprocal,
    "logical_not": lambda x: x == 0,
    "copy": lambda x: x,
}
"""The function of each name in float64; the formulas behind gelu and its like are the activation tests'."""

POSITIVE = {"sqrt", "rsqrt", "log", "reciprocal"}
"""Functions whose valid range begins above 0."""

ULPS = 4
"""Design: transcendental functions of the executor are within 4 fp32 units in the last place."""


def inputs(name: str, *shape: int, dtype: Any = np.float32) -> Array:
    values = normal(*shape, seed=len(name), scale=2.0)
    return (np.abs(values) + 0.25 if name in POSITIVE else values).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted(ORACLES))
def test_value(name: str, target: str) -> None:
    x = inputs(name, 5, 7)
    result = run(lambda x: getattr(nl, name)(x), x, target=target)
    assert result.dtype == np.float32
    assert_close(result, ORACLES[name](x.astype(np.float64)), ULPS)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2, 5), (128, 3)])
@pytest.mark.parametrize("name", ["exp", "abs", "negative", "gelu", "reciprocal", "rsqrt", "copy"])
def test_shapes(name: str, shape: tuple[int, ...]) -> None:
    x = inputs(name, *shape)
    result = run(lambda x: getattr(nl, name)(x), x)
    assert result.shape == shape
    assert_close(result, ORACLES[name](x.astype(np.float64)), ULPS)


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_bfloat16_is_rounded_once(name: str) -> None:
    x = inputs(name, 4, 9, dtype=BF16)
    result = run(lambda x: getattr(nl, name)(x), x)
    assert result.dtype == BF16
    assert_close(result, ORACLES[name](x.astype(np.float64)), 0.51)


@pytest.mark.parametrize("name", ["exp", "abs", "negative", "invert", "copy", "reciprocal", "logical_not"])
def test_dtype_casts_the_result(name: str) -> None:
    x = np.array([[1, 2, -3, 0, 7]], np.int32)
    result = run(lambda x: getattr(nl, name)(x, dtype=nl.float32), x)
    oracle: Any = np.invert if name == "invert" else ORACLES[name]
    with np.errstate(divide="ignore"):
        expected = oracle(x if name == "invert" else x.astype(np.float64))
    assert result.dtype == np.float32
    assert_close(result, expected, ULPS)


@pytest.mark.parametrize("name", ["exp", "abs", "negative", "reciprocal", "copy", "logical_not"])
def test_a_tile_in_psum(name: str) -> None:
    x = inputs(name, 6, 4)
    assert_close(run(lambda x: getattr(nl, name)(x), x, psum=(0,)), ORACLES[name](x.astype(np.float64)), ULPS)


def test_integers_keep_their_dtype_and_are_rounded() -> None:
    x = np.array([[-3, 0, 2, 3]], np.int32)
    assert run(nl.abs, x).tolist() == [[3, 0, 2, 3]]
    assert run(nl.negative, x).tolist() == [[3, 0, -2, -3]]
    assert run(nl.square, x).tolist() == [[9, 0, 4, 9]]
    assert run(nl.exp, x).tolist() == [[0, 1, 7, 20]]
    assert run(nl.sign, x).dtype == np.int32


def test_copy_keeps_the_bits_of_a_dtype() -> None:
    x = np.array([[16777217, -16777219, 2**31 - 1]], np.int32)
    assert np.array_equal(run(nl.copy, x), x)
    nan = np.array([[np.nan, -0.0, np.inf]], np.float32)
    assert run(nl.copy, nan).tobytes() == nan.tobytes()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_invert(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    x = np.array([[0, 1, limits.max, limits.min, 5]], dtype)
    assert np.array_equal(run(nl.invert, x), np.invert(x))


def test_special_values() -> None:
    x = np.array([[np.nan, np.inf, -np.inf, -0.0, 0.0]], np.float32)
    assert np.array_equal(run(nl.abs, x), np.abs(x), equal_nan=True)
    assert np.array_equal(run(nl.negative, x), -x, equal_nan=True)
    assert np.array_equal(run(nl.relu, x), np.array([[np.nan, np.inf, 0, 0, 0]]), equal_nan=True)
    assert run(nl.logical_not, x).tolist() == [[0, 0, 0, 1, 1]]
    with np.errstate(divide="ignore"):
        assert np.array_equal(run(nl.reciprocal, x), np.float32(1) / x, equal_nan=True)


def test_functions_are_the_documented_instructions() -> None:
    x = inputs("rsqrt", 2, 3)
    assert opcodes(lambda x: nl.exp(x), x) == ["activation"]
    assert opcodes(lambda x: nl.reciprocal(x), x) == ["reciprocal"]
    assert opcodes(lambda x: nl.copy(x), x) == ["tensor_copy"]
    assert opcodes(lambda x: nl.rsqrt(x), x) == ["tensor_scalar"]
    assert opcodes(lambda x: nl.abs(x), x) == ["tensor_scalar"]


def test_functions_are_operators_too() -> None:
    x = normal(3, 4)

    def both(tile: Any) -> Any:
        result = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.exp, data=tile)
        nisa.tensor_scalar(
            dst=result, data=result, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=tile[:, 0:1]
        )
        return result

    assert_close(run(both, x), np.exp(x.astype(np.float64)) * 2 + x[:, :1], 4)
    assert [nl.exp.operator.name, nl.add.operator.name, nl.invert.operator.name] == ["exp", "add", "invert"]
    assert not hasattr(nl.negative, "operator")


# where ---------------------------------------------------------------------------------------------------

CHOICES = np.array([[0, 1, 0, 1, 1, 0]])
LEFT = np.array([[1, np.nan, np.inf, -0.0, -np.inf, 6]], np.float32)
RIGHT = np.array([[np.nan, 2, -0.0, 4, 5, np.inf]], np.float32)


@pytest.mark.parametrize(
    "dtype", [np.float32, BF16, np.bool_, np.int8, np.uint8, np.uint16, np.int32, np.uint32]
)
def test_where_picks_bits(dtype: Any) -> None:
    result = run(nl.where, CHOICES.astype(dtype), LEFT, RIGHT)
    assert result.tobytes() == np.where(CHOICES != 0, LEFT, RIGHT).tobytes()


def test_where_takes_what_is_not_0_as_true() -> None:
    condition = np.array([[0.5, -2.0, 0.0, -0.0, np.nan, 1e-30]], np.float32)
    assert run(nl.where, condition, LEFT, RIGHT).tobytes() == np.where(condition != 0, LEFT, RIGHT).tobytes()


def test_where_has_the_dtype_of_x() -> None:
    condition = np.array([[1, 0, 1]], np.uint8)
    x, y = np.array([[1.5, 2.5, 3.5]], BF16), np.array([[7, 8, 9]], np.int32)
    result = run(nl.where, condition, x, y)
    assert result.dtype == BF16
    assert result.astype(np.float32).tolist() == [[1.5, 8.0, 3.5]]
    wide = run(lambda c, x, y: nl.where(c, x, y, dtype=nl.float32), condition, x, y)
    assert wide.dtype == np.float32
    assert wide.tolist() == [[1.5, 8.0, 3.5]]


@pytest.mark.parametrize("psum", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_where_from_psum(psum: tuple[int, ...]) -> None:
    condition = normal(4, 3, seed=1) > 0
    x, y = normal(4, 3, seed=2), normal(4, 3, seed=3)
    result = run(nl.where, condition.astype(np.uint8), x, y, psum=psum)
    assert np.array_equal(result, np.where(condition, x, y))


# Wrong operands ------------------------------------------------------------------------------------------


def test_a_number_is_no_tile() -> None:
    found = refusal(lambda x: nl.exp(2.0), normal(2, 2), line="nl.exp(2.0)")
    assert (found.code, found.message) == ("ONKI101", "`nl.exp` needs a tile for `x`, got `2.0` (float)")


def test_a_tensor_in_hbm_is_to_be_loaded() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.exp(x))
        return out

    with pytest.raises(nisa.NkiValidationError) as caught:
        nki.simulate(kernel)(normal(2, 2))
    found = caught.value.diagnostics[0]
    assert found.message == "`nl.exp` needs `x` in sbuf or psum, it is in shared_hbm"
    assert found.help == ("load it first: `nl.load(x)`",)
    assert found.location.text.strip() == "nl.store(out, nl.exp(x))"
    assert found.location.text[found.location.column : found.location.end_column] == "nl.exp(x)"


def test_rsqrt_takes_no_tile_in_psum() -> None:
    found = refusal(lambda x: nl.rsqrt(x), normal(2, 2), psum=(0,), line="nl.rsqrt(x)")
    assert (found.code, found.message) == ("ONKI201", "`nl.rsqrt` needs `x` in sbuf, it is in psum")
    assert found.help == ("copy it into SBUF first: `nl.copy(tile)`",)


def test_invert_takes_integers() -> None:
    found = refusal(lambda x: nl.invert(x), normal(2, 2), line="nl.invert(x)")
    assert found.code == "ONKI202"
    assert found.notes[-1] == "`tensor_scalar` is an instruction of this `nl.invert`"


def test_an_unknown_dtype() -> None:
    found = refusal(lambda x: nl.exp(x, dtype=np.float64), normal(2, 2), line="dtype=np.float64")
    assert found.code == "ONKI214"


def test_where_takes_tiles() -> None:
    x = normal(2, 3)
    found = refusal(lambda x: nl.where(x, x, 0.0), x, line="nl.where(x, x, 0.0)")
    assert (found.code, found.message) == ("ONKI101", "`nl.where` needs a tile for `y`, got `0.0` (float)")
    assert found.help == ("fill a tile: `nl.full(shape, 0.0, dtype)`",)


def test_where_takes_one_shape() -> None:
    found = refusal(lambda c, x: nl.where(c, x, x), normal(2, 1), normal(2, 3), line="nl.where(c, x, x)")
    assert found.code == "ONKI205"
    assert found.message == "`nl.where` needs one shape for `condition` and `x`: [2, 1] and [2, 3]"

"""`nl` functions along axes against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.nl_run import BF16, TARGETS, Array, assert_close, nl, normal, opcodes, refusal, run

Reduce = Callable[..., Any]

FOLDS: dict[str, tuple[Reduce, float]] = {
    "sum": (np.sum, 16),
    "prod": (np.prod, 16),
    "max": (np.max, 0),
    "min": (np.min, 0),
    "mean": (np.mean, 16),
}
"""Oracle and bound in units in the last place, of values of one sign so that sums do not cancel."""


def values(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return (np.abs(normal(*shape, seed=seed)) + 0.5).astype(dtype)


def call(name: str) -> Any:
    function: Any = getattr(nl, name)
    return function


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FOLDS)
def test_folds(name: str, target: str) -> None:
    x = values(5, 7)
    oracle, ulps = FOLDS[name]
    result = run(lambda x: call(name)(x, axis=1), x, target=target)
    assert result.shape == (5, 1)
    assert_close(result, oracle(x.astype(np.float64), axis=1, keepdims=True), ulps)


@pytest.mark.parametrize(
    ("axis", "without", "kept"),
    [
        (3, (3, 2, 4), (3, 2, 4, 1)),
        (-1, (3, 2, 4), (3, 2, 4, 1)),
        ([2, 3], (3, 2), (3, 2, 1, 1)),
        ((3, 2), (3, 2), (3, 2, 1, 1)),
        ((-1, -2), (3, 2), (3, 2, 1, 1)),
        ((1, 2, 3), (3, 1), (3, 1, 1, 1)),
        (np.int64(3), (3, 2, 4), (3, 2, 4, 1)),
    ],
)
@pytest.mark.parametrize("name", FOLDS)
def test_axes(name: str, axis: Any, without: tuple[int, ...], kept: tuple[int, ...]) -> None:
    x = values(3, 2, 4, 5)
    oracle, ulps = FOLDS[name]
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else int(axis)
    expected = oracle(x.astype(np.float64), axis=axes)
    result = run(lambda x: call(name)(x, axis), x)
    assert result.shape == without
    assert_close(result, expected.reshape(without), ulps)
    held = run(lambda x: call(name)(x, axis, keepdims=True), x)
    assert held.shape == kept
    assert_close(held, expected.reshape(kept), ulps)


@pytest.mark.parametrize("name", FOLDS)
def test_one_element(name: str) -> None:
    x = values(1, 1)
    assert_close(run(lambda x: call(name)(x, 1), x), x, 0)


@pytest.mark.parametrize("name", FOLDS)
def test_bfloat16_is_folded_in_float32(name: str) -> None:
    x = values(4, 30, dtype=BF16)
    result = run(lambda x: call(name)(x, 1), x)
    assert result.dtype == BF16
    expected = FOLDS[name][0](x.astype(np.float64), axis=1, keepdims=True)
    assert_close(result, expected, 0.55)
    wide = run(lambda x: call(name)(x, 1, dtype=nl.float32), x)
    assert wide.dtype == np.float32
    assert_close(wide, expected, 16)


def test_integers() -> None:
    x = np.array([[3, -1, 4, 1], [2, 7, 1, 8]], np.int32)
    assert run(lambda x: nl.sum(x, 1), x).tolist() == [[7], [18]]
    assert run(lambda x: nl.prod(x, 1), x).tolist() == [[-12], [112]]
    assert run(lambda x: nl.max(x, 1), x).tolist() == [[4], [8]]
    assert run(lambda x: nl.mean(x, 1), x).tolist() == [[2], [4]]  # 1.75 and 4.5, ties to even


def test_nan_wins() -> None:
    x = np.array([[1, np.nan, 3], [np.inf, 2, -np.inf]], np.float32)
    for name in ("max", "min", "sum"):
        with np.errstate(invalid="ignore"):
            expected = FOLDS[name][0](x, axis=1, keepdims=True)
        assert np.array_equal(run(lambda x, name=name: call(name)(x, 1), x), expected, equal_nan=True)


def test_all() -> None:
    x = np.array([[1, 2, -0.5], [1, 0, 3], [np.nan, 1, 1], [0, -0.0, 0]], np.float32)
    assert run(lambda x: nl.all(x, 1), x).tolist() == [[1], [0], [1], [0]]
    mask = run(lambda x: nl.all(x, axis=-1, dtype=nl.uint8), x)
    assert mask.dtype == np.uint8
    deep = (np.arange(24).reshape(2, 3, 4) % 7).astype(np.float32)
    assert np.array_equal(run(lambda x: nl.all(x, [2]), deep), np.all(deep, axis=2))


@pytest.mark.parametrize("axis", [1, (1, 2), 2, -1])
def test_variance(axis: Any) -> None:
    x = normal(5, 3, 7, seed=4) + 3 if axis != 1 else normal(5, 7, seed=4) + 3
    result = run(lambda x: nl.var(x, axis), x)
    expected = np.var(x.astype(np.float64), axis=axis, keepdims=True)
    assert result.shape == expected.shape
    assert_close(result, expected, 32)
    dropped = run(lambda x: nl.var(x, axis, keepdims=False), x)
    assert dropped.shape == expected.shape, "keepdims is ignored, as documented"


def test_variance_of_one_value_is_0() -> None:
    assert run(lambda x: nl.var(x, 1), np.full((2, 5), 7.5, np.float32)).tolist() == [[0], [0]]


def test_variance_in_psum_and_bfloat16() -> None:
    x = values(4, 9, dtype=BF16)
    result = run(lambda x: nl.var(x, 1), x, psum=(0,))
    assert result.dtype == BF16
    assert_close(result, np.var(x.astype(np.float64), axis=1, keepdims=True), 0.6)


# Softmax and normalisation -------------------------------------------------------------------------------


def softmax(x: Array, axis: Any) -> Any:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize("target", TARGETS)
def test_softmax(target: str) -> None:
    x = normal(5, 33, scale=3.0)
    result = run(lambda x: nl.softmax(x), x, target=target)
    assert_close(result, softmax(x.astype(np.float64), 1), 24)
    assert_close(result.sum(axis=1), np.ones(5), 24)


@pytest.mark.parametrize("axis", [-1, 2, (1, 2), [2]])
def test_softmax_along_axes(axis: Any) -> None:
    x = normal(3, 4, 5, scale=2.0)
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else axis
    assert_close(run(lambda x: nl.softmax(x, axis), x), softmax(x.astype(np.float64), axes), 24)


def test_softmax_of_large_and_masked_values() -> None:
    x = np.array([[1e4, 1e4, -1e4], [-np.inf, 0, 0], [-np.inf, -np.inf, -np.inf], [5, 5, 5]], np.float32)
    expected = softmax(x.astype(np.float64), 1)
    assert_close(run(nl.softmax, x), expected, 4)
    one = run(nl.softmax, np.array([[3.0]], np.float32))
    assert one.tolist() == [[1.0]]


def test_softmax_of_bfloat16() -> None:
    x = normal(4, 16, dtype=BF16)
    result = run(lambda x: nl.softmax(x, axis=1), x, psum=(0,))
    assert result.dtype == BF16
    assert_close(result, softmax(x.astype(np.float64), 1), 0.55)


def rms_norm(x: Array, w: Array, axis: Any, n: int, epsilon: float = 1e-6) -> Any:
    x, w = x.astype(np.float64), w.astype(np.float64)
    return x / np.sqrt(np.sum(x * x, axis=axis, keepdims=True) / n + epsilon) * w


@pytest.mark.parametrize("target", TARGETS)
def test_rms_norm(target: str) -> None:
    x, w = normal(5, 31, seed=1), normal(5, 31, seed=2)
    result = run(lambda x, w: nl.rms_norm(x, w, axis=1, n=31), x, w, target=target)
    assert_close(result, rms_norm(x, w, 1, 31), 16)


def test_rms_norm_with_options() -> None:
    x, w = normal(3, 2, 6, seed=1), normal(3, 2, 6, seed=2)
    result = run(lambda x, w: nl.rms_norm(x, w, [1, 2], 12, epsilon=0.5, dtype=nl.bfloat16), x, w)
    assert result.dtype == BF16
    assert_close(result, rms_norm(x, w, (1, 2), 12, 0.5), 0.55)
    rough = run(lambda x, w: nl.rms_norm(x, w, -1, 6, compute_dtype=nl.bfloat16), x, w)
    assert rough.dtype == np.float32
    exact = rms_norm(x, w, -1, 6)
    assert np.abs(rough - exact).max() > 1e-4, "intermediates are bfloat16"
    assert np.abs(rough - exact).max() < 0.05 * np.abs(exact).max()


def test_rms_norm_from_psum() -> None:
    x, w = normal(3, 8, seed=1), normal(3, 8, seed=2)
    assert_close(run(lambda x, w: nl.rms_norm(x, w, 1, 8), x, w, psum=(0, 1)), rms_norm(x, w, 1, 8), 16)


# Errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, (0, 1), (), 1, 3, -3, (1, 1)])
def test_axes_that_cannot_be_reduced(axis: Any) -> None:
    found = refusal(lambda x: nl.sum(x, axis), normal(4, 3, 5), line="nl.sum(x, axis)")
    assert found.code == "ONKI206"
    assert found.message == f"`nl.sum` reduces the last free axes of `x` [4, 3, 5], not axis={axis!r}"
    assert found.help == (
        "name trailing axes such as `axis=-1`; axis 0 is the partition axis: transpose first",
    )


@pytest.mark.parametrize("axis", [None, 1.0, "1", True, (1, None)])
def test_an_axis_is_an_int(axis: Any) -> None:
    found = refusal(lambda x: nl.softmax(x, axis=axis), normal(4, 3), line="nl.softmax(x, axis=axis)")
    assert found.code == "ONKI101"
    assert "`nl.softmax` needs an int or a sequence of ints for `axis`" in found.message


def test_rms_norm_needs_a_weight_for_each_element() -> None:
    found = refusal(
        lambda x, w: nl.rms_norm(x, w, 1, 6), normal(4, 6), normal(1, 6), line="nl.rms_norm(x, w, 1, 6)"
    )
    assert found.code == "ONKI205"
    assert found.message == "`nl.rms_norm` needs one shape for `x` and `w`: [4, 6] and [1, 6]"


@pytest.mark.parametrize("n", [0, None, "6"])
def test_rms_norm_needs_a_count(n: Any) -> None:
    x = normal(4, 6)
    found = refusal(lambda x: nl.rms_norm(x, x, 1, n), x, line="nl.rms_norm(x, x, 1, n)")
    assert found.code == "ONKI101"
    assert found.message.startswith("`nl.rms_norm` needs a number other than 0 for `n`, got")


def test_the_instructions() -> None:
    x = normal(2, 3)
    assert opcodes(lambda x: nl.sum(x, 1), x) == ["tensor_reduce"]
    assert opcodes(lambda x: nl.mean(x, 1), x) == ["tensor_reduce", "tensor_scalar"]
    assert opcodes(lambda x: nl.softmax(x), x) == [
        "tensor_reduce",
        "tensor_tensor",
        "activation",
        "tensor_reduce",
        "reciprocal",
        "tensor_tensor",
    ]

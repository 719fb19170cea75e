"""`nl.floor`, `nl.ceil`, `nl.trunc`, and the trigonometric functions, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.nl_run import BF16, TARGETS, Array, assert_close, nl, normal, opcodes, refusal, run

ROUNDINGS: dict[str, Callable[[Any], Any]] = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}

EDGES = np.array(
    [
        [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 0.49999997, -0.49999997, 0.99999994, -0.99999994],
        [3.2, -3.7, 3.7, -3.2, 1e-30, -1e-30, 4194303.5, -4194303.5, 8388607.5, -8388607.5, 8388609.0, 1.0],
        [
            2**24 + 2.0,
            -(2.0**24),
            2**30 - 64.0,
            2.0**30,
            2**30 + 128.0,
            2.0**31,
            -(2.0**31),
            2.0**33,
            1e20,
            1,
            2,
            3,
        ],
        [
            1e38,
            -1e38,
            2.0**47,
            2.0**48,
            2.0**54 + 2.0**31,
            2.0**55,
            np.inf,
            -np.inf,
            np.nan,
            7.0,
            -7.0,
            2.0**53,
        ],
    ],
    np.float32,
)
"""Halves, neighbours of whole numbers, where float32 stops having fractions, and beyond int32."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ROUNDINGS)
def test_rounding_at_the_edges(name: str, target: str) -> None:
    result = run(lambda x: getattr(nl, name)(x), EDGES, target=target)
    assert np.array_equal(result, ROUNDINGS[name](EDGES), equal_nan=True)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (3, 2, 5)])
@pytest.mark.parametrize("name", ROUNDINGS)
def test_rounding(name: str, shape: tuple[int, ...]) -> None:
    x = normal(*shape, scale=50.0)
    assert np.array_equal(run(lambda x: getattr(nl, name)(x), x), ROUNDINGS[name](x))


@pytest.mark.parametrize("name", ROUNDINGS)
def test_rounding_of_other_dtypes(name: str) -> None:
    half = normal(3, 8, dtype=BF16, scale=20.0)
    expected = ROUNDINGS[name](half.astype(np.float32))
    result = run(lambda x: getattr(nl, name)(x), half)
    assert result.dtype == BF16
    assert np.array_equal(result.astype(np.float32), expected)
    whole = run(lambda x: getattr(nl, name)(x, dtype=nl.int32), half)
    assert whole.dtype == np.int32
    assert np.array_equal(whole, expected.astype(np.int32))
    words = np.array([[2**24 + 1, -(2**31), 2**31 - 1]], np.int32)
    assert np.array_equal(run(lambda x: getattr(nl, name)(x), words), words)
    assert run(lambda x: getattr(nl, name)(x, dtype=nl.float32), words[:, :1]).tolist() == [[2.0**24]]


def test_rounding_from_psum() -> None:
    x = normal(4, 5, scale=9.0)
    for name, oracle in ROUNDINGS.items():
        assert np.array_equal(run(lambda x, name=name: getattr(nl, name)(x), x, psum=(0,)), oracle(x))


def test_rounding_needs_a_tile() -> None:
    found = refusal(lambda x: nl.floor(1.5), normal(2, 2), line="nl.floor(1.5)")
    assert (found.code, found.message) == ("ONKI101", "`nl.floor` needs a tile for `x`, got `1.5` (float)")


# Angles --------------------------------------------------------------------------------------------------

TRIGONOMETRY: dict[str, Callable[[Any], Any]] = {"sin": np.sin, "cos": np.cos}


def angles(limit: float, count: int = 4000) -> Array:
    """Return float32 angles up to a limit, and the float32 neighbours of quarter turns below it."""
    spread = np.random.default_rng(3).uniform(-limit, limit, count).astype(np.float32)
    quarters = (np.arange(-40, 40) * (np.pi / 2)).astype(np.float32)
    around = np.concatenate(
        [quarters, np.nextafter(quarters, np.float32(9)), np.nextafter(quarters, np.float32(-9))]
    )
    return np.concatenate([spread, around[np.abs(around) <= limit]])[None, :]


@pytest.mark.parametrize(
    ("limit", "error"), [(np.pi, 3e-7), (100.0, 3e-7), (1e4, 3e-7), (1e6, 6e-7), (1e8, 1e-6)]
)
@pytest.mark.parametrize("name", TRIGONOMETRY)
def test_sine_and_cosine_stay_accurate(name: str, limit: float, error: float) -> None:
    x = angles(limit)
    result = run(lambda x: getattr(nl, name)(x), x)
    assert np.abs(result - TRIGONOMETRY[name](x.astype(np.float64))).max() <= error


@pytest.mark.parametrize("target", TARGETS)
def test_the_sine_of_9_is_right_where_the_engine_is_not(target: str) -> None:
    x = np.array([[9.0, -9.0, 0.0]], np.float32)
    assert_close(run(nl.sin, x, target=target), np.sin([[9.0, -9.0, 0.0]]), 4)
    assert_close(run(nl.cos, x, target=target), np.cos([[9.0, -9.0, 0.0]]), 4)


@pytest.mark.parametrize("name", TRIGONOMETRY)
def test_beyond_every_angle_the_result_is_still_a_sine(name: str) -> None:
    x = np.array([[1e9, -1e12, 1e30, 3.4e38, -3.4e38]], np.float32)
    result = run(lambda x: getattr(nl, name)(x), x)
    assert np.abs(result).max() <= 1.0
    special = run(lambda x: getattr(nl, name)(x), np.array([[np.inf, -np.inf, np.nan]], np.float32))
    assert np.isnan(special).all()


def test_small_angles_are_as_the_engine_has_them() -> None:
    x = np.array([[1e-30, -1e-10, 1e-3, 0.5, -3.0]], np.float32)
    assert_close(run(nl.sin, x), np.sin(x.astype(np.float64)), 1)


def test_tangent() -> None:
    x = angles(50.0)
    exact = np.tan(x.astype(np.float64))
    tame = np.abs(exact) < 100
    result = run(nl.tan, x)
    assert np.abs((result - exact)[tame] / (1 + np.square(exact[tame]))).max() <= 5e-7


def test_arctangent() -> None:
    x = normal(5, 9)
    assert_close(run(nl.arctan, x), np.arctan(x.astype(np.float64)), 4)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "arctan"])
def test_angles_of_other_dtypes(name: str) -> None:
    half = normal(3, 5, dtype=BF16)
    result = run(lambda x: getattr(nl, name)(x), half)
    assert result.dtype == BF16
    assert_close(result, getattr(np, name)(half.astype(np.float64)), 0.52)
    degrees = np.array([[0, 1, 5, -7]], np.int32)
    wide = run(lambda x: getattr(nl, name)(x, dtype=nl.float32), degrees, psum=(0,))
    assert wide.dtype == np.float32
    assert np.abs(wide - getattr(np, name)(degrees.astype(np.float64))).max() <= 5e-6


def test_the_operator_is_the_engines_own() -> None:
    assert nl.sin.operator.name == "sin"
    names = opcodes(lambda x: nl.sin(x), normal(2, 2))
    assert names[-1] == "activation"
    assert set(names[:-1]) == {"tensor_scalar", "tensor_tensor"}
    assert opcodes(lambda x: nl.arctan(x), normal(2, 2)) == ["activation"]

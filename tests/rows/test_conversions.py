"""The conversions of `conversions.py` against hand-computed values, and against a second way to get them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.rows.conversions import (
    FLOATS,
    bits_of,
    decoded,
    from_bits,
    load,
    name_of,
    round32,
    round_to,
    storage,
    store,
    ulp32,
    wrap,
)

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("dtype", "largest", "smallest_normal", "smallest"),
    [
        ("float16", 65504.0, 2.0**-14, 2.0**-24),
        ("bfloat16", 255 * 2.0**120, 2.0**-126, 2.0**-133),
        ("float8_e4m3", 240.0, 2.0**-6, 2.0**-9),
        ("float8_e4m3fn", 448.0, 2.0**-6, 2.0**-9),
        ("float8_e5m2", 57344.0, 2.0**-14, 2.0**-16),
    ],
)
def test_formats_have_the_published_limits(
    dtype: str, largest: float, smallest_normal: float, smallest: float
) -> None:
    values = decoded(dtype)
    finite = values[np.isfinite(values)]
    assert finite.max() == largest
    assert finite.min() == -largest
    assert finite[finite > 0].min() == smallest
    assert values[1 << FLOATS[dtype].mantissa_bits] == smallest_normal


@pytest.mark.parametrize("dtype", list(FLOATS))
def test_every_pattern_survives_load_and_store(dtype: str) -> None:
    count = 2 ** FLOATS[dtype].bits
    patterns = np.arange(count, dtype=np.uint64)
    values = load(from_bits(patterns, dtype), dtype)
    back = bits_of(store(values, dtype))
    kept = ~np.isnan(values)
    if FLOATS[dtype].saturates:
        kept &= np.isfinite(values)
    assert np.array_equal(back[kept], patterns[kept])
    assert np.isnan(load(store(values, dtype), dtype)[np.isnan(values)]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3", "float8_e4m3fn"])
def test_decoding_agrees_with_the_storage_library(dtype: str) -> None:
    patterns = np.arange(2 ** FLOATS[dtype].bits, dtype=np.uint64)
    with np.errstate(invalid="ignore"):
        library = from_bits(patterns, dtype).astype(np.float64)
    numbers = ~np.isnan(library)
    assert np.array_equal(decoded(dtype), library, equal_nan=True)
    assert np.array_equal(np.signbit(decoded(dtype))[numbers], np.signbit(library)[numbers])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2"])
def test_nearest_agrees_with_scaled_rounding(dtype: str) -> None:
    form = FLOATS[dtype]
    generator = np.random.default_rng(5)
    values = round32(generator.standard_normal(4000) * 2.0 ** generator.integers(-30, 18, 4000))
    _, exponent = np.frexp(values)
    quantum = np.maximum(exponent - 1, 1 - form.bias) - form.mantissa_bits
    rounded = np.ldexp(np.rint(np.ldexp(values, -quantum)), quantum)
    largest = decoded(dtype)[np.isfinite(decoded(dtype))].max()
    rounded = np.where(np.abs(rounded) > largest, np.copysign(INF, rounded), rounded)
    assert np.array_equal(load(store(values, dtype), dtype), rounded)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float16", 65519.0, 65504.0),
        ("float16", 65520.0, INF),  # the midpoint to 65536: even, so away from the odd 65504
        ("float16", -65520.0, -INF),
        ("float16", 2.0**-25, 0.0),  # half of the smallest: tie to even zero
        ("float16", 3 * 2.0**-25, 2.0**-23),
        ("float16", 1 + 2.0**-11, 1.0),
        ("float16", 1 + 3 * 2.0**-11, 1 + 2.0**-9),
        ("bfloat16", 1 + 2.0**-8, 1.0),
        ("bfloat16", 1 + 3 * 2.0**-8, 1 + 2.0**-6),
        ("bfloat16", 3.4028234663852886e38, INF),
        ("bfloat16", 2.0**-134, 0.0),
        ("float8_e4m3", 248.0, 240.0),
        ("float8_e4m3", 1e9, 240.0),
        ("float8_e4m3", -INF, -240.0),
        ("float8_e4m3fn", 464.0, 448.0),
        ("float8_e4m3fn", 1e9, 448.0),
        ("float8_e4m3fn", INF, 448.0),
        ("float8_e4m3fn", 20.5, 20.0),
        ("float8_e4m3fn", 21.0, 20.0),  # between 20 (mantissa 2) and 22 (mantissa 3)
        ("float8_e4m3fn", 23.0, 24.0),
        ("float8_e4m3", 2.0**-10, 0.0),
        ("float8_e4m3", 3 * 2.0**-10, 2.0**-8),
        ("float8_e5m2", 61439.0, 57344.0),
        ("float8_e5m2", 61440.0, INF),
        ("tfloat32", 1 + 2.0**-11, 1.0),
        ("tfloat32", 1 + 3 * 2.0**-11, 1 + 2.0**-9),
        ("tfloat32", 3.4028234663852886e38, INF),
        ("float32", 16777217.0, 16777216.0),
        ("float32", 2.0**-150, 0.0),
        ("float32", 3 * 2.0**-150, 2.0**-148),
        ("float32", 3.4028235677973366e38, INF),
    ],
)
def test_rounding_by_hand(dtype: str, value: float, expected: float) -> None:
    assert load(store(np.array([value]), dtype), dtype).tolist() == [expected]


def test_zero_keeps_its_sign_and_nan_stays() -> None:
    for dtype in (*FLOATS, "float32", "tfloat32"):
        zeros = load(store(np.array([0.0, -0.0, -(2.0**-149)]), dtype), dtype)
        assert np.signbit(zeros).tolist() == [False, True, True]
        assert np.isnan(load(store(np.array([NAN]), dtype), dtype)).all()


def test_integers_round_to_even_and_saturate() -> None:
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4, 300.0, -300.0, NAN, INF, -INF])
    assert store(values, "int8").tolist() == [0, 2, 2, 0, -2, 2, 127, -128, 0, 127, -128]
    assert store(values, "uint8").tolist() == [0, 2, 2, 0, 0, 2, 255, 0, 0, 255, 0]
    big = np.array([2147483647.0, -2147483648.0, 4294967295.0, 2147483520.0])
    assert store(big, "int32").tolist() == [2147483647, -2147483648, 2147483647, 2147483520]
    assert store(big, "uint32").tolist() == [2147483648, 0, 4294967295, 2147483520]
    assert store(np.array([1e30, -1e30]), "int64").tolist() == [2**63 - 1, -(2**63)]


def test_bool_is_not_equal_to_zero() -> None:
    values = np.array([0.0, -0.0, NAN, 2.0**-149, -1.0])
    assert store(values, "bool").tolist() == [False, False, True, True, True]


def test_fp32_rounding_agrees_with_the_processor() -> None:
    generator = np.random.default_rng(7)
    values = generator.standard_normal(4000) * 2.0 ** generator.integers(-160, 130, 4000)
    with np.errstate(over="ignore"):
        processor = values.astype(np.float32)
    assert np.array_equal(round32(values), processor.astype(np.float64))
    assert np.array_equal(bits_of(store(values, "float32")), bits_of(processor))


def test_tfloat32_keeps_ten_bits_of_the_pattern() -> None:
    generator = np.random.default_rng(9)
    values = round32(generator.standard_normal(2000) * 2.0 ** generator.integers(-140, 120, 2000))
    patterns = bits_of(store(values, "float32"))
    odd = patterns >> np.uint64(13) & np.uint64(1)
    rounded = (patterns + np.uint64(0xFFF) + odd) & np.uint64(0xFFFFE000)
    assert np.array_equal(bits_of(store(values, "tfloat32")), rounded)
    assert round_to(np.array([1 + 2.0**-10]), 10).tolist() == [1 + 2.0**-10]


def test_wrap_is_modulo_the_width() -> None:
    values = np.array([2**31, -(2**31) - 1, 2**32 + 5, -1], np.int64)
    assert wrap(values, "int32").tolist() == [-(2**31), 2**31 - 1, 5, -1]
    assert wrap(values, "uint32").tolist() == [2**31, 2**31 - 1, 5, 2**32 - 1]


def test_ulp_and_names() -> None:
    assert ulp32(np.array([1.0, 2.0, 0.0, 2.0**-140])).tolist() == [2.0**-23, 2.0**-22, 2.0**-149, 2.0**-149]
    assert name_of(np.zeros(1, ml_dtypes.bfloat16)) == "bfloat16"
    assert name_of(np.zeros(1, np.float32)) == "float32"
    assert storage("tfloat32") == np.float32

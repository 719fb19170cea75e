"""Conversions of the executor against the independent ones of `tests/rows/conversions.py`, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opennki.execute.convert import bits_dtype, converter, fill_value, round_tf32
from opennki.ir.dtypes import DTYPES
from tests.rows.conversions import (
    FLOATS,
    INTEGERS,
    STORAGE,
    bits_of,
    from_bits,
    load,
    round32,
    storage,
    store,
    wrap,
)
from tests.rows.edge_values import edge_values, fp32_values

Array = np.ndarray[Any, Any]


TO = sorted(STORAGE)
NARROW = sorted(name for name, kind in STORAGE.items() if kind.itemsize <= 2)

pytestmark = pytest.mark.filterwarnings("ignore:(invalid|overflow):RuntimeWarning")


def every_pattern(dtype: str) -> Array:
    """Return an element of each bit pattern."""
    count = 2 if dtype == "bool" else 2 ** (8 * storage(dtype).itemsize)
    return from_bits(np.arange(count, dtype=np.uint64), dtype)


def same(found: Array, expected: Array, dtype: str) -> None:
    """Fail unless two arrays have equal bits; a NaN may be any NaN of its type, as hardware leaves open."""
    assert found.dtype == expected.dtype == storage(dtype)
    assert found.shape == expected.shape
    differ = bits_of(found) != bits_of(expected)
    if dtype not in INTEGERS and dtype != "bool":
        differ &= ~(np.isnan(load(found, dtype)) & np.isnan(load(expected, dtype)))
    where = np.flatnonzero(differ)[:5]
    assert not differ.any(), [(int(i), found.flat[i], expected.flat[i]) for i in where]


def inside(elements: Array, values: Array, to: str) -> tuple[Array, Array]:
    """Leave out what is beyond int64: that has a test of its own."""
    kept = np.isnan(values) | (values < 2.0**63) if to == "int64" else np.full(values.shape, True)
    return elements[kept], values[kept]


@pytest.mark.parametrize("to", TO)
@pytest.mark.parametrize("dtype", NARROW)
def test_every_pattern_of_the_narrow_types(dtype: str, to: str) -> None:
    elements = every_pattern(dtype)
    elements, values = inside(elements, load(elements, dtype), to)
    same(converter(to)(elements), elements if to == dtype else store(values, to), to)


@pytest.mark.parametrize("to", TO)
def test_edge_values_of_float32(to: str) -> None:
    elements, values = inside(fp32_values().astype(np.float32), fp32_values(), to)
    same(converter(to)(elements), store(values, to), to)


def test_int64_saturates_at_its_limit() -> None:
    values = np.array([1e30, 2.0**63, np.inf, -1e30, -np.inf], np.float32)
    assert converter("int64")(values).tolist() == [2**63 - 1] * 3 + [-(2**63)] * 2


@pytest.mark.parametrize("to", TO)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_edge_values_of_the_wide_integers(dtype: str, to: str) -> None:
    elements = edge_values(dtype)
    expected = elements if to == dtype else store(elements.astype(np.float64), to)
    same(converter(to)(elements), expected, to)


@pytest.mark.parametrize("to", TO)
def test_random_patterns_of_float32(to: str, rng: np.random.Generator) -> None:
    elements = from_bits(rng.integers(0, 2**32, 20000, dtype=np.uint64), "float32")
    elements, values = inside(elements, load(elements, "float32"), to)
    same(converter(to)(elements), store(values, to), to)


@pytest.mark.parametrize("dtype", sorted(FLOATS))
def test_ties_go_to_even(dtype: str) -> None:
    """Every midpoint of neighbours, and the floats on both sides of it."""
    patterns = np.arange(2 ** (FLOATS[dtype].bits - 1) - 1, dtype=np.uint64)
    values = load(from_bits(patterns, dtype), dtype)
    values = values[np.isfinite(values)]
    middles = (values[:-1] + values[1:]) / 2
    exact = middles[middles == round32(middles)].astype(np.float32)
    around = np.concatenate(
        [exact, np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(0))]
    )
    both = np.concatenate([around, -around])
    same(converter(dtype)(both), store(both.astype(np.float64), dtype), dtype)
    assert len(exact) > 100


def test_tfloat32_is_rounded_even_where_the_storage_is_the_same() -> None:
    values = np.array(
        [1 + 2.0**-11, 1 + 3 * 2.0**-11, -(1 + 2.0**-12), np.inf, -np.inf, 0.0, -0.0], np.float32
    )
    expected = np.array([1.0, 1 + 2.0**-9, -1.0, np.inf, -np.inf, 0.0, -0.0], np.float32)
    assert converter("tfloat32")(values).tobytes() == expected.tobytes()
    assert np.isnan(round_tf32(np.array([np.nan], np.float32))).all()


def test_tfloat32_overflows_to_infinity() -> None:
    largest = np.finfo(np.float32).max
    assert converter("tfloat32")(np.array([largest, -largest], np.float32)).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (2, 0)])
@pytest.mark.parametrize("to", TO)
def test_shapes_are_kept(to: str, shape: tuple[int, ...]) -> None:
    found = converter(to)(np.full(shape, 1.5, np.float32))
    assert (found.shape, found.dtype) == (shape, storage(to))


@pytest.mark.parametrize("to", TO)
def test_memory_in_any_order(to: str) -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (values.T, values[::2, ::-3], np.broadcast_to(values[:, :1], (4, 3))):
        assert np.array_equal(converter(to)(view), converter(to)(view.copy()))


@pytest.mark.parametrize("to", TO)
def test_the_argument_is_left_alone(to: str) -> None:
    values = fp32_values().astype(np.float32)
    before = values.tobytes()
    converter(to)(values)
    assert values.tobytes() == before


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_elements_of_the_type_itself_pass_unchanged(dtype: str) -> None:
    info = DTYPES[dtype]
    if dtype in ("tfloat32", "bool"):
        return  # the one is rounded, the other has one pattern for each value
    patterns = np.random.default_rng(3).integers(0, 2 ** (8 * min(info.bytes, 4)), 1000)
    elements = patterns.astype(f"u{info.bytes}").view(info.storage)
    assert converter(dtype)(elements).tobytes() == elements.tobytes()


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_unwritten_elements(dtype: str) -> None:
    value = np.asarray(fill_value(DTYPES[dtype]))
    assert value.dtype == DTYPES[dtype].storage
    assert value.shape == ()
    if DTYPES[dtype].is_float:
        assert np.isnan(value.astype(np.float32))
    elif dtype == "bool":
        assert bool(value)
    else:
        assert int(value) == 4


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_bits_have_the_width_of_the_element(dtype: str) -> None:
    assert bits_dtype(DTYPES[dtype]).itemsize == DTYPES[dtype].storage.itemsize
    assert bits_dtype(DTYPES[dtype]).kind == "u"


def test_the_oracle_wraps_and_the_executor_saturates() -> None:
    """A guard: the two are different functions, so that this file compares the right one."""
    values = np.array([300, -300])
    assert wrap(values, "int8").tolist() == [44, -44]
    assert converter("int8")(values.astype(np.float32)).tolist() == [127, -128]

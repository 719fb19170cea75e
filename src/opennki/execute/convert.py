"""Conversions between stored elements and what engines compute with.

float32 inside, round to nearest even on store. Documented: float32 to integer rounds to even and saturates.
Where documents are silent (NaN to integer, overflow to narrow floats) see docs/conformance/numerics.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opennki.ir.dtypes import DTYPES, DTypeInfo

__all__ = ["bits_dtype", "converter", "fill_value", "round_tf32"]

Array = np.ndarray[Any, Any]
Convert = Callable[[Any], Array]

_LARGEST_FP8 = {"float8_e4m3": 240.0, "float8_e4m3fn": 448.0}


def bits_dtype(info: DTypeInfo) -> np.dtype[Any]:
    """The unsigned integer of an element's width."""
    return np.dtype(f"u{info.bytes}")


def fill_value(info: DTypeInfo) -> Any:
    """What an unwritten element reads as: NaN, in integers 4 (as the vendor's simulator has it)."""
    if info.is_float:
        return np.array(np.nan, dtype=np.float32).astype(info.storage)
    return np.array(4).astype(info.storage)


def round_tf32(value: Array) -> Array:
    """Round float32 to the 10 mantissa bits of tfloat32, to nearest even; NaN and infinities stay."""
    bits = np.asarray(value).view(np.uint32)
    odd = (bits >> np.uint32(13)) & np.uint32(1)
    rounded = (bits + np.uint32(0xFFF) + odd) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(value), rounded.view(np.float32), value)


def _to_float32(value: Any) -> Array:
    array = np.asarray(value)
    return array if array.dtype == np.float32 else array.astype(np.float32)


def _to_integer(info: DTypeInfo) -> Convert:
    storage = info.storage
    limits = np.iinfo(storage)
    low, high = limits.min, limits.max

    def convert(value: Any) -> Array:
        array = np.asarray(value)
        if array.dtype == storage:
            return array
        rounded = np.rint(_to_float32(array)).astype(np.float64)
        top = float(high) if info.bytes < 8 else 2.0**63 - 1024  # the largest float64 below the limit
        clipped = np.clip(rounded, low, top)
        stored = np.where(np.isnan(clipped), 0.0, clipped).astype(storage)
        return stored if info.bytes < 8 else np.where(rounded >= 2.0**63, np.int64(high), stored)

    return convert


def _to_float(info: DTypeInfo) -> Convert:
    storage = info.storage
    largest = _LARGEST_FP8.get(info.name)

    def convert(value: Any) -> Array:
        array = np.asarray(value)
        if array.dtype == storage:
            return array
        array = _to_float32(array)
        if largest is not None:
            array = np.clip(array, np.float32(-largest), np.float32(largest))
        return array.astype(storage)

    return convert


def _to_bool(value: Any) -> Array:
    truth: Array = np.not_equal(value, 0)
    return truth


def _to_packed(value: Any) -> Array:
    return np.asarray(value)


def _make(info: DTypeInfo) -> Convert:
    if info.name == "tfloat32":
        return lambda value: round_tf32(_to_float32(value))
    if info.kind == "bool":
        return _to_bool
    if info.kind == "packed":
        return _to_packed
    return _to_integer(info) if info.is_integer else _to_float(info)


_CONVERTERS: dict[str, Convert] = {name: _make(info) for name, info in DTYPES.items()}


def converter(dtype: str) -> Convert:
    """Return the function that turns a result into stored elements of `dtype`.

    Elements of the storage type itself pass unchanged (but for tfloat32, which is rounded); everything else
    goes through float32.
    """
    return _CONVERTERS[dtype]

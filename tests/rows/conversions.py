"""Conversions between NKI element types and exact values, written without any library's own casts.

The 8- and 16-bit types are decided by enumeration of all their bit patterns, fp32 and tfloat32 by
integer-exact scaling in float64, integers by rounding and clipping. Nothing here calls `astype` between two
floating-point types whose rounding is in question, so the module can judge code that does.

Source: nki/api/nki.api.shared.rst (formats), release-notes/components/nki.rst, NKI 0.6.0 "Bug Fixes" (fp32 to
integer: nearest, ties to even, saturating), OpenNKI design §8 (NaN, overflow, tfloat32, bool).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
F64 = NDArray[np.float64]
U64 = NDArray[np.uint64]


class FloatFormat(NamedTuple):
    """A floating-point format: one sign bit, then exponent, then mantissa."""

    exponent_bits: int
    mantissa_bits: int
    infinity: bool  # the format has an infinity in the IEEE place
    saturates: bool  # overflow gives the largest finite value instead

    @property
    def bias(self) -> int:
        """The exponent bias of every NKI format: half of the exponent range."""
        return int(2 ** (self.exponent_bits - 1) - 1)

    @property
    def bits(self) -> int:
        """The width of an element."""
        return 1 + self.exponent_bits + self.mantissa_bits


FLOATS = {
    "float16": FloatFormat(5, 10, infinity=True, saturates=False),
    "bfloat16": FloatFormat(8, 7, infinity=True, saturates=False),
    "float8_e5m2": FloatFormat(5, 2, infinity=True, saturates=False),
    "float8_e4m3": FloatFormat(4, 3, infinity=True, saturates=True),
    "float8_e4m3fn": FloatFormat(4, 3, infinity=False, saturates=True),
}
INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint8": (0, 2**8 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
}
STORAGE: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in (*INTEGERS, "float16", "float32", "bool")},
    "tfloat32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
PACKED: dict[str, np.dtype[Any]] = {
    "float8_e4m3fn_x4": np.dtype(np.uint32),
    "float8_e5m2_x4": np.dtype(np.uint32),
    "float4_e2m1fn_x4": np.dtype(np.uint16),
    "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
}
"""Types that are only moved, never read as numbers by the rows of this folder."""

ARITHMETIC_DTYPES = tuple(name for name in STORAGE if name != "int64")
FLOAT_DTYPES = ("float32", "tfloat32", "float16", "bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2")
INTEGER_DTYPES = tuple(name for name in INTEGERS if name != "int64")


def storage(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype that holds an element of `dtype`."""
    return STORAGE[dtype] if dtype in STORAGE else PACKED[dtype]


def name_of(array: Array) -> str:
    """Return the NKI name of an array's element type; float32 stands for tfloat32 as well."""
    for name, dtype in STORAGE.items():
        if dtype == array.dtype and name != "tfloat32":
            return name
    raise KeyError(array.dtype)


def bits_of(array: Array) -> U64:
    """Return the bit pattern of every element, zero-extended."""
    unsigned = np.dtype(f"uint{array.dtype.itemsize * 8}")
    return np.ascontiguousarray(array).view(unsigned).reshape(array.shape).astype(np.uint64)


def from_bits(patterns: Array, dtype: str) -> Array:
    """Return elements of `dtype` with the low bits of `patterns`."""
    kind = storage(dtype)
    unsigned = np.dtype(f"uint{kind.itemsize * 8}")
    mask = np.uint64(2 ** (kind.itemsize * 8) - 1)
    narrow = (np.asarray(patterns, np.uint64) & mask).astype(unsigned)
    if dtype == "bool":
        return np.asarray(narrow != 0)
    return np.ascontiguousarray(narrow).view(kind).reshape(narrow.shape)


@cache
def decoded(dtype: str) -> F64:
    """Return the value of every bit pattern of an 8- or 16-bit float type, from the format's definition."""
    form = FLOATS[dtype]
    table = np.empty(2**form.bits)
    top = 2**form.exponent_bits - 1
    for pattern in range(2**form.bits):
        mantissa = pattern % 2**form.mantissa_bits
        exponent = pattern >> form.mantissa_bits & top
        sign = -1.0 if pattern >> (form.bits - 1) else 1.0
        if exponent == top and form.infinity:
            value = float("nan") if mantissa else float("inf")
        elif exponent == top and mantissa == 2**form.mantissa_bits - 1:
            value = float("nan")  # e4m3fn: all ones is the only NaN
        elif exponent == 0:
            value = mantissa * 2.0 ** (1 - form.bias - form.mantissa_bits)
        else:
            value = (2**form.mantissa_bits + mantissa) * 2.0 ** (exponent - form.bias - form.mantissa_bits)
        table[pattern] = sign * value
    return table


@cache
def _positive(dtype: str) -> tuple[F64, F64]:
    """Return the finite values from 0 up and the midpoint above each; at the last one overflow starts."""
    half = decoded(dtype)[: 2 ** (FLOATS[dtype].bits - 1)]
    values = half[np.isfinite(half)]
    step = values[-1] - values[-2]
    above = np.append(values[1:], values[-1] + step)
    return values, (values + above) / 2


def load(array: Array, dtype: str) -> F64:
    """Return the exact value of every element (int64 beyond 2**53 excepted)."""
    if dtype in FLOATS:
        return decoded(dtype)[bits_of(array).astype(np.int64)]
    if dtype in ("float32", "tfloat32"):
        return _decode32(bits_of(array))
    return np.asarray(array).astype(np.float64)


def _decode32(patterns: U64) -> F64:
    mantissa = (patterns & np.uint64(2**23 - 1)).astype(np.float64)
    exponent = (patterns >> np.uint64(23) & np.uint64(255)).astype(np.int64)
    sign = np.where(patterns >> np.uint64(31), -1.0, 1.0)
    small = np.ldexp(mantissa, -149)
    usual = np.ldexp(mantissa + 2.0**23, np.clip(exponent, 1, 254) - 150)
    special = np.where(mantissa == 0, np.inf, np.nan)
    return sign * np.where(exponent == 0, small, np.where(exponent == 255, special, usual))


def round_to(values: Array, mantissa_bits: int) -> F64:
    """Return `values` in `mantissa_bits` and fp32's exponents: nearest even, overflow to infinity."""
    exact = np.asarray(values, np.float64)
    finite = np.where(np.isfinite(exact), exact, 0.0)
    _, exponent = np.frexp(finite)
    quantum = np.maximum(exponent - 1, -126) - mantissa_bits
    rounded = np.ldexp(np.rint(np.ldexp(finite, -quantum)), quantum)
    rounded = np.where(np.abs(rounded) >= 2.0**128, np.copysign(np.inf, rounded), rounded)
    return np.where(np.isfinite(exact), np.copysign(rounded, exact), exact)


def round32(values: Array) -> F64:
    """Return `values` rounded once to fp32, as float64."""
    return round_to(values, 23)


def ulp32(values: Array) -> F64:
    """Return the distance of neighbouring fp32 numbers at each value, 2**-149 at the least."""
    exact = np.asarray(values, np.float64)
    usual = np.isfinite(exact) & (exact != 0)
    _, exponent = np.frexp(np.where(usual, exact, 1.0))
    return np.where(exact == 0, 2.0**-149, np.ldexp(1.0, np.maximum(exponent - 1, -126) - 23))


def _encode32(values: F64) -> Array:
    """Return the fp32 elements of values that fp32 holds exactly, NaN as the quiet one."""
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    _, exponent = np.frexp(finite)
    quantum = np.maximum(exponent - 1, -126) - 23
    whole = np.ldexp(finite, -quantum).astype(np.uint64)
    biased = (quantum + 150).astype(np.int64).astype(np.uint64)
    implied = np.where(whole >= 2**23, (biased << np.uint64(23)) + whole - np.uint64(2**23), whole)
    pattern = np.where(np.isinf(values), np.uint64(0x7F800000), implied)
    pattern = np.where(np.isnan(values), np.uint64(0x7FC00000), pattern)
    sign = np.where(np.signbit(values) & ~np.isnan(values), np.uint64(2**31), np.uint64(0))
    return from_bits(pattern | sign, "float32")


def store(values: Array, dtype: str) -> Array:
    """Return `values` as elements of `dtype`: rounded to fp32 first, as the engines compute, then converted.

    Integers round to nearest even and saturate, NaN gives 0. fp16, bf16 and e5m2 overflow to infinity, e4m3
    and e4m3fn saturate (infinities too). Anything but zero is true.
    """
    inner = round32(values)
    if dtype == "bool":
        return np.asarray(inner != 0)
    if dtype in INTEGERS:
        return _store_integer(inner, dtype)
    if dtype in ("float32", "tfloat32"):
        return _encode32(inner if dtype == "float32" else round_to(inner, 10))
    return _store_narrow(inner, dtype)


def _store_integer(values: F64, dtype: str) -> Array:
    low, high = INTEGERS[dtype]
    whole = np.rint(np.where(np.isnan(values), 0.0, values))
    result = [low if v <= low else high if v >= high else int(v) for v in whole.ravel().tolist()]
    return np.array(result, storage(dtype)).reshape(whole.shape)


def _store_narrow(values: F64, dtype: str) -> Array:
    form = FLOATS[dtype]
    table, middles = _positive(dtype)
    magnitude = np.where(np.isnan(values), 0.0, np.abs(values))
    # the first pattern whose upper midpoint is not below the value; on the midpoint the even pattern wins
    pattern = np.searchsorted(middles, magnitude, side="left")
    tie = (pattern < len(middles)) & (magnitude == middles[np.minimum(pattern, len(middles) - 1)])
    pattern = pattern + (tie & (pattern % 2 == 1))
    beyond = pattern >= len(table)
    overflow = len(table) - 1 if form.saturates else (2**form.exponent_bits - 1) << form.mantissa_bits
    pattern = np.where(beyond, overflow, pattern)
    quiet = (2 ** (form.exponent_bits + 1) - 1) << (form.mantissa_bits - 1)
    if not form.infinity:
        quiet = 2 ** (form.bits - 1) - 1  # e4m3fn has one NaN, all ones
    pattern = np.where(np.isnan(values), quiet, pattern)
    sign = np.where(np.signbit(values) & ~np.isnan(values), 2 ** (form.bits - 1), 0)
    return from_bits((pattern | sign).astype(np.uint64), dtype)


def wrap(values: Array, dtype: str) -> Array:
    """Return exact integers (Python or int64) as elements of an integer `dtype`, modulo two to its width."""
    width = storage(dtype).itemsize * 8
    patterns = [int(v) % 2**width for v in np.asarray(values, object).ravel()]
    return from_bits(np.array(patterns, np.uint64), dtype).reshape(np.shape(values))

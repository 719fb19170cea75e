"""The operators of the arithmetic units, from the table "Supported Math Operators by NKI ISA".

Arithmetic operators take fp32 values (as float64 that fp32 holds) and round once; bitvec operators take
patterns. float64 has more than twice fp32's precision plus two bits, so rounding its sum, product or
quotient again to fp32 gives the correctly rounded fp32 result.

Source: nki/api/nki.api.shared.rst, nki/api/nki/language/__init__.py (abs_max, abs_min, comparisons).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.rows.conversions import F64, U64, round32

BITVEC = frozenset(("invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"))
COMPARISONS = ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
ARITHMETIC_BINARY = ("add", "subtract", "multiply", "maximum", "minimum", *COMPARISONS, *LOGICAL, "power")
MAGNITUDE = ("abs_max", "abs_min")
UNARY = ("abs", "square", "relu", "rsqrt", "reciprocal")
REDUCTIONS = ("add", "subtract", "multiply", "maximum", "minimum", *LOGICAL)
BIT_REDUCTIONS = ("bitwise_and", "bitwise_or", "bitwise_xor")

Binary = Callable[[F64, F64], NDArray[Any]]


@dataclass(frozen=True)
class Step:
    """The fp32 value of one operator and how far OpenNKI may be from it."""

    values: F64
    ulps: int = 0
    free_zero: bool = False


def _maximum(a: F64, b: F64) -> F64:
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(a >= b, a, b))


def _minimum(a: F64, b: F64) -> F64:
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(a <= b, a, b))


_BINARY: dict[str, Binary] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": _maximum,
    "minimum": _minimum,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "greater_equal": lambda a, b: a >= b,
    "greater": lambda a, b: a > b,
    "less_equal": lambda a, b: a <= b,
    "less": lambda a, b: a < b,
    "logical_and": lambda a, b: (a != 0) & (b != 0),
    "logical_or": lambda a, b: (a != 0) | (b != 0),
    "logical_xor": lambda a, b: (a != 0) ^ (b != 0),
    "power": lambda a, b: np.power(a, b),
    # "x if |x| > |y|, else y"; "x if |x| < |y|, else y": a tie gives y
    "abs_max": lambda a, b: np.where(np.abs(a) > np.abs(b), a, b),
    "abs_min": lambda a, b: np.where(np.abs(a) < np.abs(b), a, b),
}


def binary(op: str, left: F64, right: F64) -> Step:
    """Return `left op right` in fp32 arithmetic; both hold fp32 values."""
    with np.errstate(all="ignore"):
        values = round32(np.asarray(_BINARY[op](left, right), np.float64))
    return Step(values, 4 if op == "power" else 0, op in ("maximum", "minimum"))


def unary(op: str, values: F64) -> Step:
    """Return the unary operator's fp32 result."""
    with np.errstate(all="ignore"):
        if op == "abs":
            return Step(np.abs(values))
        if op == "square":
            return Step(round32(values * values))
        if op == "relu":
            return Step(_maximum(values, np.zeros_like(values)), 0, True)
        if op == "rsqrt":
            return Step(round32(1.0 / np.sqrt(values)), 4)
        if op == "reciprocal":
            return Step(round32(1.0 / values))
    raise KeyError(op)


def exact_binary(op: str, left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return `left op right` in exact integers (Python's), before it is wrapped to 32 bits."""
    a, b = left.astype(object), right.astype(object)
    if op in COMPARISONS or op in LOGICAL:
        return np.asarray(_BINARY[op](a, b)).astype(bool).astype(np.int64)
    if op == "maximum":
        return np.where(a >= b, a, b)
    if op == "minimum":
        return np.where(a <= b, a, b)
    if op == "power":
        return np.array(
            [int(x) ** int(y) for x, y in zip(a.ravel(), b.ravel(), strict=True)], object
        ).reshape(a.shape)
    return np.asarray({"add": a + b, "subtract": a - b, "multiply": a * b}[op])


def bits(op: str, left: U64, right: U64, width: int) -> U64:
    """Return the bitvec operator on patterns of `width` bits.

    Shifts are logical; the count is a pattern like any other, so one of `width` or more (a negative one
    too) leaves no bit: the documents say neither, this is the plain reading of "treats all input elements
    as bit patterns".
    """
    mask = np.uint64(2**width - 1)
    if op == "invert":
        return ~left & mask
    if op in ("left_shift", "right_shift"):
        count = np.minimum(right, np.uint64(63))
        moved = left << count if op == "left_shift" else left >> count
        return np.where(right >= np.uint64(width), np.uint64(0), moved & mask)
    if op == "bitwise_and":
        return left & right & mask
    if op == "bitwise_or":
        return (left | right) & mask
    if op == "bitwise_xor":
        return (left ^ right) & mask
    raise KeyError(op)

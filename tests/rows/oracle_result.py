"""What an oracle says of an instruction's result, and how a stored array is judged by it.

A result is known before the store: exact values (`float`), exact integers (`integer`) or bit patterns
(`bits`). A `float` result comes with what the documents allow OpenNKI to differ by, as an interval in fp32;
the interval is sent through the same store as the value, and storing is monotone, so the judgement is exact
for every element type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tests.rows.conversions import (
    F64,
    FLOAT_DTYPES,
    Array,
    bits_of,
    from_bits,
    load,
    round32,
    store,
    ulp32,
    wrap,
)

UNIT_ROUNDOFF = 2.0**-24
"""Half an ulp of fp32, relative: the error of one rounded operation."""


@dataclass(frozen=True)
class Result:
    """An instruction's result before the store.

    `ulps`: how many fp32 units in the last place OpenNKI may be off the correctly rounded value (design §8:
    4 for transcendental functions). `bound`: an absolute bound for sums and products. Neither: exact, the
    sign of a zero included unless `free_zero` (maxima of -0.0 and 0.0, where the documents are silent).
    `silent` says where the documents leave the outcome open and which reading this is.
    """

    values: NDArray[Any]
    kind: Literal["float", "integer", "bits"] = "float"
    ulps: int = 0
    bound: F64 | None = None
    free_zero: bool = False
    silent: str = ""

    @property
    def is_exact(self) -> bool:
        """True where every bit is decided."""
        return self.kind != "float" or (self.ulps == 0 and self.bound is None and not self.free_zero)

    def interval(self) -> tuple[F64, F64]:
        """Return the lowest and highest admissible fp32 values; NaN stays NaN."""
        rounded = round32(self.values)
        if self.bound is not None:
            exact = np.asarray(self.values, np.float64)
            low, high = round32(exact - self.bound), round32(exact + self.bound)
        else:
            low = high = rounded
        step = self.ulps * ulp32(rounded)
        return round32(low - step), round32(high + step)

    def reshaped(self, shape: tuple[int, ...]) -> Result:
        """Return the result with its elements, in row-major order, in another shape."""
        bound = None if self.bound is None else np.reshape(self.bound, shape)
        return replace(self, values=np.reshape(self.values, shape), bound=bound)


def gamma(operations: int) -> float:
    """Return the classical relative bound of that many fp32 roundings: n·u / (1 - n·u)."""
    return operations * UNIT_ROUNDOFF / (1 - operations * UNIT_ROUNDOFF)


def stored(result: Result, dtype: str) -> Array:
    """Return what the result is in memory, its tolerance left aside."""
    if result.kind == "bits":
        return from_bits(result.values, dtype)
    if result.kind == "integer":
        return wrap(result.values, dtype)
    return store(result.values, dtype)


def wrong(result: Result, actual: Array, dtype: str) -> NDArray[np.bool_]:
    """Return where the stored array `actual` is outside what the result allows."""
    flat = result.reshaped(actual.shape)
    if flat.kind != "float":
        return np.asarray(bits_of(stored(flat, dtype)) != bits_of(actual))
    low, high = (load(store(side, dtype), dtype) for side in flat.interval())
    have = load(actual, dtype)
    ok = (low <= have) & (have <= high)
    ok |= np.isnan(low) & np.isnan(have)
    if flat.is_exact and dtype in FLOAT_DTYPES:
        ok &= np.isnan(have) | (np.signbit(have) == np.signbit(low))
    return np.asarray(~ok)


def explain(result: Result, actual: Array, dtype: str, limit: int = 4) -> str:
    """Return the first wrong elements as text, an empty text if there is none."""
    bad = np.argwhere(wrong(result, actual, dtype))
    if not len(bad):
        return ""
    flat = result.reshaped(actual.shape)
    want = stored(flat, dtype)
    ends = flat.interval() if flat.kind == "float" else None
    lines = [f"{len(bad)} of {actual.size} elements are wrong ({dtype}, {flat.kind}, ulps={flat.ulps})"]
    for index in map(tuple, bad[:limit].tolist()):
        span = "" if ends is None else f" in fp32 [{ends[0][index]!r}, {ends[1][index]!r}]"
        lines.append(f"  at {index}: have {actual[index]!r}, want {want[index]!r}{span}")
    return "\n".join(lines)

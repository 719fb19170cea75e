"""A whole kernel with dynamic loops, its inputs and its NumPy reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = Array | tuple[Array, ...]


@dataclass(frozen=True)
class LoopCase:
    """`kernel(*inputs, **values)` gives what `reference(*inputs, **values)` gives, bit for bit.

    References compute in the dtypes of the kernel and in its order, or on small integers, so nothing is
    left to a tolerance. `degrees` are the launches that give this value; a kernel that ignores its core
    gives the same at 1 and 2. `warns`: the kernel brings findings that are no errors.
    """

    name: str
    kernel: Callable[..., Any]
    inputs: tuple[Array, ...]
    reference: Callable[..., Arrays]
    values: dict[str, Any]
    degrees: tuple[int, ...] = (1, 2)
    warns: bool = False


def loop_case(
    kernel: Callable[..., Any],
    reference: Callable[..., Arrays],
    *inputs: Array,
    name: str = "",
    degrees: Sequence[int] = (1, 2),
    warns: bool = False,
    **values: Any,
) -> LoopCase:
    """Return a case named after its kernel and, where there are several, after its values."""
    given = "-".join(f"{key}{value}" for key, value in values.items())
    full = "-".join(part for part in (kernel.__name__, name, given) if part)
    return LoopCase(full, kernel, inputs, reference, values, tuple(degrees), warns)


def ints(*shape: int, seed: int = 0, low: int = -8, high: int = 9) -> Array:
    """Return small whole numbers as fp32: their sums and products are exact in any order."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.float32)


def counts(*values: int) -> Array:
    """Return loop bounds as a row of int32."""
    return np.array([values], np.int32)


def single(values: Array) -> Array:
    """Return the values as fp32, which holds them exactly."""
    return np.asarray(values, np.float32)

"""Small kernels for the tests of compiling and running, with what they compute in NumPy."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from opennki import nki

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

Array = np.ndarray[Any, Any]


@nki.jit
def halve(x: Any) -> Any:
    """Split the rows over the cores; each core halves its own."""
    rows = x.shape[0] // nl.num_programs(0)
    start = nl.program_id(0) * rows
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[start : start + rows, :])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
    nisa.dma_copy(dst=out[start : start + rows, :], src=tile)
    return out


@nki.jit
def first_half(x: Any) -> Any:
    """Write the first half of the rows only: the second core's part is assumed, not launched."""
    rows = x.shape[0] // 2
    start = nl.program_id(0) * rows
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[start : start + rows, :])
    nisa.dma_copy(dst=out[start : start + rows, :], src=tile)
    return out


@nki.jit
def add_scaled(a: Any, b: Any, scale: float = 1.0) -> Any:
    """Return a + scale * b and a - scale * b, as a tuple."""
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="total")
    difference = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="difference")
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    nisa.tensor_scalar(dst=right, data=right, op0=nl.multiply, operand0=scale)
    nisa.tensor_tensor(dst=result, data1=left, data2=right, op=nl.add)
    nisa.dma_copy(dst=total, src=result)
    nisa.tensor_tensor(dst=result, data1=left, data2=right, op=nl.subtract)
    nisa.dma_copy(dst=difference, src=result)
    return total, difference


@nki.jit
def double_in_place(x: Any) -> Any:
    """Double the input itself and return it."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=x, src=tile)
    return x


@nki.jit
def raises(x: Any) -> Any:
    """Refuse its argument by an exception of its own."""
    if x.shape[0] % 256:
        raise ValueError(f"rows must be a multiple of 256, got {x.shape[0]}")
    return x


def ramp(rows: int = 128, columns: int = 16) -> Array:
    """Return an array in which no two elements are equal."""
    return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)

"""Kernels that the tests of PyTorch share, beside those of `tests.unit.kernels`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from opennki import nki

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@nki.jit
def copy(x: Any) -> Any:
    """Return a copy, of any dtype."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    nisa.dma_copy(dst=out, src=x)
    return out


@nki.jit
def bump(x: Any, step: float = 1.0) -> Any:
    """Add `step` to the input itself, and return it and twice what it is then."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="twice")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=step)
    nisa.dma_copy(dst=x, src=tile)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return x, out


@nki.jit
def total(parts: list[Any], *, names: tuple[str, str] = ("sum", "first")) -> Any:
    """Return the sum of a list of tensors and a copy of its first one, in a dictionary."""
    shape = parts[0].shape
    out = nl.ndarray(shape, dtype=parts[0].dtype, buffer=nl.shared_hbm, name="out")
    first = nl.ndarray(shape, dtype=parts[0].dtype, buffer=nl.shared_hbm, name="head")
    nisa.dma_copy(dst=first, src=parts[0])
    whole = nl.ndarray(shape, dtype=parts[0].dtype, buffer=nl.sbuf)
    nisa.memset(dst=whole, value=0.0)
    for part in parts:
        tile = nl.ndarray(shape, dtype=part.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=part)
        nisa.tensor_tensor(dst=whole, data1=whole, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=whole)
    return {names[0]: out, names[1]: [first]}


@nki.jit
def loud(x: Any) -> Any:
    """Return a copy by way of a tile that is printed."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nl.device_print("tile", tile)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def wide(x: Any) -> Any:
    """Ask for an output that no hardware has."""
    return nl.ndarray(x.shape, dtype="float64", buffer=nl.shared_hbm, name="out")

"""Storing results: converted, added, masked, or chosen by a predicate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from opennki.diag import InternalError
from opennki.execute.convert import converter
from opennki.isa.define import Access, Where

__all__ = ["Writer", "row_chooser", "writer"]

Array = np.ndarray[Any, Any]
Writer = Callable[[Any], None]


def writer(how: Access | Array, target: Array, dtype: str, bits: bool) -> Writer:
    """Return the function that stores a result into `target`, whose elements are `dtype`.

    `how` is a kind of access, or the mask of the elements that are overwritten while the others are added to.
    With `bits`, results are bit patterns and keep their low bits.
    """
    convert = converting(target, dtype, bits)
    if isinstance(how, np.ndarray):
        return _masked(target, how.reshape(target.shape), convert)
    if how is Access.UPDATE:
        return _adding(target, convert)
    if how is Access.WRITE_WHERE:
        return _choosing(target, convert)
    return _overwriting_float32(target) if dtype == "float32" and not bits else _overwriting(target, convert)


def converting(target: Array, dtype: str, bits: bool) -> Callable[[Any], Array]:
    """Return the conversion of results into elements of `target`."""
    return partial(_as_bits, target.dtype) if bits else converter(dtype)


def row_chooser(target: Array, dtype: str, bits: bool) -> Callable[[Any, Array], None]:
    """Return the function that stores those rows of a result (its first axis) that a mask keeps."""
    convert = converting(target, dtype, bits)

    def write(value: Any, mask: Array) -> None:
        new = convert(value)
        if new.ndim == 0:
            new = np.broadcast_to(new, target.shape)
        keep = np.broadcast_to(mask.reshape(-1, *[1] * (new.ndim - 1)), new.shape).reshape(target.shape)
        target[keep] = new.reshape(target.shape)[keep]

    return write


def _overwriting_float32(target: Array) -> Writer:
    shape = target.shape

    def write(value: Any) -> None:
        if value.dtype != np.float32:
            value = value.astype(np.float32)
        target[...] = value if value.shape == shape or value.ndim == 0 else value.reshape(shape)

    return write


def _overwriting(target: Array, convert: Callable[[Any], Array]) -> Writer:
    shape = target.shape

    def write(value: Any) -> None:
        value = convert(value)
        target[...] = value if value.shape == shape or value.ndim == 0 else value.reshape(shape)

    return write


def _as_bits(kind: np.dtype[Any], value: Any) -> Array:
    return np.asarray(value).astype(kind)


def _adding(target: Array, convert: Callable[[Any], Array]) -> Writer:
    shape = target.shape
    if target.dtype == np.float32:

        def add_float32(value: Any) -> None:
            np.add(target, np.asarray(value, dtype=np.float32).reshape(shape), out=target)

        return add_float32

    def add(value: Any) -> None:
        target[...] = convert(target.astype(np.float32) + np.asarray(value, dtype=np.float32).reshape(shape))

    return add


def _masked(target: Array, fresh: Array, convert: Callable[[Any], Array]) -> Writer:
    shape = target.shape

    def write(value: Any) -> None:
        new = np.asarray(value, dtype=np.float32).reshape(shape)
        target[...] = convert(np.where(fresh, new, target.astype(np.float32) + new))

    return write


def _choosing(target: Array, convert: Callable[[Any], Array]) -> Writer:
    shape = target.shape

    def write(value: Any) -> None:
        if not isinstance(value, Where):
            raise InternalError("a predicated store got no mask")
        mask = np.asarray(value.mask)
        new = np.broadcast_to(convert(value.value), mask.shape).reshape(shape)
        mask = mask.reshape(shape)
        target[mask] = new[mask]

    return write

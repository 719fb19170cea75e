"""`nl.floor`, `nl.ceil` and `nl.trunc`, made of the rounding that storing an integer does.

Source of names, operands and defaults: nki/api/nki/language/__init__.py (SDK 2.32).
"""

from __future__ import annotations

from opennki.frontend.composition import Composition, clip, composed
from opennki.frontend.tensor import NkiTensor
from opennki.isa.operators import OPERATORS
from opennki.isa.table import (
    activation,
    tensor_copy,
    tensor_copy_predicated,
    tensor_scalar,
    tensor_tensor,
)

__all__ = ["ceil", "floor", "trunc"]

_LIMIT = 2.0**30  # float32 values beyond are whole numbers, and an int32 holds those within


def _nearest(call: Composition, x: NkiTensor) -> NkiTensor:
    """Return x rounded to the nearest whole number, ties to even, as float32; NaN and infinities stay.

    Storing an int32 rounds; what does not fit there is whole already and copied back.
    """
    near, whole, result = call.like(x, "float32"), call.like(x, "int32"), call.like(x, "float32")
    beyond = call.like(x, "uint8")
    clip(near, x, _LIMIT)
    tensor_copy(dst=whole, src=near)
    tensor_copy(dst=result, src=whole)
    tensor_tensor(dst=beyond, data1=x, data2=near, op=OPERATORS["not_equal"])
    tensor_copy_predicated(dst=result, src=call.cast(x, "float32"), predicate=beyond)
    return result


def _rounded(name: str, x: NkiTensor, dtype: object, too_far: str, back: str) -> NkiTensor:
    """Round to nearest, then go one back where that went too far."""
    call = Composition(name)
    if call.operand("x", x).layout.info.kind != "float":
        return _same(call, x, dtype)
    nearest = _nearest(call, x)
    passed = call.like(x, "float32")
    tensor_tensor(dst=passed, data1=nearest, data2=x, op=OPERATORS[too_far])
    result = call.like(x, dtype)
    tensor_tensor(dst=result, data1=nearest, data2=passed, op=OPERATORS[back])
    return result


def _same(call: Composition, x: NkiTensor, dtype: object) -> NkiTensor:
    """A copy of a tile of whole numbers."""
    result = call.like(x, dtype)
    tensor_copy(dst=result, src=x)
    return result


@composed
def floor(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the largest whole number that is not above x."""
    return _rounded("floor", x, dtype, "greater", "subtract")


@composed
def ceil(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the smallest whole number that is not below x."""
    return _rounded("ceil", x, dtype, "less", "add")


@composed
def trunc(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return x without its fraction: the nearest whole number that is not farther from 0."""
    call = Composition("trunc")
    if call.operand("x", x).layout.info.kind != "float":
        return _same(call, x, dtype)
    magnitude, sign, passed = (call.like(x, "float32") for _ in range(3))
    tensor_scalar(dst=magnitude, data=x, op0=OPERATORS["abs"], operand0=None)
    activation(dst=sign, op=OPERATORS["sign"], data=x)
    whole = _nearest(call, magnitude)
    tensor_tensor(dst=passed, data1=whole, data2=magnitude, op=OPERATORS["greater"])
    tensor_tensor(dst=whole, data1=whole, data2=passed, op=OPERATORS["subtract"])
    result = call.like(x, dtype)
    tensor_tensor(dst=result, data1=whole, data2=sign, op=OPERATORS["multiply"])
    return result

"""`nl` functions of two operands, which instructions take as operators too: `nl.add(x, y)` and `op=nl.add`.

One of `x` and `y` may be a number. Two tiles have one shape: the documents give broadcasting to `abs_max` and
`abs_min` alone. The result is a new SBUF tile with the dtype of the first tile, or with `dtype`. Arithmetic
is float32 and rounded once at the end. Two tiles go to `tensor_tensor`, a tile and a number to
`tensor_scalar`: so 32-bit integers are exact between tiles, and pass through float32 beside a number.

Source of names, operands and defaults: nki/api/nki/language/__init__.py (SDK 2.32).
"""

from __future__ import annotations

import numpy as np

from opennki.frontend.composition import Composition, composed, is_number, spread
from opennki.frontend.tensor import NkiTensor
from opennki.isa.operators import OPERATORS, Operator
from opennki.isa.table import activation, reciprocal, tensor_scalar, tensor_tensor

Operand = NkiTensor | float

_ABS = OPERATORS["abs"]
_SIGN = OPERATORS["sign"]
_ADD = OPERATORS["add"]
_SUBTRACT = OPERATORS["subtract"]
_MULTIPLY = OPERATORS["multiply"]
_LESS = OPERATORS["less"]


def _operands(call: Composition, x: object, y: object) -> NkiTensor:
    """Check two operands and return the first one that is a tile. Errors: ONKI101, ONKI201, ONKI205."""
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        call.operand("x", x)
        call.operand("y", y)
        call.same_shape(x=x, y=y)
        return x
    for role, value, other in (("x", x, y), ("y", y, x)):
        if isinstance(value, NkiTensor):
            if not is_number(other):
                call.wrong_kind("y" if role == "x" else "x", "a tile or a number", other)
            return call.operand(role, value)
    call.wrong_kind("x", "a tile", x, help="at least one of `x` and `y` is a tile")


def _emit(dst: NkiTensor, x: Operand, op: Operator, y: Operand) -> None:
    """Write `x op y` to `dst`; at least one of the two is a tile."""
    if not isinstance(x, NkiTensor):
        tensor_scalar(dst=dst, data=y, op0=op, operand0=x, reverse0=True)  # type: ignore[arg-type]  # a tile
    elif isinstance(y, NkiTensor):
        tensor_tensor(dst=dst, data1=x, data2=y, op=op)
    else:
        tensor_scalar(dst=dst, data=x, op0=op, operand0=y)


def _pair(name: str, x: Operand, y: Operand, dtype: object) -> NkiTensor:
    """Return `x op y` as a new tile. Bit operators keep the tile's dtype and convert afterwards."""
    call = Composition(name)
    first = _operands(call, x, y)
    op = OPERATORS[name]
    result = call.like(first, None if op.is_bitvec else dtype)
    _emit(result, x, op, y)
    return call.cast(result, dtype) if op.is_bitvec else result


@composed
def add(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return x + y."""
    return _pair("add", x, y, dtype)


@composed
def subtract(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return x - y."""
    return _pair("subtract", x, y, dtype)


@composed
def multiply(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return x · y."""
    return _pair("multiply", x, y, dtype)


@composed
def divide(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return x / y as x · (1/y), two roundings: the engines have a reciprocal, but no division (derived).

    The table of operators in nki/api/nki.api.shared.rst has no divide.
    """
    call = Composition("divide")
    first = _operands(call, x, y)
    result = call.like(first, dtype)
    _emit(result, x, _MULTIPLY, _inverse(call, y))
    return result


def _inverse(call: Composition, y: Operand) -> Operand:
    """1/y in float32, of a tile or of a number."""
    if not isinstance(y, NkiTensor):
        with np.errstate(all="ignore"):
            return float(np.divide(np.float32(1.0), np.float32(y)))
    inverse = call.like(y, "float32")
    reciprocal(dst=inverse, data=y)
    return inverse


@composed
def maximum(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return the larger of x and y; NaN if one of them is."""
    return _pair("maximum", x, y, dtype)


@composed
def minimum(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return the smaller of x and y; NaN if one of them is."""
    return _pair("minimum", x, y, dtype)


def _by_magnitude(name: str, x: Operand, y: Operand, dtype: object) -> NkiTensor:
    """One of the two operators for which the documents repeat a column `[P, 1]` along the free axis."""
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor) and x.ndim == y.ndim == 2:
        if y.shape == (x.shape[0], 1):
            y = spread(y, x.shape)
        elif x.shape == (y.shape[0], 1):
            x = spread(x, y.shape)
    return _pair(name, x, y, dtype)


@composed
def abs_max(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return x where abs(x) > abs(y), else y; a tile `[P, 1]` serves each row whole. trn3 only (ONKI207)."""
    return _by_magnitude("abs_max", x, y, dtype)


@composed
def abs_min(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return x where abs(x) < abs(y), else y; a tile `[P, 1]` serves each row whole. trn3 only (ONKI207)."""
    return _by_magnitude("abs_min", x, y, dtype)


@composed
def power(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return x to the power of y. Two tiles go to GpSimd: neither in PSUM (ONKI201)."""
    return _pair("power", x, y, dtype)


@composed
def equal(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return 1 where x == y, else 0; `dtype=nl.uint8` gives a mask."""
    return _pair("equal", x, y, dtype)


@composed
def not_equal(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return 1 where x != y, else 0; `dtype=nl.uint8` gives a mask."""
    return _pair("not_equal", x, y, dtype)


@composed
def less(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return 1 where x < y, else 0; `dtype=nl.uint8` gives a mask."""
    return _pair("less", x, y, dtype)


@composed
def less_equal(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return 1 where x <= y, else 0; `dtype=nl.uint8` gives a mask."""
    return _pair("less_equal", x, y, dtype)


@composed
def greater(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return 1 where x > y, else 0; `dtype=nl.uint8` gives a mask."""
    return _pair("greater", x, y, dtype)


@composed
def greater_equal(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return 1 where x >= y, else 0; `dtype=nl.uint8` gives a mask."""
    return _pair("greater_equal", x, y, dtype)


@composed
def bitwise_and(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return the bits that x and y both have; integers only (ONKI202)."""
    return _pair("bitwise_and", x, y, dtype)


@composed
def bitwise_or(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return the bits that x or y has; integers only (ONKI202)."""
    return _pair("bitwise_or", x, y, dtype)


@composed
def bitwise_xor(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return the bits that one of x and y has; integers only (ONKI202)."""
    return _pair("bitwise_xor", x, y, dtype)


@composed
def left_shift(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return x shifted left by y bits; integers only (ONKI202)."""
    return _pair("left_shift", x, y, dtype)


@composed
def right_shift(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return x shifted right by y bits, zeros coming in, signed x too; integers only (ONKI202)."""
    return _pair("right_shift", x, y, dtype)


@composed
def logical_and(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return 1 where neither x nor y is 0, else 0."""
    return _pair("logical_and", x, y, dtype)


@composed
def logical_or(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return 1 where x or y is not 0, else 0."""
    return _pair("logical_or", x, y, dtype)


@composed
def logical_xor(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return 1 where one of x and y is 0 and the other is not, else 0."""
    return _pair("logical_xor", x, y, dtype)


# Remainders ---------------------------------------------------------------------------------------------


@composed
def fmod(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return the remainder of x / y with the sign of x. The vendor has it in the simulator only: ONKI407.

    Exact for whole numbers below 2**24, otherwise within one unit in the last place of x; for finite x, y
    other than 0 and quotients below 2**31.
    """
    return _remainder(Composition("fmod"), x, y, dtype, sign_of=x)


@composed
def mod(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """Return the remainder of x / y with the sign of y. The vendor has it in the simulator only: ONKI407.

    Exact for whole numbers below 2**24, otherwise within one unit in the last place of x; for finite x, y
    other than 0 and quotients below 2**31.
    """
    return _remainder(Composition("mod"), x, y, dtype, sign_of=y)


def _remainder(call: Composition, x: Operand, y: Operand, dtype: object, sign_of: Operand) -> NkiTensor:
    """Return x less y times the nearest quotient, moved by y where its sign is not that of `sign_of`."""
    first = _operands(call, x, y)
    call.warn(
        "ONKI407",
        f"`{call.name}` runs in the vendor's simulator only, it has no form on the hardware",
        "made of several instructions here",
    )
    whole = call.like(first, "int32")
    _emit(whole, x, _MULTIPLY, _inverse(call, y))  # storing an integer rounds to nearest
    product, rest = call.like(first, "float32"), call.like(first, "float32")
    _emit(product, whole, _MULTIPLY, y)
    _emit(rest, x, _SUBTRACT, product)
    wanted = _sign(call, sign_of) if isinstance(sign_of, NkiTensor) else float(np.sign(sign_of))
    turned = _sign(call, rest)
    _emit(turned, turned, _MULTIPLY, wanted)
    _emit(turned, turned, _LESS, 0.0)
    _emit(turned, turned, _MULTIPLY, _magnitude(call, y))
    _emit(turned, turned, _MULTIPLY, wanted)
    result = call.like(first, dtype)
    _emit(result, rest, _ADD, turned)
    return result


def _sign(call: Composition, x: NkiTensor) -> NkiTensor:
    result = call.like(x, "float32")
    activation(dst=result, op=_SIGN, data=x)
    return result


def _magnitude(call: Composition, x: Operand) -> Operand:
    if not isinstance(x, NkiTensor):
        return float(np.abs(x))
    result = call.like(x, "float32")
    tensor_scalar(dst=result, data=x, op0=_ABS, operand0=None)
    return result


__all__ = [
    "abs_max",
    "abs_min",
    "add",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "divide",
    "equal",
    "fmod",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "right_shift",
    "subtract",
]

"""`nl.sin`, `nl.cos`, `nl.tan`, `nl.arctan`. The engine's sine is good on [-pi, pi] only, `nl`'s everywhere.

Source: nki/api/nki/language/__init__.py (SDK 2.32) and nki/api/nki.api.shared.rst, the note on `sin`.
"""

from __future__ import annotations

from opennki.frontend.composition import Composition, clip, composed
from opennki.frontend.tensor import NkiTensor
from opennki.isa.operators import OPERATORS
from opennki.isa.table import activation, reciprocal, tensor_scalar, tensor_tensor

__all__ = ["arctan", "cos", "sin", "tan"]

_ADD = OPERATORS["add"]
_SUBTRACT = OPERATORS["subtract"]
_MULTIPLY = OPERATORS["multiply"]
_SIN = OPERATORS["sin"]

_TURN = tuple(map(float.fromhex, ("0x1.922p+2", "-0x1.2aep-16", "-0x1.deap-29", "0x1.184698p-42")))
"""2·pi in four pieces, the first three of 12 bits, so that a piece times 12 bits of turns is exact."""

_TURNS_PER_RADIAN = float.fromhex("0x1.45f306p-3")  # 1/(2·pi)
_PI = float.fromhex("0x1.921fb4p+1")  # the largest float32 below pi: the end of the engine's range
_QUARTER = (float.fromhex("0x1.921fb6p+0"), float.fromhex("-0x1.777a5cp-25"))  # pi/2 in two pieces
_COARSE = 4096.0


def _less_turns(call: Composition, angle: NkiTensor, turns: NkiTensor, pieces: tuple[float, ...]) -> None:
    """Take so many turns off an angle, the largest piece first."""
    product = call.like(angle)
    for piece in pieces:
        tensor_scalar(dst=product, data=turns, op0=_MULTIPLY, operand0=piece)
        tensor_tensor(dst=angle, data1=angle, data2=product, op=_SUBTRACT)


def _within_a_turn(call: Composition, x: NkiTensor) -> NkiTensor:
    """Return x less whole turns, as float32 in [-pi, pi].

    The error stays below 2**-20 up to 1e8. Beyond, where neighbouring float32 values are more than a turn
    apart, the angle means nothing, but it stays in the range of the engine. Infinities become NaN.
    """
    turns, coarse = call.like(x, "int32"), call.like(x, "int32")
    high, low, angle = (call.like(x, "float32") for _ in range(3))
    tensor_scalar(dst=turns, data=x, op0=_MULTIPLY, operand0=_TURNS_PER_RADIAN)  # rounds to nearest
    tensor_scalar(dst=coarse, data=turns, op0=_MULTIPLY, operand0=1.0 / _COARSE)
    tensor_scalar(dst=high, data=coarse, op0=_MULTIPLY, operand0=_COARSE)
    tensor_tensor(dst=low, data1=turns, data2=high, op=_SUBTRACT)
    tensor_scalar(dst=angle, data=x, op0=_MULTIPLY, operand0=1.0)
    for piece in _TURN:
        _less_turns(call, angle, high, (piece,))
        _less_turns(call, angle, low, (piece,))
    tensor_scalar(dst=turns, data=angle, op0=_MULTIPLY, operand0=_TURNS_PER_RADIAN)
    _less_turns(call, angle, turns, _TURN[:3])
    tensor_scalar(dst=high, data=x, op0=_MULTIPLY, operand0=0.0)  # NaN where x is infinite
    tensor_tensor(dst=angle, data1=angle, data2=high, op=_ADD)
    clip(angle, angle, _PI)
    return angle


def _complement(call: Composition, angle: NkiTensor) -> NkiTensor:
    """Return pi/2 - |angle|, whose sine is the angle's cosine."""
    result = call.like(angle)
    tensor_scalar(
        dst=result,
        data=angle,
        op0=OPERATORS["abs"],
        operand0=None,
        op1=_SUBTRACT,
        operand1=_QUARTER[0],
        reverse1=True,
    )
    tensor_scalar(dst=result, data=result, op0=_ADD, operand0=_QUARTER[1])
    return result


@composed
def sin(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the sine of x, within 1e-6 up to 1e8; some thirty instructions. NaN for infinities.

    Beyond 1e8, where float32 values are more than a turn apart, the result is some value in [-1, 1].
    """
    call = Composition("sin")
    angle = _within_a_turn(call, call.operand("x", x))
    result = call.like(x, dtype)
    activation(dst=result, op=_SIN, data=angle)
    return result


@composed
def cos(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the cosine of x; range and error are those of `sin`."""
    call = Composition("cos")
    angle = _complement(call, _within_a_turn(call, call.operand("x", x)))
    result = call.like(x, dtype)
    activation(dst=result, op=_SIN, data=angle)
    return result


@composed
def tan(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the tangent of x, as sine times the reciprocal of cosine; range and error are theirs."""
    call = Composition("tan")
    angle = _within_a_turn(call, call.operand("x", x))
    sine, cosine, result = call.like(angle), call.like(angle), call.like(x, dtype)
    activation(dst=sine, op=_SIN, data=angle)
    activation(dst=cosine, op=_SIN, data=_complement(call, angle))
    reciprocal(dst=cosine, data=cosine)
    tensor_tensor(dst=result, data1=sine, data2=cosine, op=_MULTIPLY)
    return result


@composed
def arctan(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the inverse tangent of x; valid from -pi/2 to pi/2, as the Scalar engine's table has it."""
    call = Composition("arctan")
    result = call.like(call.operand("x", x), dtype)
    activation(dst=result, op=OPERATORS["arctan"], data=x)
    return result

"""`nl` functions of one tile; most are operators of instructions too: `nl.exp(x)` and `op=nl.exp`.

`x` is a tile in SBUF or PSUM. The result is a new SBUF tile of its shape and dtype, or with `dtype`.
Arithmetic is float32 and rounded once at the end. Functions go to `activation`, some with a valid range.

Source of names, operands and defaults: nki/api/nki/language/__init__.py (SDK 2.32).
"""

from __future__ import annotations

from opennki.frontend.composition import Composition, composed
from opennki.frontend.tensor import NkiTensor
from opennki.ir.types import Engine, Space
from opennki.isa import table
from opennki.isa.operators import OPERATORS
from opennki.isa.table import activation, tensor_copy, tensor_copy_predicated, tensor_scalar

_UNSIGNED = ("uint8", "uint16", "uint32")


def _function(name: str, x: NkiTensor, dtype: object) -> NkiTensor:
    """Return a function of the Scalar engine's tables as a new tile."""
    call = Composition(name)
    result = call.like(call.operand("x", x), dtype)
    activation(dst=result, op=OPERATORS[name], data=x)
    return result


@composed
def abs(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the absolute value of x."""
    call = Composition("abs")
    result = call.like(call.operand("x", x), dtype)
    tensor_scalar(dst=result, data=x, op0=OPERATORS["abs"], operand0=None)
    return result


@composed
def negative(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return -x."""
    call = Composition("negative")
    result = call.like(call.operand("x", x), dtype)
    tensor_scalar(dst=result, data=x, op0=OPERATORS["multiply"], operand0=-1.0)
    return result


@composed
def sign(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return -1, 0 or 1, as x is below, equal to or above 0."""
    return _function("sign", x, dtype)


@composed
def square(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return x · x."""
    return _function("square", x, dtype)


@composed
def sqrt(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the square root of x; valid from 2**-116 to 2**118."""
    return _function("sqrt", x, dtype)


@composed
def rsqrt(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return 1/sqrt(x) of a tile in SBUF, on GpSimd, which has it more exactly than the Scalar engine.

    Errors: ONKI201 in PSUM. Source: also nki/api/nki.api.shared.rst "Engine Selection", nki/migration 0.5.
    """
    call = Composition("rsqrt")
    result = call.like(call.operand("x", x, (Space.sbuf,)), dtype)
    tensor_scalar(dst=result, data=x, op0=OPERATORS["rsqrt"], operand0=0.0, engine=Engine.gpsimd)
    return result


@composed
def reciprocal(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return 1/x, on the Vector engine, which has it more exactly than the Scalar engine."""
    call = Composition("reciprocal")
    result = call.like(call.operand("x", x), dtype)
    table.reciprocal(dst=result, data=x)
    return result


@composed
def exp(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return e to the power of x."""
    return _function("exp", x, dtype)


@composed
def log(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the natural logarithm of x; valid from 2**-64 to 2**64."""
    return _function("log", x, dtype)


@composed
def tanh(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the hyperbolic tangent of x."""
    return _function("tanh", x, dtype)


@composed
def sigmoid(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return 1 / (1 + exp(-x))."""
    return _function("sigmoid", x, dtype)


@composed
def relu(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the larger of x and 0."""
    return _function("relu", x, dtype)


@composed
def gelu(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return x · Phi(x), with the normal distribution function Phi."""
    return _function("gelu", x, dtype)


@composed
def gelu_apprx_sigmoid(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return gelu as x · sigmoid(1.702 x)."""
    return _function("gelu_apprx_sigmoid", x, dtype)


@composed
def gelu_apprx_tanh(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return gelu as x/2 · (1 + tanh(sqrt(2/pi) (x + 0.044715 x³)))."""
    return _function("gelu_apprx_tanh", x, dtype)


@composed
def gelu_dx(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the derivative of gelu."""
    return _function("gelu_dx", x, dtype)


@composed
def gelu_apprx_sigmoid_dx(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the derivative of gelu_apprx_sigmoid."""
    return _function("gelu_apprx_sigmoid_dx", x, dtype)


@composed
def silu(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return x · sigmoid(x)."""
    return _function("silu", x, dtype)


@composed
def silu_dx(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the derivative of silu."""
    return _function("silu_dx", x, dtype)


@composed
def softplus(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return log(1 + exp(x))."""
    return _function("softplus", x, dtype)


@composed
def mish(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return x · tanh(softplus(x))."""
    return _function("mish", x, dtype)


@composed
def erf(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the error function of x."""
    return _function("erf", x, dtype)


@composed
def erf_dx(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the derivative of the error function."""
    return _function("erf_dx", x, dtype)


@composed
def copy(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return a copy of x in SBUF: the same bits for the same dtype, else converted through float32."""
    call = Composition("copy")
    result = call.like(call.operand("x", x), dtype)
    tensor_copy(dst=result, src=x)
    return result


@composed
def invert(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return x with all bits turned; integers only (ONKI202)."""
    call = Composition("invert")
    result = call.like(call.operand("x", x))
    tensor_scalar(dst=result, data=x, op0=OPERATORS["invert"], operand0=None)
    return call.cast(result, dtype)


@composed
def logical_not(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return 1 where x is 0, else 0. The documents promise it for 0 and 1 only; `nl.equal(x, 0)` is sure."""
    call = Composition("logical_not")
    result = call.like(call.operand("x", x), dtype)
    tensor_scalar(dst=result, data=x, op0=OPERATORS["logical_xor"], operand0=1.0)
    return result


@composed
def where(condition: NkiTensor, x: NkiTensor, y: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return x where `condition` is not 0, else y: three tiles of one shape; the dtype is that of x.

    A condition that is not unsigned is compared with 0 first. Errors: ONKI101, ONKI201, ONKI205.
    """
    call = Composition("where")
    operands: dict[str, object] = {"condition": condition, "x": x, "y": y}
    for role, value in operands.items():
        if not isinstance(value, NkiTensor):
            help = f"fill a tile: `nl.full(shape, {value!r}, dtype)`"
            call.wrong_kind(role, "a tile", value, help=help if isinstance(value, (int, float)) else "")
        call.operand(role, value)
    call.same_shape(condition=condition, x=x, y=y)
    result = call.like(x, dtype)
    mask = condition
    if condition.dtype not in _UNSIGNED or condition.buffer is x.buffer is Space.psum:
        mask = call.like(condition, "uint8")
        tensor_scalar(dst=mask, data=condition, op0=OPERATORS["not_equal"], operand0=0.0)
    tensor_copy(dst=result, src=y)
    tensor_copy_predicated(dst=result, src=call.cast(x, result.dtype), predicate=mask)
    return result


__all__ = [
    "abs",
    "copy",
    "erf",
    "erf_dx",
    "exp",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh",
    "gelu_dx",
    "invert",
    "log",
    "logical_not",
    "mish",
    "negative",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "softplus",
    "sqrt",
    "square",
    "tanh",
    "where",
]

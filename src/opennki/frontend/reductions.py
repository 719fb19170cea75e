"""`nl` functions along the free axes of a tile: sums and extremes, softmax, normalisation.

`x` is a tile in SBUF or PSUM, `axis` an int or a sequence of ints: the last axes of the tile, never axis 0.
The result is a new SBUF tile of the dtype of `x`, or of `dtype`; what lies between is float32. Without
`keepdims` the reduced axes go, and a tile of which only the partition axis is left is `[P, 1]`.

Source of names, operands and defaults: nki/api/nki/language/__init__.py (SDK 2.32).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as product

import numpy as np

from opennki.frontend.composition import Composition, composed, is_number, spread
from opennki.frontend.tensor import NkiTensor
from opennki.ir.types import Engine
from opennki.isa.operators import OPERATORS
from opennki.isa.table import activation, tensor_scalar, tensor_tensor
from opennki.isa.table import reciprocal as invert
from opennki.isa.table import tensor_reduce as reduce

__all__ = ["all", "max", "mean", "min", "prod", "rms_norm", "softmax", "sum", "var"]

Axis = int | Sequence[int]

_ADD = OPERATORS["add"]
_SUBTRACT = OPERATORS["subtract"]
_MULTIPLY = OPERATORS["multiply"]


class _Axes:
    """The axes of one reduction. State: what it reduces and what stays, for the tiles of one call."""

    __slots__ = ("axes", "call", "kept", "x")

    def __init__(self, call: Composition, x: NkiTensor, axis: object) -> None:
        self.call = call
        self.x = call.operand("x", x)
        given = axis if isinstance(axis, (tuple, list)) else (axis,)
        rank = x.ndim
        numbers = []
        for one in given:
            if isinstance(one, bool) or not isinstance(one, (int, np.integer)):
                call.wrong_kind("axis", "an int or a sequence of ints", axis)
            numbers.append(int(one) + (rank if one < 0 else 0))
        self.axes = tuple(sorted(numbers))
        kept = rank - len(self.axes)
        if not self.axes or kept < 1 or self.axes != tuple(range(kept, rank)):
            call.refuse(
                "ONKI206",
                f"`{call.name}` reduces the last free axes of `x` {list(x.shape)}, not axis={axis!r}",
                help="name trailing axes such as `axis=-1`; axis 0 is the partition axis: transpose first",
                role="axis",
                tensor=x,
            )
        self.kept = x.shape[:kept]

    @property
    def count(self) -> int:
        """Elements that become one."""
        return product(self.x.shape[len(self.kept) :])

    def tile(self, dtype: object = "float32", keepdims: bool = True) -> NkiTensor:
        """Return a new tile for results; None is the dtype of `x`."""
        shape = (*self.kept, *(1,) * len(self.axes)) if keepdims else self.kept
        kind = self.x.dtype if dtype is None else dtype
        return self.call.new(shape if len(shape) > 1 else (*shape, 1), kind)

    def fold(self, dst: NkiTensor, op: str, data: NkiTensor | None = None) -> NkiTensor:
        """Fold `data`, `x` if there is none, into `dst` and return it."""
        reduce(dst=dst, op=OPERATORS[op], data=self.x if data is None else data, axis=self.axes)
        return dst

    def mean(self, dst: NkiTensor, data: NkiTensor) -> NkiTensor:
        """Write the mean of `data` to `dst` and return it."""
        total = self.fold(self.tile(), "add", data)
        tensor_scalar(dst=dst, data=total, op0=_MULTIPLY, operand0=1.0 / self.count)
        return dst


def _fold(name: str, op: str, x: NkiTensor, axis: Axis, dtype: object, keepdims: bool) -> NkiTensor:
    axes = _Axes(Composition(name), x, axis)
    return axes.fold(axes.tile(dtype, keepdims), op)


@composed
def sum(x: NkiTensor, axis: Axis, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Return the sum along `axis`, added up in float32."""
    return _fold("sum", "add", x, axis, dtype, keepdims)


@composed
def prod(x: NkiTensor, axis: Axis, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Return the product along `axis`, multiplied in float32."""
    return _fold("prod", "multiply", x, axis, dtype, keepdims)


@composed
def max(x: NkiTensor, axis: Axis, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Return the largest element along `axis`; NaN if there is one."""
    return _fold("max", "maximum", x, axis, dtype, keepdims)


@composed
def min(x: NkiTensor, axis: Axis, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Return the smallest element along `axis`; NaN if there is one."""
    return _fold("min", "minimum", x, axis, dtype, keepdims)


@composed
def all(x: NkiTensor, axis: Axis, dtype: object = None) -> NkiTensor:
    """Return 1 where no element along `axis` is 0, else 0."""
    return _fold("all", "logical_and", x, axis, dtype, keepdims=False)


@composed
def mean(x: NkiTensor, axis: Axis, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Return the arithmetic mean along `axis`: the float32 sum times 1/n."""
    axes = _Axes(Composition("mean"), x, axis)
    return axes.mean(axes.tile(dtype, keepdims), x)


@composed
def var(x: NkiTensor, axis: Axis, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Return the variance along `axis`, the mean square of x less its mean, over n elements.

    The reduced axes stay with size 1 whatever `keepdims` says, as documented.
    """
    axes = _Axes(Composition("var"), x, axis)
    call = axes.call
    center = axes.mean(axes.tile(), x)
    offset = call.like(x, "float32")
    tensor_tensor(dst=offset, data1=x, data2=spread(center, x.shape), op=_SUBTRACT)
    tensor_tensor(dst=offset, data1=offset, data2=offset, op=_MULTIPLY)
    return axes.mean(axes.tile(dtype), offset)


@composed
def softmax(x: NkiTensor, axis: Axis = -1, dtype: object = None) -> NkiTensor:
    """Return exp(x - max) divided by its sum along `axis`, which is times the sum's reciprocal."""
    axes = _Axes(Composition("softmax"), x, axis)
    call = axes.call
    largest = axes.fold(axes.tile(), "maximum")
    values = call.like(x, "float32")
    tensor_tensor(dst=values, data1=x, data2=spread(largest, x.shape), op=_SUBTRACT)
    activation(dst=values, op=OPERATORS["exp"], data=values)
    total = axes.fold(axes.tile(), "add", values)
    invert(dst=total, data=total)
    result = call.like(x, dtype)
    tensor_tensor(dst=result, data1=values, data2=spread(total, x.shape), op=_MULTIPLY)
    return result


@composed
def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: Axis,
    n: float,
    epsilon: float = 1e-06,
    dtype: object = None,
    compute_dtype: object = None,
) -> NkiTensor:
    """Return x / sqrt(sum(x · x) / n + epsilon) · w, the sum along `axis`; `w` has the shape of `x`.

    `n` is a number; `compute_dtype`, float32 if not given, is the dtype of everything in between.
    """
    axes = _Axes(Composition("rms_norm"), x, axis)
    call = axes.call
    call.operand("w", w)
    call.same_shape(x=x, w=w)
    for role, value in (("n", n), ("epsilon", epsilon)):
        if not is_number(value) or (role == "n" and value == 0):
            call.wrong_kind(role, "a number" if role == "epsilon" else "a number other than 0", value)
    kind = "float32" if compute_dtype is None else compute_dtype
    scaled = call.like(x, kind)
    activation(dst=scaled, op=OPERATORS["square"], data=x)
    root = axes.fold(axes.tile(kind), "add", scaled)
    tensor_scalar(dst=root, data=root, op0=_MULTIPLY, operand0=1.0 / n, op1=_ADD, operand1=epsilon)
    tensor_scalar(dst=root, data=root, op0=OPERATORS["rsqrt"], operand0=0.0, engine=Engine.gpsimd)
    tensor_tensor(dst=scaled, data1=x, data2=spread(root, x.shape), op=_MULTIPLY)
    result = call.like(x, dtype)
    tensor_tensor(dst=result, data1=scaled, data2=w, op=_MULTIPLY)
    return result

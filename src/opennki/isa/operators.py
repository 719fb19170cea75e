"""The operators of the engines: their meaning on fp32 values, on bit patterns and on exact integers.

Source: nki/api/nki.api.shared.rst, tables "Supported Math Operators" and "Supported Activation Functions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

from opennki.ir.types import Engine
from opennki.isa import activations as act

__all__ = ["OPERATORS", "Array", "Operator", "operator_of"]

Array = np.ndarray[Any, Any]
Unary = Callable[[Any], Any]
Binary = Callable[[Any, Any], Any]


class Operator(Struct, frozen=True, kw_only=True):
    """One operator.

    `binary` works on float32 operands, or on unsigned bit patterns when `is_bitvec`; `integer` on exact
    32-bit integers held in int64 (GpSimd). `reduce` folds float32 (or bit patterns) along the last axis.
    `unary` is the one-operand form on the arithmetic engines, `activation` the form of the Scalar engine's
    tables.
    `engine`: the only engine that has it. `since`: the first generation that has it. `valid_range`: the
    activation inputs outside of which the hardware's result is invalid.
    """

    name: str
    is_bitvec: bool = False
    binary: Binary | None = None
    integer: Binary | None = None
    unary: Unary | None = None
    reduce: Unary | None = None
    activation: Unary | None = None
    engine: Engine | None = None
    since: int = 2
    valid_range: tuple[float, float] | None = None

    def __repr__(self) -> str:
        return f"nl.{self.name}"

    @property
    def is_arithmetic(self) -> bool:
        """True for operators that convert their operands to float32."""
        return not self.is_bitvec


def _truth(test: Binary) -> Binary:
    """A comparison as the engines give it: 1.0 or 0.0."""
    return lambda x, y: np.asarray(test(x, y)).astype(np.float32)


def _logical(test: Binary) -> Binary:
    return lambda x, y: np.asarray(test(np.not_equal(x, 0), np.not_equal(y, 0))).astype(np.float32)


def _shift(x: Array, y: Array, left: bool) -> Array:
    """A logical shift; a count of the width or more leaves no bit (assumed: the documents are silent)."""
    x = np.asarray(x)
    width = x.dtype.itemsize * 8
    count = np.asarray(y, dtype=x.dtype)
    inside = count < width
    safe = np.where(inside, count, 0).astype(x.dtype)
    moved = np.left_shift(x, safe) if left else np.right_shift(x, safe)
    return np.where(inside, moved, 0).astype(x.dtype)


def _fold(ufunc: Any) -> Unary:
    return lambda x: ufunc.reduce(x, axis=-1, keepdims=True)


def _fold_truth(ufunc: Any) -> Unary:
    return lambda x: ufunc.reduce(np.not_equal(x, 0), axis=-1, keepdims=True).astype(np.float32)


def _fold_subtract(x: Array) -> Array:
    """First element less all others: the left fold of subtraction."""
    others = np.sum(x[..., 1:], axis=-1, keepdims=True, dtype=x.dtype)
    result: Array = np.subtract(x[..., :1], others)
    return result


def _maximum(x: Any, y: Any) -> Any:
    return np.maximum(x, y)


def _by_magnitude(pick: Any) -> Binary:
    """|x| against |y|; `y` on ties and where either is NaN, as `x if |x| > |y| else y` says."""
    return lambda x, y: np.where(pick(np.abs(x), np.abs(y)), x, y)


def _invert(x: Any) -> Any:
    return np.invert(x)


_TABLE = (
    Operator(name="bitwise_and", is_bitvec=True, binary=np.bitwise_and, reduce=_fold(np.bitwise_and)),
    Operator(name="bitwise_or", is_bitvec=True, binary=np.bitwise_or, reduce=_fold(np.bitwise_or)),
    Operator(name="bitwise_xor", is_bitvec=True, binary=np.bitwise_xor, reduce=_fold(np.bitwise_xor)),
    Operator(name="invert", is_bitvec=True, unary=_invert),
    Operator(name="left_shift", is_bitvec=True, binary=lambda x, y: _shift(x, y, True)),
    Operator(name="right_shift", is_bitvec=True, binary=lambda x, y: _shift(x, y, False)),
    Operator(name="add", binary=np.add, integer=np.add, reduce=_fold(np.add)),
    Operator(name="subtract", binary=np.subtract, integer=np.subtract, reduce=_fold_subtract),
    Operator(name="multiply", binary=np.multiply, integer=np.multiply, reduce=_fold(np.multiply)),
    Operator(name="divide", binary=np.divide),
    Operator(name="maximum", binary=_maximum, integer=np.maximum, reduce=_fold(np.maximum)),
    Operator(name="minimum", binary=np.minimum, integer=np.minimum, reduce=_fold(np.minimum)),
    Operator(name="equal", binary=_truth(np.equal), integer=np.equal),
    Operator(name="not_equal", binary=_truth(np.not_equal), integer=np.not_equal),
    Operator(name="greater_equal", binary=_truth(np.greater_equal), integer=np.greater_equal),
    Operator(name="greater", binary=_truth(np.greater), integer=np.greater),
    Operator(name="less_equal", binary=_truth(np.less_equal), integer=np.less_equal),
    Operator(name="less", binary=_truth(np.less), integer=np.less),
    Operator(name="logical_and", binary=_logical(np.logical_and), reduce=_fold_truth(np.logical_and)),
    Operator(name="logical_or", binary=_logical(np.logical_or), reduce=_fold_truth(np.logical_or)),
    Operator(name="logical_xor", binary=_logical(np.logical_xor), reduce=_fold_truth(np.logical_xor)),
    Operator(name="power", binary=np.power, engine=Engine.gpsimd),
    Operator(name="abs_max", binary=_by_magnitude(np.greater), engine=Engine.vector, since=4),
    Operator(name="abs_min", binary=_by_magnitude(np.less), engine=Engine.vector, since=4),
    Operator(name="average"),
    Operator(name="bypass"),
    Operator(name="mod"),
    Operator(name="fmod"),
    Operator(name="abs", unary=np.abs, activation=np.abs),
    Operator(name="square", unary=np.square, activation=np.square, since=2),
    Operator(name="relu", unary=act.relu, activation=act.relu),
    Operator(
        name="rsqrt",
        unary=act.rsqrt,
        activation=act.rsqrt,
        engine=Engine.gpsimd,
        valid_range=(2.0**-87, 2.0**97),
    ),
    Operator(
        name="reciprocal", unary=act.reciprocal, activation=act.reciprocal, valid_range=(2.0**-42, 2.0**42)
    ),
    Operator(name="copy", activation=act.copy),
    Operator(name="sigmoid", activation=act.sigmoid),
    Operator(name="prelu"),
    Operator(name="gelu", activation=act.gelu),
    Operator(name="gelu_dx", activation=act.gelu_dx),
    Operator(name="gelu_apprx_tanh", activation=act.gelu_apprx_tanh),
    Operator(name="gelu_apprx_sigmoid", activation=act.gelu_apprx_sigmoid),
    Operator(name="gelu_apprx_sigmoid_dx", activation=act.gelu_apprx_sigmoid_dx),
    Operator(name="silu", activation=act.silu),
    Operator(name="silu_dx", activation=act.silu_dx),
    Operator(name="tanh", activation=act.tanh),
    Operator(name="softplus", activation=act.softplus),
    Operator(name="mish", activation=act.mish),
    Operator(name="erf", activation=act.erf),
    Operator(name="erf_dx", activation=act.erf_dx),
    Operator(name="exp", activation=act.exp),
    Operator(name="log", activation=act.log, valid_range=(2.0**-64, 2.0**64)),
    Operator(name="sin", activation=act.sin, valid_range=(-np.pi, np.pi)),
    Operator(name="arctan", activation=act.arctan, valid_range=(-np.pi / 2, np.pi / 2)),
    Operator(name="sqrt", activation=act.sqrt, valid_range=(2.0**-116, 2.0**118)),
    Operator(name="sign", activation=np.sign),
)

OPERATORS: dict[str, Operator] = {operator.name: operator for operator in _TABLE}


def operator_of(value: object) -> Operator | None:
    """Return the operator that `value` stands for: an operator, or an `nl` function that carries one."""
    if isinstance(value, Operator):
        return value
    found = getattr(value, "operator", None)
    return found if isinstance(found, Operator) else None

"""The oracle of registers and scalars: exact Python integers, wrapped to their width after every operation.

Source: SDK 2.33 pages nki.isa.NkiScalar, nki.isa.scalar_load and nki.isa.scalar_store.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.rows.conversions import INTEGERS

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
UNDEFINED: dict[str, Callable[[Any, Any], Any]] = {
    "//": operator.floordiv,
    "%": operator.mod,
    "/": operator.truediv,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "**": operator.pow,
}
"""Operators of Python that no public document lists for a scalar."""


@dataclass(frozen=True)
class Loaded:
    """The scalar loaded from element `place` of the case's data."""

    place: int


@dataclass(frozen=True)
class Constant:
    """A Python int."""

    value: int


@dataclass(frozen=True)
class Applied:
    """An operator on one or two expressions; a constant on the left uses the reflected operator."""

    op: str
    operands: tuple[Expression, ...]


Expression = Loaded | Constant | Applied


def wrapped(value: int, dtype: str) -> int:
    """Return the integer modulo two to the width of `dtype`, as that type's value ("two's complement")."""
    low, high = INTEGERS[dtype]
    return (value - low) % (high - low + 1) + low


def evaluate(expression: Expression, data: Sequence[int], dtype: str) -> int:
    """Return the value of an expression: every operation wraps."""
    if isinstance(expression, Loaded):
        return wrapped(int(data[expression.place]), dtype)
    if isinstance(expression, Constant):
        return expression.value
    values = [evaluate(operand, data, dtype) for operand in expression.operands]
    result = UNARY[expression.op](*values) if len(values) == 1 else BINARY[expression.op](*values)
    return wrapped(int(result), dtype)


def build(expression: Expression, scalars: Sequence[Any]) -> Any:
    """Return what Python's operators make of the expression when scalars stand for the loaded elements."""
    if isinstance(expression, Loaded):
        return scalars[expression.place]
    if isinstance(expression, Constant):
        return expression.value
    values = [build(operand, scalars) for operand in expression.operands]
    return UNARY[expression.op](*values) if len(values) == 1 else BINARY[expression.op](*values)


def spelled(expression: Expression) -> str:
    """Return the expression as text, for messages."""
    if isinstance(expression, Loaded):
        return f"x{expression.place}"
    if isinstance(expression, Constant):
        return str(expression.value)
    parts = [spelled(operand) for operand in expression.operands]
    return f"({expression.op}{parts[0]})" if len(parts) == 1 else f"({parts[0]} {expression.op} {parts[1]})"

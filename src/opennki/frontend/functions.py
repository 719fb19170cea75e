"""`nl` functions that OpenNKI does not run yet, and the operators that instructions take as `op=`.

Called, each raises ONKI102; as `op=nl.add` an operator is a name for its record in `isa/operators.py`.
Source of names and signatures: nki/api/nki/language/__init__.py (SDK 2.32).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from opennki.diag import fail
from opennki.frontend.recorder import current
from opennki.ir.types import Space
from opennki.isa.operators import OPERATORS, Operator

P = ParamSpec("P")
R = TypeVar("R")

NAMES: list[str] = []
sbuf = Space.sbuf
uint8 = "uint8"


def _not_yet(function: Callable[P, R]) -> Callable[P, R]:
    """Make `function` raise ONKI102, pointing at the caller."""
    name = function.__name__
    NAMES.append(name)

    @functools.wraps(function)
    def refuse(*args: P.args, **kwargs: P.kwargs) -> R:
        recorder = current(f"nl.{name}")
        location, callers = recorder.place(recorder.locate(sys._getframe(1)))
        fail(
            "ONKI102",
            at=location,
            label="called here",
            callers=callers,
            core=recorder.core,
            name=f"nl.{name}",
        )

    return refuse


def _operator(function: Callable[P, R]) -> Callable[P, R]:
    """The same, for a function that instructions also take as an operator."""
    refuse = _not_yet(function)
    refuse.operator = OPERATORS[function.__name__]  # type: ignore[attr-defined]  # read by `operator_of`
    return refuse


@_operator
def add(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def subtract(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def multiply(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def divide(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def maximum(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def minimum(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def abs_max(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def abs_min(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def abs(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def square(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def power(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def equal(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def not_equal(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def less(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def less_equal(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def greater(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def greater_equal(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def bitwise_and(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def bitwise_or(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def bitwise_xor(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def invert(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def left_shift(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def right_shift(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def logical_and(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def logical_or(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def logical_xor(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_not_yet
def logical_not(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_operator
def exp(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def log(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def sqrt(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def rsqrt(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def tanh(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def sigmoid(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def relu(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def gelu(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def gelu_apprx_sigmoid(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def gelu_apprx_tanh(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def gelu_dx(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def gelu_apprx_sigmoid_dx(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def silu(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def silu_dx(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def softplus(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def mish(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def erf(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def erf_dx(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def reciprocal(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def copy(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def sin(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_not_yet
def cos(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def tan(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_operator
def arctan(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_not_yet
def ceil(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def floor(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def trunc(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def negative(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_operator
def sign(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def fmod(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_operator
def mod(x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function; an operator of instructions."""


@_not_yet
def sum(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """Not yet as a function."""


@_not_yet
def max(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """Not yet as a function."""


@_not_yet
def min(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """Not yet as a function."""


@_not_yet
def mean(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """Not yet as a function."""


@_not_yet
def prod(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """Not yet as a function."""


@_not_yet
def var(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """Not yet as a function."""


@_not_yet
def all(x: Any, axis: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def softmax(x: Any, axis: Any = -1, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def rms_norm(
    x: Any, w: Any, axis: Any, n: Any, epsilon: Any = 1e-06, dtype: Any = None, compute_dtype: Any = None
) -> Any:
    """Not yet as a function."""


@_not_yet
def where(condition: Any, x: Any, y: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def dropout(x: Any, rate: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def random_seed(seed: Any) -> Any:
    """Not yet as a function."""


@_not_yet
def expand_dims(x: Any, axis: Any) -> Any:
    """Not yet as a function."""


@_not_yet
def broadcast_to(x: Any, shape: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def transpose(x: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def matmul(x: Any, y: Any, transpose_x: Any = False) -> Any:
    """Not yet as a function."""


@_not_yet
def no_reorder() -> Any:
    """Not yet as a function."""


@_not_yet
def load_transpose2d(src: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def gather_flattened(data: Any, indices: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def shared_constant(constant: Any) -> Any:
    """Not yet as a function."""


@_not_yet
def shared_identity_matrix(n: Any, dtype: Any = uint8, dst: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def device_print(print_prefix: Any, tensor: Any) -> Any:
    """Not yet as a function."""


@_not_yet
def rand(shape: Any, dtype: Any, buffer: Any = sbuf, name: Any = "") -> Any:
    """Not yet as a function."""


average: Operator = OPERATORS["average"]
prelu: Operator = OPERATORS["prelu"]
bypass: Operator = OPERATORS["bypass"]

__all__ = [*NAMES, "average", "bypass", "prelu"]  # names come from the decorators

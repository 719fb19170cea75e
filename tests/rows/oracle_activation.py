"""The table "Supported Activation Functions by NKI ISA" in float64, in forms that do not cancel.

Where the table's valid range includes the infinities, the value there is the limit. `sin` is the sine
inside [-pi, pi]; outside, the documents say that the engine "extrapolates a cubic" and that sin(9.0) is
about 27.65, which is the cubic Taylor polynomial at +-pi (t = 9 - pi: t**3/6 - t = 27.6526).

Source: nki/api/nki.api.shared.rst; the formulas behind the names (gelu, mish, ...) are the usual ones,
`derived`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.rows.conversions import F64, round32

Function = Callable[[F64], NDArray[Any]]

_erf: Function = np.vectorize(math.erf, otypes=[np.float64])
_erfc: Function = np.vectorize(math.erfc, otypes=[np.float64])


def _sigmoid(x: F64) -> F64:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _times_vanishing(x: F64, factor: F64) -> F64:
    """Return x·factor with the limit 0 where the factor has vanished and x is infinite."""
    return np.where(np.isinf(x) & (factor == 0), 0.0, x * factor)


def _gelu(x: F64) -> F64:
    return _times_vanishing(x, 0.5 * _erfc(-x / math.sqrt(2)))


def _gelu_dx(x: F64) -> F64:
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return 0.5 * _erfc(-x / math.sqrt(2)) + _times_vanishing(x, density)


def _gelu_apprx_tanh(x: F64) -> F64:
    # 0.5·x·(1 + tanh(u)) is x·sigmoid(2u)
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return _times_vanishing(x, _sigmoid(2 * inner))


def _weighted(x: F64, slope: float) -> F64:
    return _times_vanishing(x, _sigmoid(slope * x))


def _weighted_dx(x: F64, slope: float) -> F64:
    rising, falling = _sigmoid(slope * x), _sigmoid(-slope * x)
    return rising + _times_vanishing(slope * x, rising * falling)


def _softplus(x: F64) -> F64:
    return np.where(np.isneginf(x), 0.0, np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _mish(x: F64) -> F64:
    # tanh(log(1 + w)) = (w² + 2w) / (w² + 2w + 2), with w = exp(x); 1 beyond x = 40
    w = np.exp(np.minimum(x, 40.0))
    return _times_vanishing(x, w * (w + 2) / (w * (w + 2) + 2))


def _sin(x: F64) -> F64:
    beyond = np.abs(x) - math.pi
    cubic = np.sign(x) * (beyond**3 / 6 - beyond)
    return np.where(beyond > 0, cubic, np.sin(np.where(beyond > 0, 0.0, x)))


FUNCTIONS: dict[str, Function] = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.where(np.isnan(x), x, np.maximum(x, 0.0)),
    "gelu": _gelu,
    "gelu_dx": _gelu_dx,
    "gelu_apprx_tanh": _gelu_apprx_tanh,
    "gelu_apprx_sigmoid": lambda x: _weighted(x, 1.702),
    "gelu_apprx_sigmoid_dx": lambda x: _weighted_dx(x, 1.702),
    "silu": lambda x: _weighted(x, 1.0),
    "silu_dx": lambda x: _weighted_dx(x, 1.0),
    "tanh": np.tanh,
    "softplus": _softplus,
    "mish": _mish,
    "erf": _erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "exp": np.exp,
    "log": np.log,
    "sin": _sin,
    "arctan": np.arctan,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sign": np.sign,
    "abs": np.abs,
}
"""Every function of the table but `prelu`, whose slope only `activate2` takes."""

EXACT = frozenset(("copy", "square", "relu", "sign", "abs"))
"""Functions of one fp32 step or none. All others: within 4 fp32 ulp (design §8)."""

FREE_ZERO = frozenset(("relu", "sign"))

VALID: dict[str, tuple[float, float]] = {
    "log": (2.0**-64, 2.0**64),
    "sin": (-math.pi, math.pi),
    "arctan": (-math.pi / 2, math.pi / 2),
    "sqrt": (2.0**-116, 2.0**118),
    "rsqrt": (2.0**-87, 2.0**97),
    "reciprocal": (2.0**-42, 2.0**42),
}
"""The table's valid input ranges where narrower than everything; `reciprocal`'s is of the magnitude."""


def function(op: str, inputs: F64) -> F64:
    """Return the function of fp32 inputs, not rounded."""
    with np.errstate(all="ignore"):
        return np.asarray(FUNCTIONS[op](np.asarray(inputs, np.float64)), np.float64)


def affine(data: F64, scale: F64, bias: F64 | None) -> F64:
    """Return data·scale + bias in fp32, each step rounded ("performs the math operations in float32").

    Without a bias nothing is added, so -0.0 stays ("an optional scale/bias operation").
    """
    with np.errstate(all="ignore"):
        scaled = round32(round32(data) * round32(scale))
        return scaled if bias is None else round32(scaled + round32(bias))

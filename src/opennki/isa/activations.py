"""The Scalar engine's functions on float32 values, each within 4 ulp of the correctly rounded result.

The hardware approximates with piecewise polynomials; results on the device may differ in the last bits.
Functions for which NumPy's float32 is not good enough compute in float64 and round once.
Source of the set and its ranges: nki/api/nki.api.shared.rst "Supported Activation Functions".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)
_GELU_SIGMOID = 1.702  # the usual constant of the sigmoid approximation (Hendrycks and Gimpel, 2016)
_GELU_TANH = 0.044715  # the usual constant of the tanh approximation (same source)


_BLOCK = 8192  # elements worked on at a time: the temporaries of a function then stay in the caches


def _rounded_once(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Evaluate in float64, block by block, and round to float32 at the end."""

    @functools.wraps(function)
    def evaluate(x: Array) -> Array:
        x = np.asarray(x)
        if x.size <= _BLOCK:
            return np.asarray(function(x.astype(np.float64))).astype(np.float32)
        flat = x.reshape(-1)
        result = np.empty(x.size, np.float32)
        for start in range(0, x.size, _BLOCK):
            result[start : start + _BLOCK] = function(flat[start : start + _BLOCK].astype(np.float64))
        return result.reshape(x.shape)

    return evaluate


def copy(x: Array) -> Array:
    """Identity."""
    return x


def relu(x: Array) -> Array:
    """max(x, 0); NaN stays NaN, -0.0 becomes 0.0."""
    return np.maximum(x, np.float32(0.0)) + np.float32(0.0)


def reciprocal(x: Array) -> Array:
    """1/x, one rounding; 1/±0 is ±infinity."""
    return np.divide(np.float32(1.0), x)


def exp(x: Array) -> Array:
    """e**x (NumPy float32: within 2.4 ulp)."""
    return np.exp(x)


@_rounded_once
def log(x: Array) -> Array:
    """Natural logarithm; 0 gives -infinity, negative inputs give NaN."""
    return np.log(x)


def sqrt(x: Array) -> Array:
    """Square root, correctly rounded."""
    return np.sqrt(x)


@_rounded_once
def rsqrt(x: Array) -> Array:
    """1/sqrt(x); ±0 gives ±infinity, as IEEE 754 defines rSqrt."""
    return np.divide(1.0, np.sqrt(x))


@_rounded_once
def tanh(x: Array) -> Array:
    """Hyperbolic tangent."""
    return np.tanh(x)


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


@_rounded_once
def sigmoid(x: Array) -> Array:
    """1 / (1 + e**-x)."""
    return _sigmoid(x)


def _times(x: Array, factor: Array) -> Array:
    """x·factor where a factor of exactly 0 wins over an infinite x, as the limit does."""
    return np.where(factor == 0.0, np.copysign(0.0, x), x * factor)


@_rounded_once
def silu(x: Array) -> Array:
    """x·sigmoid(x)."""
    return _times(x, _sigmoid(x))


@_rounded_once
def silu_dx(x: Array) -> Array:
    """Derivative of silu: s + x·s·(1 - s)."""
    s = _sigmoid(x)
    return s + _times(x, s * _sigmoid(-x))


@_rounded_once
def softplus(x: Array) -> Array:
    """log(1 + e**x)."""
    return np.logaddexp(0.0, x)


@_rounded_once
def mish(x: Array) -> Array:
    """x·tanh(softplus(x))."""
    return _times(x, np.tanh(np.logaddexp(0.0, x)))


@_rounded_once
def sin(x: Array) -> Array:
    """Sine on [-pi, pi]; outside, the cubic of the last segment goes on (no range reduction).

    Source: nki/api/nki.api.shared.rst note: sin(9.0) is about 27.65. That value is the cubic Taylor
    polynomial of sine about pi, so that is what we continue with (derived).
    """
    past = np.abs(x) - math.pi
    beyond = np.sign(x) * (past * past * past / 6.0 - past)
    return np.where(past > 0.0, beyond, np.sin(x))


@_rounded_once
def arctan(x: Array) -> Array:
    """Inverse tangent."""
    return np.arctan(x)


_END = 27.0  # beyond, erfc is below the smallest float64
_BEND = 2.5  # where the variable of the polynomial below is 0: the errors are then small on both sides


@functools.cache
def _scaled_erfc_coefficients() -> tuple[float, ...]:
    """Coefficients in t, highest power first, of exp(x*x)*erfc(x) where t = (x - _BEND) / (x + _BEND).

    The half line of x becomes -1 <= t < 1, on which the function is smooth and interpolation in Chebyshev's
    points converges fast: with 17 terms the relative error is below 1e-10 up to _END.
    """
    from numpy.polynomial import chebyshev  # not a part of what `import numpy` loads

    nodes = np.cos(math.pi * (np.arange(17) + 0.5) / 17)
    values = [_scaled_erfc(_BEND * (1.0 + t) / (1.0 - t)) for t in nodes]
    return tuple(chebyshev.cheb2poly(chebyshev.chebfit(nodes, values, 16))[::-1].tolist())


def _scaled_erfc(x: float) -> float:
    """exp(x*x)*erfc(x) for x >= 0, for large x by its asymptotic series."""
    if x < 25.0:
        return math.exp(x * x) * math.erfc(x)
    u = 1.0 / (2.0 * x * x)
    return (1.0 - u * (1.0 - 3.0 * u * (1.0 - 5.0 * u * (1.0 - 7.0 * u)))) / (x * math.sqrt(math.pi))


def _erfc_positive(x: Array) -> Array:
    """erfc(x) for x >= 0 with a relative error below 1e-10."""
    bounded = np.minimum(x, _END)
    t = (bounded - _BEND) / (bounded + _BEND)
    highest, *others = _scaled_erfc_coefficients()
    scaled = np.full_like(t, highest)
    for coefficient in others:
        scaled *= t
        scaled += coefficient
    scaled *= np.exp(-bounded * bounded)
    return np.where(x > _END, 0.0, scaled)


def _erf_small(x: Array) -> Array:
    """erf(x) for |x| < 0.5 by its Maclaurin series (relative error below 1e-12)."""
    y = x * x
    total = np.zeros_like(x)
    for n in range(11, -1, -1):
        total = total * y + (-1.0) ** n / (math.factorial(n) * (2 * n + 1))
    return _TWO_OVER_SQRT_PI * x * total


def _erf(x: Array) -> Array:
    magnitude = np.abs(x)
    large = np.copysign(1.0 - _erfc_positive(magnitude), x)
    return np.where(magnitude < 0.5, _erf_small(np.clip(x, -0.5, 0.5)), large)


def _normal_cdf(x: Array) -> Array:
    """Standard normal distribution function, with a small relative error in the lower tail too."""
    z = x / math.sqrt(2.0)
    tail = 0.5 * _erfc_positive(np.abs(z))
    return np.where(z < 0.0, tail, 1.0 - tail)


@_rounded_once
def erf(x: Array) -> Array:
    """Error function."""
    return _erf(x)


@_rounded_once
def erf_dx(x: Array) -> Array:
    """Derivative of erf: 2/sqrt(pi)·e**(-x·x)."""
    slope: Array = _TWO_OVER_SQRT_PI * np.exp(-x * x)
    return slope


@_rounded_once
def gelu(x: Array) -> Array:
    """x·Phi(x), Phi the normal distribution function."""
    return _times(x, _normal_cdf(x))


@_rounded_once
def gelu_dx(x: Array) -> Array:
    """Derivative of gelu: Phi(x) + x·phi(x)."""
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return _normal_cdf(x) + _times(x, density)


@_rounded_once
def gelu_apprx_tanh(x: Array) -> Array:
    """0.5·x·(1 + tanh(sqrt(2/pi)·(x + 0.044715·x³))), as x·sigmoid of twice the argument."""
    return _times(x, _sigmoid(2.0 * _SQRT_2_OVER_PI * (x + _GELU_TANH * x * x * x)))


@_rounded_once
def gelu_apprx_sigmoid(x: Array) -> Array:
    """x·sigmoid(1.702·x)."""
    return _times(x, _sigmoid(_GELU_SIGMOID * x))


@_rounded_once
def gelu_apprx_sigmoid_dx(x: Array) -> Array:
    """Derivative of x·sigmoid(1.702·x)."""
    s = _sigmoid(_GELU_SIGMOID * x)
    return s + _times(_GELU_SIGMOID * x, s * _sigmoid(-_GELU_SIGMOID * x))

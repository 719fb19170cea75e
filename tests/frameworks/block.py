"""A transformer block as kernels: layer norm, single-head attention, MLP with GELU, each with its gradient.

The kernels know no framework: each splits its rows over the cores, takes and gives 2-D tensors of float32,
`[rows<=128, …]` with at most 128 columns where a matrix is transposed. A framework's test wires them up.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from opennki import nki

nl: Any = import_module("opennki.nki.language")

EPSILON = 1e-5
ROWS, FEATURES, HIDDEN = 128, 64, 96

Array = np.ndarray[Any, Any]


def own(x: Any) -> slice:
    """Return this core's part of the rows."""
    rows = x.shape[0] // nl.num_programs(0)
    start = nl.program_id(0) * rows
    return slice(start, start + rows)


def output(shape: tuple[int, ...], name: str) -> Any:
    """Return an output tensor."""
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm, name=name)


def mean(x: Any) -> Any:
    """Return the mean of each row of a tile, repeated along the row."""
    return nl.mean(x, axis=1, keepdims=True).broadcast(1, x.shape[1])


def normalise(x: Any) -> tuple[Any, Any]:
    """Return the normalised rows of a tile, and 1 over their standard deviation."""
    centred = nl.subtract(x, mean(x))
    scale = nl.rsqrt(nl.add(mean(nl.multiply(centred, centred)), EPSILON))
    return nl.multiply(centred, scale), scale


@nki.jit
def layer_norm(x: Any) -> Any:
    """Normalise each row: mean 0, variance 1."""
    y = output(x.shape, "y")
    rows = own(x)
    normal, _ = normalise(nl.load(x[rows, :]))
    nl.store(y[rows, :], normal)
    return y


@nki.jit
def layer_norm_grad(x: Any, dy: Any) -> Any:
    """Return the gradient of `layer_norm` for its input."""
    dx = output(x.shape, "dx")
    rows = own(x)
    normal, scale = normalise(nl.load(x[rows, :]))
    given = nl.load(dy[rows, :])
    along = mean(nl.multiply(given, normal))
    change = nl.subtract(nl.subtract(given, mean(given)), nl.multiply(normal, along))
    nl.store(dx[rows, :], nl.multiply(change, scale))
    return dx


@nki.jit
def matmul(a: Any, b: Any) -> Any:
    """Return a @ b for `a` `[rows, K<=128]` and `b` `[K, columns<=512]`."""
    c = output((a.shape[0], b.shape[1]), "c")
    rows = own(a)
    product = nl.matmul(nl.load(a[rows, :]), nl.load(b))
    nl.store(c[rows, :], nl.copy(product))
    return c


@nki.jit
def softmax(x: Any, scale: float = 1.0) -> Any:
    """Return the softmax of each row of scale * x."""
    y = output(x.shape, "y")
    rows = own(x)
    nl.store(y[rows, :], nl.softmax(nl.multiply(nl.load(x[rows, :]), scale), axis=1))
    return y


@nki.jit
def softmax_grad(y: Any, dy: Any, scale: float = 1.0) -> Any:
    """Return the gradient of `softmax` for its input, from its result."""
    dx = output(y.shape, "dx")
    rows = own(y)
    result = nl.load(y[rows, :])
    weighted = nl.multiply(nl.load(dy[rows, :]), result)
    total = nl.sum(weighted, axis=1, keepdims=True).broadcast(1, y.shape[1])
    change = nl.subtract(weighted, nl.multiply(result, total))
    nl.store(dx[rows, :], nl.multiply(change, scale))
    return dx


@nki.jit
def gelu(x: Any) -> Any:
    """Return x times the normal distribution function of x."""
    y = output(x.shape, "y")
    rows = own(x)
    nl.store(y[rows, :], nl.gelu(nl.load(x[rows, :])))
    return y


@nki.jit
def gelu_grad(x: Any, dy: Any) -> Any:
    """Return the gradient of `gelu` for its input."""
    dx = output(x.shape, "dx")
    rows = own(x)
    slope = nl.gelu_dx(nl.load(x[rows, :]))
    nl.store(dx[rows, :], nl.multiply(slope, nl.load(dy[rows, :])))
    return dx


SHAPES = {
    "query": (FEATURES, FEATURES),
    "key": (FEATURES, FEATURES),
    "value": (FEATURES, FEATURES),
    "up": (FEATURES, HIDDEN),
    "down": (HIDDEN, FEATURES),
}
"""The weights of the block. y = x + attention(layer_norm(x)); block(x) = y + mlp(layer_norm(y))."""


def weights(rng: np.random.Generator) -> dict[str, Array]:
    """Return random weights that keep the size of what they multiply."""
    return {
        name: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        for name, shape in SHAPES.items()
    }


def tokens(rng: np.random.Generator) -> Array:
    """Return a random input of the block."""
    return rng.standard_normal((ROWS, FEATURES)).astype(np.float32)

"""A block of kernels in JAX, value and gradients, against the same block without kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opennki
from tests.frameworks import block

jax: Any = pytest.importorskip("jax")
jnp: Any = jax.numpy


def with_gradient(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` with the gradients that `backward` gives for its inputs, result and gradient."""
    function: Any = jax.custom_vjp(forward)
    function.defvjp(
        lambda *inputs: ((y := forward(*inputs)), (inputs, y)),
        lambda kept, dy: tuple(backward(*kept[0], kept[1], dy)),
    )
    found: Callable[..., Any] = function
    return found


def block_of(lnc: int) -> Callable[..., Any]:
    """Return the block with kernels for a degree."""
    multiply, scale = block.matmul[lnc], block.FEATURES**-0.5
    norm = with_gradient(block.layer_norm[lnc], lambda x, y, dy: [block.layer_norm_grad[lnc](x, dy)])
    gelu = with_gradient(block.gelu[lnc], lambda x, y, dy: [block.gelu_grad[lnc](x, dy)])
    softmax = with_gradient(
        lambda x: block.softmax[lnc](x, scale), lambda x, y, dy: [block.softmax_grad[lnc](y, dy, scale)]
    )
    matmul = with_gradient(multiply, lambda a, b, y, dy: [multiply(dy, b.T), multiply_down(multiply, a, dy)])
    return assemble(norm, matmul, softmax, gelu)


def multiply_down(multiply: Callable[..., Any], a: Any, dy: Any) -> Any:
    """Return a.T @ dy, whose rows need not divide by the number of cores evenly into 64: pad to 128."""
    rows = a.shape[1]
    return multiply(jnp.pad(a.T, ((0, block.ROWS - rows), (0, 0))), dy)[:rows]


def reference(w: dict[str, Any], x: Any) -> Any:
    """Return the block without kernels."""

    def norm(x: Any) -> Any:
        centred = x - x.mean(1, keepdims=True)
        return centred / jnp.sqrt((centred * centred).mean(1, keepdims=True) + block.EPSILON)

    return assemble(
        norm,
        jnp.matmul,
        lambda x: jax.nn.softmax(x * block.FEATURES**-0.5, axis=1),
        lambda x: jax.nn.gelu(x, approximate=False),
    )(w, x)


def assemble(norm: Any, matmul: Any, softmax: Any, gelu: Any) -> Callable[..., Any]:
    def forward(w: dict[str, Any], x: Any) -> Any:
        h = norm(x)
        weights = softmax(matmul(matmul(h, w["query"]), matmul(h, w["key"]).T))
        y = x + matmul(weights, matmul(h, w["value"]))
        return y + matmul(gelu(matmul(norm(y), w["up"])), w["down"])

    return forward


def loss(forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda w, x: (forward(w, x) ** 2).mean()


def arrays(rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    return {k: jnp.asarray(v) for k, v in block.weights(rng).items()}, jnp.asarray(block.tokens(rng))


def close(found: Any, expected: Any) -> None:
    """Sums of 128 products in float32, a handful of them in a row: 2e-5 of the largest."""
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5 * max(1.0, float(jnp.abs(other).max())))


def test_values_at_once(rng: np.random.Generator) -> None:
    w, x = arrays(rng)
    close(block_of(1)(w, x), reference(w, x))


def test_values_and_gradients_are_equal_at_both_degrees(rng: np.random.Generator) -> None:
    w, x = arrays(rng)
    expected = jax.value_and_grad(loss(reference), argnums=(0, 1))(w, x)
    results = []
    for lnc in (1, 2):
        function = jax.value_and_grad(loss(block_of(lnc)), argnums=(0, 1))
        executable = opennki.compile(function, w, x, lnc=lnc, target="trn2")
        assert {len(call.programs) for call in executable.calls} == {lnc}
        results.append(executable(w, x))
        close(results[-1], expected)
    for one, other in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_array_equal(one, other)


def test_gradients_jitted_and_at_once(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    w, x = arrays(rng)
    expected = jax.grad(loss(reference))(w, x)
    close(jax.jit(jax.grad(loss(block_of(1))))(w, x), expected)
    close(jax.grad(loss(block_of(1)))(w, x), expected)


def test_a_checkpoint_computes_the_kernels_again(rng: np.random.Generator) -> None:
    w, x = arrays(rng)
    function = jax.grad(loss(jax.checkpoint(block_of(2))))
    executable = opennki.compile(function, w, x, lnc=2, target="trn2")
    close(executable(w, x), jax.grad(loss(reference))(w, x))

"""One block of kernels in PyTorch and in JAX: the same outputs at both degrees, and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import opennki
from tests.frameworks import block

torch: Any = pytest.importorskip("torch")
opennki.install()
neuron: Any = import_module("torch_neuronx")
nki_op, wrap_nki = neuron.nki_op, neuron.wrap_nki


def operator(
    name: str, inputs: int, forward: Callable[..., Any], backward: Callable[..., Any]
) -> Callable[..., Any]:
    """Return an operator of kernels; `backward` gives its gradients for inputs, result and gradient."""

    def one(x: torch.Tensor) -> torch.Tensor:
        return forward(x)

    def two(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return forward(a, b)

    made = nki_op(f"opennki_tests::block_{name}", mutates_args=())(one if inputs == 1 else two)

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, output)

    def gradients(ctx: Any, gradient: Any) -> Any:
        return tuple(backward(*ctx.saved_tensors, gradient.contiguous()))

    made.register_autograd(gradients, setup_context=keep)
    found: Callable[..., Any] = made
    return found


@lru_cache
def block_of(lnc: int) -> Callable[..., Any]:
    """Return the block with kernels for a degree."""
    scale = block.FEATURES**-0.5
    multiply, softmax_grad = wrap_nki(block.matmul)[lnc], wrap_nki(block.softmax_grad)[lnc]
    norm_grad, gelu_grad = wrap_nki(block.layer_norm_grad)[lnc], wrap_nki(block.gelu_grad)[lnc]
    softmax = wrap_nki(block.softmax)[lnc]

    def transposed_product(a: Any, dy: Any) -> Any:
        rows = a.shape[1]
        padded = torch.nn.functional.pad(a.T, (0, 0, 0, block.ROWS - rows)).contiguous()
        return multiply(padded, dy)[:rows].clone()

    return assemble(
        operator(f"norm{lnc}", 1, wrap_nki(block.layer_norm)[lnc], lambda x, y, dy: [norm_grad(x, dy)]),
        operator(
            f"matmul{lnc}",
            2,
            multiply,
            lambda a, b, y, dy: [multiply(dy, b.T.contiguous()), transposed_product(a, dy)],
        ),
        operator(
            f"softmax{lnc}", 1, lambda x: softmax(x, scale), lambda x, y, dy: [softmax_grad(y, dy, scale)]
        ),
        operator(f"gelu{lnc}", 1, wrap_nki(block.gelu)[lnc], lambda x, y, dy: [gelu_grad(x, dy)]),
    )


def reference(w: dict[str, Any], x: Any) -> Any:
    """Return the block without kernels."""
    return assemble(
        lambda x: torch.nn.functional.layer_norm(x, (x.shape[1],), eps=block.EPSILON),
        torch.matmul,
        lambda x: torch.softmax(x * block.FEATURES**-0.5, 1),
        torch.nn.functional.gelu,
    )(w, x)


def assemble(norm: Any, matmul: Any, softmax: Any, gelu: Any) -> Callable[..., Any]:
    def forward(w: dict[str, Any], x: Any) -> Any:
        h = norm(x)
        weights = softmax(matmul(matmul(h, w["query"]), matmul(h, w["key"]).T.contiguous()))
        y = x + matmul(weights, matmul(h, w["value"]))
        return y + matmul(gelu(matmul(norm(y), w["up"])), w["down"])

    return forward


def tensors(rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    w = {name: torch.from_numpy(value).requires_grad_() for name, value in block.weights(rng).items()}
    return w, torch.from_numpy(block.tokens(rng)).requires_grad_()


def compiled(lnc: int) -> Callable[..., Any]:
    torch.compiler.reset()
    function: Callable[..., Any] = torch.compile(
        block_of(lnc), backend="opennki", fullgraph=True, options={"lnc": lnc, "target": "trn2"}
    )
    return function


def value_and_gradients(forward: Callable[..., Any], w: dict[str, Any], x: Any) -> list[Any]:
    found = forward(w, x)
    leaves = [*w.values(), x]
    gradients = torch.autograd.grad((found**2).mean(), leaves)
    return [found.detach(), *gradients]


def close(found: list[Any], expected: list[Any]) -> None:
    """Sums of 128 products in float32, a handful of them in a row: 2e-5 of the largest."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5 * max(1.0, float(other.abs().max())))


def test_gradients_in_pytorch_at_both_degrees(rng: np.random.Generator) -> None:
    w, x = tensors(rng)
    expected = value_and_gradients(reference, w, x)
    results = [value_and_gradients(compiled(lnc), w, x) for lnc in (1, 2)]
    for found in results:
        close(found, expected)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_gradients_at_once(rng: np.random.Generator) -> None:
    w, x = tensors(rng)
    close(value_and_gradients(block_of(1), w, x), value_and_gradients(reference, w, x))


@pytest.mark.parametrize("lnc", [1, 2])
def test_pytorch_and_jax_give_the_same_bits(lnc: int, rng: np.random.Generator) -> None:
    jax: Any = pytest.importorskip("jax")
    from tests.frameworks.test_jax_block import block_of as block_in_jax

    weights, x = block.weights(rng), block.tokens(rng)
    in_jax = opennki.compile(
        block_in_jax(lnc),
        {k: jax.numpy.asarray(v) for k, v in weights.items()},
        jax.numpy.asarray(x),
        lnc=lnc,
        target="trn2",
    )
    found = in_jax({k: jax.numpy.asarray(v) for k, v in weights.items()}, jax.numpy.asarray(x))
    with torch.no_grad():
        in_torch = compiled(lnc)({k: torch.from_numpy(v) for k, v in weights.items()}, torch.from_numpy(x))
    np.testing.assert_array_equal(np.asarray(found), in_torch.numpy())

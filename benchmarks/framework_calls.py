"""What a kernel call costs from PyTorch and JAX, beside an operator of one and a callback of the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
import torch

from benchmarks.kernels import nisa, nl
from benchmarks.measure import Result, figure, per_instruction, result, slowness, take_turns
from opennki import nki
from opennki.frameworks.torch.kernel_ops import nki_op

__all__ = ["run"]

CALLS = 200
ENVIRONMENT = {"NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2"}

Way = tuple[Callable[[Any, Any], Any], Any, str]
"""A function, what it is called with, and what that is."""


def run(quick: bool) -> Result:
    """Call a kernel that adds two 8×8 tensors, in turn with the same sum by other means."""
    ways: dict[str, Way] = {
        "kernel, NumPy": (add, np.ones((8, 8), np.float32), "a direct call on NumPy arrays"),
        **_from_pytorch(),
        **_from_jax(),
    }
    with patch.dict(os.environ, ENVIRONMENT), torch.no_grad():
        turns = {name: _often(function, value) for name, (function, value, _) in ways.items()}
        seconds = take_turns(turns, rounds=3 if quick else 15)
    factors = slowness(seconds)
    return result(
        "Calls from frameworks",
        [
            figure(name, per_instruction(seconds[name], CALLS), "µs", f"{says}, 8×8", slowness=factors)
            for name, (_, _, says) in ways.items()
        ],
    )


def _from_pytorch() -> dict[str, Way]:
    @torch.library.custom_op("opennki_benchmark::plain", mutates_args=())
    def plain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(a.numpy() + b.numpy())

    @plain.register_fake
    def _(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(a)

    def kernel(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = add(a, b)
        return found

    x = torch.ones(8, 8)
    compiled: dict[str, Any] = {
        name: torch.compile(partial(_called, function), backend="opennki", fullgraph=True)
        for name, function in (("kernel", add), ("plain", plain))
    }
    return {
        "kernel, PyTorch eager": (add, x, "a direct call on tensors"),
        "kernel, nki_op": (nki_op("opennki_benchmark::kernel", kernel), x, "an operator around the kernel"),
        "kernel, torch.compile": (compiled["kernel"], x, "a compiled function of one kernel call"),
        "operator, PyTorch eager": (plain, x, "`torch.library.custom_op` that adds in NumPy"),
        "operator, torch.compile": (compiled["plain"], x, "a compiled function of that operator"),
        "sum, PyTorch eager": (torch.add, x, "PyTorch's own sum"),
    }


def _from_jax() -> dict[str, Way]:
    x = jax.numpy.ones((8, 8), jax.numpy.float32)
    shape = jax.typeof(x)

    def called_back(a: Any, b: Any) -> Any:
        return jax.pure_callback(lambda a, b: np.asarray(a) + np.asarray(b), shape, a, b)

    return {
        "kernel, JAX at once": (add, x, "a direct call on JAX's arrays"),
        "kernel, jax.jit": (jax.jit(add), x, "a jitted function of one kernel call"),
        "jax.pure_callback, jax.jit": (jax.jit(called_back), x, "a jitted callback that adds in NumPy"),
        "sum, jax.jit": (jax.jit(jax.numpy.add), x, "a jitted sum, no Python in it"),
    }


@nki.jit
def add(a: Any, b: Any) -> Any:
    """Add two tensors."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="out")
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
    nisa.dma_copy(dst=out, src=left)
    return out


def _called(function: Callable[..., Any], a: Any, b: Any) -> Any:
    return function(a, b)


def _often(function: Callable[..., Any], value: Any) -> Callable[[], object]:
    def turn() -> object:
        found: Any = None
        for _ in range(CALLS):
            found = function(value, value)
        return getattr(found, "block_until_ready", lambda: found)()

    return turn

"""What a kernel call costs from JAX: at once and in a jitted function, beside JAX's own callback."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.kernels import nisa, nl
from benchmarks.measure import Result, figure, per_instruction, result, slowness, take_turns
from opennki import nki

__all__ = ["run"]

CALLS = 200
ENVIRONMENT = {"NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2"}


def run(quick: bool) -> Result:
    """Call a kernel that adds two 8×8 tensors, in turn with the same sum by other means."""
    import jax

    x = jax.numpy.ones((8, 8), jax.numpy.float32)
    host = np.ones((8, 8), np.float32)
    shape = jax.typeof(x)

    def called_back(a: Any, b: Any) -> Any:
        return jax.pure_callback(lambda a, b: np.asarray(a) + np.asarray(b), shape, a, b)

    functions: dict[str, tuple[Callable[[Any, Any], Any], Any, str]] = {
        "kernel, NumPy": (add, host, "a direct call on NumPy arrays"),
        "kernel, JAX at once": (add, x, "a direct call on JAX's arrays"),
        "kernel, jax.jit": (jax.jit(add), x, "a jitted function of one kernel call"),
        "jax.pure_callback, jax.jit": (jax.jit(called_back), x, "a jitted callback that adds in NumPy"),
        "sum, jax.jit": (jax.jit(jax.numpy.add), x, "a jitted sum, no Python in it"),
    }
    with patch.dict(os.environ, ENVIRONMENT):
        turns = {name: _often(function, array) for name, (function, array, _) in functions.items()}
        seconds = take_turns(turns, rounds=3 if quick else 15)
    return result(
        "Calls from JAX",
        [
            figure(
                name, per_instruction(seconds[name], CALLS), "µs", f"{says}, 8×8", slowness=slowness(seconds)
            )
            for name, (_, _, says) in functions.items()
        ],
    )


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


def _often(function: Callable[[Any, Any], Any], array: Any) -> Callable[[], object]:
    def turn() -> object:
        found: Any = None
        for _ in range(CALLS):
            found = function(array, array)
        return getattr(found, "block_until_ready", lambda: found)()

    return turn

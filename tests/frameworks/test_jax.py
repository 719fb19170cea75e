"""Kernels on JAX's arrays: values at once and in graphs, at both degrees, against jnp and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opennki
from tests.unit.kernels import halve, ramp

jax = pytest.importorskip("jax")
jnp: Any = jax.numpy


def test_a_call_on_arrays_runs_at_once() -> None:
    x = jnp.asarray(ramp())
    found = halve(x)
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(found, ramp() * 0.5)


@pytest.mark.parametrize("lnc", [1, 2])
def test_a_kernel_in_a_graph(lnc: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", str(lnc))
    found = jax.jit(lambda x: halve(x * 3) + 1)(ramp())
    np.testing.assert_array_equal(found, ramp() * 3 * 0.5 + 1)


@pytest.mark.parametrize("lnc", [1, 2])
def test_a_compiled_function(lnc: int) -> None:
    executable = opennki.compile(lambda x: halve[lnc](x) + 1, jnp.asarray(ramp()), lnc=lnc, target="trn2")
    assert [call.name for call in executable.calls] == ["halve"]
    np.testing.assert_array_equal(executable(ramp()), ramp() * 0.5 + 1)

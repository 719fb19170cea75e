"""Run one `nl` function in a kernel of its own, simulated and compiled, and compare with float64."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.diag import Diagnostic, OpenNkiError, OpenNkiWarning

nl: Any = import_module("opennki.nki.language")
nisa: Any = import_module("opennki.nki.isa")

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

BF16 = ml_dtypes.bfloat16
TARGETS = ("trn1", "trn2", "trn3")

UNIT = {"float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}
"""A unit in the last place of 1.0."""


def kernel_of(function: Function, *, psum: tuple[int, ...] = ()) -> Any:
    """Return the kernel that loads its arguments, calls `function` on the tiles and returns the result.

    `psum`: the numbers of the arguments that are handed over in PSUM.
    """

    @nki.jit
    def kernel(*tensors: Any) -> Any:
        tiles = [nl.load(tensor) for tensor in tensors]
        for i in psum:
            tile = nl.ndarray(tiles[i].shape, dtype=tiles[i].dtype, buffer=nl.psum)
            nisa.tensor_copy(dst=tile, src=tiles[i])
            tiles[i] = tile
        result = function(*tiles)
        if result.buffer == nl.psum:
            result = nl.copy(result)
        out = nl.ndarray(result.shape, dtype=result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    return kernel


def run(function: Function, *arrays: Array, target: str = "trn2", psum: tuple[int, ...] = ()) -> Array:
    """Return what `function` gives, the same bits in a simulation and in a compiled run."""
    kernel = kernel_of(function, psum=psum)
    with patch.dict(os.environ, {"NEURON_PLATFORM_TARGET_OVERRIDE": target}):
        simulated: Array = nki.simulate(kernel)(*arrays)
        compiled = opennki.compile(opennki.trace(kernel, *arrays), lnc=1)(*arrays)
    assert simulated.dtype == compiled.dtype
    assert simulated.shape == compiled.shape
    assert simulated.tobytes() == compiled.tobytes(), "trace and simulation differ"
    return simulated


def refusal(
    function: Function, *arrays: Array, target: str = "trn2", psum: tuple[int, ...] = (), line: str
) -> Diagnostic:
    """Return the error of `function`, the same in a trace and in a simulation, at a line that has `line`."""
    kernel = kernel_of(function, psum=psum)
    found = []
    with patch.dict(os.environ, {"NEURON_PLATFORM_TARGET_OVERRIDE": target}):
        for call in (nki.simulate(kernel), lambda *given: opennki.trace(kernel, *given)):
            with pytest.raises(OpenNkiError) as caught:
                call(*arrays)
            found += list(caught.value.diagnostics)
    assert len(found) == 2
    assert (found[0].code, found[0].message) == (found[1].code, found[1].message)
    for one in found:
        assert one.location is not None
        assert line in one.location.text
        assert one.location.file.endswith(".py")
        assert "opennki/" not in one.location.file
    return found[0]


def findings(function: Function, *arrays: Array, target: str = "trn2") -> list[Diagnostic]:
    """Return the warnings of a trace, which it also says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpenNkiWarning)
        return list(opennki.trace(kernel_of(function), *arrays, target=target).findings)


def opcodes(function: Function, *arrays: Array, target: str = "trn2") -> list[str]:
    """Return the instructions between the loads and the store of a trace, by name."""
    program = opennki.trace(kernel_of(function), *arrays, target=target).programs[0]
    names = [program.opcodes[item.opcode] for item in program.body if hasattr(item, "opcode")]
    return names[len(arrays) : -1]


def assert_close(actual: Array, expected: Any, ulps: float) -> None:
    """Fail unless every element is within `ulps` units in the last place of its float64 value.

    The unit is that of the array's own dtype at the expected value; equal specials count as close.
    """
    wanted = np.broadcast_to(np.asarray(expected, np.float64), actual.shape)
    got = actual.astype(np.float64)
    with np.errstate(all="ignore"):
        rounded = wanted.astype(actual.dtype)
        step = np.maximum(np.abs(rounded.astype(np.float64)) * UNIT[actual.dtype.name], 1e-44)
        same = (got == rounded.astype(np.float64)) | (np.isnan(got) & np.isnan(wanted))
        near = np.abs(got - wanted) <= ulps * step
    bad = ~(same | near)
    assert not bad.any(), f"{actual[bad][:4]} for {wanted[bad][:4]}"


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32, scale: float = 1.0) -> Array:
    """Return normally distributed values."""
    values: Array = (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)
    return values

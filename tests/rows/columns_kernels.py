"""What the tests of `.indirect()` share: kernels, tiles, and running a kernel in every form."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from msgspec.structs import replace

import opennki
from opennki import nki
from opennki.artifact.rows import broken_rules
from opennki.diag import Diagnostic, OpenNkiError
from opennki.ir.codec import decode_artifact, encode_artifact
from opennki.ir.text import parse_artifact, print_artifact
from opennki.ir.verify import verify
from opennki.isa.table import ROW_FACTS

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

Array = np.ndarray[Any, Any]
PLACES = ("test_indirect.py", "test_indirect_refused.py", "columns_kernels.py")
BF16 = np.dtype(ml_dtypes.bfloat16)
RANDOM = np.random.default_rng(7)


def both(kernel: Callable[..., Any], *arrays: Any, lnc: int = 1) -> Any:
    """Return what a kernel gives: simulated, compiled, and from its own bytes and text, bit for bit alike."""
    launched = nki.jit(kernel)[lnc]
    simulated = nki.simulate(launched)(*[array.copy() for array in arrays])
    artifact = opennki.trace(launched, *arrays)
    assert verify(artifact, ROW_FACTS) == []
    assert list(broken_rules(artifact)) == []
    plain = replace(artifact, findings=())
    again = decode_artifact(encode_artifact(artifact))
    assert again == plain
    assert encode_artifact(again) == encode_artifact(artifact)
    assert parse_artifact(print_artifact(artifact, ROW_FACTS), ROW_FACTS) == plain
    for one in (artifact, again):
        executable = opennki.compile(one, lnc=lnc)
        for _ in range(2):
            result = executable(*[array.copy() for array in arrays])
            assert result.dtype == simulated.dtype
            assert result.tobytes() == simulated.tobytes()
    return simulated


def refused(kernel: Callable[..., Any], *arrays: Any, target: str = "trn3") -> Diagnostic:
    """Return the one error of a kernel, traced and simulated alike."""
    with pytest.raises(OpenNkiError) as traced:
        opennki.trace(nki.jit(kernel), *arrays, target=target)
    if target == "trn3":
        with pytest.raises(OpenNkiError) as simulated:
            nki.simulate(nki.jit(kernel))(*arrays)
        assert str(simulated.value) == str(traced.value)
    (found,) = traced.value.diagnostics
    assert found.location is not None
    assert found.location.file.endswith(
        ("test_indirect.py", "test_indirect_refused.py", "columns_kernels.py")
    )
    return found


def values(*shape: int, dtype: Any = np.float32) -> Array:
    return RANDOM.integers(-99, 99, shape).astype(dtype)


def picks(partitions: int, width: int, limit: int) -> Array:
    return RANDOM.integers(0, limit, (partitions, width)).astype(np.uint16)


def sbuf(*shape: int, dtype: Any = "float32", **more: Any) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, **more)


def psum(*shape: int, dtype: Any = "float32") -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def returned(tile: Any) -> Any:
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def gather(count: int | None, **more: Any) -> Callable[..., Any]:
    """A kernel that copies the picked columns of a tile."""

    def kernel(data: Any, index: Any) -> Any:
        view = nl.load(data).indirect(nl.load(index), num_elem=count)
        tile = sbuf(*view.shape, dtype=data.dtype)
        nisa.tensor_copy(dst=tile, src=view, **more)
        return returned(tile)

    return kernel

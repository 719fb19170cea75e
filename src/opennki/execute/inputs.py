"""The arrays that a run is given, checked against the signature's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opennki.diag import fail
from opennki.ir.dtypes import DTYPES
from opennki.ir.types import Input, KernelArtifact

__all__ = ["checked_inputs"]

Array = np.ndarray[Any, Any]


def checked_inputs(artifact: KernelArtifact, arrays: Sequence[Any]) -> list[Array]:
    """Return `arrays` as the inputs of `artifact`, in the order of its signature.

    Errors: ONKI702 (count, type, shape or dtype), ONKI703 (read-only, and the kernel writes it).
    """
    inputs = artifact.signature.inputs
    if len(inputs) != len(arrays):
        fail(
            "ONKI702",
            name=inputs[len(arrays)].name if len(arrays) < len(inputs) else "more",
            got=f"one of {len(arrays)} arrays",
            expected=f"{len(inputs)} arrays: {', '.join(i.name for i in inputs)}",
            at=artifact.location,
        )
    return [_checked(spec, array, artifact) for spec, array in zip(inputs, arrays, strict=True)]


def _checked(spec: Input, value: Any, artifact: KernelArtifact) -> Array:
    """Return `value` as the array that an input takes."""
    storage = DTYPES[spec.dtype].storage
    expected = f"{spec.dtype}{list(spec.shape)}"
    if not isinstance(value, np.ndarray):
        fail(
            "ONKI702",
            name=spec.name,
            got=f"an object of type `{type(value).__name__}`",
            expected=expected,
            at=artifact.location,
        )
    if value.shape != spec.shape or (value.dtype != storage and not _same_bits(value.dtype, spec)):
        fail(
            "ONKI702",
            name=spec.name,
            got=f"{value.dtype}{list(value.shape)}",
            expected=expected,
            at=artifact.location,
        )
    if spec.is_written and not value.flags.writeable:
        fail("ONKI703", name=spec.name, at=artifact.location)
    return value


def _same_bits(dtype: np.dtype[Any], spec: Input) -> bool:
    """Packed elements come as unsigned integers of their width."""
    info = DTYPES[spec.dtype]
    return info.kind == "packed" and dtype == info.storage

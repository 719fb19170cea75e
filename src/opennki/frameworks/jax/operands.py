"""The tensors of a kernel call: JAX's arrays, and the tracers that stand for them in a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jax
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opennki.build.arguments import replace_leaves
from opennki.diag import Location, fail
from opennki.frontend.kernel import Kernel
from opennki.frontend.trace import Argument, bind_arguments
from opennki.ir.dtypes import DTYPES
from opennki.ir.program import is_whole
from opennki.ir.types import KernelArtifact

__all__ = ["Operands", "check_written", "operands_of", "result_dtypes", "whole_aliases"]


class Operands(Struct, frozen=True):
    """A bound call: its arguments without the tensors, and the tensors in the order of the signature."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arguments: tuple[Argument, ...]
    arrays: tuple[Any, ...]


class _Tensor:
    """What binding sees of a tensor: no array that a trace could keep alive."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.shape: tuple[int, ...] = value.shape
        self.dtype = value.dtype

    def __array__(self) -> NoReturn:
        raise TypeError("a kernel is traced without values")


def operands_of(
    kernel: Kernel, args: Sequence[object], kwargs: Mapping[str, object], place: Location | None
) -> Operands:
    """Return a bound call of a kernel.

    Errors: ONKI622 (a size that is not known), ONKI624 (a number that is traced), ONKI625 (64-bit elements
    while JAX has 32), and those of binding: ONKI006, ONKI212, ONKI214.
    """

    def tensor(name: str, value: Any) -> Any:
        return _tensor(kernel, name, value, place) if isinstance(value, jax.Array | np.ndarray) else value

    given, named = replace_leaves(kernel.function, args, kwargs, tensor)
    bound_args, bound_kwargs, arguments = bind_arguments(kernel, given, named, texts=False)
    arrays = tuple(argument.array.value for argument in arguments)
    return Operands(
        bound_args, bound_kwargs, tuple(replace(argument, array=None) for argument in arguments), arrays
    )


def _tensor(kernel: Kernel, name: str, value: Any, place: Location | None) -> Any:
    symbolic = [size for size in value.shape if not isinstance(size, int)]
    if symbolic:
        fail(
            "ONKI622",
            at=place,
            label=f"`{name}` has the shape ({', '.join(map(str, value.shape))})",
            kernel=kernel.name,
            argument=name,
            size=str(symbolic[0]),
        )
    if value.shape == ():
        if isinstance(value, jax.core.Tracer):
            fail("ONKI624", at=place, label=f"`{name}` is traced", kernel=kernel.name, argument=name)
        return np.asarray(value)[()]
    if isinstance(value, np.ndarray) and jax.dtypes.canonicalize_dtype(value.dtype) != value.dtype:
        _refuse_wide(kernel.name, f"argument `{name}`", value.dtype, place)
    return _Tensor(value)


def result_dtypes(artifact: KernelArtifact, place: Location | None) -> list[np.dtype[Any]]:
    """Return the dtypes of the outputs as JAX holds them. Errors: ONKI625."""
    found = []
    for output in artifact.signature.outputs:
        dtype = DTYPES[output.dtype].storage
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            _refuse_wide(artifact.kernel, f"output `{output.name}`", dtype, place)
        found.append(dtype)
    return found


def _refuse_wide(kernel: str, tensor: str, dtype: np.dtype[Any], place: Location | None) -> NoReturn:
    fail("ONKI625", at=place, kernel=kernel, tensor=tensor, dtype=dtype.name)


def whole_aliases(artifact: KernelArtifact) -> dict[int, int]:
    """Return the number of the output that is the whole of an input, by the number of that input."""
    inputs = artifact.signature.inputs
    found: dict[int, int] = {}
    for number, output in enumerate(artifact.signature.outputs):
        if output.alias < 0 or output.alias in found:
            continue
        source = inputs[output.alias]
        if is_whole(output, source.shape, source.dtype):
            found[output.alias] = number
    return found


def check_written(artifact: KernelArtifact, place: Location | None) -> None:
    """Refuse an input that the kernel writes and does not return: JAX's arrays do not change. ONKI623."""
    whole = whole_aliases(artifact)
    for number, tensor in enumerate(artifact.signature.inputs):
        if tensor.is_written and number not in whole:
            fail(
                "ONKI623",
                at=place,
                label=f"`{tensor.name}` is written in place",
                kernel=artifact.kernel,
                argument=tensor.name,
            )

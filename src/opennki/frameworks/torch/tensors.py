"""PyTorch's tensors as NumPy arrays and back, without copies, and the tensors that no kernel takes."""

from __future__ import annotations

from typing import Any, NoReturn

import ml_dtypes
import numpy as np
import torch

from opennki.build.places import call_location
from opennki.diag import Location, fail

__all__ = [
    "TensorFacts",
    "array_of",
    "check_tensor",
    "check_written",
    "dtype_named",
    "facts_of",
    "nki_dtype",
    "tensor_of",
]

Array = np.ndarray[Any, Any]

_RAW: dict[torch.dtype, tuple[torch.dtype, np.dtype[Any]]] = {
    torch.bfloat16: (torch.int16, np.dtype(ml_dtypes.bfloat16)),
    torch.float8_e4m3fn: (torch.uint8, np.dtype(ml_dtypes.float8_e4m3fn)),
    torch.float8_e5m2: (torch.uint8, np.dtype(ml_dtypes.float8_e5m2)),
    torch.float8_e8m0fnu: (torch.uint8, np.dtype(ml_dtypes.float8_e8m0fnu)),
}
"""The dtypes that NumPy has from ml_dtypes alone: an integer dtype of their width, and NumPy's."""

_BITS: dict[np.dtype[Any], tuple[type[Any], torch.dtype]] = {
    array: (np.int16 if raw is torch.int16 else np.uint8, dtype) for dtype, (raw, array) in _RAW.items()
}

_PLAIN = (
    *(torch.bool, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.float16, torch.float32),
)
_NAMES: dict[torch.dtype, str] = {dtype: str(dtype).removeprefix("torch.") for dtype in (*_PLAIN, *_RAW)}
_DTYPES: dict[str, torch.dtype] = {name: dtype for dtype, name in _NAMES.items()}
_DTYPES |= {"tfloat32": torch.float32, "float8_e4m3fn_x4": torch.uint32, "float8_e5m2_x4": torch.uint32}
_DTYPES |= {"float4_e2m1fn_x4": torch.uint16}

_CASTS = {torch.float64: "float", torch.uint64: "int"}

TensorFacts = tuple[torch.dtype, str, str, int, bool]
"""Dtype, layout, kind of device, number of axes, and whether its gradient is asked for."""


def nki_dtype(dtype: torch.dtype) -> str | None:
    """Return NKI's name of a dtype, None where the hardware lacks it."""
    return _NAMES.get(dtype)


def dtype_named(name: str) -> torch.dtype | None:
    """Return PyTorch's dtype for an element type of NKI, None where PyTorch has none (`float8_e4m3`)."""
    return _DTYPES.get(name)


def array_of(tensor: torch.Tensor) -> Array:
    """Return an array over the memory of a tensor; what is written to one is in the other."""
    raw = _RAW.get(tensor.dtype)
    found = tensor.detach() if tensor.requires_grad else tensor
    if raw is None:
        return found.numpy()
    array: Array = found.view(raw[0]).numpy().view(raw[1])
    return array


def tensor_of(array: Array) -> torch.Tensor:
    """Return a tensor over the memory of an array."""
    bits = _BITS.get(array.dtype)
    if bits is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(bits[0])).view(bits[1])


def facts_of(tensor: torch.Tensor) -> TensorFacts:
    """Return what decides whether a kernel takes a tensor; dynamo follows this function."""
    # Dynamo asks for no layout in a backward pass; sparse tensors in its graphs are of the one kind.
    is_dense = (
        not tensor.is_sparse if torch.compiler.is_dynamo_compiling() else tensor.layout is torch.strided
    )
    return (
        tensor.dtype,
        "torch.strided" if is_dense else "torch.sparse_coo" if tensor.is_sparse else str(tensor.layout),
        tensor.device.type,
        tensor.dim(),
        tensor.requires_grad and torch.is_grad_enabled() and not torch.compiler.is_exporting(),
    )


def check_tensor(kernel: str, argument: str, facts: TensorFacts, at: Location | None) -> None:
    """Refuse a tensor that no kernel takes. Errors: ONKI214 (its dtype), ONKI611, ONKI612 (a gradient)."""
    dtype, layout, device, axes, needs_gradient = facts
    if dtype not in _NAMES:
        _refuse_dtype(kernel, argument, dtype, at)
    what = help = ""
    if layout != "torch.strided":
        what, help = f"sparse ({layout.removeprefix('torch.')})", f"pass `{argument}.to_dense()`"
    elif device == "meta":
        what = "on the device `meta`"
        help = "pass a tensor with data; a shape alone goes to `opennki.trace` as a `Spec`"
    elif device != "cpu":
        what = f"on the device `{device}`"
        help = f"pass `{argument}.cpu()`; OpenNKI runs kernels on the CPU"
    elif axes == 0:
        what = "a tensor without axes"
        help = f"pass `{argument}.reshape(1, 1)`, or the plain value `{argument}.item()`"
    if what:
        fail("ONKI611", at=at, kernel=kernel, argument=argument, what=what, help=[help])
    if needs_gradient:
        fail("ONKI612", at=at, kernel=kernel, argument=argument)


def check_written(kernel: str, argument: str, tensor: torch.Tensor) -> None:
    """Refuse to write a tensor in which several elements share their memory. Errors: ONKI611."""
    if any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True)):
        fail(
            "ONKI611",
            at=call_location(),
            kernel=kernel,
            argument=argument,
            what="expanded, and the kernel writes it: several elements share their memory",
            help=[f"pass `{argument}.clone()`"],
        )


def _refuse_dtype(kernel: str, argument: str, lacking: torch.dtype, at: Location | None) -> NoReturn:
    dtype = str(lacking).removeprefix("torch.")
    cast = _CASTS.get(lacking)
    if lacking.is_complex:
        help = f"pass its parts: `{argument}.real.float()` and `{argument}.imag.float()`"
    else:
        help = f"pass `{argument}.{cast}()`" if cast else f"convert it: `{argument}.to(torch.float32)`"
    fail(
        "ONKI214",
        at=at,
        says=f"argument `{argument}` of kernel `{kernel}` is {dtype}, which the hardware lacks",
        help=[help],
        data={"dtype": dtype},
    )

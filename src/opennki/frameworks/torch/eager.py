"""The eager path: a kernel called on tensors is compiled for LNC=1 and run at once on their memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch

from opennki.build.arguments import replace_leaves
from opennki.build.foreign import MISSED, QUICK
from opennki.build.launch import compiled_call, options_in_force
from opennki.build.places import call_location
from opennki.build.recall import call_key, recall, remember
from opennki.build.values import nest
from opennki.diag import fail
from opennki.diag.say import warn
from opennki.frameworks.torch.tensors import (
    array_of,
    check_tensor,
    check_written,
    facts_of,
    tensor_of,
)
from opennki.frontend.kernel import Kernel
from opennki.ir.types import Signature
from opennki.settings import simulator_requested

__all__ = ["as_arrays", "eager_call"]

_TENSORS = (torch.Tensor, torch.nn.Parameter)


def eager_call(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what a kernel returns for tensors: new tensors, or those given where it returns its inputs.

    Errors: NCC_ENKI003 for a kernel of two cores, ONKI214, ONKI611, ONKI612, those of tracing and running.
    """
    found = known_call(kernel, args, kwargs)
    if found is not MISSED:
        return found
    arrays, tensors_of = as_arrays(kernel, args, kwargs)
    if simulator_requested():
        from opennki.frontend.simulate import simulate

        return _as_tensors(simulate(kernel)(*arrays[0], **arrays[1]), tensors_of)
    traced, executable, arguments = compiled_call(kernel, arrays[0], arrays[1], is_eager=True)
    remember(kernel, _call_key(kernel, args, kwargs), traced, executable, arguments, args, kwargs)
    warn((*executable.findings, *traced.remarks))
    baked = executable.calls[0]
    return _run(baked.name, baked.signature, baked.execute, [tensors_of[id(a.array)] for a in arguments])


def known_call(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what a call like an earlier one returns, `MISSED` for another."""
    call = None if torch.compiler.is_compiling() else _call_key(kernel, args, kwargs)
    known = recall(kernel, call, args, kwargs) if call is not None else None
    if known is None:
        return MISSED
    executable, tensors = known
    if executable.findings:
        warn(executable.findings)
    baked = executable.calls[0]
    return _run(baked.name, baked.signature, baked.execute, tensors)


for _kind in _TENSORS:
    QUICK[_kind] = known_call


def _call_key(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Hashable | None:
    """Return what tells two eager calls apart, None where that takes more than a look: see `recall`."""
    return call_key(kernel, args, kwargs, options_in_force(), _tensor_key)


def _tensor_key(value: Any) -> tuple[object, ...] | None:
    if type(value) not in _TENSORS or not value.is_cpu or value.layout is not torch.strided:
        return None
    if value.requires_grad and torch.is_grad_enabled():
        return None
    return value.dtype, value.shape


def as_arrays(
    kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], dict[int, torch.Tensor]]:
    """Return the arguments with an array for each tensor, and the tensor of each array by its id.

    Errors: ONKI214, ONKI611, ONKI612.
    """
    at = call_location()
    tensors: dict[int, torch.Tensor] = {}

    def convert(name: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        check_tensor(kernel.name, name, facts_of(value), at)
        array = _array(kernel.name, name, value)
        tensors[id(array)] = value
        return array

    return replace_leaves(kernel.function, args, kwargs, convert), tensors


def _array(kernel: str, name: str, tensor: torch.Tensor) -> Any:
    """Return the array of a tensor; a transform of `torch.func` hides the memory of what it hands on."""
    try:
        return array_of(tensor)
    except (RuntimeError, TypeError) as problem:
        reason = " ".join(str(problem).split())
        fail(
            "ONKI611",
            at=call_location(),
            kernel=kernel,
            argument=name,
            what=f"a `{type(tensor).__name__}` without memory of its own",
            notes=[f"PyTorch says: {reason[:160]}"],
            help=[
                "call the kernel outside of `torch.vmap` and other transforms, or write the batch loop in it"
            ],
        )


def _run(name: str, signature: Signature, run: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """Run a baked call on tensors and return its value as tensors."""
    arrays = [_array(name, spec.name, t) for spec, t in zip(signature.inputs, tensors, strict=True)]
    written = []
    for spec, tensor in zip(signature.inputs, tensors, strict=True):
        if spec.is_written:
            check_written(name, spec.name, tensor)
            written.append(tensor)
    outputs = run(arrays).outputs
    if written:
        torch.autograd.graph.increment_version(written)
    given = dict(zip(map(id, arrays), tensors, strict=True))
    return nest(signature.returns, [given.get(id(o)) if id(o) in given else tensor_of(o) for o in outputs])


def _as_tensors(value: Any, tensors: Mapping[int, torch.Tensor]) -> Any:
    """Return what a simulation gave, a tensor for each array."""
    if type(value) in (list, tuple):
        return type(value)(_as_tensors(item, tensors) for item in value)
    if type(value) is dict:
        return {key: _as_tensors(item, tensors) for key, item in value.items()}
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return tensors[id(value)] if id(value) in tensors else tensor_of(value)
    return value

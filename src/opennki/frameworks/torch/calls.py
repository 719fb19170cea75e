"""A kernel call that becomes a node of a graph: traced for its shapes, its tensors handed to an operator.

Dynamo reads `graph_call` itself and takes what `_plan` returns for constants; torch.export without dynamo
runs both as plain Python.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from msgspec import Struct

import opennki.frameworks.torch.operators  # noqa: F401  # which registers them
from opennki.build.arguments import replace_leaves
from opennki.build.launch import options_in_force
from opennki.build.places import Caller, call_location
from opennki.build.tracing import bound_call
from opennki.build.values import flatten
from opennki.cache import CACHE
from opennki.diag import Location, fail
from opennki.diag.say import warn
from opennki.frameworks.torch.config import config_of, register_recipe
from opennki.frameworks.torch.internals import compiler_options, is_fake, passing, traced_place
from opennki.frameworks.torch.tensors import (
    TensorFacts,
    check_tensor,
    dtype_named,
    facts_of,
    nki_dtype,
)
from opennki.frontend.kernel import Kernel
from opennki.frontend.spec import Spec
from opennki.graph import KernelCall
from opennki.ir.program import is_whole
from opennki.ir.types import Output, Signature, Structure
from opennki.settings import (
    Setting,
    graph_degree,
    kernel_lnc_from_graph,
    simulator_requested,
    target_setting,
)
from opennki.targets import Target

__all__ = ["graph_call", "is_in_graph"]


class _Tensor(Spec, frozen=True):
    """A spec that knows which of the call's tensors it stands for."""

    position: int = -1


class _Leaf(Struct, frozen=True):
    """A tensor among the arguments, as `_describe` leaves it: what it is and its number."""

    facts: TensorFacts
    shape: tuple[int, ...]
    position: int


class _Recipe(Struct, frozen=True):
    """A call with its kernel: see `config.Recipe`. `order` has the number of the tensor of each input."""

    kernel: Kernel
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    order: tuple[int, ...]
    returns: Structure
    location: Location | None

    def trace(self, target: Setting[Target], graph: Setting[int]) -> KernelCall:
        """Trace the kernel again, for the target and under the degree of its graph."""
        by = Caller(place=self.location)
        bound, degree = bound_call(self.kernel, self.args, self.kwargs, target, graph=graph, by=by)
        return KernelCall(artifact=CACHE.trace(bound).artifact, degree=degree, location=self.location)

    def simulate(self, arrays: Sequence[Any]) -> list[Any]:
        """Simulate the kernel on the arrays of its signature and return its outputs, in order."""
        from opennki.frontend.simulate import simulate

        def array(_: str, value: Any) -> Any:
            return arrays[self.order.index(value.position)] if isinstance(value, _Tensor) else value

        args, kwargs = replace_leaves(self.kernel.function, self.args, self.kwargs, array)
        return flatten(self.returns, simulate(self.kernel)(*args, **kwargs))


def is_in_graph(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if a call is to become part of a graph: a graph is being made, or its tensors have no data."""
    return torch.compiler.is_compiling() or any(map(_has_fake, (*args, *kwargs.values())))


def _has_fake(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return type(value) is not torch.Tensor and is_fake(value)
    if type(value) is dict:
        return any(map(_has_fake, value.values()))
    return type(value) in (list, tuple) and any(map(_has_fake, value))


def graph_call(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what a kernel returns, as tensors of the graph that is being made."""
    tensors: list[torch.Tensor] = []
    values: list[Any] = []
    described = tuple([_describe(value, tensors, values) for value in args])
    names = tuple(kwargs)
    described += tuple([_describe(value, tensors, values) for value in kwargs.values()])
    config, order, written, fresh, outputs, returns = _plan(
        kernel.function, kernel.degree, described, names, *values
    )
    given = [tensors[position] for position in order]
    if len(written) == 0:
        made = list(torch.ops.opennki.call(config, given)) if len(fresh) > 0 else []
    else:
        device = given[0].device
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in fresh]
        others = [given[i] for i in range(len(given)) if i not in written]
        torch.ops.opennki.call_mut(config, [given[i] for i in written], made, others)
    return _nested(returns, [given[i] if is_input else made[i] for is_input, i in outputs])


def _describe(value: Any, tensors: list[torch.Tensor], values: list[Any]) -> tuple[Any, ...]:
    """Return a value as nested tuples of constants; what is no constant goes to `tensors` and `values`."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        shape = tuple([operator.index(size) for size in value.shape])  # a symbolic size becomes a number
        return ("tensor", facts_of(value), shape, len(tensors) - 1)
    if type(value) is list or type(value) is tuple:
        kind = "list" if type(value) is list else "tuple"
        return (kind, tuple([_describe(item, tensors, values) for item in value]))
    if type(value) is dict:
        items = tuple([_describe(item, tensors, values) for item in value.values()])
        return ("dict", tuple(value), items)
    values.append(value)
    return ("value", len(values) - 1)


def _nested(structure: tuple[Any, ...], outputs: list[Any]) -> Any:
    kind, index, keys, items = structure
    if kind == "none":
        return None
    if kind == "leaf":
        return outputs[index]
    found = [_nested(item, outputs) for item in items]
    if kind == "dict":
        return dict(zip(keys, found, strict=True))
    return tuple(found) if kind == "tuple" else found


# ------------------------------------------------------------------------------------- plain Python from here


def _traced_plan(
    function: Callable[..., Any],
    degree: Any,
    described: tuple[Any, ...],
    names: tuple[str, ...],
    *values: Any,
) -> tuple[Any, ...]:
    """Trace a kernel for the shapes of a call and return what its node needs, as constants.

    That is the config; which tensors, in the order of the signature; which of these are written; shape and
    dtype of each new output; and for each output whether it is an input, and which one of those.
    """
    place = traced_place()
    try:
        return _planned(Kernel(function, degree), described, names, values, place)
    except Exception as raised:
        if place is None:
            raise
        raise passing(raised) from None


_constant: Any = torch.compiler.assume_constant_result
_plan = _constant(_traced_plan)


def _planned(
    kernel: Kernel, described: tuple[Any, ...], names: tuple[str, ...], values: tuple[Any, ...], place: Any
) -> tuple[Any, ...]:
    at = place or call_location()
    items = [_restored(item, values) for item in described]
    count = len(items) - len(names)
    args, kwargs = items[:count], dict(zip(names, items[count:], strict=True))

    def spec(name: str, value: Any) -> Any:
        if not isinstance(value, _Leaf):
            return value
        check_tensor(kernel.name, name, value.facts, at)
        if 0 in value.shape:
            fail("ONKI212", at=at, says=f"argument `{name}` of kernel `{kernel.name}` has no elements")
        return _Tensor(str(nki_dtype(value.facts[0])), value.shape, value.position)

    specs, named = replace_leaves(kernel.function, args, kwargs, spec)
    target, graph = _graph_settings()
    by = Caller(place=at)
    bound, degree = bound_call(kernel, specs, named, target, graph=graph, by=by)
    traced = CACHE.trace(bound)
    artifact = traced.artifact
    if not simulator_requested():  # which says what it finds itself
        warn((*artifact.findings, *traced.remarks))
    call = KernelCall(artifact=artifact, degree=degree, location=at)

    signature = artifact.signature
    order = tuple(argument.array.position for argument in bound.arguments)
    recipe = _Recipe(kernel, specs, named, order, signature.returns, at)
    config = register_recipe(config_of(call), kernel.function, recipe)
    written = tuple(i for i, tensor in enumerate(signature.inputs) if tensor.is_written)
    kept = {i: output.alias for i, output in enumerate(signature.outputs) if is_input(output, signature)}
    new = [i for i in range(len(signature.outputs)) if i not in kept]
    fresh = tuple(_fresh(kernel.name, signature.outputs[i], at) for i in new)
    outputs = tuple(
        (True, kept[i]) if i in kept else (False, new.index(i)) for i in range(len(signature.outputs))
    )
    return config.text, order, written, fresh, outputs, _as_constants(signature.returns)


def _graph_settings() -> tuple[Setting[Target], Setting[int] | None]:
    """Return target and degree of the graph as far as they are known: our backend's options tell."""
    from opennki.frameworks.torch.backend import opennki as backend
    from opennki.frameworks.torch.backend import settings_of

    options = compiler_options(backend)
    if options is not None:
        chip, degree = settings_of(options)
        return chip, degree
    target = target_setting(options_in_force().target, spelled="--target ")
    return target, graph_degree(None, target) if kernel_lnc_from_graph() else None


def is_input(output: Output, signature: Signature) -> bool:
    """True if an output is the whole of an input, not a part or a permutation of it."""
    if output.alias < 0:
        return False
    source = signature.inputs[output.alias]
    return is_whole(output, source.shape, source.dtype)


def _fresh(kernel: str, output: Output, at: Any) -> tuple[tuple[int, ...], torch.dtype]:
    dtype = dtype_named(output.dtype)
    if dtype is None:
        fail(
            "ONKI611",
            at=at,
            kernel=kernel,
            argument=output.name,
            what=f"an output of {output.dtype}, which PyTorch lacks",
        )
    return output.shape, dtype


def _restored(item: tuple[Any, ...], values: tuple[Any, ...]) -> Any:
    kind, *rest = item
    match kind:
        case "tensor":
            facts, shape, position = rest
            return _Leaf(facts, shape, position)
        case "value":
            return values[rest[0]]
        case "dict":
            keys, items = rest
            return {key: _restored(one, values) for key, one in zip(keys, items, strict=True)}
        case _:
            found = [_restored(one, values) for one in rest[0]]
            return tuple(found) if kind == "tuple" else found


def _as_constants(structure: Structure) -> tuple[Any, ...]:
    items = tuple(_as_constants(item) for item in structure.items)
    return structure.kind, structure.index, structure.keys, items

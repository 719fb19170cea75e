"""Calls outside any graph: baked for LNC=1 and run at once, in the thread of the caller."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from msgspec import Struct

from opennki.build.executable import Executable
from opennki.build.launch import options_in_force
from opennki.build.pipeline import bake
from opennki.build.recall import call_key, compiled_before, recall, remember
from opennki.build.values import nest
from opennki.diag.say import warn
from opennki.frameworks.jax.private import ARRAY, is_staged
from opennki.frameworks.jax.running import run_simulated
from opennki.frameworks.jax.site import Site
from opennki.frontend.kernel import Kernel
from opennki.graph import Graph
from opennki.settings import eager_degree, simulator_requested, target_setting

__all__ = ["Call", "call_of", "run", "run_again"]


class Call(Struct, frozen=True):
    """A call on arrays alone, outside any graph, and what tells it from other calls of the kernel."""

    kernel: Kernel
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    key: Hashable


def call_of(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call | None:
    """Return a call that may be like an earlier one, None for one in a graph or with other arguments."""
    key = None if is_staged() else call_key(kernel, args, kwargs, options_in_force(), _tensor_key)
    return None if key is None else Call(kernel, args, kwargs, key)


def _tensor_key(value: Any) -> tuple[object, ...] | None:
    is_array = type(value) is ARRAY or type(value) is np.ndarray
    return (value.dtype, value.shape) if is_array and value.shape else None


def run_again(call: Call) -> tuple[bool, Any]:
    """Return what a call gives that is like an earlier one, and whether there was one."""
    known = recall(call.kernel, call.key, call.args, call.kwargs)
    if known is None:
        return False, None
    executable, tensors = known
    warn(executable.findings)
    return True, nest(executable.signature.returns, _outputs(executable, tensors))


def run(site: Site, tensors: Sequence[Any], call: Call | None = None) -> list[Any]:
    """Return the outputs of a call as JAX's arrays. Errors: NCC_ENKI003, and those of running."""
    if simulator_requested():
        return _placed(run_simulated(site, [np.asarray(tensor) for tensor in tensors]), tensors)
    return _outputs(_baked(site, call), tensors)


def _baked(site: Site, call: Call | None) -> Executable:
    """Return the executable for LNC=1."""
    target = target_setting(options_in_force().target, spelled="--target ")
    traced, degree = site.settled(eager_degree(), target)
    baked = compiled_before(traced, 1, target.value)
    if baked is None:
        graph = Graph(calls=(site.call(traced, degree, is_eager=True),))
        baked = bake(graph, eager_degree(), target, traced.artifact.findings)
    if call is not None:
        remember(call.kernel, call.key, traced, baked, site.bound.arguments, call.args, call.kwargs)
    warn((*baked.findings, *traced.remarks))
    return baked


def _outputs(executable: Executable, tensors: Sequence[Any]) -> list[Any]:
    baked = executable.calls[0]
    given_back = {output.alias for output in baked.signature.outputs}
    arrays = [
        np.array(tensor) if spec.is_written or number in given_back else np.asarray(tensor)
        for number, (tensor, spec) in enumerate(zip(tensors, baked.signature.inputs, strict=True))
    ]
    return _placed(baked.execute(arrays).outputs, tensors)


def _placed(outputs: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """Return NumPy arrays as JAX's, on the device that the call's own are bound to."""
    for tensor in tensors:
        if isinstance(tensor, jax.Array) and tensor.committed:
            return [jax.device_put(output, tensor.sharding) for output in outputs]
    return list(_arrays(*outputs))


@jax.jit
def _arrays(*arrays: np.ndarray[Any, Any]) -> Any:
    """Return NumPy arrays as JAX's: a jitted identity takes a third of the time of `jnp.asarray`."""
    return arrays

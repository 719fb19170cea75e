"""What the operators do: run the baked call that a node names, or bake a graph of this one call."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import torch

from opennki.build.executable import BakedCall
from opennki.build.launch import options_in_force
from opennki.build.pipeline import bake
from opennki.diag.say import warn
from opennki.frameworks.torch.config import artifact_of, kernel_call, parse_config, recipe_of
from opennki.frameworks.torch.tensors import array_of, dtype_named, tensor_of
from opennki.graph import Graph
from opennki.ir.types import Output, Signature
from opennki.settings import Setting, direct_call_degree, simulator_requested, target_setting
from opennki.targets import TARGETS

__all__ = ["BAKED", "Bound", "bind", "fake_call", "run_call", "run_call_mut"]

_PREFIX = "baked:"


class Bound:
    """A baked call under a name that a node of a graph can hold. State: the baked call's own."""

    def __init__(self, baked: BakedCall, name: str) -> None:
        self.baked = baked
        self.name = name
        self.fresh = _fresh(baked.signature)

    def call(self, config: str, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run the call in the place of `opennki::call`."""
        arrays = [array_of(tensor) for tensor in args]
        outputs = self.baked.run(arrays).outputs
        return [tensor_of(outputs[i].copy() if is_part else outputs[i]) for i, is_part in self.fresh]


BAKED: WeakValueDictionary[str, Bound] = WeakValueDictionary()
"""The baked calls that compiled graphs hold, by the text in their nodes."""

_lock = Lock()
_counter = [0]


def bind(baked: BakedCall) -> Bound:
    """Return a baked call as nodes of a graph name it, for as long as the graph holds what is returned."""
    with _lock:
        _counter[0] += 1
        name = f"{_PREFIX}{_counter[0]}"
    found = Bound(baked, name)
    BAKED[name] = found
    return found


def _baked_of(config: str) -> BakedCall:
    """Return the baked call that a node names, or that of a graph of this one call, as a direct call is.

    The degree is then NEURON_CC_FLAGS, the environment, the kernel's own; all rules of baking hold.
    """
    bound = BAKED.get(config)
    if bound is not None:
        return bound.baked
    call = kernel_call(parse_config(config))
    own = call.degree or Setting(call.artifact.lnc, "its artifact", "artifact")
    target = target_setting(options_in_force().target, [call.artifact.target], spelled="--target ")
    graph = direct_call_degree(own, options_in_force().lnc)
    key = (config, graph.value, target.value.name)
    found = _ALONE.get(key)
    if found is None:
        executable = bake(Graph(calls=(call,)), graph, target)
        warn(executable.findings)
        found = _ALONE[key] = executable.calls[0]
    return found


_ALONE: dict[tuple[str, int, str], BakedCall] = {}


def _outputs(
    config: str, args: Sequence[torch.Tensor], written: Sequence[torch.Tensor]
) -> tuple[Signature, Sequence[Any]]:
    """Run a call and return its signature and all its outputs. With NKI_SIMULATOR=1 it is simulated."""
    is_simulated = config not in BAKED and simulator_requested()
    if is_simulated:
        parsed = parse_config(config)
        artifact, recipe = artifact_of(parsed), recipe_of(parsed)
        baked = BakedCall(artifact, artifact.lnc, TARGETS[artifact.target])
    else:
        baked, recipe = _baked_of(config), None
    changed, others = iter(written), iter(args)
    arrays = [array_of(next(changed if tensor.is_written else others)) for tensor in baked.signature.inputs]
    if recipe is not None:
        return baked.signature, recipe.simulate(arrays)
    run = baked.execute if is_simulated else baked.run
    return baked.signature, run(arrays).outputs


def _fresh(signature: Signature) -> list[tuple[int, bool]]:
    """Return the numbers of the outputs that are no input as a whole, and whether each is a part of one."""
    return [
        (i, output.alias >= 0)
        for i, output in enumerate(signature.outputs)
        if not _is_input(output, signature)
    ]


def _is_input(output: Output, signature: Signature) -> bool:
    from opennki.frameworks.torch.calls import is_input

    return is_input(output, signature)


def run_call(config: str, args: list[torch.Tensor]) -> list[torch.Tensor]:
    """Run a call that writes no input and return its outputs."""
    signature, outputs = _outputs(config, args, ())
    return [tensor_of(outputs[i].copy() if is_part else outputs[i]) for i, is_part in _fresh(signature)]


def run_call_mut(
    config: str, written: list[torch.Tensor], out: list[torch.Tensor], args: list[torch.Tensor]
) -> None:
    """Run a call that writes inputs; its new outputs go into `out`."""
    signature, outputs = _outputs(config, args, written)
    for destination, (i, _) in zip(out, _fresh(signature), strict=True):
        array_of(destination)[...] = outputs[i]
    torch.autograd.graph.increment_version([*written, *out])


def fake_call(config: str, args: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors of the outputs' shapes and dtypes."""
    bound = BAKED.get(config)
    signature = bound.baked.signature if bound else artifact_of(parse_config(config)).signature
    return [
        args[0].new_empty(output.shape, dtype=dtype_named(output.dtype))
        for output in signature.outputs
        if not _is_input(output, signature)
    ]

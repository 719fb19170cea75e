"""Kernel calls of FX graphs: counted, traced again for the graph's target, baked, bound to their nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from msgspec import Struct
from torch.fx import GraphModule, Node

from opennki.build.executable import Executable
from opennki.build.pipeline import bake
from opennki.diag import fail
from opennki.frameworks.torch.config import CallConfig, kernel_call, parse_config, recipe_of
from opennki.frameworks.torch.ops import Bound, bind
from opennki.graph import Graph, KernelCall
from opennki.settings import Setting, kernel_lnc_from_graph
from opennki.targets import TARGETS, Target, same_hardware

__all__ = ["CallNode", "bake_calls", "bind_calls", "calls_in", "for_graph", "rename_calls"]


class CallNode(Struct, frozen=True):
    """A node of a graph that calls a kernel. `config` is None in a graph that is bound already."""

    module: GraphModule
    node: Node
    text: str

    @property
    def config(self) -> CallConfig:
        """What the node says of its call."""
        return parse_config(self.text)

    def put(self, text: str) -> None:
        """Let the node name its call by another text."""
        if "config" in self.node.kwargs:
            self.node.update_kwarg("config", text)
        else:
            self.node.update_arg(0, text)


def calls_in(graph: GraphModule) -> list[CallNode]:
    """Return the kernel calls of a graph and of the graphs in it, in order, those that write inputs too."""
    return list(_calls(graph))


def _calls(graph: GraphModule) -> Iterator[CallNode]:
    for module in graph.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                text = _config_text(node)
                if text is not None:
                    yield CallNode(module, node, text)


def _config_text(node: Node) -> str | None:
    """Return the config of a node that calls a kernel, None for every other node."""
    if node.op != "call_function":
        return None
    ops = (torch.ops.opennki.call.default, torch.ops.opennki.call_mut.default)
    is_wrapped = bool(node.args) and node.args[0] is ops[1]  # by functionalization
    if node.target not in ops and not is_wrapped:
        return None
    text: Any = node.kwargs.get("config", None if is_wrapped else node.args[0] if node.args else None)
    return text if isinstance(text, str) else None


def bake_calls(calls: Sequence[CallNode], degree: Setting[int], target: Setting[Target]) -> Executable:
    """Return the executable of all calls, each traced for the graph's target. Errors: those of baking."""
    found = tuple(for_graph(call, degree, target) for call in calls)
    return bake(Graph(calls=found), degree, target)


def for_graph(call: CallNode, degree: Setting[int], target: Setting[Target]) -> KernelCall:
    """Return a call as the graph needs it: traced again where its target or its degree differ."""
    config = call.config
    found = kernel_call(config)
    recipe = recipe_of(config)
    traced = TARGETS.get(found.artifact.target)
    is_right = traced is not None and same_hardware(traced, target.value)
    if recipe is None or (is_right and not kernel_lnc_from_graph()):
        return found
    again = recipe.trace(target, degree)
    before, after = found.artifact.signature, again.artifact.signature
    if (before.inputs, before.outputs, before.returns) != (after.inputs, after.outputs, after.returns):
        says = (
            f"kernel `{found.name}` takes or gives other tensors on {target.value.name} than on "
            f"{found.artifact.target}, for which the graph was built"
        )
        fail("ONKI615", at=found.location, says=says)
    return again


def bind_calls(calls: Sequence[CallNode], executable: Executable) -> list[Bound]:
    """Let the nodes run the calls of the executable; the graph must hold what is returned."""
    bound = [bind(baked) for baked in executable.calls]
    for call, one in zip(calls, bound, strict=True):
        if call.node.target is torch.ops.opennki.call.default:
            call.node.target = one.call
        else:
            call.put(one.name)
    for module in {id(call.module): call.module for call in calls}.values():
        module.recompile()
    return bound


def rename_calls(calls: Sequence[CallNode], texts: Sequence[str]) -> None:
    """Let the nodes say other configs."""
    for call, text in zip(calls, texts, strict=True):
        call.put(text)
    for module in {id(call.module): call.module for call in calls}.values():
        module.recompile()

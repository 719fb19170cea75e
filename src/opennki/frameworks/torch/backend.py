"""`torch.compile(backend="opennki", options={"lnc": …, "target": …})`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from msgspec.structs import replace
from torch.fx import GraphModule

from opennki.diag import diagnostic, fail
from opennki.diag.say import warn
from opennki.frameworks.torch.baking import bake_calls, bind_calls, calls_in
from opennki.frameworks.torch.internals import compile_ahead, graph_break, passing
from opennki.frameworks.torch.kernel_ops import decompositions
from opennki.settings import Setting, check_degree, graph_degree, simulator_requested, target_setting
from opennki.targets import Target

__all__ = ["opennki", "settings_of"]

T = TypeVar("T")

_OPTIONS = ("lnc", "target")


def opennki(
    graph: GraphModule,
    inputs: list[torch.Tensor],
    *,
    options: Mapping[str, object] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Return a graph compiled for the degree `lnc` and the `target` of the options, else of the settings.

    The graph runs on the CPU as PyTorch's own operators, its kernels as baked for it. All kernels that do not
    fit are one report: NCC_ENKI003, NCC_EVRF066, NCC_EARG001, ONKI302. `mode` has no meaning here.
    """
    try:
        target, degree = settings_of(options or {})
        _say_break(graph)
        check_degree(degree, target)
        return compile_ahead(graph, inputs, lambda part: _compile(part, degree, target), decompositions())
    except Exception as raised:
        raise passing(raised) from None


def settings_of(options: Mapping[str, object]) -> tuple[Setting[Target], Setting[int]]:
    """Return target and degree of a graph. Errors: ONKI001, ONKI002, ONKI006, ONKI008."""
    unknown = sorted(str(name) for name in options if name not in _OPTIONS)
    if unknown:
        fail(
            "ONKI006",
            problem=f'torch.compile(backend="opennki") has no option `{unknown[0]}`',
            help=["give `lnc` and `target`, or neither"],
        )
    name = options.get("target")
    target = target_setting(None if name is None else str(name), spelled="options target=")
    degree = graph_degree(options.get("lnc"), target, spelled="options lnc=")
    return _spelled("target", f'"{name}"', '"{}"', target), _spelled("lnc", options.get("lnc"), "{}", degree)


def _spelled(name: str, given: object, value: str, setting: Setting[T]) -> Setting[T]:
    """Return a setting that comes from the options as a user writes them."""
    if setting.kind != "option":
        return setting
    origin = f'the option `options={{"{name}": {given}}}`'
    return replace(setting, origin=origin, change=f'give `options={{"{name}": {value}}}`')


def _say_break(graph: GraphModule) -> None:
    found = graph_break(graph)
    if found is not None:
        reason, place = found
        where = "an unknown line" if place is None else f"{place.file}:{place.line}"
        warn([diagnostic("ONKI613", at=place, where=where, reason=reason)])


def _compile(graph: GraphModule, degree: Setting[int], target: Setting[Target]) -> Callable[..., Any]:
    calls = calls_in(graph)
    if not calls or simulator_requested():  # the simulator makes no check of baking
        return graph.forward
    executable = bake_calls(calls, degree, target)
    warn(executable.findings)
    graph.meta["opennki"] = bind_calls(calls, executable)  # the graph keeps its calls
    return graph.forward

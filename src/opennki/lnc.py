"""The rules of baking: every kernel call must hold exactly as many programs as the graph has cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from opennki.diag import Diagnostic, Label, Location, diagnostic, fail
from opennki.settings import (
    COMPILER_FLAGS,
    DEGREE,
    Setting,
    check_degree,
    degree_diagnostic,
    runtime_degree,
    supported_degrees,
)
from opennki.targets import TARGETS, Target, same_hardware

__all__ = ["CallFacts", "check_calls", "check_runtime"]

_NAMED_KERNELS = 3


class CallFacts(Struct, frozen=True, kw_only=True):
    """What the rules need to know of one kernel call in a graph.

    `num_funcs` is counted from the artifact. `degree` is how the kernel got its degree, None where the
    artifact came from a file. `claimed` is what the call's config says, None for nothing. `lost` are
    sentences, per output, on what would be missing if only the first n programs were kept; a function of n
    computes them when they are needed. `eager`: the call is on the eager path of a framework.
    """

    kernel: str
    num_funcs: int
    target: str
    degree: Setting[int] | None = None
    claimed: int | None = None
    call_location: Location | None = None
    kernel_location: Location | None = None
    lost: Callable[[int], Sequence[str]] | tuple[str, ...] = ()
    eager: bool = False


def check_calls(calls: Sequence[CallFacts], graph: Setting[int], target: Setting[Target]) -> list[Diagnostic]:
    """Return one diagnostic for each call that cannot be baked, in the order of the calls.

    A degree that the target lacks is reported alone (NCC_EARG001). For each call the first that applies: its
    claim is not what the artifact holds (ONKI303), the artifact is for another target (ONKI302), it holds
    more programs than the graph's degree (NCC_ENKI003), or fewer (NCC_EVRF066).
    """
    unsupported = degree_diagnostic(graph, target)
    if unsupported is not None:
        return [unsupported]
    found = []
    for call in calls:
        if call.claimed is not None and call.claimed != call.num_funcs:
            found.append(_claim(call))
        elif not _serves(call.target, target.value):
            found.append(_other_target(call, graph, target))
        elif call.num_funcs > graph.value:
            found.append(_too_many(call, calls, graph, target))
        elif call.num_funcs < graph.value:
            found.append(_too_few(call, calls, graph, target))
    return found


def check_runtime(compiled: int, target: Target) -> Setting[int]:
    """Return the runtime's degree; it must be the one that the executable was compiled for.

    `target` is the executable's own. Errors: ONKI001 for a variable that is no degree, NCC_EARG001 for one
    that the target lacks, ONKI304 for another degree than `compiled`.
    """
    runtime = runtime_degree(compiled)
    own = "the executable, which was compiled for it"
    check_degree(runtime, Setting(target, own, "artifact", "trace and compile again for {}"))
    if runtime.value != compiled:
        fail(
            "ONKI304",
            compiled=compiled,
            runtime=runtime.value,
            notes=(
                f"the runtime's LNC={runtime.value} comes from {runtime.origin}",
                f"LNC={compiled} is what the executable was compiled for, on {target.name}",
            ),
            help=(
                f"run with LNC={compiled}: {runtime.edit(compiled)}",
                f"trace its kernels and compile for LNC={runtime.value}: `--lnc {runtime.value}`",
            ),
            data={"runtime_origin": runtime.origin, "runtime_kind": runtime.kind, "target": target.name},
        )
    return runtime


def _claim(call: CallFacts) -> Diagnostic:
    at, others = _places(call, f"claims {call.claimed} programs")
    return diagnostic(
        "ONKI303",
        at=at,
        others=others,
        kernel=call.kernel,
        claimed=call.claimed,
        held=call.num_funcs,
        notes=(f"programs are counted from the artifact: {_programs(call.num_funcs)}",),
    )


def _other_target(call: CallFacts, graph: Setting[int], target: Setting[Target]) -> Diagnostic:
    chip = target.value.name
    traced = TARGETS.get(call.target)
    helps = [f"trace the kernel for {chip}: `opennki trace … --target {chip}`"]
    if traced is not None and (graph.kind == "default" or graph.value in traced.lnc_allowed):
        is_typed = target.kind in ("option", "environment")
        edit = target.edit(call.target) if is_typed else f"`--target {call.target}`"
        helps.append(f"compile the graph for {call.target}: {edit}")
    at, others = _places(call, f"traced for {call.target}")
    return diagnostic(
        "ONKI302",
        at=at,
        others=others,
        kernel=call.kernel,
        traced=call.target,
        compiled=chip,
        notes=(
            f"the kernel's target {call.target} is the one that its artifact names",
            f"the graph's target {chip} comes from {target.origin}",
        ),
        help=helps,
        data={"target_origin": target.origin, "target_kind": target.kind},
    )


def _too_many(
    call: CallFacts, calls: Sequence[CallFacts], graph: Setting[int], target: Setting[Target]
) -> Diagnostic:
    lost = tuple(call.lost(graph.value) if callable(call.lost) else call.lost)
    at, others = _places(call, _degree_label(call))
    return diagnostic(
        "NCC_ENKI003",
        at=at,
        others=others,
        kernel=call.kernel,
        num_funcs=call.num_funcs,
        lnc_count=graph.value,
        notes=(
            *_origins(call, graph, target),
            *(f"what would be lost: {sentence}" for sentence in lost),
            "the compiler of SDK 2.33 reports this disagreement as NCC_EVRF066",
        ),
        help=_ways_out(call, calls, graph, target),
        data={**_counts(call, graph, target), "lost": list(lost), "related": ["NCC_EVRF066"]},
    )


def _too_few(
    call: CallFacts, calls: Sequence[CallFacts], graph: Setting[int], target: Setting[Target]
) -> Diagnostic:
    at, others = _places(call, _degree_label(call))
    return diagnostic(
        "NCC_EVRF066",
        at=at,
        others=others,
        kernel=call.kernel,
        kernel_lnc=call.num_funcs,
        compiler_lnc=graph.value,
        notes=_origins(call, graph, target),
        help=_ways_out(call, calls, graph, target),
        data={**_counts(call, graph, target), "related": []},
    )


def _serves(traced: str, target: Target) -> bool:
    known = TARGETS.get(traced)
    return known is not None and same_hardware(known, target)


def _places(call: CallFacts, text: str) -> tuple[Label | None, tuple[Label, ...]]:
    """Return the label of the call and, behind it, that of the kernel; the kernel's alone without a call."""
    defined = f"`{call.kernel}` is defined here"
    if call.kernel_location is None:
        return (None if call.call_location is None else Label(call.call_location, text)), ()
    if call.call_location is None:
        return Label(call.kernel_location, f"{defined}, {text}"), ()
    return Label(call.call_location, text), (Label(call.kernel_location, defined),)


def _programs(count: int) -> str:
    return f"{count} program" if count == 1 else f"{count} programs"


def _asked_for(call: CallFacts) -> Setting[int] | None:
    """Return how the kernel got its degree, if that explains what the artifact holds."""
    return call.degree if call.degree is not None and call.degree.value == call.num_funcs else None


def _degree_label(call: CallFacts) -> str:
    degree = _asked_for(call)
    if degree is None:
        return f"the artifact holds {_programs(call.num_funcs)}"
    if degree.kind == "bracket":
        return f"launched with a bracket, so LNC={degree.value}"
    if degree.kind == "option":
        return f"traced with {degree.origin}, so LNC={degree.value}"
    source = "default" if degree.kind == "default" else degree.origin
    return f"launched without brackets, so LNC={degree.value} ({source})"


def _origins(call: CallFacts, graph: Setting[int], target: Setting[Target]) -> tuple[str, ...]:
    """Return where both numbers come from, and the target's origin if one of them follows from it."""
    degree = _asked_for(call)
    if degree is not None:
        kernel = f"the kernel's LNC={call.num_funcs} comes from {degree.origin}"
    elif call.degree is not None:
        kernel = (
            f"the artifact holds {_programs(call.num_funcs)}, though {call.degree.origin} asks for "
            f"LNC={call.degree.value}"
        )
    else:
        kernel = f"the kernel's LNC={call.num_funcs} is the number of programs in its artifact"
    notes = [kernel, f"the graph's LNC={graph.value} comes from {graph.origin}"]
    if graph.kind == "default":
        notes.append(f"the target {target.value.name} comes from {target.origin}")
    chip = target.value
    if call.num_funcs not in chip.lnc_allowed:
        notes.append(
            f"the graph cannot follow the kernel: {chip.name} supports LNC={supported_degrees(chip)} "
            "(NCC_EARG001)"
        )
    return tuple(notes)


def _ways_out(
    call: CallFacts, calls: Sequence[CallFacts], graph: Setting[int], target: Setting[Target]
) -> tuple[str, ...]:
    """Return both ways out, less the one that the target or the eager path rules out."""
    ways = [f"trace the kernel for the graph's LNC={graph.value}: {_retrace(call, graph.value)}"]
    is_eager = call.eager or graph.kind == "eager"
    if not is_eager and call.num_funcs in target.value.lnc_allowed:
        way = f"{_recompile(graph, call.num_funcs)}{_followers(call, calls)}"
        ways.append(f"compile the graph for the kernel's LNC={call.num_funcs}: {way}")
    return tuple(ways)


def _followers(call: CallFacts, calls: Sequence[CallFacts]) -> str:
    """Say which other kernels would then disagree: one degree holds for the whole graph."""
    names = sorted({f"`{other.kernel}`" for other in calls if other.num_funcs != call.num_funcs})
    if not names:
        return ""
    more = len(names) - _NAMED_KERNELS
    listed = ", ".join(names[:_NAMED_KERNELS]) + (f" and {more} more" if more > 0 else "")
    return f"; then also trace {listed} for LNC={call.num_funcs}"


def _retrace(call: CallFacts, degree: int) -> str:
    """Say how the kernel gets `degree`: a bracket or an option wins over the environment, so it must go."""
    export = f"`export {DEGREE}={degree}`"
    asked = _asked_for(call)
    if asked is None:
        return f"`opennki trace … --lnc {degree}`, or {export} and call `{call.kernel}` without a bracket"
    if asked.kind == "bracket":
        return f"{asked.edit(degree)}, or drop the bracket and {export}"
    if asked.kind == "option":
        return f"{asked.edit(degree)}, or drop {asked.origin} and {export}"
    return f"launch `{call.kernel}[{degree}](…)`, or {export}"


def _recompile(graph: Setting[int], degree: int) -> str:
    """Say how the graph gets `degree`: an option wins over NEURON_CC_FLAGS, and that over the environment."""
    export = f"`export {DEGREE}={degree}`"
    if graph.kind == "option":
        return f"{graph.edit(degree)}, or drop {graph.origin} and {export}"
    if graph.kind == "flag":
        return f"{graph.edit(degree)}, or drop the flag from {COMPILER_FLAGS} and {export}"
    return f"`--lnc {degree}` (in Python `lnc={degree}`), or {export}"


def _counts(call: CallFacts, graph: Setting[int], target: Setting[Target]) -> dict[str, Any]:
    """Return both numbers and their origins for machines."""
    asked = _asked_for(call)
    data: dict[str, Any] = {
        "num_funcs": call.num_funcs,
        "lnc_count": graph.value,
        "kernel_origin": "the programs in the artifact" if asked is None else asked.origin,
        "kernel_kind": "artifact" if asked is None else asked.kind,
        "graph_origin": graph.origin,
        "graph_kind": graph.kind,
        "target": target.value.name,
        "target_origin": target.origin,
    }
    if asked is None and call.degree is not None:
        data["call_asks"] = call.degree.value
        data["call_asks_origin"] = call.degree.origin
    return data

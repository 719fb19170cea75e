"""The compilation pipeline: load, resolve the settings, apply the degree rules, look at coverage, bake."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from opennki.build.executable import Executable
from opennki.build.foreign import adapter, framework_of, framework_of_call
from opennki.build.places import Caller, python_call
from opennki.build.tracing import trace_call
from opennki.diag import Diagnostic, Severity, error, fail
from opennki.diag.say import warn
from opennki.frontend.kernel import Kernel
from opennki.graph import Graph, KernelCall, facts_of
from opennki.ir.types import KernelArtifact
from opennki.lnc import check_calls
from opennki.settings import Setting, check_degree, graph_degree, target_setting
from opennki.targets import Target

__all__ = ["bake", "compile", "compile_graph", "degree_findings", "framework_calls", "read_calls"]

_LATER = {
    ".hlo": "HLO",
    ".pb": "HLO",
    ".mlir": "StableHLO",
    ".stablehlo": "StableHLO",
}
_FILES = {".pt2": "torch"}
"""The adapter that reads a framework's files."""


def compile(
    graph: object,
    /,
    *examples: object,
    lnc: object | None = None,
    target: str | None = None,
    **values: object,
) -> Executable:
    """Return the executable of `graph`, compiled for the degree `lnc` and the target.

    `graph` is an artifact, a sequence of artifacts (independent calls, run as `exe.calls[i](…)`), the path of
    a `.nka` file, or a kernel; a kernel is traced first, for the `examples` (arrays, specs, plain values) and
    keyword `values`, at its own degree. What is not given comes from the settings: `opennki doctor` shows
    them. An output with elements that no core writes is one warning a kernel.

    Errors: NCC_ENKI003 and NCC_EVRF066 for calls that hold another number of programs than the graph has
    cores, ONKI302 and ONKI303, all calls in one go; NCC_EARG001 for a degree that the target lacks; ONKI601
    and ONKI602 for what is no graph; those of tracing.
    """
    executable = compile_graph(graph, examples, values, lnc=lnc, target=target, by=python_call())
    warn(executable.findings)
    return executable


def compile_graph(
    graph: object,
    examples: Sequence[object],
    values: Mapping[str, object],
    *,
    lnc: object | None,
    target: str | None,
    by: Caller,
) -> Executable:
    """Return the executable, its findings kept and not said."""
    if isinstance(graph, str | Path) and Path(graph).suffix.lower() in _FILES:
        graph = adapter(_FILES[Path(graph).suffix.lower()]).read(Path(graph))
    framework = _framework(graph, examples, values)
    if framework is not None:
        chip = target_setting(target, spelled=by.target)
        degree = graph_degree(lnc, chip, spelled=by.lnc)
        check_degree(degree, chip, at=by.place)
        return adapter(framework).compile(graph, examples, values, degree, chip)
    calls = read_calls(graph)
    findings: Iterable[Diagnostic] = ()
    if calls is None:
        chip = target_setting(target, spelled=by.target)
        degree = graph_degree(lnc, chip, spelled=by.lnc)
        check_degree(degree, chip, at=by.place)
        call = trace_call(graph, examples, values, chip, graph=degree, by=by)
        calls, findings = (call,), call.artifact.findings
    elif examples or values:
        fail("ONKI006", problem="examples are given beside a graph that needs none", help=["leave them out"])
    else:
        chip = target_setting(target, [call.artifact.target for call in calls], spelled=by.target)
        degree = graph_degree(lnc, chip, spelled=by.lnc)
    return bake(Graph(calls=calls), degree, chip, findings)


def bake(
    graph: Graph, degree: Setting[int], target: Setting[Target], findings: Iterable[Diagnostic] = ()
) -> Executable:
    """Return the executable in which core i's program runs on physical core i; all errors in one go.

    `findings` are those of tracing, where that happened for this graph; those of baking follow them.
    """
    found = degree_findings(graph, degree, target)
    if found:
        raise error(*found)
    said = [*findings, *(finding for call in graph.calls for finding in _unwritten(call.artifact))]
    return Executable([call.artifact for call in graph.calls], degree.value, target.value, said)


def degree_findings(graph: Graph, degree: Setting[int], target: Setting[Target]) -> list[Diagnostic]:
    """Return one diagnostic for each call that cannot be baked."""
    return check_calls([facts_of(call, _lost(call.artifact)) for call in graph.calls], degree, target)


def _lost(artifact: KernelArtifact) -> Callable[[int], Sequence[str]]:
    from opennki.analyse.coverage import lost

    return partial(lost, artifact)


def _unwritten(artifact: KernelArtifact) -> Iterable[Diagnostic]:
    """Yield the elements that no core writes as one warning for the kernel."""
    from opennki.analyse.coverage import findings

    found = findings(artifact)
    if found:
        more = [f"also: {other.message}" for other in found[1:]]
        yield replace(found[0], severity=Severity.warning, notes=(*found[0].notes, *more))


# --------------------------------------------------------------------------------------------- the graph


def read_calls(graph: object) -> tuple[KernelCall, ...] | None:
    """Return the kernel calls of a graph that is artifacts only, None for something to be traced.

    Errors: ONKI601, ONKI602, those of loading an artifact.
    """
    if isinstance(graph, KernelArtifact):
        return (KernelCall(artifact=graph),)
    if isinstance(graph, str | Path):
        return (KernelCall(artifact=_read(Path(graph))),)
    if isinstance(graph, list | tuple):
        return tuple(_each(i, item) for i, item in enumerate(graph)) or _no_calls()
    if isinstance(graph, Kernel) or callable(graph):
        return None
    fail("ONKI602", graph=type(graph).__name__, reason="it is no artifact, path, kernel or function")


def framework_calls(
    graph: object, lnc: object | None, target: str | None, by: Caller
) -> tuple[tuple[KernelCall, ...], Setting[int], Setting[Target]] | None:
    """Return the kernel calls of a framework's file or exported program, with its degree and target.

    None for any other graph.
    """
    is_file = isinstance(graph, str | Path)
    name = _FILES.get(Path(graph).suffix.lower()) if isinstance(graph, str | Path) else framework_of(graph)
    if name not in _FILES.values() or name is None:
        return None
    chip = target_setting(target, spelled=by.target)
    degree = graph_degree(lnc, chip, spelled=by.lnc)
    found = adapter(name).read(Path(str(graph))) if is_file else graph
    calls = adapter(name).calls_of(found, degree, chip)
    return None if calls is None else (calls, degree, chip)


def _framework(graph: object, examples: Sequence[object], values: Mapping[str, object]) -> str | None:
    """Return the adapter's name of a framework's graph: by its type, or by the examples of a function."""
    if isinstance(graph, KernelArtifact | str | Path | list | tuple):
        return None
    if isinstance(graph, Kernel) or framework_of(graph) is None:
        name = getattr(graph, "__name__", type(graph).__name__)
        found = framework_of_call(name, (*examples, *values.values()))
        return None if isinstance(graph, Kernel) else found
    return framework_of(graph)


def _each(position: int, item: object) -> KernelCall:
    if isinstance(item, KernelArtifact):
        return KernelCall(artifact=item)
    if isinstance(item, str | Path):
        return KernelCall(artifact=_read(Path(item)))
    fail("ONKI602", graph=type(item).__name__, reason=f"item {position} of the list is no artifact")


def _no_calls() -> tuple[KernelCall, ...]:
    fail("ONKI602", graph="[]", reason="the list has no artifacts")


def _read(path: Path) -> KernelArtifact:
    from opennki.artifact import load_artifact

    kind = _LATER.get(path.suffix.lower())
    if kind is not None:
        fail("ONKI601", graph=str(path), kind=kind)
    if path.suffix.lower() == ".nkx":
        fail(
            "ONKI602",
            graph=str(path),
            reason="it is an executable, compiled already",
            help=[f"run it: `opennki exec {path}`", "or compile the `.nka` that it was made of"],
        )
    return load_artifact(path)

"""Checking a kernel or a graph: a report of everything that is found, instead of an exception."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from opennki.build.kernel_errors import kernel_errors
from opennki.build.pipeline import degree_findings, framework_calls, read_calls
from opennki.build.places import Caller, python_call
from opennki.build.tracing import trace_call
from opennki.diag import Diagnostic, OpenNkiError, Severity, fail
from opennki.diag.render import render_json, render_text
from opennki.graph import Graph, KernelCall
from opennki.ir.types import KernelArtifact
from opennki.settings import Setting, graph_degree, target_setting
from opennki.targets import Target

__all__ = ["Report", "check", "report_on"]


class Report(Struct, frozen=True):
    """What a check found, errors and warnings, in the order of the stages."""

    findings: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """True if no finding is an error."""
        return not any(finding.severity is Severity.error for finding in self.findings)

    def to_json(self) -> str:
        """Return the report as one JSON object, `{"schema": 1, "findings": […]}`."""
        return render_json(self.findings)

    def __str__(self) -> str:
        return render_text(self.findings) if self.findings else "no findings"


def check(
    kernel_or_graph: object,
    /,
    *specs: object,
    lnc: object | None = None,
    target: str | None = None,
    **values: object,
) -> Report:
    """Return a report on a kernel or a graph; a user's mistake is a finding of it and is not raised.

    A kernel is traced for `specs` (arrays, specs, plain values) and keyword `values`; `lnc` is its degree
    then, and another one in its bracket is ONKI301. Of a graph (an artifact, a list of them, the path of a
    `.nka` file) `lnc` is the degree that it would be compiled for, and the rules of baking are checked.
    Every element of every output must be written by some core (ONKI401).
    """
    return report_on(kernel_or_graph, specs, values, lnc=lnc, target=target, by=python_call())


def report_on(
    kernel_or_graph: object,
    specs: Sequence[object],
    values: dict[str, object],
    *,
    lnc: object | None,
    target: str | None,
    by: Caller,
) -> Report:
    """Return what `check` returns."""
    name = getattr(kernel_or_graph, "name", None) or getattr(kernel_or_graph, "__name__", "kernel")
    try:
        with kernel_errors(str(name)):
            return Report(tuple(_found(kernel_or_graph, specs, values, lnc, target, by)))
    except OpenNkiError as problem:
        return Report(problem.diagnostics)


def _found(
    kernel_or_graph: object,
    specs: Sequence[object],
    values: dict[str, object],
    lnc: object | None,
    target: str | None,
    by: Caller,
) -> Iterable[Diagnostic]:
    framework = framework_calls(kernel_or_graph, lnc, target, by)
    if framework is not None:
        yield from _of_graph(*framework)
        return
    calls = read_calls(kernel_or_graph)
    if calls is None:
        chip = target_setting(target, spelled=by.target)
        call = trace_call(kernel_or_graph, specs, values, chip, option=lnc, by=by)
        yield from _of_artifact(call.artifact)
        return
    if specs or values:
        fail("ONKI006", problem="specs are given beside a graph that needs none", help=["leave them out"])
    chip = target_setting(target, [call.artifact.target for call in calls], spelled=by.target)
    yield from _of_graph(calls, graph_degree(lnc, chip, spelled=by.lnc), chip)


def _of_graph(
    calls: tuple[KernelCall, ...], degree: Setting[int], target: Setting[Target]
) -> Iterable[Diagnostic]:
    yield from degree_findings(Graph(calls=calls), degree, target)
    for call in calls:
        yield from _of_artifact(call.artifact)


def _of_artifact(artifact: KernelArtifact) -> Iterable[Diagnostic]:
    from opennki.analyse.coverage import findings, repeats

    yield from artifact.findings
    yield from findings(artifact)
    yield from repeats(artifact)

"""`opennki trace`, `compile` and `check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opennki.build.places import COMMAND_LINE
from opennki.cli.options import Arguments, AsJson, Degree, OutputFile, TargetName
from opennki.cli.output import Outcome, status_of

if TYPE_CHECKING:
    from opennki.frontend.kernel import Kernel
    from opennki.ir.types import KernelArtifact

__all__ = ["check", "compile", "trace"]

KernelReference = Annotated[
    str,
    typer.Argument(metavar="FILE.py:KERNEL", help="A kernel; a file with one needs no name."),
]


def trace(
    kernel: KernelReference,
    arg: Arguments = None,
    lnc: Degree = None,
    target: TargetName = None,
    output: OutputFile = None,
    json: AsJson = False,
) -> Outcome:
    """Trace a kernel once per core and write the artifact, NAME.nka."""
    from opennki.cli.kernels import load_kernel

    found = load_kernel(kernel)
    artifact = _traced(found, arg or [], lnc, target)
    path = artifact.save(output or Path(f"{found.name}.nka"))
    return Outcome(
        text=f"wrote {path}: {_described(artifact)}",
        fields={"artifact": str(path), **_fields(artifact)},
        findings=artifact.findings,
    )


def compile(
    graph: Annotated[
        str, typer.Argument(metavar="GRAPH", help="A .nka artifact, or FILE.py:KERNEL with --arg.")
    ],
    arg: Arguments = None,
    lnc: Degree = None,
    target: TargetName = None,
    output: OutputFile = None,
    json: AsJson = False,
) -> Outcome:
    """Compile a graph for an LNC degree and write the executable, NAME.nkx."""
    from opennki.build.kernel_errors import kernel_errors
    from opennki.build.pipeline import compile_graph

    if _is_python(graph):
        from opennki.cli.kernels import bind_arguments, load_kernel

        kernel = load_kernel(graph)
        args, kwargs = bind_arguments(kernel, arg or [])
        with kernel_errors(kernel.name):
            executable = compile_graph(kernel, args, kwargs, lnc=lnc, target=target, by=COMMAND_LINE)
        stem = kernel.name
    else:
        executable = compile_graph(graph, arg or (), {}, lnc=lnc, target=target, by=COMMAND_LINE)
        stem = Path(graph).stem
    path = executable.save(output or Path(f"{stem}.nkx"))
    names = [call.name for call in executable.calls]
    return Outcome(
        text=f"wrote {path}: {', '.join(names)}, LNC={executable.lnc}, {executable.target}",
        fields={"executable": str(path), "lnc": executable.lnc, "target": executable.target, "calls": names},
        findings=executable.findings,
    )


def check(
    subject: Annotated[
        str, typer.Argument(metavar="FILE.py:KERNEL|GRAPH", help="A kernel, or a .nka artifact.")
    ],
    arg: Arguments = None,
    lnc: Degree = None,
    target: TargetName = None,
    json: AsJson = False,
) -> Outcome:
    """Check a kernel or a graph: everything that is found, exit status 1 if any of it is an error."""
    from opennki.build.report import report_on

    if _is_python(subject):
        from opennki.cli.kernels import bind_arguments, load_kernel

        kernel = load_kernel(subject)
        args, kwargs = bind_arguments(kernel, arg or [])
        report = report_on(kernel, args, kwargs, lnc=lnc, target=target, by=COMMAND_LINE)
    else:
        report = report_on(subject, arg or [], {}, lnc=lnc, target=target, by=COMMAND_LINE)
    return Outcome(
        text="" if report.findings else "no findings",
        fields={"ok": report.ok},
        findings=report.findings,
        status=status_of(report.findings),
    )


def _is_python(reference: str) -> bool:
    name, colon, kernel = reference.rpartition(":")
    return (name if colon and kernel.isidentifier() else reference).endswith(".py")


def _traced(kernel: Kernel, texts: list[str], lnc: str | None, target: str | None) -> KernelArtifact:
    from opennki.build.kernel_errors import kernel_errors
    from opennki.build.tracing import trace_call
    from opennki.cli.kernels import bind_arguments
    from opennki.settings import target_setting

    args, kwargs = bind_arguments(kernel, texts)
    chip = target_setting(target, spelled=COMMAND_LINE.target)
    with kernel_errors(kernel.name):
        return trace_call(kernel, args, kwargs, chip, option=lnc, by=COMMAND_LINE).artifact


def _described(artifact: KernelArtifact) -> str:
    return f"{artifact.kernel}, LNC={artifact.lnc}, {artifact.target}"


def _fields(artifact: KernelArtifact) -> dict[str, object]:
    return {"kernel": artifact.kernel, "lnc": artifact.lnc, "target": artifact.target}

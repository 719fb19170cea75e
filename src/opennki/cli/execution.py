"""`opennki exec` and `opennki run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from opennki.cli.options import AsJson, Degree, TargetName
from opennki.cli.output import INTERRUPTED, REFUSED, Outcome, is_terminal, write
from opennki.diag import Diagnostic, OpenNkiError, fail
from opennki.diag.render import render_text

if TYPE_CHECKING:
    from traceback import TracebackException

    from opennki.build.executable import Executable, Runnable

__all__ = ["exec", "run"]


def exec(
    executable: Annotated[Path, typer.Argument(metavar="FILE.nkx", help="An executable.")],
    input: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="[NAME=]FILE.npy", help="An input, in order or by name. May repeat."),
    ] = None,
    output_dir: Annotated[
        Path, typer.Option("--output-dir", metavar="FOLDER", help="Where the outputs go, as <name>.npy.")
    ] = Path(),
    call: Annotated[
        str | None, typer.Option("--call", metavar="N", help="Which kernel call, if there are several.")
    ] = None,
    json: AsJson = False,
) -> Outcome:
    """Run an executable on .npy files and write its outputs.

    The dtype of a file must be the kernel's. NumPy stores bfloat16 and 8-bit floats as raw elements: these,
    and unsigned integers of the same width, are taken as bit patterns. Nothing is converted.
    """
    from opennki.build.container import load_executable
    from opennki.cli.arrays import read_inputs, save_outputs
    from opennki.lnc import check_runtime
    from opennki.targets import TARGETS

    loaded = load_executable(executable)
    runtime = check_runtime(loaded.lnc, TARGETS[loaded.target])
    chosen = _choose(loaded, call)
    arrays = read_inputs(input or [], chosen)
    result = chosen.run(arrays)
    saved = save_outputs(chosen, arrays, result, output_dir)
    lines = [f"runtime: LNC={runtime.value}, from {runtime.origin}"]
    lines += [f"wrote {one['file']}: {one['dtype']}{one['shape']}" for one in saved]
    return Outcome(
        text="\n".join(lines),
        fields={
            "runtime": {"lnc": runtime.value, "origin": runtime.origin},
            "outputs": saved,
        },
    )


def _choose(executable: Executable, wanted: str | None) -> Runnable:
    """Return the kernel call of that number or name; the only one if none is asked for."""
    calls = executable.calls
    listed = ", ".join(f"{i} is `{call.name}`" for i, call in enumerate(calls))
    if wanted is None:
        if executable.whole is not None:
            return executable.whole
        fail(
            "ONKI006",
            problem=f"the executable has {len(calls)} kernel calls",
            help=[f"give --call: {listed}"],
        )
    if wanted.isdecimal() and int(wanted) < len(calls):
        return calls[int(wanted)]
    named = [call for call in calls if call.name == wanted]
    if len(named) == 1:
        return named[0]
    fail(
        "ONKI006", problem=f"--call {wanted} names no single kernel call", help=[f"give its number: {listed}"]
    )


def run(
    context: typer.Context,
    script: Annotated[
        Path, typer.Argument(metavar="SCRIPT.py", help="A Python script; its arguments follow.")
    ],
    lnc: Degree = None,
    target: TargetName = None,
) -> int:
    """Run a script in which `import nki` gives OpenNKI's.

    --lnc is the degree of the graph that each direct call of a kernel is, --target its target. The exit
    status is the script's own.
    """
    from opennki.build.aliasing import install
    from opennki.build.launch import RunOptions, run_options

    if not script.is_file():
        fail("ONKI005", file=str(script), reason="it is a folder" if script.is_dir() else "no such file")
    install(force=True)
    with run_options(RunOptions(lnc, target)):
        return _run_script(script, context.args)


def _run_script(script: Path, arguments: list[str]) -> int:
    """Run the script as `python SCRIPT.py …` does, and return its status."""
    import runpy

    before = sys.argv, sys.path
    sys.argv = [str(script), *arguments]
    sys.path = [str(script.resolve().parent), *sys.path]
    try:
        runpy.run_path(str(script), run_name="__main__")
        return 0
    except SystemExit as leaving:
        return _status(leaving)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OpenNkiError as problem:
        sys.stdout.flush()
        write(sys.stderr, render_text(_with_call(problem), color=is_terminal(sys.stderr)))
        return REFUSED
    except Exception as raised:
        _say(raised)
        return REFUSED
    finally:
        sys.argv, sys.path = before


def _with_call(problem: OpenNkiError) -> tuple[Diagnostic, ...]:
    """Return the findings; the first one also says which line of the script led to it, if it does not yet."""
    from opennki.build.places import raised_at

    first, *others = problem.diagnostics
    place = raised_at(problem)
    shown = [*(label.location for label in first.labels), *first.callers]
    if place is not None and all((place.file, place.line) != (one.file, one.line) for one in shown):
        first = replace(first, callers=(*first.callers, place))
    return (first, *others)


def _status(leaving: SystemExit) -> int:
    """Return the status that `sys.exit(…)` asks for; a text is printed and gives 1."""
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    write(sys.stderr, str(leaving.code))
    return REFUSED


def _say(raised: Exception) -> None:
    """Print the traceback of the script's own exception without our frames; a bug of ours is passed on."""
    from traceback import TracebackException

    from opennki.build.places import is_ours

    if is_ours(raised):
        raise raised
    shown = TracebackException.from_exception(raised)
    _leave_users_frames(shown)
    sys.stdout.flush()
    write(sys.stderr, "".join(shown.format()).rstrip("\n"))


def _leave_users_frames(shown: TracebackException) -> None:
    from traceback import StackSummary

    from opennki.build.places import is_users

    shown.stack = StackSummary.from_list([frame for frame in shown.stack if is_users(frame.filename)])
    for other in (shown.__cause__, shown.__context__):
        if other is not None:
            _leave_users_frames(other)

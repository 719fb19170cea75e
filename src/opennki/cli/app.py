"""The application: its commands, and how errors become findings and exit statuses."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer

from opennki.cli import cache, compilation, execution, reference
from opennki.cli.output import BUG, REFUSED, USAGE, Outcome, failure, is_terminal, show, write
from opennki.diag import OpenNkiError, OpenNkiWarning, diagnostic

__all__ = ["app", "main"]

_WIDE = 10_000
"""Columns of a help page that nobody reads on a terminal: nothing is wrapped."""

app = typer.Typer(
    name="opennki",
    help="Trace, bake, check and run NKI kernels on any machine.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("trace")(compilation.trace)
app.command("compile")(compilation.compile)
app.command("check")(compilation.check)
app.command("exec")(execution.exec)
app.command(
    "run",
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    },
)(execution.run)
app.command("inspect")(reference.inspect)
app.command("explain")(reference.explain)
app.command("isa")(reference.isa)
app.command("doctor")(reference.doctor)
app.add_typer(cache.app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0: done. 1: findings, or refused. 2: wrong use. 70: a bug of ours. `run`: the script's own, 130 on Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        outcome = _outcome(given)
        return outcome if isinstance(outcome, int) else _print(outcome, as_json=_wants_json(given))
    except Exception as bug:
        return _report_bug(bug)


def _print(outcome: Outcome, *, as_json: bool) -> int:
    """Print the outcome and return its status, 1 where standard output takes no more."""
    try:
        show(outcome, as_json=as_json)
        sys.stdout.flush()
        return outcome.status
    except BrokenPipeError:  # the reader has what it wants
        _close_quietly()
    except OSError as problem:
        _close_quietly()
        reason = (problem.strerror or str(problem)).lower()
        refused = diagnostic("ONKI504", file="standard output", reason=reason, help=["free some space"])
        show(Outcome(findings=(refused,)), as_json=False)
    return REFUSED


def _outcome(given: list[str]) -> Outcome | int:
    """Run the command. A user's mistake becomes an outcome; a page of help and a script give a status."""
    try:
        returned = _invoke(given)
    except OpenNkiError as problem:
        return failure(problem)
    except typer.TyperException as problem:
        return _usage(problem)
    except typer.Abort:
        return REFUSED
    return returned if isinstance(returned, Outcome | int) else Outcome()


def _invoke(given: list[str]) -> Any:
    wide: dict[str, Any] = {} if is_terminal(sys.stdout) else {"terminal_width": _WIDE}
    with warnings.catch_warnings():
        if given[:1] != ["run"]:  # these print the findings themselves
            warnings.simplefilter("ignore", OpenNkiWarning)
        return app(given, prog_name="opennki", standalone_mode=False, **wide)


def _usage(problem: typer.TyperException) -> Outcome | int:
    """Return the outcome of wrong options; a bare `opennki` prints its help."""
    message = problem.format_message().strip()
    context = getattr(problem, "ctx", None)
    command = context.command_path if context is not None else "opennki"
    if message.startswith("Usage:"):
        write(sys.stderr, message)
        return USAGE
    headline = f"{message[:1].lower()}{message[1:]}".rstrip(".").replace("'", "`").replace("\n", " ")
    found = diagnostic("ONKI006", problem=f"`{command}`: {headline}", help=[f"see `{command} --help`"])
    return Outcome(findings=(found,), status=USAGE)


def _wants_json(given: list[str]) -> bool:
    own = given[: given.index("--")] if "--" in given else given
    return own[:1] != ["run"] and "--json" in own


def _report_bug(bug: Exception) -> int:
    """Say that it is our mistake, and keep the traceback in a file for the report."""
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(bug))
    with tempfile.NamedTemporaryFile(
        "w", prefix="opennki-bug-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(f"{' '.join(sys.argv)}\n\n{text}")
    first = str(bug).splitlines()[:1]
    write(sys.stderr, f"internal error: {type(bug).__name__}: {first[0] if first else 'no message'}")
    write(sys.stderr, f"  This is a bug in OpenNKI. Please report it with the file {file.name}")
    return BUG


def _close_quietly() -> None:
    """Keep Python from complaining, at exit, about a reader that has gone."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

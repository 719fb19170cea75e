"""`opennki inspect`, `explain`, `isa` and `doctor`: what there is to know, nothing is changed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from opennki.cli.options import AsJson
from opennki.cli.output import Outcome, is_terminal, table
from opennki.diag import fail

__all__ = ["doctor", "explain", "inspect", "isa"]


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .nka artifact or a .nkx executable.")],
    ir: Annotated[bool, typer.Option("--ir", help="Print the programs as text.")] = False,
    json: AsJson = False,
) -> Outcome:
    """Show what a file holds: kernel, target, degree, signature, instructions by engine, memory."""
    from opennki.build.executable import Executable
    from opennki.build.read import load_unchecked
    from opennki.cli.description import describe, text_of
    from opennki.ir.text import print_artifact
    from opennki.isa.table import ROW_FACTS

    loaded = load_unchecked(file)
    kind = "executable" if isinstance(loaded, Executable) else "artifact"
    artifacts = [call.artifact for call in loaded.calls] if isinstance(loaded, Executable) else [loaded]
    described = [describe(artifact) for artifact in artifacts]
    blocks = [text_of(one) for one in described]
    if ir:
        blocks += [print_artifact(artifact, ROW_FACTS, data=False).rstrip() for artifact in artifacts]
    return Outcome(
        text="\n\n".join([f"{file}: {kind}, LNC={loaded.lnc}, {loaded.target}", *blocks]),
        fields={
            "file": str(file),
            "kind": kind,
            "lnc": loaded.lnc,
            "target": loaded.target,
            "kernels": described,
            **({"ir": [print_artifact(one, ROW_FACTS, data=False) for one in artifacts]} if ir else {}),
        },
    )


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="A code; all are listed without.")
    ] = None,
    json: AsJson = False,
) -> Outcome:
    """Explain a code of a message, with a failing and a fixed program."""
    from opennki.diag.explain import codes_table, explain

    if code is None:
        rows = [(entry.code, entry.severity.value, entry.title) for entry in codes_table()]
        listed = [{"code": row[0], "severity": row[1], "title": row[2]} for row in rows]
        return Outcome(text=table(rows), fields={"codes": listed})
    page = explain(code)
    if not json and is_terminal(sys.stdout):
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(page))
        return Outcome()
    return Outcome(text=page.rstrip("\n"), fields={"page": page})


def isa(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="An instruction; all are listed without.")
    ] = None,
    json: AsJson = False,
) -> Outcome:
    """List the instructions, or show one: operands, engines, rules, targets, source."""
    from opennki.cli.description import describe_row, list_rows, row_text
    from opennki.isa.pending import PENDING
    from opennki.isa.table import BY_NAME

    if name is None:
        listed = list_rows()
        lines = [(row["name"], row["engines"], row["since"], row["summary"]) for row in listed]
        later = f"documented, not yet in OpenNKI: {', '.join(PENDING)}"
        return Outcome(text=f"{table(lines)}\n\n{later}", fields={"instructions": listed, "pending": PENDING})
    name = name.rpartition(".")[2]
    if name in PENDING:
        fail("ONKI102", name=f"nki.isa.{name}")
    row = BY_NAME.get(name)
    if row is None:
        from difflib import get_close_matches

        close = get_close_matches(name, [*BY_NAME, *PENDING], n=3)
        helps = [f"did you mean {' or '.join(f'`{other}`' for other in close)}?"] if close else []
        fail(
            "ONKI006",
            problem=f"there is no instruction `{name}`",
            help=[*helps, "list all with `opennki isa`"],
        )
    described = describe_row(row)
    return Outcome(text=row_text(described), fields={"instruction": described})


def doctor(json: AsJson = False) -> Outcome:
    """Show versions, the target and the degrees in force, and where each comes from."""
    from opennki.cli.description import versions
    from opennki.settings import describe_settings

    found = versions()
    rows = describe_settings()
    lines = [
        (row.name, row.value if row.value is not None else "-", row.problem or row.origin, row.effect)
        for row in rows
    ]
    settings = [
        {
            "name": row.name,
            "value": row.value,
            "origin": row.origin,
            "effect": row.effect,
            "problem": row.problem,
        }
        for row in rows
    ]
    return Outcome(
        text=f"{table(list(found.items()))}\n\n{table(lines)}",
        fields={"versions": found, "settings": settings},
        status=1 if any(row.problem for row in rows) else 0,
    )

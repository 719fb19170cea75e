"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Arguments", "AsJson", "Degree", "OutputFile", "TargetName"]

Degree = Annotated[
    str | None,
    typer.Option(
        "--lnc",
        "-lnc",
        "--logical-nc-config",
        metavar="N",
        help="The LNC degree: physical cores per logical core. The right-most one wins.",
    ),
]

TargetName = Annotated[
    str | None, typer.Option("--target", metavar="NAME", help="trn1, inf2, trn2, trn3, gen2, gen3 or gen4.")
]

Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=VALUE",
        help="An argument of the kernel: a tensor as `a=float32[512,64]`, or a Python literal as `eps=1e-6`. "
        "May repeat.",
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object to standard output.")]

OutputFile = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to write the result.")
]

"""The degree table of frameworks: its cells, what each has to give, and how its settings are put in force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from msgspec import Struct

__all__ = ["Cell", "cells", "expected", "put_in_force"]

ALLOWED = {"trn1": (1,), "trn2": (1, 2)}
EITHER = (None, 1, 2)


class Cell(Struct, frozen=True):
    """Degrees of the kernel's bracket, the environment, the flags and the graph's option; the target."""

    bracket: int | None
    env: int | None
    flag: int | None
    option: int | None
    target: str


def cells(*, options: bool) -> Iterator[Cell]:
    """Yield every cell; an option is the strongest, so beside one the flag is not varied to 2."""
    for bracket, env, flag, target in itertools.product(EITHER, EITHER, EITHER, ALLOWED):
        for option in EITHER if options and flag != 2 else (None,):
            yield Cell(bracket, env, flag, option, target)


def expected(cell: Cell, *, is_eager: bool) -> str:
    """Return the code that a cell is refused with, or `values`: design §3, written down a second time."""
    kernel = cell.bracket or cell.env or 1
    allowed = ALLOWED[cell.target]
    graph = 1 if is_eager else cell.option or cell.flag or cell.env or max(allowed)
    runtime = 1 if is_eager else cell.env or graph
    if kernel not in allowed or graph not in allowed:
        return "NCC_EARG001"
    if kernel != graph:
        return "NCC_ENKI003" if kernel > graph else "NCC_EVRF066"
    if runtime not in allowed:
        return "NCC_EARG001"
    return "values" if runtime == graph else "ONKI304"


def put_in_force(cell: Cell, patch: pytest.MonkeyPatch) -> None:
    """Set the variables of a cell."""
    for name, value in (
        ("NEURON_LOGICAL_NC_CONFIG", cell.env),
        ("NEURON_CC_FLAGS", None if cell.flag is None else f"-O1 --lnc={cell.flag}"),
        ("NEURON_PLATFORM_TARGET_OVERRIDE", cell.target),
    ):
        patch.delenv(name, raising=False)
        if value is not None:
            patch.setenv(name, str(value))

"""What the tests of tracing share: traces that are verified, refusals, places, small tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import opennki
from opennki import KernelArtifact
from opennki.diag import Diagnostic, OpenNkiError
from opennki.ir.program import instructions
from opennki.ir.types import Instruction, View
from opennki.ir.verify import verify
from opennki.isa.table import ROW_FACTS

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


def trace(kernel: Any, *specs: object, lnc: int = 1, **values: object) -> KernelArtifact:
    """Trace for trn2 and check every invariant of the result."""
    artifact = opennki.trace(kernel, *specs, lnc=lnc, target="trn2", **values)
    assert verify(artifact, ROW_FACTS) == []
    return artifact


def refused(kernel: Any, *specs: object, lnc: int | None = None, **values: object) -> tuple[Diagnostic, ...]:
    """Return the diagnostics with which a trace ends."""
    with pytest.raises(OpenNkiError) as caught:
        opennki.trace(kernel, *specs, lnc=lnc, target="trn2", **values)
    return caught.value.diagnostics


def line_of(function: Callable[..., Any], text: str) -> int:
    """Return the number of the one line of a function's source that holds `text`."""
    lines, first = inspect.getsourcelines(getattr(function, "function", function))
    (found,) = [first + i for i, line in enumerate(lines) if text in line]
    return found


def place(found: Diagnostic, label: int = 0) -> int:
    """Return the line that a label points at, in a test."""
    location = found.labels[label].location
    assert "test_trace" in location.file
    return location.line


def called(program: Any, name: str) -> list[Instruction]:
    """Return a program's instructions of one row."""
    return [i for i in instructions(program) if program.opcodes[i.opcode] == name]


def view(instruction: Instruction, role: int = 0) -> View:
    found = instruction.operands[role]
    assert isinstance(found, View)
    return found


def hbm(*shape: int, name: str = "") -> Any:
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm, name=name)


def sbuf(*shape: int, name: str = "") -> Any:
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf, name=name)


def halves(x: Any) -> Any:
    rows = x.shape[0] // nl.num_programs(0)
    start = nl.program_id(0) * rows
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[start : start + rows, :])
    nisa.dma_copy(dst=out[start : start + rows, :], src=tile)
    return out

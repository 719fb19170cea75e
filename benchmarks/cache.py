"""What the cache costs and saves: a hit in memory, one on disk, a process from its start to a result."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

import opennki
from benchmarks.kernels import OPERATIONS, nisa, nl, repeated
from benchmarks.measure import (
    REFERENCE,
    Figure,
    Result,
    cpu_seconds,
    figure,
    per_instruction,
    reference_loop,
    result,
    slowness,
    take_turns,
)
from opennki import compile, nki, trace
from opennki.cache import CACHE
from opennki.ir.types import KernelArtifact

__all__ = ["run"]

BUDGET_MEMORY_US = 50.0  # issue: a hit in memory
BUDGET_DISK_MS = 5.0  # issue: a hit on disk
CALLS = 200

_SCRIPT = """
import time
start = time.perf_counter()
from benchmarks.cache import first_result
first_result({repeats})
print(time.perf_counter() - start)
"""


def run(quick: bool) -> Result:
    """Measure in a cache folder of this benchmark's own."""
    rounds = 3 if quick else 15
    with TemporaryDirectory() as folder, patch.dict(os.environ, _environment(folder)):
        CACHE.forget()
        figures = [_in_memory(rounds), *_on_disk(rounds, quick)]
        for repeats in (10, 1_000 if quick else 10_000):
            figures += _processes(2 if quick else 9, repeats, folder)
    CACHE.forget()
    return result("The cache of traces", figures)


def first_result(repeats: int) -> object:
    """Call a kernel of that many instructions on one tile: what a process does that starts anew."""
    return repeated[1](np.ones((128, 1), np.float32), OPERATIONS["tensor_copy"], repeats)


def _in_memory(rounds: int) -> Figure:
    """A direct call less the run of the executable that it leads to, in turn."""
    x = np.ones((128, 1), np.float32)
    halve(x)
    executable = compile(halve, x, lnc=1, target="trn2")

    seconds = take_turns({"call": lambda: _often(halve, x), "run": lambda: _often(executable, x)}, rounds)
    over = [call - run for call, run in zip(seconds["call"], seconds["run"], strict=True)]
    return figure(
        "hit in memory",
        per_instruction(over, CALLS),
        "µs",
        "a direct call of a kernel of three instructions, less the run of its executable",
        slowness=slowness(seconds),
        budget=BUDGET_MEMORY_US,
    )


def _on_disk(rounds: int, quick: bool) -> list[Figure]:
    """A trace in a process that keeps nothing, its entry on disk; and the trace itself."""
    figures = []
    for repeats, budget in ((10, BUDGET_DISK_MS), (1_000 if quick else 10_000, None)):
        _artifact(repeats)
        hits, traces, loops = [], [], []
        for _ in range(rounds):
            loops.append(cpu_seconds(reference_loop))
            CACHE.forget()
            hits.append(1e3 * _seconds(_artifact, repeats))
            with patch.dict(os.environ, OPENNKI_CACHE_LIMIT="0"):
                traces.append(1e3 * _seconds(_artifact, repeats))
        says = f"`opennki.trace` of {repeats + 4} instructions"
        factors = slowness({REFERENCE: loops})
        figures += [
            figure(
                f"hit on disk, {repeats} instructions",
                hits,
                "ms",
                f"{says}, from disk",
                slowness=factors,
                budget=budget,
            ),
            figure(
                f"trace, {repeats} instructions",
                traces,
                "ms",
                f"{says}, the cache turned off",
                slowness=factors,
            ),
        ]
    return figures


def _processes(rounds: int, repeats: int, folder: str) -> list[Figure]:
    """Processes from start to result, in turn: one that has to trace, one that finds the trace."""
    script = _SCRIPT.format(repeats=repeats)
    _python(script, folder, "1GiB")
    times: dict[str, list[float]] = {"traced": [], "cached": []}
    loops: list[float] = []
    for _ in range(rounds):
        loops.append(cpu_seconds(reference_loop))
        times["traced"].append(1e3 * _python(script, folder, "0"))
        times["cached"].append(1e3 * _python(script, folder, "1GiB"))
    return [
        figure(
            f"start to first result, {name}, {repeats} instructions",
            values,
            "ms",
            "wall time of a process that calls a kernel on one tile once, imports included",
            slowness=slowness({REFERENCE: loops}),
        )
        for name, values in times.items()
    ]


def _artifact(repeats: int) -> KernelArtifact:
    operation = OPERATIONS["tensor_copy"]
    return trace(repeated, "float32[128,1]", lnc=1, target="trn2", operation=operation, repeats=repeats)


@nki.jit
def halve(x: Any) -> Any:
    """Halve a tile."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
    nisa.dma_copy(dst=out, src=tile)
    return out


def _often(function: Callable[[Any], object], argument: object) -> None:
    for _ in range(CALLS):
        function(argument)


def _seconds(function: Callable[[Any], object], argument: object) -> float:
    start = time.perf_counter()
    function(argument)
    return time.perf_counter() - start


def _environment(folder: str) -> dict[str, str]:
    return {"OPENNKI_CACHE_DIR": folder, "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2"}


def _python(script: str, folder: str, limit: str) -> float:
    """Run a fresh interpreter and return the wall time from its start to its end, in seconds."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("NEURON_", "NKI_"))}
    paths = [str(Path(opennki.__file__).parents[1]), str(Path(__file__).parents[1])]
    environment = {
        **kept,
        **_environment(folder),
        "OPENNKI_CACHE_LIMIT": limit,
        "PYTHONPATH": os.pathsep.join(paths),
    }
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    return time.perf_counter() - start

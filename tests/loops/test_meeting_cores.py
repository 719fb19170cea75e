"""Two cores that do not meet: both lines are named at once, and no run waits for ever.

Source: facts/constraints.csv KERNEL_LNC-03; OpenNKI design §7 (divergence), §8 (a wait is hopeless when every
core is finished or waiting and no two waits match).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opennki
from opennki.diag import OpenNkiError
from tests.loops.kernels_counted import bump, sbuf, shared

nki: Any = import_module("opennki.nki")
nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

X = np.arange(24, dtype=np.float32).reshape(2, 4, 3)


def started(x: Any) -> tuple[int, Any, Any, Any]:
    """Return the core, its half of `x` as a tile, a tile to receive, and the output."""
    core, tile, other = nl.program_id(0), sbuf(*x.shape[1:]), sbuf(*x.shape[1:])
    nisa.dma_copy(dst=tile, src=x[core])
    return core, tile, other, shared(*x.shape)


def peers_swapped(x: Any) -> Any:
    """Each core sends to itself what the other waits for."""
    core, tile, other, out = started(x)
    if core == 0:
        nisa.sendrecv(src=tile, dst=other, send_to_rank=1, recv_from_rank=1, pipe_id=0)  # line of core 0
    else:
        nisa.sendrecv(src=tile, dst=other, send_to_rank=1, recv_from_rank=1, pipe_id=0)  # line of core 1
    nisa.dma_copy(dst=out[core], src=other)
    return out


def peers_swapped_in_a_loop(x: Any) -> Any:
    """The same in the body of a loop."""
    core, tile, other, out = started(x)

    def body(i: Any) -> None:
        if core == 0:
            nisa.sendrecv(src=tile, dst=other, send_to_rank=1, recv_from_rank=1, pipe_id=0)  # line of core 0
        else:
            nisa.sendrecv(src=tile, dst=other, send_to_rank=1, recv_from_rank=1, pipe_id=0)  # line of core 1

    nl.fori_loop(0, 3, body)
    nisa.dma_copy(dst=out[core], src=other)
    return out


def pipes_differ(x: Any) -> Any:
    """Operations of different pipes do not wait for each other, so neither finds its peer."""
    core, tile, other, out = started(x)
    if core == 0:
        nisa.sendrecv(src=tile, dst=other, send_to_rank=1, recv_from_rank=1, pipe_id=3)  # line of core 0
    else:
        nisa.sendrecv(src=tile, dst=other, send_to_rank=0, recv_from_rank=0, pipe_id=4)  # line of core 1
    nisa.dma_copy(dst=out[core], src=other)
    return out


def barrier_against_exchange(x: Any) -> Any:
    """One core stands at a barrier, the other at an exchange."""
    core, tile, other, out = started(x)
    if core == 0:
        nisa.core_barrier(data=out, cores=(0, 1))  # line of core 0
    else:
        nisa.sendrecv(src=tile, dst=other, send_to_rank=0, recv_from_rank=0, pipe_id=4)  # line of core 1
    nisa.dma_copy(dst=out[core], src=tile)
    return out


TWO_LINES = (peers_swapped, peers_swapped_in_a_loop, pipes_differ, barrier_against_exchange)


def lines_of(kernel: Callable[..., Any]) -> set[int]:
    """Return the numbers of the kernel's marked lines."""
    code = kernel.__code__
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    first = code.co_firstlineno
    last = next(i for i in range(first, len(text)) if text[i].startswith("    return "))
    return {i + 1 for i in range(first, last) if "# line of core" in text[i]}


def named_lines(error: OpenNkiError) -> set[int]:
    """Return every line of this file that an error points at."""
    return {
        label.location.line
        for finding in error.diagnostics
        for label in finding.labels
        if label.location is not None and label.location.file.endswith("test_meeting_cores.py")
    }


@pytest.mark.parametrize("kernel", TWO_LINES)
def test_cores_that_do_not_match_are_both_named(kernel: Callable[..., Any]) -> None:
    with pytest.raises(OpenNkiError) as simulated:
        nki.simulate(nki.jit(kernel)[2])(X.copy())
    assert named_lines(simulated.value) >= lines_of(kernel)
    assert len(lines_of(kernel)) == 2
    with pytest.raises(OpenNkiError) as compiled:
        opennki.compile(opennki.trace(nki.jit(kernel), X, lnc=2, target="trn2"), lnc=2)(X.copy())
    assert named_lines(compiled.value) >= lines_of(kernel)


def missing_barrier(x: Any) -> Any:
    """Only core 0 reaches the barrier."""
    core, tile, _, out = started(x)
    if core == 0:
        nisa.core_barrier(data=out, cores=(0, 1))  # line of core 0
    nisa.dma_copy(dst=out[core], src=tile)
    return out


def missing_barrier_in_a_loop(x: Any) -> Any:
    """Both loops have a body, only that of core 1 a barrier."""
    core, tile, _, out = started(x)

    def body(i: Any) -> None:
        bump(tile)
        if core == 1:
            nisa.core_barrier(data=out, cores=(0, 1))  # line of core 1

    nl.fori_loop(0, 3, body)
    nisa.dma_copy(dst=out[core], src=tile)
    return out


def barrier_in_loops_that_differ(x: Any) -> Any:
    """The same barrier, but core 1 turns once more: its last one waits for ever."""
    core, tile, _, out = started(x)

    def body(i: Any) -> None:
        bump(tile)
        nisa.core_barrier(data=out, cores=(0, 1))  # line of core 1

    nl.fori_loop(0, 3 + core, body)
    nisa.dma_copy(dst=out[core], src=tile)
    return out


def missing_loop(x: Any) -> Any:
    """Only core 0 has a loop: "both programs must have the same block structure"."""
    core, tile, _, out = started(x)
    if core == 0:
        nl.fori_loop(0, 3, lambda i: bump(tile))  # line of core 0
    nisa.dma_copy(dst=out[core], src=tile)
    return out


@pytest.mark.parametrize("kernel", [missing_barrier, missing_barrier_in_a_loop, barrier_in_loops_that_differ])
def test_a_barrier_that_one_core_misses_is_an_error_of_both_runs(kernel: Callable[..., Any]) -> None:
    with pytest.raises(OpenNkiError) as simulated:
        nki.simulate(nki.jit(kernel)[2])(X.copy())
    assert named_lines(simulated.value) >= lines_of(kernel)
    with pytest.raises(OpenNkiError) as traced:
        opennki.trace(nki.jit(kernel), X, lnc=2, target="trn2")
    assert named_lines(traced.value) >= lines_of(kernel)


def test_a_loop_on_one_core_only_is_an_error_of_both_runs() -> None:
    with pytest.raises(OpenNkiError) as simulated:
        nki.simulate(nki.jit(missing_loop)[2])(X.copy())
    with pytest.raises(OpenNkiError) as traced:
        opennki.trace(nki.jit(missing_loop), X, lnc=2, target="trn2")
    for raised in (simulated, traced):
        assert named_lines(raised.value) >= lines_of(missing_loop)


def barrier_by_register(x: Any, bounds: Any) -> Any:
    """The trip counts are known at run time only: both trace, and meet as often as both turn."""
    core, tile, _, out = started(x)
    held, turns = sbuf(1, 2, dtype=nl.int32), nisa.register_alloc()
    nisa.dma_copy(dst=held, src=bounds)
    nisa.register_load(turns, held[0:1, core : core + 1])

    def body(i: Any) -> None:
        bump(tile)
        nisa.core_barrier(data=out, cores=(0, 1))  # line of core 1

    nl.fori_loop(0, turns, body)
    nisa.dma_copy(dst=out[core], src=tile)
    return out


@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")  # that the counts may differ is a finding
def test_trip_counts_of_registers_that_differ_are_found_in_the_run() -> None:
    kernel = nki.jit(barrier_by_register)
    same, differ = np.array([[2, 2]], np.int32), np.array([[2, 3]], np.int32)
    assert np.array_equal(nki.simulate(kernel[2])(X.copy(), same), X + 2)
    exe = opennki.compile(opennki.trace(kernel, X, same, lnc=2, target="trn2"), lnc=2)
    assert np.array_equal(exe(X.copy(), same), X + 2)
    for run in (nki.simulate(kernel[2]), exe):
        with pytest.raises(OpenNkiError) as raised:
            run(X.copy(), differ)
        assert raised.value.diagnostics[0].code == "ONKI701"
        assert named_lines(raised.value) >= lines_of(barrier_by_register)
    assert np.array_equal(exe(X.copy(), same), X + 2)  # and the executable is as good as before

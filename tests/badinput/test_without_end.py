"""Kernels without end: recursion, allocation while tracing and running; tensors beyond the machine."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.cli import main
from opennki.diag import Diagnostic, OpenNkiError
from opennki.execute import limits
from opennki.frontend import recorder

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

ONES = np.ones((128, 64), np.float32)


@pytest.fixture(autouse=True)
def trn2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    monkeypatch.chdir(tmp_path)


def first(caught: pytest.ExceptionInfo[OpenNkiError]) -> Diagnostic:
    return caught.value.diagnostics[0]


def line_of(kernel: Any, offset: int) -> int:
    line: int = kernel.function.__code__.co_firstlineno
    return line + offset


SOURCE = """import nki
import nki.isa as nisa
import nki.language as nl

def again(t, n):
    nisa.memset(dst=t, value=0.0)
    return again(t, n + 1)

@nki.jit
def endless(x):
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    return again(t, 0)
"""


@pytest.mark.parametrize("deeper", [0, 1, 2, 3, 5, 8, 13])
def test_recursion_without_end_names_the_users_line(
    deeper: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever the limit is met, in the kernel or in our own code: the line is the kernel's."""
    (tmp_path / "k.py").write_text(SOURCE)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + deeper)
    try:
        status = main(["trace", "k.py:endless", "--arg", "x=float32[128,64]", "-o", "x.nka"])
    finally:
        sys.setrecursionlimit(before)
    said = capsys.readouterr().err
    assert status == 1, said
    assert "error[ONKI110]: kernel `endless` raised RecursionError" in said
    assert "k.py:6:" in said or "k.py:7:" in said
    assert "Traceback" not in said
    assert not (tmp_path / "x.nka").exists()


def test_recursion_in_python_is_the_users_exception_with_a_note() -> None:
    def again(n: int) -> Any:
        return again(n + 1)

    @nki.jit
    def endless(x: Any) -> Any:
        return again(0)

    with pytest.raises(RecursionError) as caught:
        opennki.trace(endless, ONES)
    assert any("raised by kernel `endless`" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_trace_that_allocates_for_ever_ends(keeps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MAX_BUFFERS", 1_000)

    @nki.jit
    def hungry(x: Any) -> Any:
        kept = []
        while True:
            tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            kept.append(tile if keeps else None)

    with pytest.raises(OpenNkiError) as caught:
        opennki.trace(hungry, ONES)
    found = first(caught)
    assert (found.code, found.data["limit"]) == ("ONKI212", 1_000)
    assert found.location is not None
    assert found.location.line == line_of(hungry, 4)


def test_the_limit_of_tensors_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MAX_BUFFERS", 10)

    @nki.jit
    def many(x: Any, count: int) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for _ in range(count):
            tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out, src=tile)
        return out

    np.testing.assert_array_equal(opennki.compile(many, ONES, count=8, lnc=1)(ONES), ONES)
    with pytest.raises(OpenNkiError) as caught:
        opennki.compile(many, ONES, count=9, lnc=1)
    assert first(caught).code == "ONKI212"


TILE_BYTES = 128 * 512 * 4


def limited(monkeypatch: pytest.MonkeyPatch, tiles: int) -> None:
    monkeypatch.setattr(limits, "memory_limit", lambda: tiles * TILE_BYTES)


@pytest.mark.parametrize("lnc", [1, 2])
def test_a_simulation_that_keeps_all_it_allocates_ends(lnc: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 100)

    @nki.jit
    def hungry(x: Any) -> Any:
        kept = []
        while True:
            kept.append(nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf))

    with pytest.raises(OpenNkiError) as caught:
        nki.simulate(hungry[lnc])(ONES)
    found = first(caught)
    assert found.code == "ONKI705"
    assert found.location is not None
    assert found.location.line == line_of(hungry, 4)
    assert found.data["limit"] == 100 // lnc * TILE_BYTES
    assert found.data["bytes"] == TILE_BYTES
    assert 99 // lnc * TILE_BYTES - ONES.nbytes <= found.data["held"] <= 100 // lnc * TILE_BYTES


def test_a_simulation_that_lets_go_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 20)

    @nki.jit
    def thrifty(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for _ in range(500):
            tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile[:, 0:64], src=x)
        nisa.dma_copy(dst=out, src=tile[:, 0:64])
        return out

    np.testing.assert_array_equal(nki.simulate(thrifty)(ONES), ONES)
    np.testing.assert_array_equal(opennki.compile(thrifty, ONES, lnc=1)(ONES), ONES)


def test_an_executable_beyond_the_machine_is_refused_before_it_runs() -> None:
    @nki.jit
    def spills(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        spill = nl.ndarray((1 << 20, 1 << 22), dtype=nl.float32, buffer=nl.hbm)
        nisa.dma_copy(dst=spill[0:128, 0:64], src=x)
        nisa.dma_copy(dst=out, src=spill[0:128, 0:64])
        return out

    executable = opennki.compile(spills, ONES, lnc=1)
    with pytest.raises(OpenNkiError) as caught:
        executable(ONES)
    found = first(caught)
    assert (found.code, found.data["tensor"], found.data["bytes"]) == ("ONKI705", "spill", 1 << 44)
    assert found.location is not None
    assert found.location.line == line_of(spills, 3)


def test_an_output_beyond_the_machine_is_refused() -> None:
    @nki.jit
    def vast(x: Any) -> Any:
        out = nl.ndarray((1 << 20, 1 << 22), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[0:128, 0:64], src=x)
        return out

    with pytest.raises(OpenNkiError) as caught:
        nki.simulate(vast)(ONES)
    assert first(caught).code == "ONKI705"
    with pytest.raises(OpenNkiError) as caught:
        opennki.compile(vast, ONES, lnc=1)(ONES)
    assert first(caught).code == "ONKI705"


def test_the_limit_is_part_of_this_machines_memory() -> None:
    assert 1 << 28 < limits.memory_limit() < 1 << 44


@pytest.mark.parametrize(
    ("dtype", "precise", "fits"),
    [
        ("float32", "1", 10),
        ("float32", "0", 10),
        ("bfloat16", "1", 20),
        ("bfloat16", "0", 10),
    ],
)
def test_tensors_count_by_the_bytes_that_they_are_kept_in(
    dtype: str, precise: str, fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, 10)
    monkeypatch.setenv("NKI_PRECISE_FP", precise)
    made: list[int] = []

    @nki.jit
    def hungry(x: Any) -> Any:
        kept = []
        while True:
            kept.append(nl.ndarray((128, 512), dtype=dtype, buffer=nl.sbuf))
            made.append(len(kept))

    with pytest.raises(OpenNkiError) as caught:
        nki.simulate(hungry)(np.ones((1, 1), np.float32))
    assert first(caught).code == "ONKI705"
    assert made[-1] == fits - 1, "the input is held too"

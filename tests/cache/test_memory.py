"""What a process keeps: the least recently used goes first, and what was made of it goes with it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import opennki
from opennki import KernelArtifact
from opennki.cache.files import Files, Kept
from opennki.cache.memory import Memory
from tests.unit.kernels import halve


def artifact(columns: int = 16) -> KernelArtifact:
    return opennki.trace(halve, f"float32[128,{columns}]", lnc=1)


def kept(columns: int = 16) -> Kept:
    return Kept(artifact(columns), Files({}))


SIZE = 600 * 3  # three instructions
BUFFERS = 3 * 128 * 16 * 4  # of one run: the input, the tile, the output


def test_what_was_used_least_recently_goes_first() -> None:
    memory = Memory(max_bytes=SIZE * 2)
    memory.keep("a", kept())
    memory.keep("b", kept())
    assert memory.trace("a") is not None
    memory.keep("c", kept())
    assert [memory.trace(key) is not None for key in "abc"] == [True, False, True]


def test_what_is_too_large_is_kept_alone() -> None:
    memory = Memory(max_bytes=1)
    memory.keep("a", kept())
    memory.keep("b", kept())
    assert [memory.trace(key) is not None for key in "ab"] == [False, True]


def test_an_executable_counts_with_its_buffers() -> None:
    memory = Memory(max_bytes=2 * SIZE + BUFFERS)
    memory.keep("a", kept())
    memory.keep("b", kept())
    made = object()
    memory.keep_made("a", (1, "trn2"), made)
    assert memory.made("a", (1, "trn2")) is made
    assert memory.made("a", (2, "trn2")) is None
    assert memory.trace("b") is not None
    memory.keep_made("b", (1, "trn2"), made)
    assert memory.trace("a") is None
    assert memory.made("a", (1, "trn2")) is None


def test_a_call_is_recalled_while_its_trace_is_kept() -> None:
    memory = Memory(max_bytes=SIZE)
    function = halve.function
    memory.digest(function)
    memory.keep("a", kept())
    memory.remember_call(function, ("call",), "a", "what")
    assert memory.recall(function, ("call",)) == "what"
    assert memory.recall(function, ("another",)) is None
    memory.keep("b", kept())
    assert memory.recall(function, ("call",)) is None


def test_a_function_is_not_kept_alive_for_ever() -> None:
    memory = Memory()

    def make(n: int) -> Any:
        def kernel(x: Any) -> Any:
            return n

        return kernel

    functions = [make(n) for n in range(600)]
    for function in functions:
        memory.digest(function)
    first = weakref.ref(functions[0])
    del functions, function
    gc.collect()
    assert first() is None


def test_clear() -> None:
    memory = Memory()
    memory.keep("a", kept())
    memory.clear()
    assert memory.trace("a") is None
    memory.keep("a", kept())
    assert memory.trace("a") is not None

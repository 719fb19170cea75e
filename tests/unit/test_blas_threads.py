"""While a program with products runs, BLAS has one thread; afterwards what it had before."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import opennki
from opennki import nki
from opennki.execute import machine
from opennki.execute.blas import one_blas_thread
from opennki.isa.define import Row

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

CONTROLLER = ThreadpoolController()


def blas_threads() -> int:
    (found,) = {library["num_threads"] for library in CONTROLLER.info() if library["user_api"] == "blas"}
    return int(found)


def set_blas_threads(count: int) -> None:
    for library in CONTROLLER.select(user_api="blas").lib_controllers:
        library.set_num_threads(count)
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear()


@pytest.fixture(autouse=True)
def two_threads() -> Any:
    """Give BLAS two threads, also on a machine with one processor, without keeping the say over it."""
    before = blas_threads()
    set_blas_threads(2)
    yield
    found = blas_threads()
    set_blas_threads(before)
    assert found == 2, "what held before is back"


@nki.jit
def product(x: Any, w: Any) -> Any:
    out = nl.ndarray((w.shape[1], x.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    weights = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.sbuf)
    sums = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=weights, src=w)
    nisa.nc_matmul(dst=sums, stationary=weights, moving=tile)
    nisa.tensor_copy(dst=tile, src=sums)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize("way", ["compiled", "simulated"])
def test_a_product_has_one_thread(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    bound = machine._bound_semantics

    def watched(call: Any, dtype: str | None) -> Any:
        function = bound(call, dtype)
        row: Row = call.row
        if row.name != "nc_matmul":
            return function

        def semantics(*args: Any, **kwargs: Any) -> Any:
            seen.append(blas_threads())
            return function(*args, **kwargs)

        return semantics

    monkeypatch.setattr(machine, "_bound_semantics", watched)
    x, w = np.ones((4, 4), np.float32), np.full((4, 4), 2.0, np.float32)
    if way == "compiled":
        found = opennki.compile(product, x, w, lnc=1, target="trn2")(x, w)
    else:
        found = nki.simulate(product)(x, w)
    np.testing.assert_array_equal(found, np.full((4, 4), 8.0))
    assert seen == [1]
    assert blas_threads() == 2


def test_runs_in_several_threads_leave_what_was() -> None:
    x, w = np.ones((4, 4), np.float32), np.full((4, 4), 2.0, np.float32)
    executables = [opennki.compile(product, x, w, lnc=1, target="trn2") for _ in range(4)]

    def many(executable: Any) -> None:
        for _ in range(20):
            executable(x, w)

    threads = [threading.Thread(target=many, args=(one,)) for one in executables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert blas_threads() == 2


def test_an_error_brings_the_threads_back() -> None:
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError
    assert blas_threads() == 2

"""Kernels that take a constant from a file: it is looked at in each call, its path is no part of the key."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.cache import CACHE
from opennki.cache.store import Store
from opennki.diag import OpenNkiError
from tests.unit.kernels import ramp

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@nki.jit
def weighted(x: Any) -> Any:
    """Return x * w, the weights from a file in the working folder."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    weights = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=weights, src=nl.shared_constant("w.npy"))
    nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.multiply)
    nisa.dma_copy(dst=out, src=tile)
    return out


def save(folder: Path, weight: float) -> None:
    folder.mkdir(exist_ok=True)
    np.save(folder / "w.npy", np.full((128, 16), weight, np.float32))


def test_a_changed_file_is_traced_again(
    tmp_path: Path, traces: list[str], monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    monkeypatch.chdir(tmp_path)
    x = ramp()
    for weight, count in ((2.0, 1), (3.0, 2), (2.0, 3)):
        save(tmp_path, weight)
        for _ in range(2):
            np.testing.assert_array_equal(weighted(x), x * weight)
        CACHE.forget()
        np.testing.assert_array_equal(weighted(x), x * weight)
        assert len(traces) == count
    assert len(store.entries()) == 1


def test_two_folders_share_an_entry_as_long_as_their_files_are_equal(
    tmp_path: Path, traces: list[str], monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, weight, count in ((here, 2.0, 1), (there, 2.0, 1), (there, 5.0, 2), (here, 2.0, 3)):
        save(folder, weight)
        monkeypatch.chdir(folder)
        CACHE.forget()
        np.testing.assert_array_equal(weighted(ramp()), ramp() * weight)
        assert len(traces) == count
    assert str(tmp_path).encode() not in store.entries()[0].path.read_bytes()


def test_a_file_that_is_gone_is_an_error_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path, 2.0)
    artifact = opennki.trace(weighted, ramp())
    assert artifact.findings == ()
    (tmp_path / "w.npy").unlink()
    with pytest.raises(OpenNkiError) as caught:
        weighted(ramp())
    assert caught.value.code == "ONKI005"

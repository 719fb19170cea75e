"""Many processes on one cache, and processes that are killed while they write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import opennki
from opennki.cache.store import LEFTOVER_AGE_S, Store

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked, so that they start at once"),
]


def children(mode: str, folder: Path, *numbers: int) -> dict[str, Any]:
    """Run `tests.cache.children` and return what it prints."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    run = subprocess.run(
        [sys.executable, "-m", "tests.cache.children", mode, str(folder), *map(str, numbers)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def names(store: Store, suffix: str) -> list[str]:
    return [path.name for path in store.folder.iterdir() if path.name.endswith(suffix)]


def test_64_processes_fill_and_read_one_cache(tmp_path: Path) -> None:
    found = children("fill", tmp_path / "many", 64, 8)
    assert (found["failed"], found["wrong"]) == (0, 0)
    assert found["traces"] == found["keys"], "each trace is made by one process, the others wait for it"
    store = Store(tmp_path / "many", 1 << 30)
    assert len(store.entries()) == found["keys"]
    assert names(store, ".tmp") == names(store, ".lock") == []


def test_300_kills_leave_no_half_entry(tmp_path: Path) -> None:
    assert children("kill", tmp_path / "killed", 300)["killed"] >= 300
    store = Store(tmp_path / "killed", 1 << 30)
    entries = store.entries()
    assert len(entries) > 50
    for entry in entries:
        store.parts_of(entry)
        artifact = opennki.load(entry.path)
        assert isinstance(artifact, opennki.KernelArtifact)
        assert artifact.kernel == "halve"
    past = time.time() - LEFTOVER_AGE_S - 10
    for path in store.folder.iterdir():
        os.utime(path, (past, past))
    store.open()
    assert names(store, ".tmp") == names(store, ".lock") == []
    assert len(store.entries()) == len(entries)

"""Advisory locks: one process at a time, and never longer than it lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opennki.cache.locks import acquire, release, remove_unused

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")

_HOLD = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(lock: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Let another process hold a lock while the body runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process


def test_a_free_lock_is_ours_and_leaves_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    descriptor = acquire(lock, tmp_path / "entry", 1.0)
    assert descriptor is not None
    assert lock.exists()
    release(descriptor, lock)
    assert not lock.exists()


def test_a_lock_that_is_held_is_waited_for_and_then_done_without(tmp_path: Path) -> None:
    with held(tmp_path / "lock"):
        assert acquire(tmp_path / "lock", tmp_path / "entry", 0.05) is None


def test_the_wait_ends_when_the_entry_is_there(tmp_path: Path) -> None:
    (tmp_path / "entry").touch()
    with held(tmp_path / "lock"):
        assert acquire(tmp_path / "lock", tmp_path / "entry", 3600.0) is None


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with held(lock) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert lock.exists()
        descriptor = acquire(lock, tmp_path / "entry", 60.0)
        assert descriptor is not None
        release(descriptor, lock)


def test_what_nobody_holds_is_removed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with held(lock):
        remove_unused(str(lock))
        assert lock.exists()
    remove_unused(str(lock))
    assert not lock.exists()


def test_without_a_folder_there_is_no_lock(tmp_path: Path) -> None:
    assert acquire(tmp_path / "nowhere" / "lock", tmp_path / "entry", 1.0) is None

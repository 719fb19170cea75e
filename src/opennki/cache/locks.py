"""Advisory locks between processes: files that one process at a time holds, and that die with it.

The system takes a lock away when its process ends, however it ends. Its owner removes the file; one that
a killed process left behind is nobody's and can be taken or removed.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["acquire", "release", "remove_unused"]

_POLL_S = (0.002, 0.05)


def acquire(lock: Path, unless: Path, wait_s: float) -> int | None:
    """Return the descriptor of a lock that is ours now; None if we do without.

    That is so when `unless` exists before it is free, when it is not free in time, and where there are no
    locks: then two processes may do the same work, no more than that.
    """
    pause, longest = _POLL_S
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError:
            return None
        held = _try_lock(descriptor)
        if held and _is_same_file(descriptor, lock):
            return descriptor
        os.close(descriptor)
        if held is None or (not held and os.path.exists(unless)):
            return None
        if not held:  # otherwise its owner has removed it just now
            time.sleep(pause)
            pause = min(pause * 1.5, longest)
    return None


def release(descriptor: int, lock: Path) -> None:
    """Let a lock go. Its file goes first: whoever opens it afterwards makes a new one."""
    with suppress(OSError):
        os.unlink(lock)
    os.close(descriptor)


def remove_unused(lock: str) -> None:
    """Remove a lock file that no process holds."""
    descriptor = os.open(lock, os.O_RDWR)
    try:
        if _try_lock(descriptor):
            os.unlink(lock)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool | None:
    """Return whether the lock is ours, None where there are no locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without them
        return None
    return True


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False

"""How much memory a run may take: a kernel that allocates for ever ends in an error and stops no machine."""

from __future__ import annotations

import os
from functools import lru_cache

from opennki.diag import Label, Location, fail

__all__ = ["check_memory", "memory_limit"]

_SHARE = 0.75  # of the machine's memory: the rest is the caller's, and the system's
_UNKNOWN = 16 << 30
_CONTROL_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@lru_cache(maxsize=1)
def memory_limit() -> int:
    """Return the bytes that the tensors of one run may have: three quarters of what this machine has."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        found = _UNKNOWN
    for path in _CONTROL_GROUPS:
        try:
            with open(path, encoding="ascii") as file:
                found = min(found, int(file.read()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return int(found * _SHARE)


def check_memory(
    held: int, more: int, *, tensor: str, at: Label | Location | None, core: int | None, cores: int
) -> None:
    """Refuse `more` bytes for a tensor where a core of a run holds `held` already. Errors: ONKI705."""
    limit = memory_limit() // cores
    if held + more > limit:
        fail("ONKI705", at=at, core=core, tensor=tensor or "tensor", bytes=more, held=held, limit=limit)

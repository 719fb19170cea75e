"""What this process keeps: digests of functions while they hold, artifacts, and what was made of them."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import prod
from threading import Lock
from typing import Any

from opennki.cache.closure import digest_function
from opennki.cache.digest import Digest, Undigestible
from opennki.cache.files import Kept
from opennki.ir.dtypes import DTYPES
from opennki.ir.types import Program

__all__ = ["Memory"]

MAX_FUNCTIONS = 512
MAX_BYTES = 512 << 20
_INSTRUCTION_BYTES = 600
"""About what an instruction's records take, its share of the tables included."""


class _Function:
    """A function's digest. State: the calls that were made with it, each with its key and what it led to."""

    __slots__ = ("calls", "digest", "function")

    def __init__(self, function: Callable[..., Any], digest: Digest | Undigestible) -> None:
        self.function = weakref.ref(function)
        self.digest = digest
        self.calls: dict[Hashable, tuple[str, object]] = {}


class _Trace:
    """What is kept, and what was made of it. State: `made` grows, and `bytes` with it."""

    __slots__ = ("bytes", "kept", "made")

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.made: dict[Hashable, object] = {}
        self.bytes = _INSTRUCTION_BYTES * sum(len(program.body) for program in kept.artifact.programs)


class Memory:
    """The cache of one process: what was used least recently goes first. State: all of it, under one lock."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._lock = Lock()
        self._functions: OrderedDict[int, _Function] = OrderedDict()
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._max_bytes = max_bytes
        self._bytes = 0

    def digest(self, function: Callable[..., Any]) -> Digest | Undigestible:
        """Return the digest of a function, made anew where something that it has read has changed."""
        known = self._known(function)
        if known is not None and known.digest.cells.hold():
            return known.digest
        digest = digest_function(function)
        with self._lock:
            self._functions[id(function)] = _Function(function, digest)
            while len(self._functions) > MAX_FUNCTIONS:
                self._functions.popitem(last=False)
        return digest

    def _known(self, function: Callable[..., Any]) -> _Function | None:
        known = self._functions.get(id(function))
        return known if known is not None and known.function() is function else None

    def trace(self, key: str) -> Kept | None:
        """Return what is kept of a key. Whether its files have changed is another matter."""
        with self._lock:
            trace = self._traces.get(key)
            if trace is None:
                return None
            self._traces.move_to_end(key)
            return trace.kept

    def keep(self, key: str, kept: Kept) -> None:
        """Keep the artifact of a key."""
        with self._lock:
            self._drop(key)
            trace = self._traces[key] = _Trace(kept)
            self._bytes += trace.bytes
            self._make_room()

    def keep_made(self, key: str, name: Hashable, made: object) -> None:
        """Keep what was made of a key's artifact: an executable, which takes the memory of its buffers."""
        with self._lock:
            trace = self._traces.get(key)
            if trace is not None and name not in trace.made:
                added = sum(map(_buffer_bytes, trace.kept.artifact.programs))
                trace.made[name] = made
                trace.bytes += added
                self._bytes += added
                self._make_room()

    def made(self, key: str, name: Hashable) -> object | None:
        """Return what was made of a key's artifact, None if it is no longer there."""
        with self._lock:
            trace = self._traces.get(key)
            if trace is None or name not in trace.made:
                return None
            self._traces.move_to_end(key)
            return trace.made[name]

    def remember_call(self, function: Callable[..., Any], call: Hashable, key: str, what: object) -> None:
        """Remember `what` a call led to, as long as the function's digest holds and the key is kept."""
        known = self._known(function)
        if known is not None:
            known.calls[call] = (key, what)
            while len(known.calls) > MAX_FUNCTIONS:
                known.calls.pop(next(iter(known.calls)), None)

    def recall(self, function: Callable[..., Any], call: Hashable) -> object | None:
        """Return what an equal call led to, None if there was none or something has changed."""
        known = self._known(function)
        found = known.calls.get(call) if known is not None else None
        if known is None or found is None or not known.digest.cells.hold():
            return None
        with self._lock:
            if found[0] not in self._traces:
                return None
            self._traces.move_to_end(found[0])
        return found[1]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._functions.clear()
            self._traces.clear()
            self._bytes = 0

    def _drop(self, key: str) -> None:
        trace = self._traces.pop(key, None)
        if trace is not None:
            self._bytes -= trace.bytes

    def _make_room(self) -> None:
        while self._bytes > self._max_bytes and len(self._traces) > 1:
            self._drop(next(iter(self._traces)))


def _buffer_bytes(program: Program) -> int:
    return sum(prod(buffer.shape) * DTYPES[buffer.dtype].bytes for buffer in program.buffers)

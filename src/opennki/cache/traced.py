"""Tracing through the cache: from memory, from disk, and only then by running the kernel's Python."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from msgspec import Struct

from opennki.cache.closure import digest_values
from opennki.cache.digest import Digest, Undigestible
from opennki.cache.files import Files, Kept
from opennki.cache.key import Key, key_of
from opennki.cache.memory import Memory
from opennki.cache.store import Damage, Store
from opennki.diag import Diagnostic, Label, diagnostic
from opennki.frontend.constant_pool import noted_files
from opennki.frontend.kernel import Kernel
from opennki.frontend.trace import Argument, trace_program
from opennki.ir.location import kernel_location
from opennki.ir.types import KernelArtifact
from opennki.settings import cache_folder, cache_limit
from opennki.targets import Target

__all__ = ["CACHE", "Bound", "Cache", "Traced"]


class Bound(Struct, frozen=True):
    """A kernel call that is ready to be traced: bound arguments, degree and target."""

    kernel: Kernel
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arguments: tuple[Argument, ...]
    degree: int
    target: Target

    def trace(self) -> KernelArtifact:
        """Run the kernel's Python and return the artifact."""
        return trace_program(self.kernel, self.args, self.kwargs, self.arguments, self.degree, self.target)


class Traced(Struct, frozen=True):
    """An artifact, its key in memory (None if it is not kept), and what is to be said about the cache.

    `has_files`: it depends on files too, which are looked at in each call.
    """

    artifact: KernelArtifact
    key: str | None = None
    remarks: tuple[Diagnostic, ...] = ()
    has_files: bool = False


class Cache:
    """The cache of this process. State: its memory, and the folders in use."""

    def __init__(self) -> None:
        self.memory = Memory()
        self._stores: dict[tuple[str, int], Store | None] = {}

    def forget(self) -> None:
        """Forget all that this process keeps, as a new process would; what is on disk stays."""
        self.memory.clear()
        self._stores.clear()

    def trace(self, bound: Bound) -> Traced:
        """Return the artifact of a call: a kept one where everything that it depends on is unchanged.

        Errors: those of tracing; ONKI008 for a limit that is no size. What goes wrong with the cache itself
        is a remark: ONKI506 (what cannot be kept), ONKI507 (a damaged entry), ONKI508 (the folder).
        """
        limit = cache_limit()
        if limit == 0:
            return Traced(bound.trace())
        key, digests = self.key(bound)
        if isinstance(key, Undigestible):
            return Traced(bound.trace(), None, (_uncached(bound.kernel, key.reason),))
        kept = self.memory.trace(key.digest)
        if kept is not None and kept.files.hold():
            return Traced(kept.artifact, key.digest, has_files=bool(kept.files))
        remarks: list[Diagnostic] = []
        store = self._open(limit, remarks)
        found = self._read(store, key, remarks)
        if found is None:
            with store.claim(key) if store is not None else nullcontext():
                found = self._read(store, key, remarks)
                if found is None:
                    return self._new(bound, key, digests, store, remarks)
        self.memory.keep(key.digest, found)
        return Traced(found.artifact, key.digest, tuple(remarks), bool(found.files))

    def key(self, bound: Bound) -> tuple[Key | Undigestible, tuple[Digest | Undigestible, ...]]:
        """Return the key of a call, or why it has none, and the digests that it is made of."""
        kernel = bound.kernel
        function = self.memory.digest(kernel.function)
        if isinstance(function, Undigestible):
            return function, (function,)
        values = digest_values(kernel.function, bound.args, bound.kwargs)
        if isinstance(values, Undigestible):
            return values, (function, values)
        names = tuple(bound.kwargs)
        key = key_of(kernel, function, values, bound.arguments, names, bound.degree, bound.target)
        return key, (function, values)

    def _new(
        self,
        bound: Bound,
        key: Key,
        digests: Sequence[Digest | Undigestible],
        store: Store | None,
        remarks: list[Diagnostic],
    ) -> Traced:
        """Trace, and keep the artifact unless the kernel itself has changed what it depends on."""
        with noted_files() as noted:
            artifact = bound.trace()
        changed = next((label for digest in digests if (label := digest.cells.changed())), None)
        if changed is not None:
            remarks.append(_uncached(bound.kernel, f"{changed} changes while it is traced"))
            return Traced(artifact, None, tuple(remarks))
        kept = Kept(artifact, Files(noted))
        self.memory.keep(key.digest, kept)
        if store is not None:
            try:
                store.write(key, kept)
            except OSError as problem:
                store.is_writable = False
                reason = f"nothing can be written there ({_reason(problem)})"
                remarks.append(diagnostic("ONKI508", folder=str(store.folder.parent), reason=reason))
        return Traced(artifact, key.digest, tuple(remarks), bool(noted))

    def _read(self, store: Store | None, key: Key, remarks: list[Diagnostic]) -> Kept | None:
        """Return what the disk has of a key, unless a file has changed since. A damaged entry is removed."""
        if store is None:
            return None
        try:
            found = store.read(key)
            return found if found is not None and found.files.hold() else None
        except Damage as damage:
            entry = store.path(key)
            store.remove(entry)
            data = {"entry": entry.name}
            remarks.append(diagnostic("ONKI507", kernel=key.kernel, reason=str(damage), data=data))
        except OSError as problem:
            self._give_up(store, problem, remarks)
        return None

    def _open(self, limit: int, remarks: list[Diagnostic]) -> Store | None:
        """Return the store of the folder in force, None where it cannot be used."""
        folder = cache_folder()
        name = (str(folder), limit)
        if name in self._stores:
            return self._stores[name]
        if folder is None:
            self._stores[name] = None
            remarks.append(diagnostic("ONKI508", folder="~", reason="this user has no home folder"))
            return None
        store = self._stores[name] = Store(folder, limit)
        try:
            store.open()
        except OSError as problem:
            self._give_up(store, problem, remarks)
        return self._stores[name]

    def _give_up(self, store: Store, problem: OSError, remarks: list[Diagnostic]) -> None:
        """Use a folder no more in this process, and say so once."""
        for name, known in self._stores.items():
            if known is store:
                self._stores[name] = None
                remarks.append(diagnostic("ONKI508", folder=name[0], reason=_reason(problem)))


def _reason(problem: OSError) -> str:
    return (problem.strerror or str(problem)).lower()


def _uncached(kernel: Kernel, reason: str) -> Diagnostic:
    where = Label(kernel_location(kernel.function), "traced at each call")
    return diagnostic("ONKI506", at=where, kernel=kernel.name, reason=reason)


CACHE = Cache()
"""The one of this process, as the modules that Python has loaded are the process's."""

"""The cache on disk: one `.nka` file a trace, found by its key.

Many processes use one folder without a master. An entry is written beside its place and renamed, so it is
whole or not there. Nothing is synced to the disk: after a crash of the machine a torn entry is found by its
digests, removed and traced again. A process that traces holds an advisory lock, which the system takes away
when the process dies, so that others wait for its entry instead of making the same one.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import MsgspecError, Struct, convert, to_builtins
from msgspec.structs import replace

from opennki.artifact import artifact_of, pack, unpack
from opennki.artifact.container import MAX_BYTES, MAX_MANIFEST_BYTES, Manifest
from opennki.cache import locks
from opennki.cache.digest import Part
from opennki.cache.files import Files, Kept
from opennki.cache.key import Key
from opennki.diag import Diagnostic, OpenNkiError
from opennki.diag.render_json import json_safe
from opennki.ir.codec import MalformedBytes, decode_artifact, encode_artifact
from opennki.ir.types import KernelArtifact

__all__ = ["Damage", "Entry", "Store", "file_name"]

_FOLDER = "traces"
_ENTRY = re.compile(r"([A-Za-z0-9_]{1,60})-([0-9a-f]{32})\.nka")
_TEMPORARY = re.compile(r"\.opennki\.\d+\.[0-9a-f]+\.tmp")
_LOCK = re.compile(r"\.[0-9a-f]{32}\.lock")
_SWEPT = ".swept"
_BINARY: int = getattr(os, "O_BINARY", 0)  # Windows

LEFTOVER_AGE_S = 3600.0
"""How old a temporary file is that nobody will finish."""

WAIT_S = 60.0
"""How long to wait for another process that traces the same kernel; then both do it."""

_KEPT = 0.9
"""The share of the limit that is kept when room is made."""

_TAG = b"""Signature: 8a477f597d28d172789f06886806bc55
# This folder holds traces of NKI kernels. `opennki cache clear` empties it.
"""


class Damage(Exception):
    """Internal signal: an entry is not what was written, and why."""


class Entry(Struct, frozen=True):
    """An entry of the cache. `used` is the time of its last use, in seconds since 1970."""

    path: Path
    kernel: str
    digest: str
    bytes: int
    used: float


class _Said(Struct, frozen=True):
    """What an entry's manifest says beside that of any artifact."""

    parts: dict[str, Part]
    findings: tuple[Diagnostic, ...] = ()
    files: dict[str, str] = {}


class Store:
    """A cache folder. State: the keys that this process traces, how much it wrote since it made room.

    `is_writable` is False once writing has failed; what is there can still be read.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = Path(os.path.abspath(folder), _FOLDER)
        self.limit = limit
        self.is_writable = True
        self._tracing: set[tuple[str, int]] = set()
        self._written = -1

    def open(self) -> None:
        """Make the folder where it is missing; leftovers are looked for once an hour. Raises OSError."""
        try:
            swept = os.stat(self.folder / _SWEPT).st_mtime
        except FileNotFoundError:
            swept = 0.0
            if not os.path.isdir(self.folder):
                os.makedirs(self.folder, mode=0o700, exist_ok=True)
                _write(self.folder / "CACHEDIR.TAG", _TAG)
        if abs(time.time() - swept) > LEFTOVER_AGE_S:
            with suppress(OSError):  # a folder that can only be read
                self.sweep()

    # Reading and writing --------------------------------------------------------------------------------

    def path(self, key: Key) -> Path:
        """Return where the entry of a key lies."""
        return self.folder / f"{file_name(key.kernel)}-{key.digest}.nka"

    def read(self, key: Key) -> Kept | None:
        """Return what is kept of a key, None if that is nothing. Raises `Damage`, and OSError."""
        path = self.path(key)
        try:
            data = _read(path)
        except FileNotFoundError:
            return None
        said, manifest, parts = _take_apart(data, path.name)
        if said.parts != key.parts:
            raise Damage("it was made for another key")
        artifact = self._artifact(data, parts, path.name)
        found = (artifact.kernel, artifact.target, artifact.lnc)
        said_names = tuple(manifest.get(name) for name in ("kernel", "target", "lnc"))
        if found != said_names or artifact.kernel != key.kernel:
            raise Damage("its manifest and its content disagree")
        with suppress(OSError):  # a folder that others own
            os.utime(path)
        return Kept(replace(artifact, findings=said.findings), Files(said.files))

    def _artifact(self, data: bytes, parts: dict[str, bytes], name: str) -> KernelArtifact:
        """Return the artifact. Where others can write, it passes the whole gate, as any file does."""
        try:
            return decode_artifact(parts) if _is_private(self.folder) else artifact_of(data, name)
        except MalformedBytes as problem:
            raise Damage(str(problem)) from None
        except OpenNkiError as problem:
            raise Damage(_reason(problem)) from None

    def write(self, key: Key, kept: Kept) -> None:
        """Write the artifact of a key, unless it alone is too large. Raises OSError."""
        if not self.is_writable:
            return
        artifact = kept.artifact
        findings = tuple(map(_plain, artifact.findings))
        said = to_builtins(_Said(key.parts, findings, dict(kept.files)), order="deterministic")
        manifest = {"kernel": artifact.kernel, "lnc": artifact.lnc, "target": artifact.target, "cache": said}
        if len(repr(said)) > MAX_MANIFEST_BYTES // 8:
            return
        data = pack("nka", manifest, encode_artifact(artifact))
        if len(data) > min(self.limit, MAX_BYTES):
            return
        os.makedirs(self.folder, mode=0o700, exist_ok=True)  # someone may have removed it
        _write(self.path(key), data)
        if self._written < 0 or self._written + len(data) > self.limit // 32:
            self.sweep()
            self._written = 0
        self._written += len(data)

    def remove(self, path: Path) -> None:
        """Remove an entry; it may be gone already."""
        with suppress(OSError):
            os.unlink(path)

    # Locks ----------------------------------------------------------------------------------------------

    @contextmanager
    def claim(self, key: Key) -> Iterator[None]:
        """Keep other processes from tracing the same kernel while the body does, as far as that can be.

        It waits while another one does; then the entry may be there. Without locks the body just runs.
        """
        mine = (key.digest, threading.get_ident())
        if mine in self._tracing or not self.is_writable:  # a kernel that traces itself would wait for itself
            yield
            return
        lock = self.folder / f".{key.digest}.lock"
        self._tracing.add(mine)
        descriptor = locks.acquire(lock, self.path(key), WAIT_S)
        try:
            yield
        finally:
            self._tracing.discard(mine)
            if descriptor is not None:
                locks.release(descriptor, lock)

    # Housekeeping ---------------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Return all entries, those used most recently first; none of a missing folder. Raises OSError."""
        found = []
        try:
            listing = list(os.scandir(self.folder))
        except FileNotFoundError:
            return []
        for item in listing:
            named = _ENTRY.fullmatch(item.name)
            if named is not None:
                with suppress(FileNotFoundError):
                    stat = item.stat()
                    found.append(Entry(Path(item.path), named[1], named[2], stat.st_size, stat.st_mtime))
        return sorted(found, key=lambda entry: -entry.used)

    def sweep(self) -> None:
        """Remove leftovers of processes that died, and the entries used least recently beyond the limit."""
        self._remove_leftovers(LEFTOVER_AGE_S)
        entries = self.entries()
        total = sum(entry.bytes for entry in entries)
        if total > self.limit:
            for entry in reversed(entries):
                if total <= self.limit * _KEPT:
                    break
                self.remove(entry.path)
                total -= entry.bytes
        _write(self.folder / _SWEPT, b"")

    def _remove_leftovers(self, older_than_s: float) -> None:
        now = time.time()
        for item in os.scandir(self.folder):
            with suppress(OSError):
                if _TEMPORARY.fullmatch(item.name) and now - item.stat().st_mtime >= older_than_s:
                    os.unlink(item.path)
                elif _LOCK.fullmatch(item.name) and now - item.stat().st_mtime >= older_than_s:
                    locks.remove_unused(item.path)

    def clear(self) -> tuple[int, int]:
        """Remove every entry and every leftover, nothing else; return how many and their bytes."""
        entries = self.entries()
        for entry in entries:
            self.remove(entry.path)
        if entries or os.path.isdir(self.folder):
            self._remove_leftovers(0.0)
        return len(entries), sum(entry.bytes for entry in entries)

    def parts_of(self, entry: Entry) -> tuple[dict[str, Part], Manifest]:
        """Return the parts of an entry's key, and its manifest. Raises `Damage`, and OSError."""
        said, manifest, _ = _take_apart(_read(entry.path), entry.path.name)
        return said.parts, manifest


def _take_apart(data: bytes, name: str) -> tuple[_Said, Manifest, dict[str, bytes]]:
    try:
        manifest, parts = unpack(data, "nka", name)
        return convert(manifest.get("cache"), _Said), manifest, parts
    except MsgspecError as problem:
        raise Damage(f"its manifest holds no key: {problem}") from None
    except OpenNkiError as problem:
        raise Damage(_reason(problem)) from None


def _reason(problem: OpenNkiError) -> str:
    found = problem.diagnostics[0]
    return str(found.data.get("reason") or found.message)


def _plain(finding: Diagnostic) -> Diagnostic:
    """Return a finding whose data JSON can carry."""
    return replace(finding, data={name: json_safe(value) for name, value in finding.data.items()})


def file_name(kernel: str) -> str:
    """Return how the file names of a kernel's entries begin."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", kernel)[:60] or "_"


def _read(path: Path) -> bytes:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            raise Damage(f"it has {size} bytes")
        return file.read(size)


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.parent / f".opennki.{os.getpid()}.{os.urandom(6).hex()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _is_private(folder: Path) -> bool:
    """True if nobody but this user can have written into the folder."""
    if not hasattr(os, "geteuid"):
        return True
    found = os.stat(folder)
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022

"""Files written whole or not at all, and read within a limit."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from opennki.artifact.container import MAX_BYTES, Manifest, pack, unpack
from opennki.diag import fail

__all__ = ["read_bounded", "read_container", "write_atomically", "write_container"]

_BINARY: int = getattr(os, "O_BINARY", 0)  # Windows


def write_container(path: str | Path, kind: str, manifest: Manifest, entries: Mapping[str, bytes]) -> Path:
    """Write a container of `kind` ("nka", "nkx") and return its path. Errors: ONKI504.

    A failure leaves no file, and an old one as it was.
    """
    total = sum(len(data) for data in entries.values())
    if total > MAX_BYTES:
        fail("ONKI504", file=str(path), reason=f"its entries have {total} bytes, more than {MAX_BYTES}")
    return write_atomically(path, pack(kind, manifest, entries))


def read_container(path: str | Path, kind: str) -> tuple[Manifest, dict[str, bytes]]:
    """Return manifest and entries of a container of `kind`.

    Errors: ONKI005, ONKI501 to ONKI503, NCC_EVRF065.
    """
    return unpack(read_bounded(path), kind, str(path))


def write_atomically(path: str | Path, data: bytes) -> Path:
    """Write `data` to a temporary file beside `path`, sync it, rename it. Errors: ONKI504.

    Whatever interrupts it, the temporary file is removed and an old file stays as it was. A symbolic link is
    written through.
    """
    temporary = ""
    try:
        target = os.path.realpath(path)
        if os.path.exists(target) and not os.path.isfile(target):
            fail("ONKI504", file=str(path), reason=_no_file(os.path.isdir(target)))
        folder = os.path.dirname(target)
        temporary = os.path.join(folder, f".opennki.{os.getpid()}.{os.urandom(6).hex()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as problem:  # Ctrl-C too leaves nothing behind
        with suppress(OSError):
            os.unlink(temporary)
        if not isinstance(problem, OSError | ValueError):
            raise
        fail("ONKI504", file=str(path), reason=_reason(problem))
    _sync_folder(folder)
    return Path(path)


def _sync_folder(folder: str) -> None:
    """Make the rename last. The file is in place already, and some systems cannot sync a folder."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_bounded(path: str | Path) -> bytes:
    """Return the bytes of a regular file of at most `MAX_BYTES`.

    Errors: ONKI005, ONKI502 beyond the limit.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError) as problem:  # ValueError: a null character
        fail("ONKI005", file=str(path), reason=_reason(problem))
    if not stat.S_ISREG(found.st_mode):
        fail("ONKI005", file=str(path), reason=_no_file(stat.S_ISDIR(found.st_mode)))
    if found.st_size > MAX_BYTES:
        fail("ONKI502", file=str(path), reason=f"it has {found.st_size} bytes, more than {MAX_BYTES}")
    try:
        with open(path, "rb") as file:
            return file.read(found.st_size)
    except OSError as problem:
        fail("ONKI005", file=str(path), reason=_reason(problem))


def _no_file(is_folder: bool) -> str:
    return "it is a folder" if is_folder else "it is no regular file"


def _reason(problem: OSError | ValueError) -> str:
    if isinstance(problem, FileNotFoundError):
        return "there is no such file or folder"
    if isinstance(problem, ValueError):  # Python's words for these change with its versions
        held = "what no file name can" if isinstance(problem, UnicodeError) else "a null character"
        return f"its name holds {held}"
    text = problem.strerror or str(problem)
    return text[:1].lower() + text[1:]

"""Files written whole or not at all, and read within a limit."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from opennki.artifact.container import MAX_BYTES, Manifest, pack, unpack
from opennki.diag import fail

__all__ = [
    "check_regular",
    "read_bounded",
    "read_container",
    "write_atomically",
    "write_container",
    "write_together",
]

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
    """Write a file whole or not at all, and return its path. Errors: ONKI504.

    Whatever interrupts it, the temporary file is removed and an old file stays as it was. A symbolic
    link is written through.
    """
    write_together([(path, lambda file: _write(file, data))])
    return Path(path)


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)


def write_together(files: Sequence[tuple[str | Path, Callable[[IO[bytes]], None]]]) -> None:
    """Write several files, all of them or none, each by what writes into an open file. Errors: ONKI504.

    All are written to temporary files and synced before the first one takes its name.
    """
    waiting: list[tuple[str, str]] = []
    path: str | Path = ""
    try:
        for path, write in files:
            target = os.path.realpath(path)
            if os.path.exists(target) and not os.path.isfile(target):
                fail("ONKI504", file=str(path), reason=_no_file(os.path.isdir(target)))
            folder = os.path.dirname(target)
            temporary = os.path.join(folder, f".opennki.{os.getpid()}.{os.urandom(6).hex()}.tmp")
            waiting.append((temporary, target))
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
            with os.fdopen(descriptor, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
        for temporary, target in waiting:
            os.replace(temporary, target)
    except BaseException as problem:  # Ctrl-C too leaves nothing behind
        for temporary, _ in waiting:
            with suppress(OSError):
                os.unlink(temporary)
        if not isinstance(problem, OSError | ValueError):
            raise
        fail("ONKI504", file=str(path), reason=_reason(problem))
    for folder in {os.path.dirname(target) for _, target in waiting}:
        _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Make the rename last. The file is in place already, and some systems cannot sync a folder."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_regular(path: str | Path) -> int:
    """Return the bytes of a regular file: opening a pipe would wait for ever. Errors: ONKI005."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as problem:  # ValueError: a null character
        fail("ONKI005", file=str(path), reason=_reason(problem))
    if not stat.S_ISREG(found.st_mode):
        fail("ONKI005", file=str(path), reason=_no_file(stat.S_ISDIR(found.st_mode)))
    return found.st_size


def read_bounded(path: str | Path) -> bytes:
    """Return the bytes of a regular file of at most `MAX_BYTES`.

    Errors: ONKI005, ONKI502 beyond the limit.
    """
    size = check_regular(path)
    if size > MAX_BYTES:
        fail("ONKI502", file=str(path), reason=f"it has {size} bytes, more than {MAX_BYTES}")
    try:
        with open(path, "rb") as file:
            return file.read(size)
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

"""The container of artifacts and executables: a zip of named entries and a manifest with their digests.

Packing is deterministic: equal content gives equal bytes, from any folder at any time (with one zlib).
Unpacking is a gate: whatever the bytes are, it ends in entries that match their digests or in a catalogued
error, and nothing is inflated before its declared size is known to be within the limits.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, NoReturn

from msgspec import MsgspecError, Struct, convert, json

from opennki.diag import InternalError, fail

if TYPE_CHECKING:
    from zipfile import ZipFile

__all__ = [
    "FORMATS",
    "MAX_BYTES",
    "MAX_ENTRIES",
    "Format",
    "Manifest",
    "pack",
    "toolchain",
    "unpack",
]

Manifest = Mapping[str, object]
"""What a container says of itself (`format`, `kind`, …), and what its writer says beside that."""

MAX_BYTES = 2 << 30
"""How large a file, and all its entries together, may be."""

MAX_ENTRIES = 10_000
MAX_MANIFEST_BYTES = 4 << 20
MAX_INFLATION = 400
"""How many times its own size a file may inflate to. What we write stays below: see `_STORE_BEYOND`."""

_STORE_BEYOND = 200
_SMALL_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
_MANIFEST = "manifest.json"
_OURS = ("container", "entries", "format", "kind", "toolchain")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_MAX_NAME = 200
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time that a zip can hold
_DEFLATE_LEVEL = 6
_END = struct.Struct("<4s4H2LH")
_CENTRAL_HEADER_BYTES = 46
_LOCATOR_BYTES = 20


class Format(Struct, frozen=True):
    """What a kind of container is called, and the formats that are written and still read."""

    kind: str
    described: str
    current: int
    oldest: int


FORMATS: dict[str, Format] = {
    "nka": Format("nka", "artifact", current=1, oldest=1),
    "nkx": Format("nkx", "executable", current=1, oldest=1),
}
"""The kinds of containers, by the suffix of their files."""


class _Entry(Struct, frozen=True):
    bytes: int
    sha256: str


class _Head(Struct, frozen=True):
    """The part of a manifest that every format has."""

    container: str
    kind: str
    format: int
    toolchain: str = ""


class _Body(Struct, frozen=True):
    entries: dict[str, _Entry]


def toolchain() -> str:
    """Return the name and version of this toolchain, as manifests hold it."""
    package = sys.modules["opennki"]  # loaded before any module of it, so this is no upward import
    return f"opennki {getattr(package, '__version__', 'unknown')}"


# Packing


def pack(kind: str, manifest: Manifest, entries: Mapping[str, bytes]) -> bytes:
    """Return the bytes of a container of `kind` with these entries.

    `manifest` is what the writer wants to say beside format, toolchain and digests; JSON values only.
    """
    bad = [name for name in entries if not _is_name(name) or name == _MANIFEST]
    bad += [key for key in manifest if key in _OURS]
    if bad or len(entries) >= MAX_ENTRIES:
        raise InternalError(f"a container cannot hold {bad or len(entries)}")
    said = {
        **manifest,
        "container": "opennki",
        "kind": kind,
        "format": FORMATS[kind].current,
        "toolchain": toolchain(),
        "entries": {n: {"bytes": len(data), "sha256": _sha256(data)} for n, data in entries.items()},
    }
    text = json.format(json.encode(said, order="deterministic"), indent=1) + b"\n"
    if len(text) > MAX_MANIFEST_BYTES:
        raise InternalError(f"a manifest of {len(text)} bytes")
    return _zip({**entries, _MANIFEST: text})


def _zip(entries: Mapping[str, bytes]) -> bytes:
    """Return a zip of the entries. Those that deflate beyond what readers take from a bomb are stored."""
    data, sizes = _zip_once(entries, stored=frozenset())
    stored = frozenset(
        name
        for name, size in sizes.items()
        if len(entries[name]) > _SMALL_BYTES and len(entries[name]) > _STORE_BEYOND * size
    )
    return _zip_once(entries, stored)[0] if stored else data


def _zip_once(entries: Mapping[str, bytes], stored: frozenset[str]) -> tuple[bytes, dict[str, int]]:
    from io import BytesIO
    from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

    file = BytesIO()
    sizes = {}
    with ZipFile(file, "w") as archive:
        for name in sorted(entries):
            info = ZipInfo(name, _EPOCH)
            info.create_system = 3  # Unix, wherever it is written
            info.external_attr = 0o644 << 16
            method = ZIP_STORED if name in stored else ZIP_DEFLATED
            archive.writestr(info, entries[name], method, _DEFLATE_LEVEL)
            sizes[name] = info.compress_size
    return file.getvalue(), sizes


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _is_name(name: str) -> bool:
    """True for relative paths with forward slashes whose parts do not start with a dot."""
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None


# Unpacking


class _Damage(Exception):
    """Internal signal: the bytes are no sound container, and why."""


def unpack(data: bytes, kind: str, file: str) -> tuple[Manifest, dict[str, bytes]]:
    """Return manifest and entries of a container of `kind`; `file` is its name for messages.

    Errors: ONKI501 another file, ONKI502 damaged, ONKI503 a newer format, NCC_EVRF065 one that is too old.
    """
    import zlib
    from zipfile import BadZipFile

    described = FORMATS[kind].described
    if not data.startswith(b"PK"):
        reason = "it is empty" if not data else "it is no zip container"
        fail("ONKI501", file=file, kind=described, reason=reason)
    try:
        return _unpack(data, kind, file)
    except _Damage as damage:
        reason = str(damage)
    except (BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, LookupError) as problem:
        reason = f"its zip structure is broken ({str(problem).rstrip('.') or type(problem).__name__})"
    except (ValueError, OverflowError, OSError, MemoryError) as problem:
        reason = f"its zip structure is broken ({type(problem).__name__})"
    fail("ONKI502", file=file, reason=reason)


def _unpack(data: bytes, kind: str, file: str) -> tuple[Manifest, dict[str, bytes]]:
    from io import BytesIO
    from zipfile import ZipFile

    _check_end(data)
    with ZipFile(BytesIO(data)) as archive:
        sizes = _checked_sizes(archive, len(data))
        if _MANIFEST not in sizes:
            fail("ONKI501", file=file, kind=FORMATS[kind].described, reason=f"it has no {_MANIFEST}")
        if sizes[_MANIFEST] > MAX_MANIFEST_BYTES:
            raise _Damage(f"its {_MANIFEST} has {sizes[_MANIFEST]} bytes")
        manifest = _manifest(_read(archive, _MANIFEST, sizes[_MANIFEST]), kind, file)
        wanted = _entries(manifest)
        differing = sorted((sizes.keys() - {_MANIFEST}) ^ wanted.keys())
        if differing:
            raise _Damage(f"`{differing[0]}` is in the container or in its manifest, not in both")
        entries = {}
        for name, entry in wanted.items():
            if sizes[name] != entry.bytes:
                raise _Damage(f"`{name}` has {sizes[name]} bytes, its manifest says {entry.bytes}")
            entries[name] = _read(archive, name, entry.bytes)
            if _sha256(entries[name]) != entry.sha256:
                raise _Damage(f"`{name}` does not match its digest")
    return manifest, entries


def _check_end(data: bytes) -> None:
    """Refuse, before `zipfile` reads it, a directory that is missing, large, or placed by zip64 records."""
    if len(data) < _END.size:
        raise _Damage("it is cut short")
    signature, _, _, _, count, size, offset, comment = _END.unpack_from(data, len(data) - _END.size)
    if signature != b"PK\x05\x06" or comment:
        raise _Damage("it is cut short, or something follows its end")
    if count > MAX_ENTRIES or size > count * (_CENTRAL_HEADER_BYTES + _MAX_NAME):
        raise _Damage(f"its directory has {count} entries in {size} bytes")
    if offset + size + _END.size != len(data):
        raise _Damage("its directory does not stand at its end")
    locator = len(data) - _END.size - _LOCATOR_BYTES
    if locator >= 0 and data[locator : locator + 4] == b"PK\x06\x07":
        raise _Damage("it has zip64 records")


def _checked_sizes(archive: ZipFile, file_bytes: int) -> dict[str, int]:
    """Return the declared size of each entry, once names, methods and sizes are known to be harmless."""
    from zipfile import ZIP_DEFLATED, ZIP_STORED

    sizes: dict[str, int] = {}
    for info in archive.infolist():
        name = info.filename
        if not _is_name(name) or name in sizes:
            raise _Damage(f"the entry name {name[:_MAX_NAME]!r} is illegal or occurs twice")
        if info.flag_bits & 1 or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise _Damage(f"`{name}` is encrypted or packed by an unknown method")
        sizes[name] = info.file_size
    total = sum(sizes.values())
    if total > min(MAX_BYTES, MAX_INFLATION * file_bytes):
        raise _Damage(f"it would inflate from {file_bytes} to {total} bytes")
    return sizes


def _read(archive: ZipFile, name: str, size: int) -> bytes:
    """Return an entry of `size` bytes, read in chunks and never beyond that size."""
    data = bytearray()
    with archive.open(name) as stream:
        reader: IO[bytes] = stream
        while len(data) < size:
            chunk = reader.read(min(_CHUNK_BYTES, size - len(data)))
            if not chunk:
                raise _Damage(f"`{name}` ends after {len(data)} of {size} bytes")
            data += chunk
        if reader.read(1):
            raise _Damage(f"`{name}` has more than its {size} bytes")
    return bytes(data)


def _manifest(data: bytes, kind: str, file: str) -> Manifest:
    """Return the manifest once it is one of ours, of this kind, in a format that we read."""
    described = FORMATS[kind].described
    try:
        manifest = json.decode(data, type=dict[str, object])
        head = convert(manifest, _Head)
    except (MsgspecError, ValueError, RecursionError):
        head = None
    if head is None or head.container != "opennki":
        fail("ONKI501", file=file, kind=described, reason=f"its {_MANIFEST} is not OpenNKI's")
    if head.kind != kind:
        known = FORMATS.get(head.kind)
        reason = f"it is an OpenNKI {known.described}" if known else "it is a container of another kind"
        fail("ONKI501", file=file, kind=described, reason=reason)
    if head.format > FORMATS[kind].current:
        fail("ONKI503", file=file, found=head.format, known=FORMATS[kind].current)
    if head.format < FORMATS[kind].oldest:
        _too_old(manifest, head, kind, file)
    return manifest


def _too_old(manifest: Manifest, head: _Head, kind: str, file: str) -> NoReturn:
    kernel = manifest.get("kernel")
    oldest = FORMATS[kind].oldest
    fail(
        "NCC_EVRF065",
        kernel=kernel if isinstance(kernel, str) else file,
        notes=[
            f"`{file}` has format {head.format}, this OpenNKI reads from {oldest} on",
            f"it was written by {head.toolchain or 'an unknown version'}",
        ],
        data={"file": file, "found": head.format, "oldest": oldest},
    )


def _entries(manifest: Manifest) -> dict[str, _Entry]:
    try:
        return convert(manifest, _Body).entries
    except MsgspecError as problem:
        raise _Damage(f"its {_MANIFEST} is malformed: {problem}") from None

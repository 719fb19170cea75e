"""The container: deterministic bytes, and no zip, however it was made, gets past the gate."""

from __future__ import annotations

import hashlib
import json
import struct
import tracemalloc
import zipfile
from io import BytesIO
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest

from opennki.artifact.container import MAX_INFLATION, pack, toolchain, unpack
from opennki.diag import InternalError, OpenNkiError

ENTRIES = {"b/c.bin": b"\x00\x01", "a": b"text" * 100, "empty": b""}


def manifest_of(content: dict[str, bytes], /, **fields: object) -> bytes:
    """Return a manifest that agrees with `content`, but for `fields`."""
    said = {
        "container": "opennki",
        "kind": "nkx",
        "format": 1,
        "toolchain": "t",
        "entries": {
            n: {"bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in content.items()
        },
        **fields,
    }
    return json.dumps({k: v for k, v in said.items() if v is not None}).encode()


def zip_of(entries: list[tuple[str, bytes]], method: int = ZIP_DEFLATED) -> bytes:
    """Return a zip as any tool would write it."""
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        for name, data in entries:
            archive.writestr(ZipInfo(name), data, method)
    return file.getvalue()


def sound(content: dict[str, bytes], /, **fields: object) -> bytes:
    return zip_of([*content.items(), ("manifest.json", manifest_of(content, **fields))])


def refusal(data: bytes) -> tuple[str, str]:
    """Return code and reason of the error that reading `data` ends in."""
    with pytest.raises(OpenNkiError) as caught:
        unpack(data, "nkx", "f.nkx")
    found = caught.value.diagnostics[0]
    return found.code, str(found.data["reason"])


def test_what_is_packed_comes_out() -> None:
    manifest, entries = unpack(pack("nkx", {"lnc": 2, "calls": ["a"]}, ENTRIES), "nkx", "f.nkx")
    assert entries == ENTRIES
    assert (manifest["lnc"], manifest["calls"], manifest["kind"], manifest["format"]) == (2, ["a"], "nkx", 1)
    assert manifest["toolchain"] == toolchain()


def test_packing_is_deterministic_and_sorted() -> None:
    backward = dict(reversed(ENTRIES.items()))
    data = pack("nkx", {"a": 1, "b": 2}, ENTRIES)
    assert data == pack("nkx", {"b": 2, "a": 1}, backward)
    with ZipFile(BytesIO(data)) as archive:
        infos = archive.infolist()
    assert [info.filename for info in infos] == ["a", "b/c.bin", "empty", "manifest.json"]
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    assert {(info.create_system, info.external_attr, info.extra) for info in infos} == {(3, 0o644 << 16, b"")}


def test_the_manifest_is_canonical_json() -> None:
    with ZipFile(BytesIO(pack("nkx", {"x": "é"}, {"a": b"1"}))) as archive:
        text = archive.read("manifest.json").decode()
    said = json.loads(text)
    assert text == json.dumps(said, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert said["entries"] == {"a": {"bytes": 1, "sha256": hashlib.sha256(b"1").hexdigest()}}


@pytest.mark.parametrize(
    "entries", [{"zeros": bytes(1 << 22)}, {f"z{i}": bytes(1 << 16) for i in range(100)}]
)
def test_what_deflates_like_a_bomb_is_still_readable(entries: dict[str, bytes]) -> None:
    data = pack("nkx", {}, entries)
    assert sum(map(len, entries.values())) < MAX_INFLATION * len(data)
    assert unpack(data, "nkx", "f.nkx")[1] == entries


@pytest.mark.parametrize(
    "name", ["", "/a", "../a", "a/../b", "a//b", ".a", "a\\b", "C:", "é", "x" * 201, "manifest.json"]
)
def test_a_name_that_could_not_be_read_is_our_mistake(name: str) -> None:
    with pytest.raises(InternalError, match="a container cannot hold"):
        pack("nkx", {}, {name: b""})


@pytest.mark.parametrize("key", ["container", "entries", "format", "kind", "toolchain"])
def test_the_manifests_own_fields_are_not_the_writers(key: str) -> None:
    with pytest.raises(InternalError, match="a container cannot hold"):
        pack("nkx", {key: 1}, {})


# Foreign files


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"\x93NUMPY\x01\x00", "it is no zip container"),
        (zip_of([("arr_0.npy", b"x")]), "it has no manifest.json"),
        (zip_of([("manifest.json", b"[]")]), "its manifest.json is not OpenNKI's"),
        (zip_of([("manifest.json", b"\xff")]), "its manifest.json is not OpenNKI's"),
        (zip_of([("manifest.json", b"[" * 10_000)]), "its manifest.json is not OpenNKI's"),
        (zip_of([("manifest.json", b'{"name": "other"}')]), "its manifest.json is not OpenNKI's"),
        (sound({}, container="other"), "its manifest.json is not OpenNKI's"),
        (sound({}, format="1"), "its manifest.json is not OpenNKI's"),
        (sound({}, kind="nka"), "it is an OpenNKI artifact"),
        (sound({}, kind="abc"), "it is a container of another kind"),
    ],
)
def test_a_foreign_file_is_no_container(data: bytes, reason: str) -> None:
    assert refusal(data) == ("ONKI501", reason)


# Damaged and hostile files


def renamed(data: bytes, old: bytes, new: bytes) -> bytes:
    """Return a zip in which an entry has another name, in both headers."""
    assert len(old) == len(new)
    return data.replace(old, new)


def directory_at(data: bytes) -> int:
    return int(struct.unpack_from("<L", data, len(data) - 6)[0])


def declared(data: bytes, size: int) -> bytes:
    """Return a zip whose first entry claims to inflate to `size` bytes."""
    patched = bytearray(data)
    struct.pack_into("<L", patched, 22, size)
    struct.pack_into("<L", patched, directory_at(data) + 24, size)
    return bytes(patched)


def flagged(data: bytes, flags: int) -> bytes:
    patched = bytearray(data)
    struct.pack_into("<H", patched, 6, flags)
    struct.pack_into("<H", patched, directory_at(data) + 8, flags)
    return bytes(patched)


def zip64(data: bytes) -> bytes:
    end = data[-22:]
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, 1 << 40, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(data) - 22, 1)
    body = data[:-22] + record + locator
    patched = bytearray(body + end)
    struct.pack_into("<L", patched, len(patched) - 10, len(body) - directory_at(data))
    return bytes(patched)


ONE = sound({"aaaa": b"1234"})
UNZIPPED = "its zip structure is broken"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ONE[:1000][:-1], "it is cut short, or something follows its end"),
        (b"PK", "it is cut short"),
        (ONE + b"x", "it is cut short, or something follows its end"),
        (b"PK" + ONE, "its directory does not stand at its end"),
        (zip64(ONE), "it has zip64 records"),
        (renamed(ONE, b"aaaa", b"/aaa"), "the entry name '/aaa' is illegal or occurs twice"),
        (renamed(ONE, b"aaaa", b"../a"), "the entry name '../a' is illegal or occurs twice"),
        (renamed(ONE, b"aaaa", b"a\\aa"), "the entry name 'a\\\\aa' is illegal or occurs twice"),
        (renamed(ONE, b"aaaa", b"bbbb"), "`aaaa` is in the container or in its manifest, not in both"),
        (flagged(ONE, 1), "`aaaa` is encrypted or packed by an unknown method"),
        (
            zip_of([("manifest.json", b"{}")], ZIP_BZIP2),
            "`manifest.json` is encrypted or packed by an unknown method",
        ),
        (declared(ONE, 3), "`aaaa` has 3 bytes, its manifest says 4"),
        (declared(ONE, 1 << 20), f"it would inflate from {len(ONE)} to "),
        (declared(ONE, 0xFFFFFFFE), f"it would inflate from {len(ONE)} to "),
        (
            zip_of([("manifest.json", manifest_of({"a": b""}))]),
            "`a` is in the container or in its manifest, not in both",
        ),
        (
            zip_of([("a", b""), ("manifest.json", manifest_of({}))]),
            "`a` is in the container or in its manifest, not in both",
        ),
        (zip_of([("a", b"2"), ("manifest.json", manifest_of({"a": b"1"}))]), "`a` does not match its digest"),
        (sound({}, entries=None), "its manifest.json is malformed: "),
        (sound({}, entries={"a": {"bytes": "1", "sha256": ""}}), "its manifest.json is malformed: "),
    ],
)
def test_a_damaged_file_is_refused(data: bytes, reason: str) -> None:
    code, found = refusal(data)
    assert (code, found[: len(reason)]) == ("ONKI502", reason)


def test_a_name_that_occurs_twice_is_refused() -> None:
    data = zip_of([("aaaa", b"1"), ("aaab", b"2"), ("manifest.json", manifest_of({"aaaa": b"1"}))])
    assert refusal(renamed(data, b"aaab", b"aaaa")) == (
        "ONKI502",
        "the entry name 'aaaa' is illegal or occurs twice",
    )


def test_a_bomb_is_refused_before_it_inflates() -> None:
    bomb = zip_of([("bomb", bytes(1 << 24)), ("manifest.json", manifest_of({"bomb": bytes(1 << 24)}))])
    tracemalloc.start()
    code, reason = refusal(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (code, reason[:26]) == ("ONKI502", f"it would inflate from {len(bomb)}"[:26])
    assert peak < 4 << 20


def test_an_entry_that_inflates_beyond_its_size_is_refused_early() -> None:
    zeros = bytes(1 << 24)
    data = declared(zip_of([("bomb", zeros), ("manifest.json", manifest_of({"bomb": zeros[:1000]}))]), 1000)
    tracemalloc.start()
    assert refusal(data)[0] == "ONKI502"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_large_directory_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opennki.artifact.container.MAX_ENTRIES", 3)
    data = sound({"a": b"", "b": b"", "c": b""})
    monkeypatch.setattr(zipfile, "ZipFile", None)  # must not be reached
    assert refusal(data)[1].startswith("its directory has 4 entries in ")


def test_a_large_manifest_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opennki.artifact.container.MAX_MANIFEST_BYTES", 10)
    size = len(manifest_of({}))
    assert refusal(sound({})) == ("ONKI502", f"its manifest.json has {size} bytes")


def test_a_stored_entry_that_claims_more_than_it_has_is_refused() -> None:
    data = zip_of([("a", b"1234"), ("manifest.json", manifest_of({"a": b"12345"}))], ZIP_STORED)
    assert refusal(declared(data, 5))[0] == "ONKI502"

"""`.nka` files: equal bytes from anywhere, whole or not at all, and a gate for whatever is read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

import opennki.artifact
from opennki.artifact import (
    artifact_bytes,
    artifact_of,
    load_artifact,
    pack,
    save_artifact,
    unpack,
    write_container,
)
from opennki.artifact import container as container_module
from opennki.diag import Diagnostic, OpenNkiError, OpenNkiUsageError, diagnostic
from opennki.ir.codec import encode_artifact
from opennki.ir.types import KernelArtifact
from tests.unit.ir_records import BUFFERS, FACTS, artifact, item, table, with_program


def error_of(call: Callable[[], object]) -> Diagnostic:
    """Return the diagnostic that `call` ends in."""
    with pytest.raises(OpenNkiError) as caught:
        call()
    return caught.value.diagnostics[0]


def test_a_saved_artifact_loads_equal(tmp_path: Path) -> None:
    path = save_artifact(artifact(), tmp_path / "a.nka")
    assert path == tmp_path / "a.nka"
    assert load_artifact(path, FACTS) == artifact()
    assert [p.name for p in tmp_path.iterdir()] == ["a.nka"]


def test_the_method_saves_too(tmp_path: Path) -> None:
    found = replace(artifact(), findings=(diagnostic("ONKI504", file="f", reason="r"),))
    assert found.save(str(tmp_path / "a.nka")) == tmp_path / "a.nka"
    assert load_artifact(str(tmp_path / "a.nka"), FACTS) == artifact()


def test_bytes_are_equal_from_any_folder_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    first = save_artifact(artifact(), "a.nka").read_bytes()
    monkeypatch.chdir(tmp_path / "two")
    monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = save_artifact(artifact(), tmp_path / "two" / "b.nka").read_bytes()
    assert first == second == artifact_bytes(artifact())
    assert artifact_of(first, "b.nka", FACTS) == artifact()


def test_the_manifest_describes_the_artifact(tmp_path: Path) -> None:
    manifest, entries = opennki.artifact.read_container(save_artifact(artifact(), tmp_path / "a.nka"), "nka")
    assert {k: v for k, v in manifest.items() if k != "entries"} == {
        "container": "opennki",
        "format": 1,
        "kernel": "fold",
        "kind": "nka",
        "lnc": 2,
        "target": "trn2",
        "toolchain": container_module.toolchain(),
    }
    assert entries == encode_artifact(artifact())


# Writing


def test_an_old_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.nka"
    path.write_bytes(b"old")
    save_artifact(artifact(), path)
    assert path.read_bytes() == artifact_bytes(artifact())


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.nka").symlink_to(tmp_path / "real" / "a.nka")
    assert save_artifact(artifact(), tmp_path / "link.nka") == tmp_path / "link.nka"
    assert (tmp_path / "link.nka").is_symlink()
    assert (tmp_path / "real" / "a.nka").read_bytes() == artifact_bytes(artifact())


def test_the_umask_holds(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = save_artifact(artifact(), tmp_path / "a.nka")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("missing/a.nka", "there is no such file or folder"),
        ("file/a.nka", "not a directory"),
        ("folder", "it is a folder"),
        ("null\0.nka", "its name holds a null character"),
        ("half\ud800.nka", "its name holds what no file name can"),
        ("x" * 300, "file name too long"),
    ],
)
def test_a_place_that_cannot_be_written(tmp_path: Path, place: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    found = error_of(lambda: save_artifact(artifact(), tmp_path / place))
    assert (found.code, found.message) == ("ONKI504", f"cannot write `{tmp_path / place}`: {reason}")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = error_of(lambda: save_artifact(artifact(), tmp_path / "pipe"))
    assert found.message == f"cannot write `{tmp_path / 'pipe'}`: it is no regular file"
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "a.nka"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    found = error_of(lambda: save_artifact(artifact(), path))
    assert (found.code, found.data["reason"]) == ("ONKI504", "no space left on device")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.nka"]


def test_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_artifact(artifact(), tmp_path / "a.nka")
    assert list(tmp_path.iterdir()) == []


def test_more_than_can_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opennki.artifact.files.MAX_BYTES", 1000)
    found = error_of(lambda: write_container(tmp_path / "a.nkx", "nkx", {}, {"data": bytes(1001)}))
    assert found.data["reason"] == "its entries have 1001 bytes, more than 1000"
    assert list(tmp_path.iterdir()) == []


# Reading


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("missing.nka", "there is no such file or folder"),
        ("folder", "it is a folder"),
        ("pipe", "it is no regular file"),
        ("null\0.nka", "its name holds a null character"),
        ("half\ud800.nka", "its name holds what no file name can"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, place: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OpenNkiUsageError) as caught:
        load_artifact(tmp_path / place, FACTS)
    found = caught.value.diagnostics[0]
    assert (found.code, found.message) == ("ONKI005", f"cannot read `{tmp_path / place}`: {reason}")


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opennki.artifact.files.MAX_BYTES", 10)
    (tmp_path / "a.nka").write_bytes(bytes(11))
    found = error_of(lambda: load_artifact(tmp_path / "a.nka", FACTS))
    assert (found.code, found.data["reason"]) == ("ONKI502", "it has 11 bytes, more than 10")


def repacked(one: KernelArtifact | None = None, **manifest: object) -> bytes:
    """Return the bytes of an artifact, its manifest claiming something else."""
    one = one or artifact()
    said = {"kernel": one.kernel, "lnc": one.lnc, "target": one.target, **manifest}
    return pack("nka", said, encode_artifact(one))


def with_format(number: int) -> bytes:
    """Return an artifact in another format."""
    formats = container_module.FORMATS
    before = formats["nka"]
    formats["nka"] = replace(before, current=number)
    try:
        return repacked()
    finally:
        formats["nka"] = before


def test_a_newer_format_is_named() -> None:
    found = error_of(lambda: artifact_of(with_format(2), "a.nka", FACTS))
    assert found.code == "ONKI503"
    assert found.message == "`a.nka` has format 2, this OpenNKI reads up to 1"


def test_an_older_format_has_the_published_code() -> None:
    found = error_of(lambda: artifact_of(with_format(0), "a.nka", FACTS))
    assert found.code == "NCC_EVRF065"
    assert found.message == "NKI kernel 'fold' was traced with an unsupported NKI version."
    assert found.notes == (
        "`a.nka` has format 0, this OpenNKI reads from 1 on",
        f"it was written by {container_module.toolchain()}",
    )


def test_an_executable_is_no_artifact() -> None:
    found = error_of(lambda: artifact_of(pack("nkx", {}, {}), "a.nkx", FACTS))
    assert (found.code, found.message) == (
        "ONKI501",
        "`a.nkx` is no OpenNKI artifact: it is an OpenNKI executable",
    )
    found = error_of(lambda: unpack(artifact_bytes(artifact()), "nkx", "a.nka"))
    assert found.message == "`a.nka` is no OpenNKI executable: it is an OpenNKI artifact"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (repacked(kernel="other"), "its manifest says kernel 'other', its content 'fold'"),
        (repacked(lnc=1), "its manifest says lnc 1, its content 2"),
        (repacked(target=None), "its manifest says target None, its content 'trn2'"),
        (repacked(replace(artifact(), target="trn9")), "`trn9` is no target"),
        (repacked(replace(artifact(), target="trn1")), "trn1 has no LNC=2"),
        (repacked(with_program(item(0, engine=0))), "core 1: instruction 0 is for engine 0, which is none"),
        (repacked(with_program(table("buffers", 3, id=9))), "core 1: buffer 3 (`tile`) has the id 9"),
        (
            repacked(replace(artifact(), kernel="fold", programs=())),
            "an artifact has 1 to 64 programs, not 0",
        ),
        (pack("nka", {}, {}), "`artifact` is missing"),
        (pack("nka", {}, {**encode_artifact(artifact()), "x": b""}), "`x` belongs to no artifact"),
        (pack("nka", {}, {**encode_artifact(artifact()), "programs/1": b"\xc1"}), "a program is malformed: "),
    ],
)
def test_content_that_no_trace_produces_is_damage(data: bytes, reason: str) -> None:
    found = error_of(lambda: artifact_of(data, "a.nka", FACTS))
    assert found.code == "ONKI502"
    assert found.message.startswith(f"`a.nka` is damaged: {reason}")


def test_damage_names_the_invariant_and_what_else_is_broken() -> None:
    data = repacked(with_program(lambda p: replace(p, buffers=tuple(replace(b, id=7) for b in BUFFERS))))
    found = error_of(lambda: artifact_of(data, "a.nka", FACTS))
    assert (found.rule, found.data["core"], found.data["where"]) == ("buffers_legal", 1, 0)
    assert found.notes == tuple(f"also: buffer {i} (`{BUFFERS[i].name}`) has the id 7" for i in (1, 2, 3))


def test_an_instruction_of_no_row_is_damage() -> None:
    found = error_of(lambda: artifact_of(artifact_bytes(artifact()), "a.nka", {}))
    assert found.message == "`a.nka` is damaged: core 0: opcode 0 (`move`) is no known instruction"

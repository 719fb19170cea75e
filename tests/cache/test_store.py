"""The cache on disk: what damage does, what goes when there is too much, folders that cannot be used."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import opennki
from opennki import KernelArtifact
from opennki.artifact import pack, unpack
from opennki.cache import CACHE
from opennki.cache.digest import Part
from opennki.cache.store import LEFTOVER_AGE_S, Store
from opennki.diag import OpenNkiError, OpenNkiWarning
from opennki.ir.codec import decode_artifact, encode_artifact
from tests.cache.conftest import MakeProject
from tests.cache.project import kernel
from tests.unit.kernels import add_scaled, double_in_place, halve, ramp

SOURCES = Path(opennki.__file__).parents[1]


def traced() -> KernelArtifact:
    """Trace `halve` as a new process does."""
    CACHE.forget()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpenNkiWarning)
        return opennki.trace(halve, "float32[128,16]", lnc=1)


def only(store: Store) -> Path:
    """Return the file of the only entry."""
    (entry,) = store.entries()
    return entry.path


def codes(artifact: KernelArtifact) -> list[str]:
    return [finding.code for finding in artifact.findings]


def test_a_hit_is_the_equal_artifact(store: Store, traces: list[str]) -> None:
    first, second = traced(), traced()
    assert second == first
    assert traces == ["halve"]
    assert only(store).name.startswith("halve-")


def test_an_entry_is_an_artifact_file(store: Store) -> None:
    artifact = traced()
    assert opennki.load(only(store)) == artifact


def truncate(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(position: float) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        i = int(position * (len(data) - 1))
        return data[:i] + bytes([data[i] ^ 0x55]) + data[i + 1 :]

    return damage


def repack(**said: object) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        manifest, parts = unpack(data, "nka", "entry")
        own = {name: manifest[name] for name in ("kernel", "lnc", "target", "cache")}
        return pack("nka", {**own, **said}, parts)

    return damage


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "one byte": lambda data: b"P",
    "cut short": truncate,
    "longer": lambda data: data + b"x",
    "foreign": lambda data: b"PK" + b"\x00" * 100,
    "all zero": lambda data: b"\x00" * len(data),
    **{f"flipped at {position}": flip(position) for position in (0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0)},
    "another kernel's": repack(kernel="other"),
    "another target's": repack(target="trn1"),
    "another degree's": repack(lnc=2),
    "no key": repack(cache=None),
    "a key of another form": repack(cache={"parts": {"degree": 1}}),
    "another key": repack(cache={"parts": {}, "findings": []}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_entry_is_removed_and_traced_again(
    damage: Callable[[bytes], bytes], store: Store, traces: list[str]
) -> None:
    first = traced()
    path = only(store)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    second = traced()
    assert traces == ["halve", "halve"]
    assert codes(second) == ["ONKI507"]
    assert (second.programs, second.signature) == (first.programs, first.signature)
    assert only(store).read_bytes() == whole
    assert codes(traced()) == []
    assert len(traces) == 2


def test_a_flipped_byte_never_gives_another_artifact(store: Store) -> None:
    first = traced()
    path = only(store)
    whole = path.read_bytes()
    found = set()
    for i in range(0, len(whole), 37):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :])
        again = traced()
        assert (again.programs, again.signature, again.location) == (
            first.programs,
            first.signature,
            first.location,
        )
        found.update(codes(again))
        assert only(store).stat().st_size == len(whole)
    assert found == {"ONKI507"}


def test_an_entry_of_another_key_under_this_name(store: Store, traces: list[str]) -> None:
    traced()
    name = only(store)
    opennki.trace(add_scaled, "float32[128,16]", "float32[128,16]")
    (other,) = [entry.path for entry in store.entries() if entry.kernel == "add_scaled"]
    shutil.copy(other, name)
    assert codes(traced()) == ["ONKI507"]
    assert traces == ["halve", "add_scaled", "halve"]


def test_in_a_folder_of_many_an_entry_passes_the_whole_gate(store: Store, traces: list[str]) -> None:
    """A program that breaks an invariant, its digests right: what no trace writes, and others could."""
    traced()
    path = only(store)
    manifest, parts = unpack(path.read_bytes(), "nka", "entry")
    artifact = decode_artifact(parts)
    (program,) = artifact.programs
    buffers = tuple(replace(buffer, shape=(1, *buffer.shape[1:])) for buffer in program.buffers)
    forged = replace(artifact, programs=(replace(program, buffers=buffers),))
    own = {name: manifest[name] for name in ("kernel", "lnc", "target", "cache")}
    path.write_bytes(pack("nka", own, encode_artifact(forged)))
    store.folder.chmod(0o777)
    assert codes(traced()) == ["ONKI507"]
    assert traces == ["halve", "halve"]


def test_the_folder_is_the_users_alone(store: Store) -> None:
    traced()
    assert store.folder.stat().st_mode & 0o777 == 0o700


# Room


def test_what_was_used_least_recently_goes_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    paths: dict[int, Path] = {}
    for columns in (16, 17, 18):
        opennki.trace(halve, f"float32[128,{columns}]", lnc=1)
        (paths[columns],) = {entry.path for entry in store.entries()} - set(paths.values())
    for age, path in zip((30, 20, 10), paths.values(), strict=True):
        os.utime(path, (time.time() - age, time.time() - age))
    size = store.entries()[0].bytes
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", str(size * 7 // 2))
    CACHE.forget()
    opennki.trace(halve, "float32[128,16]", lnc=1)  # the oldest one is used, so it is the newest
    opennki.trace(halve, "float32[128,20]", lnc=1)
    assert [columns for columns, path in paths.items() if path.exists()] == [16, 18]
    assert len(store.entries()) == 3


def test_an_entry_larger_than_the_limit_is_not_written(
    store: Store, traces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "100")
    assert codes(traced()) == []
    assert store.entries() == []
    traced()
    assert traces == ["halve", "halve"]


def test_leftovers_go_by_their_age(store: Store) -> None:
    traced()
    old, new = store.folder / ".opennki.1.00aa.tmp", store.folder / ".opennki.2.00bb.tmp"
    lock, foreign = store.folder / f".{'0' * 32}.lock", store.folder / "notes.txt"
    for path in (old, new, lock, foreign):
        path.write_bytes(b"half")
    past = time.time() - LEFTOVER_AGE_S - 10
    for path in (old, lock, foreign, store.folder / ".swept"):
        os.utime(path, (past, past))
    traced()
    assert not old.exists()
    assert not lock.exists()
    assert new.exists()
    assert foreign.exists()


def test_a_lock_in_use_is_no_leftover(store: Store) -> None:
    traced()
    lock = store.folder / f".{'1' * 32}.lock"
    past = time.time() - LEFTOVER_AGE_S - 10
    with _held(lock):
        os.utime(lock, (past, past))
        store.sweep()
        assert lock.exists()
    store.sweep()
    assert not lock.exists()


def _held(lock: Path) -> subprocess.Popen[bytes]:
    """Return a process that holds a lock while it lives; leaving its `with` ends it."""
    script = (
        "import fcntl, os, sys\n"
        "descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        "fcntl.flock(descriptor, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_clear_removes_what_is_ours(store: Store) -> None:
    traced()
    size = store.entries()[0].bytes
    temporary, foreign = store.folder / ".opennki.1.00aa.tmp", store.folder / "halve-notes.nka"
    temporary.write_bytes(b"half")
    foreign.write_bytes(b"mine")
    assert store.clear() == (1, size)
    assert not temporary.exists()
    assert foreign.read_bytes() == b"mine"
    assert store.clear() == (0, 0)


def test_clear_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert Store(tmp_path / "nowhere", 1).clear() == (0, 0)
    assert not (tmp_path / "nowhere").exists()


# Folders that cannot be used


def test_a_file_in_the_place_of_the_folder(
    traces: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_text("no folder")
    monkeypatch.setenv("OPENNKI_CACHE_DIR", str(path))
    CACHE.forget()
    first = opennki.trace(halve, "float32[128,16]", lnc=1)
    (finding,) = first.findings
    assert finding.code == "ONKI508"
    assert finding.message == f"the cache folder `{path}` cannot be used: not a directory"
    assert codes(opennki.trace(halve, "float32[128,18]", lnc=1)) == []  # said once
    assert opennki.trace(halve, "float32[128,16]", lnc=1).programs == first.programs  # kept in memory
    assert len(traces) == 2
    assert path.read_text() == "no folder"


def test_a_home_that_is_nowhere(traces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENNKI_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert codes(traced()) == ["ONKI508"]


def limited(limit: str, script: str, folder: Path) -> str:
    """Run a script in a process with a resource limit, and return what it prints."""
    head = (
        f"import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "import opennki\nfrom tests.unit.kernels import halve, ramp\n"
        "opennki.check(halve, ramp())\n"  # what is needed is imported
        "from opennki.cache import CACHE\nCACHE.forget()\n"
        f"resource.setrlimit(resource.{limit}, (64, 64))\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SOURCES), str(Path(__file__).parents[2])]),
        "OPENNKI_CACHE_DIR": str(folder),
    }
    run = subprocess.run(
        [sys.executable, "-c", head + script], capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_full_disk(tmp_path: Path) -> None:
    script = (
        "findings = opennki.trace(halve, 'float32[128,32]', lnc=1).findings\n"
        "print([(finding.code, finding.message.rpartition(': ')[2]) for finding in findings])\n"
        "print(bool((halve(ramp()) == ramp() / 2).all()))\n"
    )
    folder = tmp_path / "full"
    assert limited("RLIMIT_FSIZE", script, folder).splitlines() == [
        "[('ONKI508', 'nothing can be written there (file too large)')]",
        "True",
    ]
    names = sorted(path.name for path in (folder / "traces").iterdir())
    assert [name for name in names if name.endswith((".tmp", ".lock"))] == []
    assert [name for name in names if name.endswith(".nka")] == names[-1:]  # of the check, before the limit


def test_a_folder_that_can_only_be_read(
    store: Store, traces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries are used; what is new is traced, which is said once."""
    first = traced()

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("opennki.cache.store._write", refuse)
    (store.folder / ".swept").unlink()
    CACHE.forget()
    new = opennki.trace(halve, "float32[128,18]", lnc=1)
    (finding,) = new.findings
    assert finding.message == (
        f"the cache folder `{store.folder.parent}` cannot be used: "
        "nothing can be written there (read-only file system)"
    )
    assert codes(opennki.trace(halve, "float32[128,20]", lnc=1)) == []
    assert opennki.trace(halve, "float32[128,16]", lnc=1) == first
    assert len(traces) == 3


def test_a_folder_that_is_removed_is_made_again(store: Store) -> None:
    traced()
    shutil.rmtree(store.folder.parent)
    assert codes(opennki.trace(halve, "float32[128,18]", lnc=1)) == []
    assert len(store.entries()) == 1


def test_two_checkouts_share_entries(project: MakeProject, store: Store, traces: list[str]) -> None:
    files = {
        "k.py": kernel("helpers.scale()", "import helpers"),
        "helpers.py": "SCALE = 0.5\n\n\ndef scale():\n    return SCALE\n",
    }
    here, there = project(files), project(files)
    first = opennki.trace(here.kernel(), "float32[128,16]")
    CACHE.forget()
    second = opennki.trace(there.kernel(), "float32[128,16]")
    assert here.folder != there.folder
    assert traces == ["kernel"]
    assert second == first
    assert str(here.folder).encode() not in only(store).read_bytes()


def test_an_edit_of_the_sources_is_another_toolchain(
    store: Store, traces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from opennki.cache import key

    traced()
    monkeypatch.setattr(key, "toolchain_part", lambda: Part("0" * 32, "opennki 9"))
    traced()
    assert traces == ["halve", "halve"]
    assert len(store.entries()) == 2


def test_a_kernel_that_traces_itself_does_not_wait_for_itself(traces: list[str]) -> None:
    inner: list[KernelArtifact] = []
    entered: list[bool] = []

    def outer(x: object) -> object:
        entered.append(True)
        if len(entered) == 1:
            inner.append(opennki.trace(outer, "float32[128,16]", lnc=1))
        return double_in_place.function(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpenNkiWarning)
        artifact = opennki.trace(outer, "float32[128,16]", lnc=1)
    assert artifact.programs == inner[0].programs
    assert traces == ["outer", "outer"]


def test_a_refused_kernel_leaves_no_entry(store: Store) -> None:
    with pytest.raises(OpenNkiError):
        opennki.trace(halve, "float32[300,16]", lnc=1)
    assert store.entries() == []
    assert [path.name for path in store.folder.glob(".*.lock")] == []


def test_arrays_of_a_run_are_right_from_the_disk() -> None:
    for _ in range(2):
        CACHE.forget()
        total, difference = add_scaled(ramp(), ramp() + 1, 2.0)
        np.testing.assert_array_equal(total, 3 * ramp() + 2)
        np.testing.assert_array_equal(difference, -ramp() - 2)

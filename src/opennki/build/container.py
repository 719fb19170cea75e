"""Executables as `.nkx` files: a manifest with degree, target and calls, and each distinct artifact once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from msgspec import MsgspecError, Struct, convert

from opennki.artifact import artifact_bytes, artifact_of, read_bounded, unpack, write_container
from opennki.build.executable import Executable
from opennki.build.foreign import NAMES, adapter
from opennki.diag import fail
from opennki.ir.types import KernelArtifact
from opennki.lnc import check_runtime
from opennki.targets import TARGETS, Target, same_hardware

__all__ = ["executable_of", "load_executable", "save_executable"]

_KIND = "nkx"
_HOST = "host/"


class _Call(Struct, frozen=True):
    kernel: str
    artifact: str


class _Manifest(Struct, frozen=True):
    lnc: int
    target: str
    calls: tuple[_Call, ...]
    framework: str | None = None


def save_executable(executable: Executable, path: str | Path) -> Path:
    """Write an executable as a `.nkx` file and return its path: equal bytes for equal executables.

    Errors: ONKI504.
    """
    entries: dict[str, bytes] = {}
    calls = []
    for call in executable.calls:
        data = artifact_bytes(call.artifact)
        digest = hashlib.sha256(data).hexdigest()
        entries[_entry(digest)] = data
        calls.append({"kernel": call.name, "artifact": digest})
    manifest: dict[str, object] = {"lnc": executable.lnc, "target": executable.target, "calls": calls}
    if executable.framework is not None:
        manifest["framework"] = executable.framework
        entries |= {_HOST + name: content for name, content in executable.framework_files().items()}
    return write_container(path, _KIND, manifest, entries)


def load_executable(path: str | Path) -> Executable:
    """Return the executable of a `.nkx` file for the runtime's degree, which is looked at before any work.

    Errors: ONKI005, ONKI501 to ONKI503, ONKI304 for another degree than the executable was compiled for.
    """
    return executable_of(read_bounded(path), str(path))


def executable_of(data: bytes, file: str, *, to_run: bool = True) -> Executable:
    """Return the executable that `data` holds; `file` is its name for messages.

    Without `to_run` the runtime's degree does not matter. Errors: those of `load_executable`.
    """
    said, entries = unpack(data, _KIND, file)
    manifest, target = _manifest(said, file)
    if to_run:
        check_runtime(manifest.lnc, target)
    host = {name: content for name, content in entries.items() if name.startswith(_HOST)}
    known = {_entry(call.artifact) for call in manifest.calls}
    strangers = sorted((entries.keys() - (host.keys() if manifest.framework else ())) ^ known)
    if strangers:
        _damaged(file, f"`{strangers[0]}` is in the container or in its list of calls, not in both")
    loaded: dict[str, KernelArtifact] = {}
    for call in manifest.calls:
        if call.artifact not in loaded:
            name = _entry(call.artifact)
            loaded[call.artifact] = artifact_of(entries[name], f"{file}:{name}")
        _check_call(call, loaded[call.artifact], manifest, target, file)
    executable = Executable([loaded[call.artifact] for call in manifest.calls], manifest.lnc, target)
    if manifest.framework is None or not to_run:
        return executable
    files = {name.removeprefix(_HOST): content for name, content in host.items()}
    return adapter(manifest.framework).load_graph(files, executable, file)


def _manifest(said: Mapping[str, object], file: str) -> tuple[_Manifest, Target]:
    try:
        manifest = convert(dict(said), _Manifest)
    except MsgspecError as problem:
        _damaged(file, f"its manifest is malformed: {problem}")
    target = TARGETS.get(manifest.target)
    if target is None:
        _damaged(file, f"`{manifest.target}` is no target")
    if manifest.lnc not in target.lnc_allowed:
        _damaged(file, f"{manifest.target} has no LNC={manifest.lnc}")
    if not manifest.calls and manifest.framework is None:
        _damaged(file, "it has no kernel call")
    if manifest.framework not in (None, *NAMES):
        _damaged(file, f"`{manifest.framework}` is no framework")
    return manifest, target


def _check_call(
    call: _Call, artifact: KernelArtifact, manifest: _Manifest, target: Target, file: str
) -> None:
    """Refuse what no compilation has baked: another number of programs, another target or kernel."""
    if artifact.kernel != call.kernel:
        _damaged(file, f"the artifact of call `{call.kernel}` is of `{artifact.kernel}`")
    if artifact.lnc != manifest.lnc:
        _damaged(file, f"`{call.kernel}` has {artifact.lnc} programs in an executable for LNC={manifest.lnc}")
    if not same_hardware(TARGETS[artifact.target], target):
        _damaged(file, f"`{call.kernel}` is for {artifact.target} in an executable for {manifest.target}")


def _entry(digest: str) -> str:
    return f"artifacts/{digest}.nka"


def _damaged(file: str, reason: str) -> NoReturn:
    fail("ONKI502", file=file, reason=reason)

"""Exported programs in `.pt2` files: a gate before PyTorch's reader, and the artifacts in and beside a file.

PyTorch unpickles parts of such a file, evaluates its symbolic sizes and guards as Python, and calls whatever
function of PyTorch a node names. So a file is taken apart first. What could run code is refused or left out,
and PyTorch is given what remains.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import torch
from msgspec import json
from torch.export import ExportedProgram

from opennki.artifact import artifact_bytes, artifact_of, read_bounded, write_atomically
from opennki.artifact.container import MAX_BYTES, MAX_ENTRIES, MAX_INFLATION
from opennki.diag import OpenNkiError, fail
from opennki.frameworks.torch import operators
from opennki.frameworks.torch.config import (
    CallConfig,
    digest_of,
    is_known,
    register_artifact,
)
from opennki.frameworks.torch.config import artifact_of as registered_artifact

__all__ = ["checked_files", "configs_in", "files_of", "program_of", "read_exported", "save_exported"]

MODEL = "models/model.json"
_WEIGHTS = "data/weights/model_weights_config.json"
_CONSTANTS = "data/constants/model_constants_config.json"
_SAMPLES = "data/sample_inputs/model.pt"
_VERSION = (".data/version", "version")
_KEPT = re.compile(
    r"archive_format|archive_version|byteorder|models/model\.json"
    r"|data/weights/(?:weight_\d+|model_weights_config\.json)"
    r"|data/constants/(?:tensor_\d+|model_constants_config\.json)"
)
_EXTRA = "extra/"
_ARTIFACT = re.compile(r"opennki\.([0-9a-f]{64})\.nka")
_TARGET = re.compile(
    r"torch\.ops(?:\.[A-Za-z]\w*|\._[a-z]\w*){3}|torch\.sym_\w+|_operator\.[a-z]\w*|math\.[a-z]\w*"
)
_HIGHER = re.compile(r"torch\.ops\.higher_order\.\w+")
_SIZE = re.compile(r"[A-Za-z0-9_ ()+*/,-]*")
_SIZE_SYMBOL = re.compile(r"Symbol\('[a-z]+\d+'(?:, [a-z]+=(?:True|False))*\)")
_SIZE_NAMES = frozenset(
    (
        "Abs",
        "Add",
        "CeilDiv",
        "CleanDiv",
        "FloorDiv",
        "IntTrueDiv",
        "Integer",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Pow",
    )
)
_SIZE_TOKEN = re.compile(r"[su]\d+|zuf\d+|\d+")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def save_exported(program: ExportedProgram, path: Path, *, embed: bool) -> Path:
    """Write a program with its artifacts in the file, or beside it. Errors: ONKI504, NCC_EVRF059."""
    artifacts = {config.binary: registered_artifact(config) for config in configs_in(program)}
    named = {name.removeprefix("sha256:"): artifact_bytes(one) for name, one in sorted(artifacts.items())}
    extra = {f"opennki.{name}.nka": base64.b64encode(data).decode() for name, data in named.items() if embed}
    stream = BytesIO()
    torch.export.save(program, stream, extra_files=extra)
    if not embed:
        for name, data in named.items():
            write_atomically(path.parent / f"{name}.nka", data)
    return write_atomically(path, stream.getvalue())


def read_exported(path: Path) -> ExportedProgram:
    """Return the program of a `.pt2` file, its artifacts registered: see `opennki.frameworks.torch.load`."""
    file = str(path)
    files = _take_apart(read_bounded(path), file)
    for name, data in files.items():
        found = _ARTIFACT.fullmatch(name.removeprefix(_EXTRA)) if name.startswith(_EXTRA) else None
        if found is not None:
            _register(found[1], data, f"{file}:{name}")
    program = program_of({name: data for name, data in files.items() if not name.startswith(_EXTRA)}, file)
    for config in configs_in(program):
        _look_beside(config, path)
        registered_artifact(config)
    return program


def _register(name: str, text: bytes, file: str) -> None:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        _refuse(file, "the artifact in it is damaged")
    artifact = artifact_of(data, file)
    if digest_of(artifact) != f"sha256:{name}":
        _refuse(file, "the artifact in it has another digest than its name")
    register_artifact(artifact, f"sha256:{name}")


def _look_beside(config: CallConfig, path: Path) -> None:
    """Register the artifact that a call names from a file in the graph's folder or the working directory."""
    name = config.binary.removeprefix("sha256:")
    if is_known(config.binary) or not re.fullmatch(r"[0-9a-f]{64}", name):
        return
    for folder in (path.parent, Path()):
        file = folder / f"{name}.nka"
        if file.is_file():
            artifact = artifact_of(read_bounded(file), str(file))
            if digest_of(artifact) != config.binary:
                _refuse(str(file), "the artifact in it has another digest than its name")
            register_artifact(artifact, config.binary)
            return


def configs_in(program: ExportedProgram) -> list[CallConfig]:
    """Return the configs of the kernel calls of a program, in order."""
    from opennki.frameworks.torch.baking import calls_in

    return [call.config for call in calls_in(program.graph_module)]


def files_of(program: ExportedProgram) -> dict[str, bytes]:
    """Return the files of a program's archive that its meaning depends on: no examples, no lines of code."""
    stream = BytesIO()
    torch.export.save(program, stream)
    found = _take_apart(stream.getvalue(), "model.pt2")
    return {name: data for name, data in found.items() if not name.startswith(_EXTRA)}


def program_of(files: Mapping[str, bytes], file: str) -> ExportedProgram:
    """Return the program of the files of an archive, which have passed the gate. Errors: ONKI614."""
    operators.register()
    stream = BytesIO()
    with ZipFile(stream, "w", ZIP_STORED) as archive:
        for name, data in sorted({**files, _SAMPLES: b"", _VERSION[0]: b"6\n"}.items()):
            archive.writestr(ZipInfo(f"archive/{name}", _EPOCH), data)
    stream.seek(0)
    try:
        return torch.export.load(stream)
    except OpenNkiError:
        raise
    except Exception as problem:
        reason = " ".join(str(problem).split())[:160].rstrip(".")
        _refuse(file, f"PyTorch {torch.__version__} cannot read it ({reason})")


# ---------------------------------------------------------------------------------------------- the gate


def checked_files(files: Mapping[str, bytes], file: str) -> dict[str, bytes]:
    """Return the files of an archive, those of a graph without what could run code. Errors: ONKI614."""
    missing = [name for name in (MODEL, _WEIGHTS, _CONSTANTS, "archive_version") if name not in files]
    if missing:
        _refuse(file, f"it has no `{missing[0]}`")
    found = {name: data for name, data in files.items() if _KEPT.fullmatch(name) or name.startswith(_EXTRA)}
    for name in (_WEIGHTS, _CONSTANTS):
        _check_payloads(_json(found[name], name, file), name, file)
    model = _json(found[MODEL], MODEL, file)
    _check_graph(model, file)
    sizes = " ".join(str(record.get("expr_str")) for record in _records(model.get("graph_module")))
    ranges = model.get("range_constraints")
    if isinstance(ranges, dict):  # of sizes that the graph has: PyTorch would complain about the others
        model["range_constraints"] = {
            name: one for name, one in ranges.items() if re.search(rf"\b{re.escape(name)}\b", sizes)
        }
    model["guards_code"] = []  # Python that PyTorch would run; an executable looks at its inputs itself
    found[MODEL] = json.encode(model)
    return found


def _take_apart(data: bytes, file: str) -> dict[str, bytes]:
    """Return the files of a `.pt2` archive by their names in it, checked. Errors: ONKI614."""
    if not data.startswith(b"PK"):
        _refuse(file, "it is empty" if not data else "it is no zip archive")
    try:
        entries = _entries(data, file)
    except (BadZipFile, zlib.error, EOFError, RuntimeError, LookupError, NotImplementedError) as problem:
        _refuse(file, f"it is cut short or damaged ({str(problem).rstrip('.') or type(problem).__name__})")
    except (ValueError, OverflowError, OSError, MemoryError) as problem:
        _refuse(file, f"it is cut short or damaged ({type(problem).__name__})")
    roots = {name.partition("/")[0] for name in entries}
    if "serialized_exported_program.json" in entries:
        help = ["load it with the PyTorch that wrote it, and save it again with PyTorch 2.8 or later"]
        _refuse(file, "it is in PyTorch's archive format of before 2.8", help)
    root = next(iter(roots), "")
    if len(roots) != 1 or entries.get(f"{root}/archive_format") != b"pt2":
        _refuse(file, "it is a zip archive of something else")
    return checked_files({name.partition("/")[2]: one for name, one in entries.items()}, file)


def _entries(data: bytes, file: str) -> dict[str, bytes]:
    with ZipFile(BytesIO(data)) as archive:
        infos = archive.infolist()
        total = sum(info.file_size for info in infos)
        if len(infos) > MAX_ENTRIES or total > MAX_BYTES or total > MAX_INFLATION * len(data):
            _refuse(file, f"its {len(infos)} entries would take {total} bytes")
        return {info.filename: archive.read(info) for info in infos}


def _json(data: bytes, name: str, file: str) -> dict[str, Any]:
    try:
        return json.decode(data, type=dict[str, Any])
    except Exception as problem:
        _refuse(file, f"`{name}` is malformed ({problem})")


def _check_payloads(config: Mapping[str, Any], name: str, file: str) -> None:
    payloads = config.get("config")
    if not isinstance(payloads, dict):
        _refuse(file, f"`{name}` is malformed")
    for tensor, payload in payloads.items():
        path = payload.get("path_name") if isinstance(payload, dict) else None
        if not isinstance(path, str) or not re.fullmatch(r"(?:weight|tensor)_\d+", path):
            _refuse(file, f"`{tensor}` is stored as an object that Python would have to run")
        if payload.get("use_pickle") is not False:
            _refuse(file, f"`{tensor}` is pickled", ["save the model with plain tensors as its weights"])


def _check_graph(model: dict[str, Any], file: str) -> None:
    """Refuse targets and sizes that could do more than a graph may; drop the nodes' lines of source."""
    for record in _records(model):
        if isinstance(target := record.get("target"), str) and "inputs" in record:
            _check_target(target, file)
            record["metadata"] = {}
        if isinstance(size := record.get("expr_str"), str):
            left = _SIZE_SYMBOL.sub("s0", size)
            names = re.findall(r"[A-Za-z0-9_]+", left)
            is_plain = all(name in _SIZE_NAMES or _SIZE_TOKEN.fullmatch(name) for name in names)
            if not _SIZE.fullmatch(left) or not is_plain:
                _refuse(file, f"`{size[:60]}` is no size")


def _records(value: object) -> Iterator[dict[str, Any]]:
    """Yield all objects in a JSON value."""
    open_values = [value]
    while open_values:
        found = open_values.pop()
        if isinstance(found, dict):
            yield found
            open_values += found.values()
        elif isinstance(found, list):
            open_values += found


def _check_target(target: str, file: str) -> None:
    if _HIGHER.fullmatch(target):
        return
    if not _TARGET.fullmatch(target) or "__" in target:
        _refuse(file, f"it calls `{target[:60]}`, which is no operator")
    parts = target.split(".")
    if parts[1] != "ops":
        return
    space, name = parts[2:4]
    if not hasattr(getattr(torch.ops, space), name):
        _refuse(
            file,
            f"it calls the operator `{space}::{name}`, which is not registered in this process",
            ["import the module that defines the operator first"],
        )


def _refuse(file: str, reason: str, help: list[str] | None = None) -> NoReturn:
    fail("ONKI614", file=file, reason=reason, help=help or ())

"""Arrays from and to `.npy` files.

A file's dtype must be the kernel's. NumPy knows no bfloat16 and no 8-bit floats: `numpy.save` writes them as
raw elements of the same width (`|V2`, `|V1`), so such a file is taken as the kernel's type, and so are
unsigned integers of that width, as bit patterns. Nothing is converted by value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from opennki.artifact import check_regular, write_together
from opennki.build.executable import Runnable, RunResult
from opennki.diag import fail
from opennki.ir.dtypes import DTYPES, canonical
from opennki.ir.types import Input

__all__ = ["read_inputs", "save_outputs"]

Array = np.ndarray[Any, Any]


def read_inputs(texts: Sequence[str], call: Runnable) -> list[Array]:
    """Return the arrays for a call, in the order of its signature, from `--input` texts: FILE or NAME=FILE.

    Files without a name fill the inputs that are not named, in order. Errors: ONKI005, ONKI006, ONKI702.
    """
    inputs = call.signature.inputs
    names = [tensor.name for tensor in inputs]
    files: dict[str, str] = {}
    plain: list[str] = []
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or (name not in names and Path(text).exists()):
            plain.append(text)
        elif name not in names:
            _refuse(call, f"`{call.name}` has no input `{name}`")
        elif name in files:
            _refuse(call, f"input `{name}` is given twice")
        else:
            files[name] = file
    open_names = [name for name in names if name not in files]
    if len(plain) != len(open_names):
        _refuse(call, f"`{call.name}` takes {len(names)} inputs, got {len(texts)}")
    files.update(zip(open_names, plain, strict=True))
    return [_read(Path(files[tensor.name]), tensor) for tensor in inputs]


def _refuse(call: Runnable, problem: str) -> None:
    needs = " ".join(f"--input {tensor.name}=FILE.npy" for tensor in call.signature.inputs)
    fail("ONKI006", problem=problem, help=[f"give {needs}" if needs else "give no --input"])


def _read(path: Path, tensor: Input) -> Array:
    size = check_regular(path)
    try:
        with path.open("rb") as file:
            _check_size(file, size)
            array: Array = np.lib.format.read_array(file, allow_pickle=False)
    except OSError as problem:
        fail("ONKI005", file=str(path), reason=(problem.strerror or str(problem)).lower())
    except (ValueError, EOFError, MemoryError) as problem:
        fail("ONKI005", file=str(path), reason=f"it is no .npy array: {_first_line(problem)}")
    return _as_declared(array, tensor, path)


def _check_size(file: IO[bytes], size: int) -> None:
    """Refuse a file that is shorter than its header says, before memory is taken for what it lacks."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    needed = prod(shape) * dtype.itemsize
    if not dtype.hasobject and size - file.tell() < needed:
        raise ValueError(f"it is cut short: {size - file.tell()} of {needed} bytes")
    file.seek(0)


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".")


def _as_declared(array: Array, tensor: Input, path: Path) -> Array:
    """Return the array in the native byte order as the tensor's dtype, its bits unchanged."""
    storage = DTYPES[tensor.dtype].storage
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype != storage and _is_bits_of(array.dtype, storage):
        array = array.view(storage)
    if array.dtype != storage or array.shape != tensor.shape:
        _does_not_fit(array, tensor, path)
    return array


def _is_bits_of(found: np.dtype[Any], storage: np.dtype[Any]) -> bool:
    """True if a file can hold `storage` only as raw elements or bit patterns, and holds it so."""
    is_foreign = storage.type.__module__.partition(".")[0] == "ml_dtypes"
    is_raw = (found.kind == "V" and found.names is None and found.subdtype is None) or found.kind == "u"
    return is_foreign and is_raw and found.itemsize == storage.itemsize


def _does_not_fit(array: Array, tensor: Input, path: Path) -> None:
    storage = DTYPES[tensor.dtype].storage
    got = f"{_dtype_name(array.dtype)}{list(array.shape)} in `{path}`"
    expected = f"{tensor.dtype}{list(tensor.shape)}"
    helps = []
    if array.shape != tensor.shape:
        helps.append(
            f"save an array of shape {list(tensor.shape)}, or trace the kernel for {list(array.shape)}"
        )
    if array.dtype != storage:
        module = "ml_dtypes" if storage.type.__module__.startswith("ml_dtypes") else "numpy"
        helps.append(f"convert it before saving: `numpy.save(file, array.astype({module}.{storage.name}))`")
    fail("ONKI702", name=tensor.name, got=got, expected=expected, help=helps)


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return canonical(dtype) or str(dtype)


def save_outputs(
    call: Runnable, arrays: Sequence[Array], result: RunResult, folder: Path
) -> list[dict[str, Any]]:
    """Write the outputs as `<name>.npy` into `folder` and return the file, dtype and shape of each.

    An input that the kernel writes is an output under the input's name; a returned tensor that is such an
    input as a whole is not written twice. All are written, or none. Errors: ONKI504.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        fail("ONKI504", file=str(folder), reason=(problem.strerror or str(problem)).lower())
    named = [(folder / f"{name}.npy", array) for name, array in _named(call, arrays, result)]
    write_together([(path, partial(_save, array)) for path, array in named])
    return [
        {"file": str(path), "dtype": _dtype_name(array.dtype), "shape": list(array.shape)}
        for path, array in named
    ]


def _save(array: Array, file: IO[bytes]) -> None:
    np.lib.format.write_array(file, array, allow_pickle=False)


def _named(call: Runnable, arrays: Sequence[Array], result: RunResult) -> Iterable[tuple[str, Array]]:
    """Yield each output once, under a name that is a file's and is used once."""
    used: set[str] = set()
    signature = call.signature
    for tensor, array in zip(signature.inputs, arrays, strict=True):
        if tensor.is_written:
            yield _free(tensor.name, used), array
    for output, array in zip(signature.outputs, result.outputs, strict=True):
        is_saved = output.alias >= 0 and any(array is other for other in arrays)
        if not is_saved:
            yield _free(output.name, used), array


def _free(name: str, used: set[str]) -> str:
    """Return `name` as a file name: what a path could misread becomes `_`, a second one gets a number."""
    base = re.sub(r"[^\w.-]", "_", name).lstrip(".") or "out"
    found, count = base, 1
    while found.lower() in used:
        found, count = f"{base}_{count}", count + 1
    used.add(found.lower())
    return found

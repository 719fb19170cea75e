"""`nl.shared_constant`, `nl.shared_identity_matrix`: tensors in shared HBM whose bytes the artifact carries.

Constants are known by content: equal ones are one buffer. What a line gives must be the same on all cores.
Source: nki/api/nki/language/__init__.py:2617, :2641 (SDK 2.32).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from opennki.diag import Diagnostic, Label, Location, diagnostic, error, fail
from opennki.frontend.allocate import whole_tensor
from opennki.frontend.composition import Composition, composed
from opennki.frontend.constant_pool import Content, KeptConstant, Made, note_file
from opennki.frontend.recorder import TraceRecorder
from opennki.frontend.tensor import NkiTensor
from opennki.frontend.valueless import is_int
from opennki.ir.dtypes import DTYPES, canonical
from opennki.ir.types import Constant, Origin, Space
from opennki.isa.table import dma_copy

__all__ = ["shared_constant", "shared_identity_matrix"]

Array = np.ndarray[Any, Any]

_SUPPORTED = (
    "float32",
    "float16",
    "bfloat16",
    "int32",
    "int16",
    "int8",
    "uint32",
    "uint16",
    "uint8",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
)
"""The element types that the documents give to constants (:2626)."""


@composed
def shared_constant(constant: Array | str | os.PathLike[str]) -> NkiTensor:
    """Return a tensor in shared HBM that holds a NumPy array, or the array in a `.npy` file.

    The bytes are taken now and become part of the artifact, once for each content. All cores must give the
    same (ONKI310). Files are read without unpickling. Errors: ONKI005 (file), ONKI101, ONKI212 (no elements),
    ONKI214 (dtype).
    """
    call = Composition("shared_constant")
    if isinstance(constant, (str, os.PathLike)):
        constant = _read(call, os.fspath(constant))
    if not isinstance(constant, np.ndarray):
        call.wrong_kind("constant", "a NumPy array or the path of a .npy file", constant)
    return _constant(call, _checked(call, constant))


@composed
def shared_identity_matrix(n: int, dtype: object = "uint8", dst: NkiTensor | None = None) -> NkiTensor:
    """Return the identity matrix `[n<=128, n]` as a new SBUF tile, or in the tile `dst`.

    The matrix is one constant for each dtype and size; each call copies it, so the tile is the caller's own.
    With `dst`, its dtype counts. Errors: ONKI101, ONKI201, ONKI205, ONKI212, ONKI214.
    """
    call = Composition("shared_identity_matrix")
    if not is_int(n):
        call.wrong_kind("n", "an int", n)
    size = int(n)
    tile = call.new((size, size), dtype) if dst is None else call.operand("dst", dst, (Space.sbuf,))
    if tile.shape != (size, size):
        call.refuse(
            "ONKI205",
            f"`{call.name}` fills a tile [{size}, {size}], `dst` is {list(tile.shape)}",
            help=f"slice `dst` to [{size}, {size}], or leave it out",
            role="dst",
            tensor=tile,
        )
    kind = tile.dtype if tile.dtype in _SUPPORTED else "uint8"  # the copy converts 0 and 1 exactly
    dma_copy(dst=tile, src=_constant(call, np.identity(size, dtype=DTYPES[kind].storage)))
    return tile


def _read(call: Composition, path: str) -> Array:
    """Read a `.npy` file, numbers only, and note that the trace depends on it."""
    from hashlib import sha256
    from io import BytesIO

    try:
        with open(path, "rb") as file:
            content = file.read()
        note_file(path, sha256(content).hexdigest())
        array: Array = np.lib.format.read_array(BytesIO(content), allow_pickle=False)
        return array
    except OSError as problem:
        reason = problem.strerror or str(problem)
    except (ValueError, EOFError, MemoryError, OverflowError):
        reason = "it is no .npy file with an array of numbers"
    fail("ONKI005", **call.recorder.here(0), file=path, reason=reason)


def _checked(call: Composition, array: Array) -> Array:
    """Return an array that can be a constant, in the machine's byte order."""
    native = array.dtype.newbyteorder("=") if array.dtype.kind in "iuf" else array.dtype
    dtype = canonical(native)
    if dtype not in _SUPPORTED:
        call.refuse(
            "ONKI214",
            f"`{call.name}` cannot hold elements of {array.dtype}",
            help="convert it with `.astype(…)` to one of " + ", ".join(_SUPPORTED),
            role="constant",
        )
    if array.ndim == 0 or array.size == 0:
        call.refuse(
            "ONKI212",
            f"`{call.name}` needs an array with an axis and an element, got shape {list(array.shape)}",
            help="give the array an axis, for example `.reshape(1, -1)`",
            role="constant",
        )
    return array.astype(native, copy=False)


def _constant(call: Composition, array: Array) -> NkiTensor:
    """Return the tensor of a constant, making its buffer where its content is new."""
    from hashlib import sha256

    recorder = call.recorder
    data = np.ascontiguousarray(array).tobytes()
    content = Content(str(canonical(array.dtype)), array.shape, sha256(data).hexdigest())
    number = recorder.locate(sys._getframe(1))
    place, _ = recorder.place(number)
    recorder.constants.note(place, Made(content, number))
    kept = recorder.constants.kept.get(content)
    if kept is None:
        assigned = place.text.partition("=")[0].strip()
        name = assigned if assigned.isidentifier() else f"constant{len(recorder.constants.kept)}"
        kept = _keep(recorder, content, name, data)
    return whole_tensor(kept.handle)


def _keep(recorder: TraceRecorder, content: Content, name: str, data: bytes) -> KeptConstant:
    """Enter a constant into a trace and give it its buffer."""
    recorder.constants.kept[content] = KeptConstant(
        name, data, None
    )  # a simulation asks for the bytes at once
    handle = recorder.add_buffer(
        content.shape,
        content.dtype,
        Space.shared_hbm,
        name=name,
        frame=sys._getframe(1),
        origin=Origin.constant,
        key=content.key,
    )
    kept = recorder.constants.kept[content] = KeptConstant(name, data, handle)
    return kept


def agree_on_constants(recorders: Sequence[TraceRecorder]) -> None:
    """Compare the constants of all cores, call by call. Errors: ONKI310, one for each call that differs."""
    found: list[Diagnostic] = []
    for other in recorders[1:]:
        first = recorders[0]
        for place, made in other.constants.made.items():
            same = first.constants.made.get(place)
            if same is not None and same.content != made.content:
                found.append(_difference(first, same, other, made))
    if found:
        raise error(*found)


def _difference(first: TraceRecorder, one: Made, other: TraceRecorder, two: Made) -> Diagnostic:
    here, there = _place(other, two), _place(first, one)
    name = first.constants.kept[one.content].name
    return diagnostic(
        "ONKI310",
        at=Label(here, f"core {other.core} gives {_spelled(two.content)}"),
        others=[Label(there, f"core {first.core} gives {_spelled(one.content)}")],
        core=other.core,
        rule="KERNEL_LNC-09",
        says=f"constant `{name}` differs between cores: {_what_differs(first, one, other, two)}",
    )


def _place(recorder: TraceRecorder, made: Made) -> Location:
    return recorder.place(made.location)[0]


def _spelled(content: Content) -> str:
    return f"{content.dtype}{list(content.shape)}"


def _what_differs(first: TraceRecorder, one: Made, other: TraceRecorder, two: Made) -> str:
    """The first thing in which two constants differ: shape and dtype, or an element."""
    cores = first.core, other.core
    if (one.content.dtype, one.content.shape) != (two.content.dtype, two.content.shape):
        return f"{_spelled(one.content)} on core {cores[0]}, {_spelled(two.content)} on core {cores[1]}"
    storage = DTYPES[one.content.dtype].storage
    a, b = (
        np.frombuffer(recorder.constants.kept[made.content].data, np.uint8).reshape(-1, storage.itemsize)
        for recorder, made in ((first, one), (other, two))
    )
    at = int(np.argmax((a != b).any(axis=1)))
    index = [int(i) for i in np.unravel_index(at, one.content.shape)]
    values = [array[at].copy().view(storage)[0] for array in (a, b)]
    return f"element {index} is {values[0]} on core {cores[0]} and {values[1]} on core {cores[1]}"


def collect_constants(recorders: Sequence[TraceRecorder]) -> tuple[tuple[Constant, ...], tuple[bytes, ...]]:
    """Return the constants of a trace and their bytes; a core that lacks one gets its buffer too."""
    kept: dict[Content, KeptConstant] = {}
    for recorder in recorders:
        for content, constant in recorder.constants.kept.items():
            kept.setdefault(content, constant)
    for recorder in recorders:
        for content, constant in kept.items():
            if content not in recorder.constants.kept:
                _keep(recorder, content, constant.name, constant.data)
    found = tuple(Constant(c.name, k.key, k.shape, k.dtype, k.digest) for k, c in kept.items())
    return found, tuple(c.data for c in kept.values())

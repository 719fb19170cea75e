"""`nki.language`: dtypes, memory regions, tensor creation, ranges, program ids, tile sizes."""

from __future__ import annotations

import sys
from typing import Any

from opennki.diag import fail
from opennki.frontend.allocate import allocate
from opennki.frontend.functions import *  # noqa: F403  # the list of names lives there
from opennki.frontend.functions import __all__ as _functions
from opennki.frontend.indexing import DynamicSlice
from opennki.frontend.loops import dynamic_range, fori_loop, no_reorder, while_loop
from opennki.frontend.recorder import current
from opennki.frontend.tensor import NkiTensor
from opennki.frontend.tile_size import tile_size
from opennki.frontend.valueless import is_int
from opennki.ir.types import Space
from opennki.isa.table import dma_copy, memset

DType = str
bool_ = "bool"
int8 = "int8"
int16 = "int16"
int32 = "int32"
int64 = "int64"
uint8 = "uint8"
uint16 = "uint16"
uint32 = "uint32"
float16 = "float16"
float32 = "float32"
bfloat16 = "bfloat16"
tfloat32 = "tfloat32"
float8_e4m3 = "float8_e4m3"
float8_e4m3fn = "float8_e4m3fn"
float8_e5m2 = "float8_e5m2"
float8_e5m2_x4 = "float8_e5m2_x4"
float8_e4m3fn_x4 = "float8_e4m3fn_x4"
float8_e8m0fnu = "float8_e8m0fnu"
float4_e2m1fn_x4 = "float4_e2m1fn_x4"

MemoryRegion = Space
sbuf = Space.sbuf
psum = Space.psum
private_hbm = Space.private_hbm
hbm = Space.private_hbm
shared_hbm = Space.shared_hbm


class NKIObject:
    """Base class of a kernel's own objects. Without an initializer of its own, a class takes its fields.

    The fields are the annotated names, those of base classes first, in order or by keyword; one that is left
    out has the class's value or None. Other keywords become attributes too. Then `__post_init__` runs.

    >>> class Window(NKIObject):
    ...     start: int
    ...     is_last: bool = False
    >>> Window(4).is_last
    False

    Source: nki/api/nki/language/__init__.py:101, nki/get-started/nki-language-guide.rst "Class Support".
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        classes = [c for c in reversed(type(self).__mro__) if issubclass(c, NKIObject)]
        fields = list(dict.fromkeys(name for c in classes for name in vars(c).get("__annotations__", ())))
        if len(args) > len(fields):
            raise TypeError(f"{type(self).__name__}() takes {len(fields)} fields, got {len(args)}")
        given = dict(zip(fields, args, strict=False))
        if twice := given.keys() & kwargs.keys():
            raise TypeError(f"{type(self).__name__}() got {', '.join(sorted(twice))} twice")
        for name, value in (given | kwargs).items():
            setattr(self, name, value)
        for name in fields:
            if not hasattr(self, name):
                setattr(self, name, None)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Do nothing; a class may do more once its fields are there."""


def is_hbm(buffer: Space) -> bool:
    """Return True for shared and private HBM."""
    return buffer in (Space.shared_hbm, Space.private_hbm)


def is_on_chip(buffer: Space) -> bool:
    """Return True for SBUF and PSUM."""
    return buffer in (Space.sbuf, Space.psum)


def is_psum(buffer: Space) -> bool:
    """Return True for PSUM."""
    return buffer is Space.psum


def is_sbuf(buffer: Space) -> bool:
    """Return True for SBUF."""
    return buffer is Space.sbuf


def ndarray(
    shape: Any,
    dtype: Any,
    buffer: Space = sbuf,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """Return a new tensor; its contents are undefined until an instruction writes them.

    On chip the first axis is the partition axis, at most 128. `address` is `(partition, byte)`; tensors that
    share bytes share their contents. A `name` names the tensor on every core and in messages.

    Errors: ONKI103 (outside of a kernel), ONKI101, ONKI108, ONKI211, ONKI212, ONKI214.
    Source: nki/api/nki/language/__init__.py:2545.
    """
    return allocate(shape, dtype, buffer, name, address, "nl.ndarray", sys._getframe(1))


def _filled(
    shape: Any, value: float, dtype: Any, buffer: Any, name: str, called: str, frame: Any
) -> NkiTensor:
    tensor = allocate(shape, dtype, buffer, name, None, called, frame)
    if not tensor.buffer.is_on_chip:
        recorder = current(called)
        location, callers = recorder.place(recorder.locate(frame))
        fail(
            "ONKI201",
            at=location,
            callers=callers,
            core=recorder.core,
            says=f"`{called}` fills tensors in sbuf or psum, `buffer` is {tensor.buffer.name}",
            help=("fill an SBUF tile and copy it with `nisa.dma_copy`",),
        )
    memset(dst=tensor, value=value)
    return tensor


def zeros(shape: Any, dtype: Any, buffer: Space = sbuf, name: str = "") -> NkiTensor:
    """Return a new tensor on chip, filled with zeros. Errors: those of `ndarray`, ONKI201 in HBM."""
    return _filled(shape, 0, dtype, buffer, name, "nl.zeros", sys._getframe(1))


def ones(shape: Any, dtype: Any, buffer: Space = sbuf, name: str = "") -> NkiTensor:
    """Return a new tensor on chip, filled with ones. Errors: those of `ndarray`, ONKI201 in HBM."""
    return _filled(shape, 1, dtype, buffer, name, "nl.ones", sys._getframe(1))


def full(shape: Any, fill_value: float, dtype: Any, buffer: Space = sbuf, name: str = "") -> NkiTensor:
    """Return a new tensor on chip, filled with a number. Errors: those of `ndarray` and `memset`."""
    return _filled(shape, fill_value, dtype, buffer, name, "nl.full", sys._getframe(1))


def zeros_like(x: NkiTensor, dtype: Any = None, buffer: Space | None = None, name: str = "") -> NkiTensor:
    """Return a new tensor of the shape, dtype and region of `x`, filled with zeros."""
    region = x.buffer if buffer is None else buffer
    kind = x.dtype if dtype is None else dtype
    return _filled(x.shape, 0, kind, region, name, "nl.zeros_like", sys._getframe(1))


def empty_like(x: NkiTensor, dtype: Any = None, buffer: Space | None = None, name: str = "") -> NkiTensor:
    """Return a new tensor of the shape, dtype and region of `x`, unwritten."""
    region = x.buffer if buffer is None else buffer
    kind = x.dtype if dtype is None else dtype
    return allocate(x.shape, kind, region, name, None, "nl.empty_like", sys._getframe(1))


def load(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return a new SBUF tile with the values of `src`, an HBM tensor `[P<=128, …]`."""
    kind = src.dtype if dtype is None else dtype
    shape = src.shape if src.ndim > 1 else (*src.shape, 1)
    tile = allocate(shape, kind, sbuf, "", None, "nl.load", sys._getframe(1))
    dma_copy(dst=tile, src=src)
    return tile


def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Copy the SBUF tile `value` to `dst` in HBM."""
    dma_copy(dst=dst, src=value)


def ds(start: int, size: int) -> DynamicSlice:
    """Return the slice `start : start + size`, for use as an index."""
    return DynamicSlice(start, size)


def _range(called: str, start: Any, stop: Any, step: Any) -> range:
    for value in (start, stop, step):
        if value is not None and not is_int(value):
            recorder = current(called)
            location, callers = recorder.place(recorder.locate(sys._getframe(2)))
            fail(
                "ONKI101",
                at=location,
                callers=callers,
                core=recorder.core,
                instruction=called,
                role="start, stop or step",
                expected="an int",
                got=f"`{value!r}` ({type(value).__name__})",
            )
    return range(start) if stop is None else range(start, stop, step)


def affine_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Return `range(start, stop, step)`: the loop is unrolled while tracing."""
    return _range("nl.affine_range", start, stop, step)


def sequential_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Return `range(start, stop, step)`: the loop is unrolled while tracing."""
    return _range("nl.sequential_range", start, stop, step)


def static_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Return `range(start, stop, step)`: the loop is unrolled while tracing."""
    return _range("nl.static_range", start, stop, step)


def program_id(axis: int = 0) -> int:
    """Return the number of the physical core within its logical core that this trace is for."""
    recorder = current("nl.program_id")
    _check_axis("nl.program_id", axis)
    return recorder.core


def num_programs(axes: int = 0) -> int:
    """Return the degree: how many physical cores run the kernel together."""
    recorder = current("nl.num_programs")
    _check_axis("nl.num_programs", axes)
    return recorder.degree


def program_ndim() -> int:
    """Return the number of launch axes: 1 with a bracket or a degree above 1, else 0."""
    return current("nl.program_ndim").grid_axes


def _check_axis(called: str, axis: object) -> None:
    if axis is None or (axis.__class__ is int and axis == 0) or axis in ((0,), [0]):
        return
    recorder = current(called)
    location, callers = recorder.place(recorder.locate(sys._getframe(2)))
    fail(
        "ONKI101",
        at=location,
        callers=callers,
        core=recorder.core,
        instruction=called,
        role="axis" if called == "nl.program_id" else "axes",
        expected="0: the launch grid has one axis",
        got=f"`{axis!r}`",
    )


__all__ = [
    "DType",
    "MemoryRegion",
    "NKIObject",
    "NkiTensor",
    "affine_range",
    "bfloat16",
    "bool_",
    "ds",
    "dynamic_range",
    "empty_like",
    "float4_e2m1fn_x4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "fori_loop",
    "full",
    "hbm",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "load",
    "ndarray",
    "no_reorder",
    "num_programs",
    "ones",
    "private_hbm",
    "program_id",
    "program_ndim",
    "psum",
    "sbuf",
    "sequential_range",
    "shared_hbm",
    "static_range",
    "store",
    "tfloat32",
    "tile_size",
    "uint8",
    "uint16",
    "uint32",
    "while_loop",
    "zeros",
    "zeros_like",
    *_functions,
]

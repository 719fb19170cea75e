"""Allocation: what `nl.ndarray` checks before a buffer enters the program."""

from __future__ import annotations

import sys
from math import prod
from types import FrameType
from typing import Any, NoReturn

from msgspec import msgpack

from opennki.diag import fail
from opennki.frontend.recorder import BufferHandle, TraceRecorder, current
from opennki.frontend.tensor import NkiTensor
from opennki.frontend.valueless import is_int
from opennki.frontend.views import contiguous_strides
from opennki.ir.dtypes import DTYPES, canonical
from opennki.ir.types import Origin, Space, View

__all__ = ["allocate", "whole_tensor"]

_encode = msgpack.Encoder().encode


def whole_tensor(handle: BufferHandle) -> NkiTensor:
    """Return the tensor that is all of a buffer."""
    buffer = handle.buffer
    recorder = handle.recorder
    layout = recorder.layout(handle, buffer.dtype, buffer.shape, contiguous_strides(buffer.shape), 0)
    return NkiTensor(handle, layout, recorder.view(handle, layout, 0))


def allocate(
    shape: Any, dtype: Any, buffer: Any, name: Any, address: Any, called: str, frame: FrameType
) -> NkiTensor:
    """Check an allocation and return its tensor.

    Errors: ONKI101 (wrong kind of argument), ONKI108 (name used twice), ONKI211 (address), ONKI212 (shape),
    ONKI214 (dtype).
    """
    recorder = current(called)
    remembered: Any = None
    if address is None and name in ("", None) and type(shape) in (tuple, list) and type(dtype) is str:
        try:  # the usual case: a tile like this one was allocated before. Bytes tell 1 from True and 1.0
            remembered = (_encode((shape, dtype)), buffer)
            layout = recorder.allocations.get(remembered)
        except (TypeError, ValueError, OverflowError):
            remembered = layout = None
        if layout is not None:
            handle = recorder.add_buffer(
                layout.shape, layout.dtype, layout.space, name="", frame=frame, origin=Origin.local
            )
            return NkiTensor(handle, layout, View(handle.buffer.id, 0, layout.id))
    check = _Allocation(recorder, called, frame)
    sizes = check.shape(shape)
    kind = check.dtype(dtype)
    space = check.space(buffer)
    if name is not None and not isinstance(name, str):
        check.wrong_kind("name", "a str", name)
    if space.is_on_chip:
        check.fits(sizes, kind, space)
    place = check.address(address, sizes, kind, space)
    handle = recorder.add_buffer(
        sizes, kind, space, name=name or "", frame=frame, origin=Origin.local, address=place
    )
    tensor = whole_tensor(handle)
    if remembered is not None:
        recorder.allocations[remembered] = tensor.layout
    return tensor


class _Allocation:
    """The checks of one allocation. State: where it stands, for the diagnostics."""

    def __init__(self, recorder: TraceRecorder, called: str, frame: FrameType) -> None:
        self.recorder = recorder
        self.called = called
        self.frame = frame

    def refuse(self, code: str, says: str, label: str = "", help: str = "", **data: object) -> NoReturn:
        location, callers = self.recorder.place(self.recorder.locate(self.frame))
        fail(
            code,
            at=location,
            label=label,
            callers=callers,
            core=self.recorder.core,
            help=(help,) if help else (),
            says=says,
            data=dict(data),
        )

    def wrong_kind(self, role: str, expected: str, got: object) -> NoReturn:
        location, callers = self.recorder.place(self.recorder.locate(self.frame))
        fail(
            "ONKI101",
            at=location,
            callers=callers,
            core=self.recorder.core,
            instruction=self.called,
            role=role,
            expected=expected,
            got=f"`{got!r}` ({type(got).__name__})",
        )

    def shape(self, shape: Any) -> tuple[int, ...]:
        if is_int(shape):
            shape = (shape,)
        if not isinstance(shape, (tuple, list)):
            self.wrong_kind("shape", "a tuple of ints", shape)
        for count in shape:
            if not is_int(count):
                self.wrong_kind("shape", "a tuple of ints", shape)
        sizes = tuple(int(count.__index__()) for count in shape)
        if not sizes or min(sizes) < 1:
            self.refuse("ONKI212", f"`{self.called}` needs a shape of positive sizes, got {list(sizes)}")
        return sizes

    def dtype(self, dtype: Any) -> str:
        found = canonical(dtype)
        if found is None:
            if not isinstance(dtype, (str, type)) and not hasattr(dtype, "name"):
                self.wrong_kind("dtype", "an element type such as `nl.float32`", dtype)
            self.refuse(
                "ONKI214",
                f"`{self.called}` got the dtype `{getattr(dtype, '__name__', dtype)}`, "
                "which the hardware lacks",
                help="use one of "
                + ", ".join(f"nl.{name}" for name in ("float32", "bfloat16", "int32"))
                + ", …",
            )
        return found

    def space(self, buffer: Any) -> Space:
        if not isinstance(buffer, Space):
            self.wrong_kind("buffer", "a memory region such as `nl.sbuf`", buffer)
        return buffer

    def fits(self, shape: tuple[int, ...], dtype: str, space: Space) -> None:
        target = self.recorder.target
        if shape[0] > target.partitions:
            self.refuse(
                "ONKI212",
                f"a tensor in {space.name} has at most {target.partitions} partitions, "
                f"got {shape[0]} in {list(shape)}",
                help=f"split the first axis into tiles of {target.partitions}",
                partitions=shape[0],
                limit=target.partitions,
            )
        limit = limit_bytes(self.recorder, space)
        needed = prod(shape[1:]) * DTYPES[dtype].bytes
        if needed > limit:
            self.refuse(
                "ONKI212",
                f"{dtype}{list(shape)} needs {needed} bytes per partition, "
                f"{space.name} of {target.name} has {limit}",
                help="split the free axes",
                needed=needed,
                limit=limit,
            )

    def address(
        self, address: Any, shape: tuple[int, ...], dtype: str, space: Space
    ) -> tuple[int, int] | None:
        if address is None:
            return None
        if not isinstance(address, (tuple, list)) or len(address) != 2:
            self.wrong_kind("address", "a pair (partition, byte)", address)
        if not all(is_int(part) for part in address):
            self.wrong_kind("address", "a pair (partition, byte) of ints", address)
        partition, byte = (int(part.__index__()) for part in address)
        if not space.is_on_chip:
            self.refuse("ONKI211", f"an address is given in {space.name}, only sbuf and psum have addresses")
        target = self.recorder.target
        needed = prod(shape[1:]) * DTYPES[dtype].bytes
        limit = limit_bytes(self.recorder, space)
        place = f"address ({partition}, {byte})"
        if byte < 0 or byte + needed > limit:
            self.refuse(
                "ONKI211",
                f"{place} plus {needed} bytes ends at byte {byte + needed}, a partition of {space.name} on "
                f"{target.name} has {limit}",
                help=f"place the tile at or below byte {max(limit - needed, 0)}",
                needed=needed,
                limit=limit,
            )
        if partition < 0 or partition + shape[0] > target.partitions:
            self.refuse(
                "ONKI211",
                f"{place} plus {shape[0]} partitions ends at partition {partition + shape[0]}, there are "
                f"{target.partitions}",
                help=f"start at partition {target.partitions - shape[0]} or before",
                limit=target.partitions,
            )
        alignment = target.psum_alignment_bytes if space is Space.psum else target.sbuf_alignment_bytes
        if byte % alignment:
            self.refuse(
                "ONKI211",
                f"{place} is not aligned: {space.name} needs multiples of {alignment} bytes",
                help=f"use byte {byte // alignment * alignment}",
                limit=alignment,
            )
        return (partition, byte)


def limit_bytes(recorder: TraceRecorder, space: Space) -> int:
    """Bytes of one partition of an on-chip memory."""
    if space is Space.psum:
        return recorder.target.psum_bytes_per_partition
    return recorder.target.sbuf_bytes_per_partition


def caller(depth: int = 1) -> FrameType:
    """Return the frame of whoever called the function that calls this."""
    return sys._getframe(depth + 1)

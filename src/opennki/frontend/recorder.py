"""The trace of one core: tables of buffers, layouts, attributes and places, and the instruction list."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FrameType
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from opennki.diag import Diagnostic, Label, Location, diagnostic, fail
from opennki.frontend.constant_pool import ConstantPool
from opennki.frontend.finish import close_body, renumbered
from opennki.frontend.source import leaving, while_statement
from opennki.ir.dtypes import DTYPES
from opennki.ir.location import locate as resolve
from opennki.ir.types import (
    AttrValue,
    Buffer,
    IndexKind,
    Instruction,
    Layout,
    Loop,
    LoopKind,
    Operand,
    Origin,
    Program,
    Register,
    Space,
    View,
)
from opennki.isa.layout import Columns, TileLayout
from opennki.isa.recorder import CURRENT
from opennki.isa.table import OPCODES
from opennki.targets import Target

__all__ = ["BufferHandle", "TraceRecorder", "call_kernel"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

MAX_BUFFERS = 1_000_000
"""How many tensors a program has at most: far more than any kernel, and soon reached by one without end."""

_ASSIGNED = re.compile(r"(?:^|;|\s)([A-Za-z_]\w*)\s*(?::[^=;]+)?=\s*$")


def call_kernel(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a kernel's Python function. Call chains end at this frame."""
    return function(*args, **kwargs)


_DRIVER = call_kernel.__code__


class BufferHandle:
    """A buffer of a running trace. State: `storage` is the array behind it while a simulation runs.

    Tensors hold the handle, so storage dies with the last tensor that looks at it.
    """

    __slots__ = ("__weakref__", "buffer", "named", "recorder", "storage")

    def __init__(self, recorder: TraceRecorder, buffer: Buffer, named: bool) -> None:
        self.recorder = recorder
        self.buffer = buffer
        self.named = named
        self.storage: Any = None


class OpenLoop(Struct):
    """A dynamic loop whose body is being traced. `test` is where a legacy `while` tests its register."""

    id: int
    kind: LoopKind
    induction: Register
    lower: Operand
    upper: Operand
    step: int
    location: int
    outer: list[Instruction | Loop]
    test: object = None
    named: dict[str, int] = {}
    counts: dict[str, int] = {}


class TraceRecorder:
    """Records one core's program. `append` is the one thing that a simulation does differently."""

    def __init__(self, core: int, degree: int, target: Target, root: str | None, grid_axes: int = 0) -> None:
        self.core = core
        self.degree = degree
        self.target = target
        self.root = root
        self.grid_axes = grid_axes
        self.plans: list[dict[Any, tuple[int, int]]] = [{} for _ in OPCODES]
        # Code objects hash slowly, so their ids stand in for them; `_kept` keeps each of them alive.
        self.locations: dict[tuple[int, int], int] = {}
        self.body: list[Instruction | Loop] = []
        self.append: Callable[[Instruction], object] = self.body.append
        self.allocations: dict[tuple[bytes, object], TileLayout] = {}
        self._sites: dict[int, tuple[str, str]] = {}
        self.buffers: list[Buffer] = []
        self.findings: list[Diagnostic] = []
        self.constants = ConstantPool()
        self._layouts: dict[Layout, dict[tuple[int, Columns | None], TileLayout]] = {}
        self._layout_records: list[Layout] = []
        self.layouts: list[TileLayout] = []
        self._layout_numbers: dict[Layout, int] = {}
        self._attributes: dict[str, int] = {}
        self.attribute_values: list[tuple[AttrValue, ...]] = []
        self._nodes: dict[tuple[int, CodeType, int], int] = {}
        self._chains: dict[tuple[int, ...], int] = {}
        self._kept: list[list[Any]] = []
        self._places: list[tuple[CodeType, int, int]] = []
        self._resolved: dict[int, Location] = {}
        self._named: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self.edges: list[tuple[Instruction, Instruction]] = []
        self._prefixes: list[str] = []
        self._inlined: dict[str, int] = {}
        self._said: set[tuple[str, str | None, int]] = set()
        self._registers = 0
        self._loops = 0
        self.open_loops: list[OpenLoop] = []
        self.no_reorder = 0
        self.trail: list[int] = []

    # Places ---------------------------------------------------------------------------------------------

    def locate(self, frame: FrameType) -> int:
        """Return the number of the user's place that led to `frame`; package frames are passed over."""
        key: list[int] = []
        current: FrameType | None = frame
        while current is not None:
            code = current.f_code
            if code is _DRIVER:
                break
            key += (id(code), current.f_lasti)
            current = current.f_back
        found = self._chains.get(tuple(key))
        return self._first_located(frame, tuple(key)) if found is None else found

    def _first_located(self, frame: FrameType, key: tuple[int, ...]) -> int:
        """Remember a chain of calls that was not seen before."""
        codes: list[CodeType] = []
        chain: list[Any] = []
        current: FrameType | None = frame
        while current is not None and current.f_code is not _DRIVER:
            code = current.f_code
            codes.append(code)
            if not code.co_filename.startswith(_PACKAGE):
                chain += (code, current.f_lasti)
            current = current.f_back
        self._kept.append(codes)
        found = self._chains[key] = self._intern_chain(chain)
        if len(key) == len(chain) == 2:
            self.locations[key[0], key[1]] = found
        return found

    def _intern_chain(self, chain: list[Any]) -> int:
        node = -1
        for i in range(len(chain) - 2, -1, -2):
            key = (node, chain[i], chain[i + 1])
            found = self._nodes.get(key)
            if found is None:
                found = self._nodes[key] = len(self._places)
                self._places.append((chain[i], chain[i + 1], node))
            node = found
        return node

    def _location(self, number: int) -> Location:
        found = self._resolved.get(number)
        if found is None:
            code, instruction, caller = self._places[number]
            found = self._resolved[number] = replace(resolve(code, instruction, self.root), caller=caller)
        return found

    def place(self, location: int) -> tuple[Location, tuple[Location, ...]]:
        """Return the user's place and the calls that led there, innermost first."""
        if location < 0:
            return Location("<unknown>", 0, 0, 0, 0, "", ""), ()
        first = self._location(location)
        callers = []
        caller = first.caller
        while caller >= 0:
            callers.append(self._location(caller))
            caller = callers[-1].caller
        return first, tuple(callers)

    def here(self, depth: int = 1) -> dict[str, Any]:
        """Return the keywords `at`, `callers`, `core` of a diagnostic for the user's line that called us."""
        location, callers = self.place(self.locate(sys._getframe(depth + 1)))
        return {"at": location, "callers": callers, "core": self.core}

    # Tables ---------------------------------------------------------------------------------------------

    def intern_attributes(self, values: tuple[AttrValue, ...]) -> int:
        """Return the number of `values`; types and signs of numbers tell them apart."""
        key = repr(values)
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = len(self.attribute_values)
            self.attribute_values.append(values)
        return found

    def layout(
        self,
        handle: BufferHandle,
        dtype: str,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        index: IndexKind = IndexKind.none,
        columns: Columns | None = None,
    ) -> TileLayout:
        """Return the layout of an access of `handle` that starts `offset` elements of `dtype` in.

        One record may have several such objects: rows differ in length, or `columns` in their source.
        """
        buffer = handle.buffer
        start = bank = 0
        pitch = 1
        if buffer.space.is_on_chip:
            size = DTYPES[dtype].bytes
            pitch = row_bytes(buffer) // size
            partition, element = divmod(offset, pitch)
            place = buffer.address or (0, 0)
            start = place[0] + partition
            if buffer.space is Space.psum:
                bank = (place[1] + element * size) % self.target.psum_bank_bytes_per_partition
        record = Layout(buffer.space, dtype, tuple(zip(strides, shape, strict=True)), start, bank, index)
        number = self._layout_numbers.get(record)
        if number is None:
            number = self._layout_numbers[record] = len(self._layout_records)
            self._layout_records.append(record)
        same = self._layouts.setdefault(record, {})
        found = same.get((pitch, columns))
        if found is None:
            found = same[pitch, columns] = TileLayout(number, record, pitch, columns)
            if number == len(self.layouts):
                self.layouts.append(found)
        return found

    # Buffers --------------------------------------------------------------------------------------------

    def add_buffer(
        self,
        shape: tuple[int, ...],
        dtype: str,
        space: Space,
        *,
        name: str,
        frame: FrameType | None,
        origin: Origin = Origin.local,
        address: tuple[int, int] | None = None,
        key: str | None = None,
    ) -> BufferHandle:
        """Enter a checked allocation into the table and return its handle."""
        location = self._located(frame)
        shown = name
        if key is None:
            if name:
                name = "".join([*self._prefixes, name])
                shown = name
                self._claim(name, location)
                key = name
            else:
                line, shown = self._sites.get(location) or self._site(location)
                count = self._counts[line] = self._counts.get(line, -1) + 1
                key = f"{line}#{count}"
        if len(self.buffers) >= MAX_BUFFERS:
            self._allocates_for_ever(location)
        buffer = Buffer(
            id=len(self.buffers),
            name=shown,
            key=key,
            space=space,
            shape=shape,
            dtype=dtype,
            origin=origin,
            address=address,
            loop=self.open_loops[-1].id if self.open_loops and origin is not Origin.constant else -1,
            location=location,
        )
        self.buffers.append(buffer)
        handle = BufferHandle(self, buffer, bool(name))
        self.enter(handle)
        return handle

    def _allocates_for_ever(self, location: int) -> NoReturn:
        at, callers = self.place(location)
        fail(
            "ONKI212",
            at=at,
            label="allocated here",
            callers=callers,
            core=self.core,
            says=f"the kernel has allocated {MAX_BUFFERS} tensors on core {self.core}, more no program has",
            help=["let the loop around this line end", "make a loop of so many turns with `nl.fori_loop`"],
            data={"limit": MAX_BUFFERS},
        )

    def _located(self, frame: FrameType | None) -> int:
        if frame is None:
            return -1
        found = self.locations.get((id(frame.f_code), frame.f_lasti))
        return self.locate(frame) if found is None else found

    def _site(self, location: int) -> tuple[str, str]:
        """Return file and line of an allocation, and the variable that it is assigned to."""
        place = self._location(location)
        assigned = _ASSIGNED.search(place.text[: place.column])
        found = (f"{place.file}:{place.line}", assigned.group(1) if assigned else "")
        self._sites[location] = found
        return found

    def enter(self, handle: BufferHandle) -> None:
        """Take notice of a new buffer. A simulation gives it storage here."""

    @contextmanager
    def prefixed(self, kernel: str) -> Iterator[None]:
        """Give names that an inlined kernel hands out the prefix of its call: `kernel.0.`, `kernel.1.`, …."""
        outer = "".join(self._prefixes)
        count = self._inlined[outer + kernel] = self._inlined.get(outer + kernel, -1) + 1
        self._prefixes.append(f"{kernel}.{count}.")
        try:
            yield
        finally:
            self._prefixes.pop()

    def _claim(self, name: str, location: int) -> None:
        if name in self._named:
            at, callers = self.place(location)
            first, _ = self.place(self._named[name])
            fail(
                "ONKI108",
                at=at,
                label="again here",
                others=[Label(first, "first here")],
                callers=callers,
                core=self.core,
                name=name,
                what="tensors",
            )
        self._named[name] = location

    def allocation(self, tile: Any) -> tuple[str, Label | None]:
        """Return the name of a tile's tensor for messages, and where it was allocated."""
        buffer = tile.handle.buffer
        if buffer.location < 0:
            return buffer.name, None
        return buffer.name or "a tensor", Label(
            self._location(buffer.location), f"`{buffer.name or 'it'}` is allocated here"
        )

    # Findings and dependencies --------------------------------------------------------------------------

    def warn(self, finding: Diagnostic) -> None:
        """Note a finding that is no error, once for each place."""
        place = finding.location
        key = (finding.code, finding.rule, place.line if place else 0)
        if key not in self._said:
            self._said.add(key)
            self.findings.append(finding)

    def owns(self, tile: Any) -> bool:
        """True if the tile belongs to this trace."""
        return tile.handle.recorder is self

    def depend(self, instruction: Instruction, producer: Instruction) -> None:
        """Note that `instruction` runs after `producer`."""
        self.edges.append((instruction, producer))

    def program(self) -> Program:
        """Close the trace and return its program. Errors: ONKI113 (a tensor outlives its loop), ONKI116."""
        close_body(self)
        return Program(
            core=self.core,
            opcodes=renumbered(self.body, OPCODES),
            buffers=tuple(self.buffers),
            layouts=tuple(self._layout_records),
            attrs=tuple(self.attribute_values),
            locations=tuple(self._location(i) for i in range(len(self._places))),
            body=tuple(self.body),
        )

    # Loops and registers --------------------------------------------------------------------------------

    def new_register(self, dtype: str) -> Register:
        """Return a register that the program has not used yet."""
        self._registers += 1
        return Register(self._registers - 1, dtype)

    def kept_layout(self, layout: TileLayout) -> Layout:
        """Return a layout as the values of its tensor are kept: a simulation may keep wider ones."""
        return layout.record

    def shown_value(self, register: Register) -> str:
        """What a `repr` adds of a register's value: nothing, a trace does not know it."""
        return ""

    def turns(
        self,
        kind: LoopKind,
        induction: Register,
        lower: Operand,
        upper: Operand,
        step: int,
        location: int,
    ) -> Iterator[None]:
        """Open a dynamic loop and yield once for each turn of its Python body: once, in a trace."""
        self.open_loop(kind, induction, lower, upper, step, location)
        yield
        self.close_loop()

    def open_loop(
        self,
        kind: LoopKind,
        induction: Register,
        lower: Operand,
        upper: Operand,
        step: int,
        location: int,
        test: object = None,
    ) -> None:
        """Begin the body of a dynamic loop. Errors: ONKI112 inside `nl.no_reorder`."""
        if self.no_reorder:
            at, callers = self.place(location)
            what = "a dynamic loop inside `nl.no_reorder`"
            fail("ONKI112", at=at, callers=callers, core=self.core, what=what)
        if not self.open_loops:
            self.trail.append(location)
        self.open_loops.append(
            OpenLoop(
                self._loops,
                kind,
                induction,
                lower,
                upper,
                step,
                location,
                self.body,
                test,
                dict(self._named),
                dict(self._counts),
            )
        )
        self._loops += 1
        self.begin_body()

    def begin_body(self) -> None:
        """Send instructions to a new list."""
        self.body = []
        self.append = self.body.append

    def close_loop(self) -> None:
        """End the body of the innermost loop and record the loop."""
        done = self.open_loops.pop()
        body = self.body
        self.body = done.outer
        self.append = self.body.append
        self.body.append(
            Loop(
                id=done.id,
                kind=done.kind,
                induction=done.induction,
                lower=done.lower,
                upper=done.upper,
                step=done.step,
                body=tuple(body),
                location=done.location,
            )
        )

    def legacy_while(self, register: Register, frame: FrameType) -> bool | None:
        """Answer the test of a legacy `while register:`; None where the register is no such test."""
        test = self.while_test(register, frame)
        if self.open_loops and self.open_loops[-1].test == test:
            self.close_loop()
            return False
        if not self.is_while(test, frame):
            return None
        self.open_loop(LoopKind.conditional, register, None, None, 1, self.locate(frame), test)
        return True

    def while_test(self, register: Register, frame: FrameType) -> tuple[Any, int]:
        """Which `while` statement tests which register at a frame; the statement is None for another test."""
        return (while_statement(frame.f_code, _position(frame)), register.id)

    def is_while(self, test: tuple[Any, int], frame: FrameType) -> bool:
        """True if the test is the whole test of a `while` that can be recorded. Errors: ONKI112."""
        if test[0] is None:
            return False
        self.refuse_leaving(test[0], frame)
        self.legacy("`while register:`", "nl.while_loop(register, body)", frame)
        return True

    def refuse_leaving(self, node: Any, frame: FrameType) -> None:
        """Refuse a legacy loop that its body leaves, or whose source is not to be had. Errors: ONKI112."""
        found = "a dynamic loop without its source" if node is None else leaving(node)
        if found is not None:
            location, callers = self.place(self.locate(frame))
            what = found if node is None else f"`{found}` in a dynamic loop"
            label = "the body is recorded once and turns on the device"
            fail("ONKI112", at=location, label=label, callers=callers, core=self.core, what=what)

    def legacy(self, what: str, instead: str, frame: FrameType) -> None:
        """Say that a construct is gone in NKI 0.7."""
        location, callers = self.place(self.locate(frame))
        self.warn(
            diagnostic("ONKI115", at=location, callers=callers, core=self.core, what=what, instead=instead)
        )

    # Views ----------------------------------------------------------------------------------------------

    def view(self, handle: BufferHandle, layout: TileLayout, offset: int) -> View:
        """Return the record of an access."""
        return View(handle.buffer.id, offset, layout.id)


def _position(frame: FrameType) -> Any:
    """Lines and columns of the expression that a frame is at."""
    return next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None, None, None, None))


def row_bytes(buffer: Buffer) -> int:
    """Bytes of one partition's row of an on-chip buffer."""
    elements = 1
    for count in buffer.shape[1:]:
        elements *= count
    return elements * DTYPES[buffer.dtype].bytes


def current(name: str) -> TraceRecorder:
    """Return the running recorder, or fail with ONKI103 for a call outside of a kernel."""
    recorder = CURRENT.get()
    if not isinstance(recorder, TraceRecorder):
        fail("ONKI103", name=name)
    return recorder

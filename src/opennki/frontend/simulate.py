"""`nki.simulate`: run a kernel's Python and its instructions together, one instruction at a time.

The same tensors, checks and closures as a trace and its execution; the recorder runs an instruction instead
of keeping it. Cores take turns that change only where they meet, so results repeat and a debugger works.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np

from opennki.diag import error, fail
from opennki.diag.say import warn
from opennki.execute import limits
from opennki.execute.blas import one_blas_thread
from opennki.execute.core import meeting_step
from opennki.execute.machine import Machine
from opennki.execute.memory import Arena, Storage, buffer_bytes, new_storage
from opennki.execute.numpy import run_cores
from opennki.execute.rendezvous import Hopeless, Rendezvous
from opennki.execute.widened import SharedBuffer, WidenedLayouts, check_views, widened_buffer
from opennki.frontend.agree import check_agreement, check_loops, diverged
from opennki.frontend.constants import agree_on_constants
from opennki.frontend.finish import check_scope
from opennki.frontend.kernel import Kernel, as_kernel
from opennki.frontend.recorder import BufferHandle, TraceRecorder
from opennki.frontend.results import Results, collect_results
from opennki.frontend.trace import (
    Argument,
    all_findings,
    array_of,
    bind_arguments,
    input_key,
    run_traced,
)
from opennki.ir.location import kernel_location, source_root
from opennki.ir.types import (
    Buffer,
    Instruction,
    Layout,
    LoopKind,
    Operand,
    Origin,
    Output,
    Register,
    Space,
    Structure,
    View,
)
from opennki.isa.define import Access
from opennki.isa.layout import TileLayout
from opennki.isa.table import TABLE
from opennki.settings import Setting, check_degree, kernel_degree, precise_fp, target_setting
from opennki.targets import Target

__all__ = ["Simulation", "restructure", "simulate"]

Array = np.ndarray[Any, Any]


class Launch:
    """What the cores of one simulation share. State: shared HBM by key, written inputs, the meeting."""

    def __init__(self, degree: int, arguments: Sequence[Argument], precise: bool) -> None:
        self.precise = precise
        self.meeting = Rendezvous(degree, turns=True)
        self.shared: dict[str, SharedBuffer] = {}
        self.arrays = {input_key(a.name): a.array for a in arguments}
        self.written: set[str] = set()

    def storage(self, buffer: Buffer, data: bytes | None = None) -> Storage:
        """Return the storage of a shared buffer, made by the core that comes first. `data`: a constant's."""
        found = self.shared.get(buffer.key)
        if found is not None:
            first = found.declared
            if (first.shape, first.dtype) == (buffer.shape, buffer.dtype):
                return found.storage
        made = SharedBuffer(buffer, self.precise)
        made.fill(np.asarray(self.arrays[buffer.key]) if buffer.origin is Origin.input else data)
        self.shared.setdefault(buffer.key, made)
        return made.storage


class EagerRecorder(TraceRecorder):
    """A recorder that runs each instruction and drops it. Storage dies with the last tensor that shows it."""

    def __init__(
        self, core: int, degree: int, target: Target, root: str | None, axes: int, launch: Launch
    ) -> None:
        super().__init__(core, degree, target, root, axes)
        self.launch = launch
        self.machine = Machine(core, target, TABLE, keeps_views=False, place=self._keywords)
        self.arenas: dict[Space, Arena] = {}
        self.append = self._run
        self.closed_loops: set[int] = set()
        self.handles: weakref.WeakValueDictionary[int, BufferHandle] = weakref.WeakValueDictionary()
        self._decoded: dict[tuple[int, int], dict[str, Any]] = {}
        self._held = 0
        self.kept_layouts: Sequence[TileLayout] = (
            self.layouts if launch.precise else WidenedLayouts(self.layouts)
        )

    def enter(self, handle: BufferHandle) -> None:
        """Give a new buffer its storage, unwritten."""
        buffer = handle.buffer
        kept = self._as_kept(buffer)
        self._claim_memory(kept)
        self.handles[buffer.id] = handle
        if buffer.space is Space.shared_hbm:
            handle.storage = self.launch.storage(buffer, self.constants.data(buffer.key))
        elif kept.address is not None:
            arena = self._arena(kept.space)
            handle.storage = arena.place(kept)
            arena.claim(kept, handle.storage)
        else:
            handle.storage = new_storage(kept)
            handle.storage.fill_unwritten(kept)

    def _as_kept(self, buffer: Buffer) -> Buffer:
        return buffer if self.launch.precise else widened_buffer(buffer)

    def _claim_memory(self, kept: Buffer) -> None:
        """Count a tensor's bytes. Errors: ONKI705.

        Nobody says when a tensor dies; so those alive are counted when all that were made would be too much.
        """
        more = buffer_bytes(kept)
        if self._held + more > limits.memory_limit() // self.degree:
            self._held = sum(buffer_bytes(self._as_kept(handle.buffer)) for handle in self.handles.values())
            at = self.place(kept.location)[0] if kept.location >= 0 else None
            limits.check_memory(self._held, more, tensor=kept.name, at=at, core=self.core, cores=self.degree)
        self._held += more

    def _arena(self, space: Space) -> Arena:
        if space not in self.arenas:
            target = self.target
            pitch = (
                target.psum_bytes_per_partition if space is Space.psum else target.sbuf_bytes_per_partition
            )
            self.arenas[space] = Arena(target.partitions, pitch)
        return self.arenas[space]

    def _meeting(self) -> Rendezvous:
        return self.launch.meeting

    def _keywords(self, location: int) -> dict[str, Any]:
        at, callers = self.place(location)
        return {"at": at, "callers": callers, "core": self.core}

    def shown_value(self, register: Register) -> str:
        """What a `repr` adds of a register: its value now."""
        value = self.machine.registers.get(register.id)
        return " unset" if value is None else f" = {value}"

    def turns(
        self,
        kind: LoopKind,
        induction: Register,
        lower: Operand,
        upper: Operand,
        step: int,
        location: int,
    ) -> Iterator[None]:
        """Open a dynamic loop and yield once for each turn that the values of its bounds give."""
        registers = self.machine.registers
        self.open_loop(kind, induction, lower, upper, step, location)
        if kind is LoopKind.counted:
            for value in range(self._value(lower), self._value(upper), step):
                registers[induction.id] = value
                self._next_turn()
                yield
        else:
            while registers.get(induction.id, 0) != 0:
                self._next_turn()
                yield
        self.close_loop()

    def _value(self, bound: Operand) -> int:
        if isinstance(bound, Register):
            return self.machine.registers.get(bound.id, 0)
        return int(bound)  # type: ignore[arg-type]  # a bound is an int or a register

    def _next_turn(self) -> None:
        """A turn traces the body again, so names and lines count as they did at its start."""
        loop = self.open_loops[-1]
        self._named = dict(loop.named)
        self._counts = dict(loop.counts)

    def begin_body(self) -> None:
        """Instructions run at once, in a loop as elsewhere."""

    def close_loop(self) -> None:
        """End the innermost loop."""
        self.closed_loops.add(self.open_loops.pop().id)

    def legacy_while(self, register: Register, frame: FrameType) -> bool | None:
        """Answer the test of a legacy `while register:` by the register's value."""
        test = self.while_test(register, frame)
        if self.open_loops and self.open_loops[-1].test == test:
            self._next_turn()
        elif not self.is_while(test, frame):
            return None
        else:
            self.open_loop(LoopKind.conditional, register, None, None, 1, self.locate(frame), test)
        if self.machine.registers.get(register.id, 0) != 0:
            return True
        self.close_loop()
        return False

    def kept_layout(self, layout: TileLayout) -> Layout:
        """Return a layout as the values of its tensor are kept."""
        return self.kept_layouts[layout.id].record

    def _storage(self, number: int) -> Storage:
        storage: Storage = self.handles[number].storage
        return storage

    def _run(self, instruction: Instruction) -> None:
        row = TABLE[instruction.opcode]
        key = (instruction.opcode, instruction.attrs)
        attrs = self._decoded.get(key)
        if attrs is None:
            attrs = self._decoded[key] = row.decode(self.attribute_values[instruction.attrs])
        if self.open_loops or self.closed_loops:
            check_scope(self, instruction, tuple(loop.id for loop in self.open_loops))
        if not self.launch.precise:
            place = self._keywords(instruction.location)
            check_views(instruction.operands, self.buffers, self.layouts, place)
        if row.sync is None:
            step = self.machine.prepare(instruction, attrs, self.kept_layouts, self._storage)
        else:
            where = (row.name, self.place(instruction.location)[0])
            step = meeting_step(
                self.machine, row, instruction, attrs, self.kept_layouts, self._storage, self._meeting, where
            )
        with np.errstate(all="ignore"):
            step()
        if row.has_many:
            return
        for role, operand in zip(row.roles, instruction.operands, strict=False):
            if isinstance(operand, View):
                buffer = self.buffers[operand.buffer]
                if buffer.origin is Origin.input and role.access(attrs) not in (Access.READ, Access.ORDER):
                    self.launch.written.add(buffer.key)


class Simulation:
    """A kernel that runs on the CPU when it is called with NumPy arrays; `[n]` gives its degree."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: object) -> Simulation:
        """Return the simulation at a degree. Errors: ONKI301 where the kernel has another bracket."""
        bracketed = self.kernel[grid]
        before = self.kernel.degree
        if before is not None and before != bracketed.degree:
            fail(
                "ONKI301",
                at=kernel_location(self.kernel.function),
                kernel=self.kernel.name,
                bracket=before,
                other="the bracket of `nki.simulate(…)`",
                option=bracketed.degree,
            )
        return Simulation(bracketed)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the kernel and return what it returns, as arrays; arrays that it writes are changed in place.

        The degree is the bracket's, the environment's or 1. Errors: those of tracing and running.
        """
        kernel = self.kernel
        chip = target_setting()
        degree: Setting[int] = kernel_degree(
            kernel.degree, None, chip, kernel.name, at=kernel_location(kernel.function)
        )
        check_degree(degree, chip)
        bound, keywords, arguments = bind_arguments(kernel, args, kwargs, texts=False)
        return _simulate(kernel, bound, keywords, arguments, degree.value, chip.value)

    def __repr__(self) -> str:
        return f"<simulation of {self.kernel!r}>"


def simulate(kernel: Kernel | Callable[..., Any]) -> Simulation:
    """Return `kernel` as a function of NumPy arrays that runs on the CPU, at the kernel's own degree.

    `nki.simulate(kernel)(x)`, `nki.simulate(kernel[2])(x)` and `nki.simulate(kernel)[2](x)` are all in use.
    Source: nki/api/nki/__init__.py:33.
    """
    return Simulation(as_kernel(kernel))


def _simulate(
    kernel: Kernel,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arguments: tuple[Argument, ...],
    degree: int,
    target: Target,
) -> Any:
    where = kernel_location(kernel.function)
    code = getattr(kernel.function, "__code__", None)
    root = source_root(code.co_filename) if code is not None else None
    axes = 1 if kernel.degree is not None or degree > 1 else 0
    for argument in arguments:
        array_of(kernel, argument)
    launch = Launch(degree, arguments, precise_fp())
    recorders = [EagerRecorder(core, degree, target, root, axes, launch) for core in range(degree)]
    results: dict[int, Results] = {}

    def core(recorder: EagerRecorder) -> Callable[[], None]:
        def run() -> None:
            try:
                value = run_traced(kernel, recorder, args, kwargs, arguments)
            except Hopeless as problem:
                if recorder.trail:
                    raise  # the number of turns decides, as in a compiled run
                raise error(*_divergence(problem)) from None
            results[recorder.core] = collect_results(kernel.name, where, recorder, value)

        return run

    run_cores([core(recorder) for recorder in recorders], launch.meeting, one_blas_thread)
    agree_on_constants(recorders)
    programs = [recorder.program() for recorder in recorders]
    check_agreement(kernel.name, where, programs, [results[i] for i in range(degree)])
    check_loops([[r.place(at)[0] for at in r.trail] for r in recorders])
    first = results[0]
    if not first.outputs and not launch.written:
        fail("ONKI106", at=where, kernel=kernel.name)
    warn(all_findings(recorders))
    _write_back(launch, arguments, kernel)
    return restructure(first.returns, [_output(output, launch, arguments) for output in first.outputs])


def _divergence(problem: Hopeless) -> list[Any]:
    """The error of one core that waits for ever."""
    waiting = {core: None if w is None else (w[0], w[1]) for core, w in problem.waiting.items()}
    return [d for d in diverged(waiting) if d.core == problem.core]


def _write_back(launch: Launch, arguments: Sequence[Argument], kernel: Kernel) -> None:
    for argument in arguments:
        key = input_key(argument.name)
        if key not in launch.written:
            continue
        if not isinstance(argument.array, np.ndarray) or not argument.array.flags.writeable:
            fail("ONKI703", at=kernel_location(kernel.function), name=argument.name)
        launch.shared[key].copy_back(argument.array)


def _output(output: Output, launch: Launch, arguments: Sequence[Argument]) -> Array:
    source = arguments[output.alias].array if output.alias >= 0 else None
    return launch.shared[output.key].output(output, source)


def restructure(structure: Structure, outputs: Sequence[Any]) -> Any:
    """Nest outputs as the kernel returned them."""
    if structure.kind == "leaf":
        return outputs[structure.index]
    items = [restructure(item, outputs) for item in structure.items]
    if structure.kind == "tuple":
        return tuple(items)
    if structure.kind == "list":
        return items
    return dict(zip(structure.keys, items, strict=True)) if structure.kind == "dict" else None

"""The NumPy executor: the definition of what a program does.

Programs are prepared once: views resolved, one closure an instruction, storage assigned by liveness. A run
copies the inputs in, walks the closures, one thread a core, and copies the outputs out.
"""

from __future__ import annotations

import contextvars
import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from opennki.diag import Diagnostic, Label, Location, OpenNkiError, diagnostic, error
from opennki.execute.blas import one_blas_thread
from opennki.execute.core import CoreProgram
from opennki.execute.inputs import checked_inputs
from opennki.execute.limits import check_memory
from opennki.execute.memory import buffer_bytes
from opennki.execute.rendezvous import Aborted, Hopeless, Rendezvous
from opennki.execute.widened import SharedBuffer, widened_program
from opennki.ir.types import Engine, KernelArtifact, Output, Space
from opennki.isa.table import BY_NAME
from opennki.targets import TARGETS, Target

__all__ = ["Prepared", "prepare", "run_cores"]

Array = np.ndarray[Any, Any]

_BLOCK = 256  # instructions between two looks for an interrupt


def prepare(artifact: KernelArtifact, *, precise: bool = True) -> Prepared:
    """Return `artifact` ready to run: at most 10 µs an instruction, once.

    Not `precise`: low-precision tensors are kept in float32. Errors: ONKI102 (then: a tensor looked at as
    another dtype).
    """
    return Prepared(artifact, precise)


class Prepared:
    """A kernel ready to run. State: the storage of all buffers, so one run at a time (a lock sees to it)."""

    def __init__(self, artifact: KernelArtifact, precise: bool) -> None:
        self.artifact = artifact
        self.precise = precise
        programs = artifact.programs if precise else tuple(widened_program(p) for p in artifact.programs)
        self.target: Target = TARGETS[artifact.target]
        self._lock = threading.Lock()
        rows = [BY_NAME[name] for program in artifact.programs for name in program.opcodes]
        self._has_products = any(Engine.tensor in row.engines for row in rows)
        self._meeting = Rendezvous(artifact.lnc)
        self._shared: dict[str, SharedBuffer] = {}
        held = 0
        for program in artifact.programs:
            for buffer in program.buffers:
                if buffer.space is Space.shared_hbm and buffer.key not in self._shared:
                    size = buffer_bytes(buffer)
                    at = program.locations[buffer.location] if buffer.location >= 0 else None
                    check_memory(held, size, tensor=buffer.name, at=at, core=None, cores=1)
                    held += size
                    self._shared[buffer.key] = SharedBuffer(buffer, precise)
        with collector_paused():
            storages = {key: shared.storage for key, shared in self._shared.items()}
            self._cores = [CoreProgram(program, self.target, storages, self.meeting) for program in programs]

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Run the kernel on `arrays`, in the order of the signature's inputs, and return its outputs.

        Inputs that the kernel writes are changed in place; a returned alias is that same array. Errors:
        ONKI702 (count, shape or dtype), ONKI703 (read-only), ONKI701 (cores that wait for ever).
        """
        signature = self.artifact.signature
        inputs = checked_inputs(self.artifact, arrays)
        with self._lock:
            given = {spec.key: array for spec, array in zip(signature.inputs, inputs, strict=True)}
            constants = dict(zip([c.key for c in signature.constants], self.artifact.constants, strict=True))
            for key, shared in self._shared.items():
                shared.fill(given[key] if key in given else constants.get(key))
            self._meeting = Rendezvous(self.artifact.lnc)
            cores = [core.run for core in self._cores]
            run_cores(cores, self._meeting, one_blas_thread if self._has_products else nullcontext)
            for spec, array in zip(signature.inputs, inputs, strict=True):
                if spec.is_written:
                    self._shared[spec.key].copy_back(array)
            return [self._output(output, inputs) for output in signature.outputs]

    def _output(self, output: Output, inputs: Sequence[Array]) -> Array:
        source = inputs[output.alias] if output.alias >= 0 else None
        return self._shared[output.key].output(output, source)

    def meeting(self) -> Rendezvous:
        """The rendezvous of the run that is under way."""
        return self._meeting


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the cyclic collector still: preparing makes hundreds of thousands of closures and no garbage."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def run_cores(
    cores: Sequence[Callable[[], None]],
    meeting: Rendezvous,
    limit: Callable[[], AbstractContextManager[Any]],
) -> None:
    """Run the cores of one launch, one thread each, in copies of the caller's context.

    `limit` is entered by the caller's thread and by each core's.
    Raises what went wrong: the errors of all cores in one report, core 0 first. An interrupt stops all cores.
    """
    failures: dict[int, BaseException] = {}

    def body(core: int, run: Callable[[], None]) -> None:
        try:
            meeting.start(core)
            with limit():
                run()
        except Aborted:
            pass
        except Hopeless as problem:
            failures[core] = problem
        except BaseException as problem:
            failures[core] = problem
            meeting.abort()
        finally:
            meeting.finish(core)

    if len(cores) == 1:
        body(0, cores[0])
    else:
        with limit():
            _run_threads(body, cores, meeting)
    if failures:
        raise _failure(failures)


def _run_threads(
    body: Callable[[int, Callable[[], None]], None], cores: Sequence[Callable[[], None]], meeting: Rendezvous
) -> None:
    """Run `body(core, run)` in one thread a core, in copies of the caller's context; wait for all."""
    threads = [
        threading.Thread(
            target=contextvars.copy_context().run,
            args=(body, core, run),
            name=f"core {core}",
            daemon=True,
        )
        for core, run in enumerate(cores)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        meeting.abort()
        for thread in threads:
            thread.join()
        raise


def _failure(failures: dict[int, BaseException]) -> BaseException:
    """Join what the cores raised into one exception."""
    real = {core: problem for core, problem in failures.items() if not isinstance(problem, Hopeless)}
    if real:
        first = real[min(real)]
        if not isinstance(first, OpenNkiError):
            return first
        found = [
            d for core in sorted(real) if isinstance(p := real[core], OpenNkiError) for d in p.diagnostics
        ]
        return error(*found)
    return error(
        *[_hopeless(problem) for _, problem in sorted(failures.items()) if isinstance(problem, Hopeless)]
    )


def _hopeless(problem: Hopeless) -> Diagnostic:
    name, where = problem.waiting[problem.core]
    others = [(core, there) for core, there in problem.waiting.items() if core != problem.core]
    return diagnostic(
        "ONKI701",
        at=Label(where, f"core {problem.core} waits here"),
        others=[Label(there[1], f"core {core} waits here") for core, there in others if there is not None],
        core=problem.core,
        says=f"core {problem.core} waits at `{name}` for ever: "
        + ", ".join(
            f"core {core} has finished"
            if there is None
            else f"core {core} waits at `{there[0]}` of {_line(there[1])}"
            for core, there in others
        ),
    )


def _line(place: Location) -> str:
    return f"{place.file}:{place.line}"

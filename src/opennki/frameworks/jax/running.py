"""Running a kernel call of a compiled graph: what XLA calls back, and how an error of ours gets out of it."""

from __future__ import annotations

import ast
import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from msgspec.structs import replace

from opennki.build.executable import BakedCall
from opennki.build.values import flatten
from opennki.diag import OpenNkiError, error
from opennki.frontend.simulate import simulate
from opennki.frontend.trace import filled

if TYPE_CHECKING:
    from opennki.frameworks.jax.site import Site

__all__ = ["callback", "run_simulated"]

Array = np.ndarray[Any, Any]
Callback = Callable[..., Any]

EXIT_SECONDS = 10.0
"""How long the end of the process waits for kernels that daemon threads run."""

QUIET_SECONDS = 0.25
"""How long no call must come from XLA's own threads before the process ends."""

_TEXT = """
def call(*arrays):
    outputs = run(arrays)
    if isinstance(outputs, BaseException):
        raise outputs
    return outputs
"""

_ANEW = "JAX keeps the graphs that it has compiled: `jax.clear_caches()`, then this one is made anew"


class _Gate:
    """Lets calls through until the interpreter exits. State: how many are inside, and whether it is closed.

    A daemon thread that is inside XLA when Python is torn down aborts the process: it is ended at its next
    step in Python, below frames of C++. So at exit the calls inside are waited for, and daemon threads stay
    where they are from then on. XLA's own threads pass: JAX waits for what they compute, after us.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0
        self._entered = 0
        self._is_closed = False

    def __enter__(self) -> None:
        if self._is_closed and _is_daemon():
            _stay()
        with self._condition:
            self._inside += 1
            self._entered += 1

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._inside -= 1
            self._condition.notify_all()
        if self._is_closed and _is_daemon():
            _stay()

    def close(self) -> None:
        """Wait until nobody is inside, but not for ever; let no daemon thread in or out any more.

        With several devices calls run in XLA's own threads, where those that are still to come cannot be
        seen: then none must come for a while.
        """
        end = time.monotonic() + EXIT_SECONDS
        with self._condition:
            self._is_closed = True
            self._condition.wait_for(lambda: self._inside == 0, timeout=EXIT_SECONDS)
        if self._entered and jax.local_device_count() > 1:
            before = -1
            while before != self._entered and time.monotonic() < end:
                before = self._entered
                for array in [jax.device_put(0.0, device) + 1 for device in jax.local_devices()]:
                    array.block_until_ready()
                time.sleep(QUIET_SECONDS)
                with self._condition:
                    self._condition.wait_for(lambda: self._inside == 0, timeout=EXIT_SECONDS)


def _is_daemon() -> bool:
    """True for a daemon thread that Python has started."""
    thread = threading.current_thread()
    return thread.daemon and not isinstance(thread, threading._DummyThread)


def _stay() -> None:
    """Wait for the end of the process."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


_GATE = _Gate()
atexit.register(_GATE.close)


def callback(site: Site, call: BakedCall | None, problems: deque[Exception]) -> Callback:
    """Return what XLA calls for a kernel call, on NumPy arrays that it owns; without `call` it simulates.

    An error is put into `problems`, and raised in a function that bears the name of the kernel and the line
    of its call: XLA prints the frames of a callback into the message that the user reads.
    """
    written = [i for i, tensor in enumerate(site.artifact.signature.inputs) if tensor.is_written]

    def run(arrays: Sequence[Array]) -> Sequence[Array] | Exception:
        given = list(arrays)
        for number in written:
            given[number] = np.array(given[number])
        try:
            with _GATE:
                return run_simulated(site, given) if call is None else call.run(given).outputs
        except Exception as raised:
            problem = _with_way_out(raised)
            problems.append(problem)
            return problem.with_traceback(None)

    place = site.location
    return _at(place.file if place else "<kernel>", place.line if place else 1, site.bound.kernel.name, run)


def _with_way_out(problem: Exception) -> Exception:
    """Say how a graph is compiled anew that was compiled while the runtime's degree was another one."""
    if not isinstance(problem, OpenNkiError) or problem.diagnostics[0].code != "ONKI304":
        return problem
    found = problem.diagnostics[0]
    return error(replace(found, help=(_ANEW, *found.help[:1])))


def _at(file: str, line: int, name: str, run: Callable[[Sequence[Array]], Any]) -> Callback:
    """Return a function of that name, at that line, which calls `run` and raises what it returns."""
    tree = ast.parse(_TEXT)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr | ast.arg):
            node.lineno = node.end_lineno = max(line, 1)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.name = name
    names: dict[str, Any] = {"run": run}
    exec(compile(tree, file, "exec"), names)
    found: Callback = names[name]
    return found


def run_simulated(site: Site, arrays: Sequence[Array]) -> Sequence[Array]:
    """Return the outputs of a simulation at the kernel's own degree, with no rule of baking."""
    given = [np.array(array) for array in arrays]
    args, kwargs = filled(site.bound.args, site.bound.kwargs, given)
    value = simulate(site.bound.kernel)(*args, **kwargs)
    found: Any = flatten(site.artifact.signature.returns, value)
    return tuple(found)

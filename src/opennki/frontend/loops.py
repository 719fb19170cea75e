"""Dynamic loops: `nl.fori_loop`, `nl.while_loop`, and the legacy `nl.dynamic_range` and `while register:`.

A trace runs the body once and records a `Loop`; a simulation runs it once a turn. Both see the same checks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from opennki.diag import fail
from opennki.frontend.recorder import TraceRecorder, current
from opennki.frontend.register import NkiScalar, VirtualRegister, fits_register
from opennki.frontend.source import for_statement
from opennki.frontend.valueless import is_int
from opennki.ir.types import LoopKind, Operand
from opennki.isa.table import register_move

__all__ = ["dynamic_range", "fori_loop", "no_reorder", "while_loop"]


@contextmanager
def no_reorder() -> Iterator[None]:
    """Keep program order in the body: what OpenNKI does anyway. Dynamic loops cannot stand in it (ONKI112).

    Source: nki/api/nki/language/__init__.py:2243.
    """
    recorder = current("nl.no_reorder")
    recorder.no_reorder += 1
    try:
        yield
    finally:
        recorder.no_reorder -= 1


def _here(recorder: TraceRecorder, frame: FrameType) -> dict[str, Any]:
    location, callers = recorder.place(recorder.locate(frame))
    return {"at": location, "callers": callers, "core": recorder.core}


def _bound(recorder: TraceRecorder, value: Any, what: str, called: str, frame: FrameType) -> Operand:
    """Return a loop's bound as an operand: an int, a register, or an int32 scalar."""
    if isinstance(value, VirtualRegister):
        return value.access
    if isinstance(value, NkiScalar) and not value.is_comparison and value.dtype == "int32":
        return value.access
    if not isinstance(value, NkiScalar) and is_int(value) and fits_register(int(value.__index__())):
        return int(value.__index__())
    got = f"`{value!r}`"
    if isinstance(value, NkiScalar):
        got = "the result of a comparison" if value.is_comparison else f"an {value.dtype} scalar"
    fail(
        "ONKI101",
        **_here(recorder, frame),
        instruction=called,
        role=what,
        expected="an int that a 32-bit register holds, a register or an int32 scalar",
        got=got,
    )


def _step(recorder: TraceRecorder, step: Any, called: str, frame: FrameType) -> int:
    is_known = not isinstance(step, (VirtualRegister, NkiScalar)) and is_int(step)
    if not is_known or int(step.__index__()) < 1 or not fits_register(int(step.__index__())):
        fail(
            "ONKI101",
            **_here(recorder, frame),
            instruction=called,
            role="step",
            expected="an int above 0 that a 32-bit register holds, known while tracing",
            got=f"`{step!r}`",
        )
    return int(step.__index__())


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any], Any], step: int = 1) -> None:
    """Run `body_fun(i)` for i from `lower` to `upper` (exclusive) in steps of `step`, on the device.

    Bounds are ints, registers or int32 scalars; `step` an int above 0. `i` is an `NkiScalar`, or a register
    if a bound is one; it is passed by value. State lives in SBUF or HBM; a tensor of the body ends with it.
    Errors: ONKI101, ONKI113, ONKI114. Source: nki/api/nki/language/__init__.py:2431, SDK 2.33.
    """
    recorder = current("nl.fori_loop")
    frame = sys._getframe(1)
    low = _bound(recorder, lower, "lower", "nl.fori_loop", frame)
    high = _bound(recorder, upper, "upper", "nl.fori_loop", frame)
    stride = _step(recorder, step, "nl.fori_loop", frame)
    is_register = isinstance(lower, VirtualRegister) or isinstance(upper, VirtualRegister)
    induction = recorder.new_register("int32")

    def value() -> Any:
        if is_register:
            return VirtualRegister(recorder, induction)
        return NkiScalar(recorder, induction)

    location = recorder.locate(frame)
    for _ in recorder.turns(LoopKind.counted, induction, low, high, stride, location):
        returned = body_fun(value())
        if returned is not None:
            got = f"an object of type `{type(returned).__name__}`"
            fail("ONKI114", **_here(recorder, frame), loop="nl.fori_loop", got=got, expected="nothing")


def while_loop(init: Any, body_fun: Callable[[Any], Any]) -> None:
    """Run `body_fun(r)` as long as the register `r` is not 0, tested before each turn, on the device.

    `init` is a register; the body takes it and returns the register that is tested next, perhaps the same.
    Errors: ONKI101, ONKI113, ONKI114. Source: nki/api/nki/language/__init__.py:2489.
    """
    recorder = current("nl.while_loop")
    frame = sys._getframe(1)
    if not isinstance(init, VirtualRegister):
        fail(
            "ONKI101",
            **_here(recorder, frame),
            instruction="nl.while_loop",
            role="init",
            expected="a register",
            got=f"an object of type `{type(init).__name__}`",
        )
    condition = VirtualRegister(recorder, recorder.new_register("int32"))
    register_move(condition, init)
    location = recorder.locate(frame)
    for _ in recorder.turns(LoopKind.conditional, condition.access, None, None, 1, location):
        returned = body_fun(condition)
        if not isinstance(returned, VirtualRegister):
            got = "nothing" if returned is None else f"an object of type `{type(returned).__name__}`"
            fail("ONKI114", **_here(recorder, frame), loop="nl.while_loop", got=got, expected="a register")
        if returned.access.id != condition.access.id:
            register_move(condition, returned)


def dynamic_range(start: Any, stop: Any = None, step: int = 1) -> Iterator[VirtualRegister]:
    """Yield the induction register of a dynamic loop: `for i in nl.dynamic_range(…)`.

    Gone in NKI 0.7 (ONKI115, a warning). Bounds are ints or registers. `break`, `return` and `else` have no
    counterpart on the device (ONKI112).
    Source: nki/api/nki/language/__init__.py:2407.
    """
    recorder = current("nl.dynamic_range")
    frame = sys._getframe(1)
    lower, upper = (0, start) if stop is None else (start, stop)
    low = _bound(recorder, lower, "start", "nl.dynamic_range", frame)
    high = _bound(recorder, upper, "stop", "nl.dynamic_range", frame)
    stride = _step(recorder, step, "nl.dynamic_range", frame)
    recorder.refuse_leaving(for_statement(frame.f_code, frame.f_lineno), frame)
    recorder.legacy("`nl.dynamic_range`", "nl.fori_loop(lower, upper, body)", frame)
    return _turns(recorder, low, high, stride, recorder.locate(frame))


def _turns(
    recorder: TraceRecorder, low: Operand, high: Operand, stride: int, location: int
) -> Iterator[VirtualRegister]:
    induction = recorder.new_register("int32")
    for _ in recorder.turns(LoopKind.counted, induction, low, high, stride, location):
        yield VirtualRegister(recorder, induction, is_frozen=True)

"""`nki.jit` and the kernel object: a function, perhaps with a degree in brackets."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from opennki.diag import InternalError, Location, OpenNkiWarning, fail
from opennki.frontend.recorder import TraceRecorder
from opennki.ir.location import locate
from opennki.isa.recorder import CURRENT

__all__ = ["Kernel", "as_kernel", "jit", "register_graph_call", "register_launch"]

Launch = Callable[["Kernel", Sequence[object], Mapping[str, object]], object]
_launch: list[Launch] = []
_graph_call: list[tuple[Callable[[], bool], Launch]] = []

# Options of earlier and other releases, taken and without effect here (census §1.2, nki-0.7 §1).
_WITHOUT_EFFECT = frozenset(
    {
        "mode",
        "debug_kernel",
        "show_compiler_tb",
        "experimental_flags",
        "compile_config",
        "specialization_config",
    }
)


def register_launch(function: Launch) -> None:
    """Register the one upward hook of this module: how a direct call is compiled and run."""
    _launch[:] = [function]


def register_graph_call(is_met: Callable[[], bool], function: Launch) -> None:
    """Register what takes over the calls that a framework's compiler meets while it reads Python itself.

    Such a compiler follows `Kernel.__call__` line by line, and it knows no context variables.
    """
    _graph_call[:] = [(is_met, function)]


class Kernel:
    """A kernel: call it on arrays, put a degree in brackets, or hand it to `opennki.trace`.

    `degree` is what the bracket holds, None without one; it is judged when the kernel is launched.
    """

    def __init__(self, function: Callable[..., Any], degree: object = None) -> None:
        self.function = function
        self.degree = degree
        functools.update_wrapper(self, function)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    def __getitem__(self, grid: object) -> Kernel:
        """Return the kernel with a degree: `kernel[2]`. Errors: ONKI308 for a grid of several numbers."""
        if isinstance(grid, (tuple, list)):
            if len(grid) != 1:
                location = locate(sys._getframe(1).f_code, sys._getframe(1).f_lasti)
                fail("ONKI308", at=location, kernel=self.name, grid=list(grid))
            grid = grid[0]
        return Kernel(self.function, grid)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel: inside another kernel it is inlined, elsewhere it is compiled and run.

        Errors: those of tracing, baking and running; ONKI309 for a nested bracket that differs.
        """
        for is_met, graph_call in _graph_call:
            if is_met():
                return graph_call(self, args, kwargs)
        recorder = CURRENT.get()
        if isinstance(recorder, TraceRecorder):
            return self._inline(recorder, args, kwargs)
        if not _launch:
            raise InternalError("the build layer has not registered how a kernel is launched")
        return _launch[0](self, args, kwargs)

    def _inline(self, recorder: TraceRecorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.degree is not None and self.degree != recorder.degree:
            fail(
                "ONKI309",
                **recorder.here(2),
                kernel=self.name,
                inner=self.degree,
                outer=recorder.degree,
            )
        with recorder.prefixed(self.name):
            return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        bracket = "" if self.degree is None else f"[{self.degree}]"
        return f"<nki kernel {self.name}{bracket}>"


def as_kernel(value: object) -> Kernel:
    """Return `value` as a kernel; a plain function is wrapped. Errors: ONKI104."""
    if isinstance(value, Kernel):
        return value
    if callable(value) and hasattr(value, "__name__"):
        return Kernel(value)
    kind = type(value).__name__
    problem = f"a kernel is a function, got an object of type `{kind}`"
    fail("ONKI006", problem=problem, help=["pass a function"])


@overload
def jit(fn: Callable[..., Any], /) -> Kernel: ...


@overload
def jit(fn: None = None, /, **kwargs: Any) -> Callable[[Callable[..., Any]], Kernel]: ...


def jit(fn: Callable[..., Any] | None = None, /, **kwargs: Any) -> Any:
    """Make a kernel of a function: `@nki.jit`, or `@nki.jit(…)` with options of earlier releases.

    Options have no effect here and are named in one warning; `platform_target` is refused (ONKI107).
    Source: nki/api/nki/__init__.py:6.
    """
    if "platform_target" in kwargs:
        frame = sys._getframe(1)
        fail(
            "ONKI107",
            at=locate(frame.f_code, frame.f_lasti),
            argument="platform_target",
            help=[
                f"leave it out and set NEURON_PLATFORM_TARGET_OVERRIDE={kwargs['platform_target']}, "
                "or give `target=` to `opennki.trace`"
            ],
        )
    unknown = sorted(set(kwargs) - _WITHOUT_EFFECT)
    if unknown:
        names = ", ".join(f"`{name}`" for name in unknown)
        warnings.warn(OpenNkiWarning(f"nki.jit ignores {names}"), stacklevel=2)
    if fn is None:
        return lambda function: Kernel(function.function if isinstance(function, Kernel) else function)
    return Kernel(fn.function if isinstance(fn, Kernel) else fn)


def definition(kernel: Kernel) -> Location:
    """Return the place of the kernel's `def` line."""
    from opennki.ir.location import kernel_location

    return kernel_location(kernel.function)

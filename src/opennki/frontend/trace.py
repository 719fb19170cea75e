"""Tracing: run a kernel's Python function once for each core and close the result into an artifact."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from msgspec import Struct

from opennki.diag import Diagnostic, Label, Location, fail
from opennki.diag.say import caller
from opennki.frontend.agree import check_agreement, check_loops, check_trips
from opennki.frontend.allocate import whole_tensor
from opennki.frontend.constants import agree_on_constants, collect_constants
from opennki.frontend.kernel import Kernel
from opennki.frontend.recorder import TraceRecorder, call_kernel
from opennki.frontend.results import collect_results
from opennki.frontend.spec import Spec, is_spec_text, parse_spec
from opennki.ir.dtypes import canonical
from opennki.ir.location import kernel_location, locate, source_root
from opennki.ir.types import (
    Input,
    Instruction,
    KernelArtifact,
    Loop,
    Origin,
    Signature,
    Space,
    View,
)
from opennki.isa.recorder import CURRENT
from opennki.isa.table import TABLE
from opennki.targets import Target

__all__ = ["Argument", "array_of", "bind_arguments", "filled", "run_traced", "trace_program"]


class Argument(Struct, frozen=True):
    """A tensor argument: the name of its parameter (`xs.0` inside a list) and what it holds."""

    name: str
    spec: Spec
    array: Any = None


class _Slot(Struct, frozen=True):
    """Where a tensor argument goes, in place of what the caller gave."""

    index: int


def bind_arguments(
    kernel: Kernel, specs: Sequence[object], values: Mapping[str, object], *, texts: bool
) -> tuple[tuple[Any, ...], dict[str, Any], tuple[Argument, ...]]:
    """Bind a call and pull its tensor arguments out; they leave slots behind.

    With `texts`, text of the form `dtype[sizes]` is a spec. Errors: ONKI006 (does not bind), ONKI104,
    ONKI214 (a dtype without hardware).
    """
    try:
        signature = inspect.signature(kernel.function)
        bound = signature.bind(*specs, **values)
    except TypeError as problem:
        fail(
            "ONKI006",
            at=Label(kernel_location(kernel.function), f"`{kernel.name}` is defined here"),
            problem=f"the arguments do not fit kernel `{kernel.name}`: {problem}",
        )
    arguments: list[Argument] = []

    def slot(name: str, value: object) -> object:
        spec = _spec_of(kernel, name, value, texts)
        if spec is not None:
            arguments.append(Argument(name, spec, value))
            return _Slot(len(arguments) - 1)
        if type(value) is list:
            return [slot(f"{name}.{i}", item) for i, item in enumerate(value)]
        if type(value) is tuple:
            return tuple(slot(f"{name}.{i}", item) for i, item in enumerate(value))
        if type(value) is dict:
            return {key: slot(f"{name}.{key}", item) for key, item in value.items()}
        return value

    for name, value in list(bound.arguments.items()):
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            bound.arguments[name] = tuple(slot(f"{name}.{i}", item) for i, item in enumerate(value))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = {key: slot(key, item) for key, item in value.items()}
        else:
            bound.arguments[name] = slot(name, value)
    return bound.args, bound.kwargs, tuple(arguments)


def _spec_of(kernel: Kernel, name: str, value: object, texts: bool) -> Spec | None:
    """Return the spec of a tensor argument, None for anything else."""
    if isinstance(value, Spec):
        return value
    if isinstance(value, str):
        return parse_spec(value) if texts and is_spec_text(value) else None
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None or not hasattr(value, "__array__") or shape == ():
        return None
    found = canonical(dtype)
    if found is None:
        fail(
            "ONKI214",
            at=Label(kernel_location(kernel.function), f"argument `{name}`"),
            says=f"argument `{name}` of kernel `{kernel.name}` is {dtype}, which the hardware lacks",
            help=[
                f"pass `{name}.astype(np.float32)`"
                if "float" in str(dtype)
                else f"convert `{name}` with `.astype(…)`"
            ],
        )
    if 0 in shape:
        fail(
            "ONKI212",
            at=Label(kernel_location(kernel.function), f"argument `{name}`"),
            says=f"argument `{name}` of kernel `{kernel.name}` has no elements: shape {list(shape)}",
            help=["pass an array with at least one element"],
        )
    return Spec(found, shape)


def filled(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], tensors: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return bound arguments with tensors in the places of the arguments that were pulled out."""

    def fill(value: Any) -> Any:
        if isinstance(value, _Slot):
            return tensors[value.index]
        if type(value) in (list, tuple):
            return type(value)(fill(item) for item in value)
        if type(value) is dict:
            return {key: fill(item) for key, item in value.items()}
        return value

    return tuple(fill(value) for value in args), {key: fill(value) for key, value in kwargs.items()}


def array_of(kernel: Kernel, argument: Argument) -> np.ndarray[Any, Any]:
    """Return the array of an argument that is run on; a copy would not do, the kernel may write it.

    Errors: ONKI104, at the user's call.
    """
    if isinstance(argument.array, np.ndarray):
        return argument.array
    kind = type(argument.array)
    frame = caller()
    fail(
        "ONKI104",
        at=None if frame is None else locate(frame.f_code, frame.f_lasti),
        kernel=kernel.name,
        got=f"an object of type `{kind.__module__}.{kind.__qualname__}`",
        argument=argument.name,
        help=["a direct call takes NumPy arrays; a spec goes to `opennki.trace`"],
    )


@contextmanager
def frozen_collector() -> Iterator[None]:
    """Keep the cyclic collector still: a trace makes hundreds of thousands of records and no cycles."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def run_traced(
    kernel: Kernel,
    recorder: TraceRecorder,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arguments: tuple[Argument, ...],
) -> Any:
    """Run a kernel's function under `recorder` and return what it returns. Inputs become tensors first.

    An exception of the kernel's own passes with a note that names the core and the kernel.
    """
    tensors = [
        whole_tensor(
            recorder.add_buffer(
                a.spec.shape,
                a.spec.dtype,
                Space.shared_hbm,
                name=a.name,
                frame=None,
                origin=Origin.input,
                key=input_key(a.name),
            )
        )
        for a in arguments
    ]

    token = CURRENT.set(recorder)
    try:
        return call_kernel(kernel.function, *filled(args, kwargs, tensors))
    except Exception as raised:
        if not hasattr(raised, "diagnostics"):
            where = kernel_location(kernel.function)
            raised.add_note(
                f"raised by kernel `{kernel.name}` ({where.file}:{where.line}) "
                f"on core {recorder.core} of {recorder.degree}"
            )
        raise
    finally:
        CURRENT.reset(token)


def input_key(name: str) -> str:
    """The key of an input's buffer; a colon keeps it apart from names that kernels give."""
    return f"input:{name}"


_WRITTEN = [
    tuple(
        i
        for i, role in enumerate(row.roles)
        if "write" in str(role.access.__qualname__) or role.access.__qualname__.startswith("accumulates")
    )
    for row in TABLE
]


def written_inputs(body: Sequence[Instruction | Loop], count: int) -> set[int]:
    """Return the numbers of the inputs that a program stores into; inputs are its first buffers."""
    found: set[int] = set()
    for item in body:
        if isinstance(item, Loop):
            found |= written_inputs(item.body, count)
            continue
        for place in _WRITTEN[item.opcode]:
            operand = item.operands[place]
            if operand.__class__ is View and operand.buffer < count:
                found.add(operand.buffer)
    return found


def trace_program(
    kernel: Kernel,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arguments: tuple[Argument, ...],
    degree: int,
    target: Target,
) -> KernelArtifact:
    """Trace a bound kernel once for each core and return its artifact.

    Errors: those of the kernel's instructions; ONKI105, ONKI106 (return value); ONKI305 to ONKI307 (the
    cores do not fit together).
    """
    where = kernel_location(kernel.function)
    root = source_root(kernel.function.__code__.co_filename) if hasattr(kernel.function, "__code__") else None
    recorders: list[TraceRecorder] = []
    results = []
    written: set[int] = set()
    with frozen_collector():
        for core in range(degree):
            axes = 1 if kernel.degree is not None or degree > 1 else 0
            recorder = TraceRecorder(core, degree, target, root, axes)
            value = run_traced(kernel, recorder, args, kwargs, arguments)
            results.append(collect_results(kernel.name, where, recorder, value))
            written |= written_inputs(recorder.body, len(arguments))
            recorders.append(recorder)
        agree_on_constants(recorders)
        constants, data = collect_constants(recorders)
        programs = tuple(recorder.program() for recorder in recorders)
    inputs = tuple(
        Input(a.name, input_key(a.name), a.spec.shape, a.spec.dtype, i in written)
        for i, a in enumerate(arguments)
    )
    check_agreement(kernel.name, where, programs, results)
    check_loops([[r.place(at)[0] for at in r.trail] for r in recorders])
    trips = check_trips(programs)
    outputs, returns = results[0].outputs, results[0].returns
    if not outputs and not written:
        fail("ONKI106", at=Label(where, "this kernel"), kernel=kernel.name)
    return KernelArtifact(
        kernel=kernel.name,
        target=target.name,
        location=where,
        signature=Signature(inputs=inputs, constants=constants, outputs=outputs, returns=returns),
        programs=programs,
        constants=data,
        findings=(*all_findings(recorders), *trips),
    )


def all_findings(recorders: Sequence[TraceRecorder]) -> tuple[Diagnostic, ...]:
    """The warnings of all cores, one for each place."""
    found: dict[tuple[str, str | None, Location | None], Diagnostic] = {}
    for recorder in recorders:
        for finding in recorder.findings:
            found.setdefault((finding.code, finding.rule, finding.location), finding)
    return tuple(found.values())

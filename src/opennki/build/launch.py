"""Direct calls: a kernel called on NumPy arrays is a graph of one call, compiled and run at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from msgspec import Struct

from opennki.build.pipeline import bake
from opennki.build.places import call_location
from opennki.diag import fail
from opennki.diag.say import warn
from opennki.frontend.kernel import Kernel
from opennki.frontend.trace import Argument, bind_arguments, trace_program
from opennki.graph import Graph, KernelCall
from opennki.settings import (
    check_degree,
    direct_call_degree,
    kernel_degree,
    simulator_requested,
    target_setting,
)

__all__ = ["RunOptions", "launch", "run_options"]


class RunOptions(Struct, frozen=True):
    """The options of `opennki run`, which hold for every direct call of the script."""

    lnc: str | None = None
    target: str | None = None


_OPTIONS = [RunOptions()]
"""Of the process, as an environment variable is: a context variable would be lost in the script's threads."""


@contextmanager
def run_options(options: RunOptions) -> Iterator[None]:
    """Give every direct call in the body the options of `opennki run`."""
    before = _OPTIONS[0]
    _OPTIONS[0] = options
    try:
        yield
    finally:
        _OPTIONS[0] = before


def launch(kernel: Kernel, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Return what the kernel returns for NumPy arrays; inputs that it writes are changed in place.

    The graph's degree is `run --lnc`, NEURON_CC_FLAGS, the environment, the kernel's own; all rules of baking
    hold. With NKI_SIMULATOR=1 the kernel is simulated at its own degree instead.
    """
    if simulator_requested():
        from opennki.frontend.simulate import simulate

        return simulate(kernel)(*args, **kwargs)
    options, place = _OPTIONS[0], call_location()
    target = target_setting(options.target, spelled="--target ")
    degree = kernel_degree(kernel.degree, None, target, kernel.name, at=place)
    graph = direct_call_degree(degree, options.lnc)
    check_degree(degree, target, at=place)
    check_degree(graph, target, at=place)
    bound_args, bound_kwargs, arguments = bind_arguments(kernel, args, kwargs, texts=False)
    arrays = [_array(kernel, argument) for argument in arguments]
    artifact = trace_program(kernel, bound_args, bound_kwargs, arguments, degree.value, target.value)
    call = KernelCall(artifact=artifact, degree=degree, location=place)
    executable = bake(Graph(calls=(call,)), graph, target, artifact.findings)
    warn(executable.findings)
    return executable(*arrays)


def _array(kernel: Kernel, argument: Argument) -> np.ndarray[Any, Any]:
    """Return the array of an argument. A copy would not do: the kernel may write it."""
    if isinstance(argument.array, np.ndarray):
        return argument.array
    kind = type(argument.array)
    got = f"an object of type `{kind.__module__}.{kind.__qualname__}`"
    fail(
        "ONKI104",
        at=call_location(),
        kernel=kernel.name,
        got=got,
        argument=argument.name,
        help=["a direct call takes NumPy arrays; a spec goes to `opennki.trace`"],
    )

"""Direct calls: a kernel called on NumPy arrays is a graph of one call, compiled and run at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from opennki.build.executable import Executable
from opennki.build.foreign import MISSED, QUICK, adapter, framework_of_call
from opennki.build.pipeline import bake
from opennki.build.places import call_location
from opennki.build.recall import RunOptions, call_key, compiled_before, recall, remember
from opennki.cache import CACHE, Bound, Traced
from opennki.diag.say import warn
from opennki.frontend.kernel import Kernel
from opennki.frontend.trace import Argument, array_of, bind_arguments
from opennki.graph import Graph, KernelCall
from opennki.settings import (
    check_degree,
    direct_call_degree,
    eager_degree,
    kernel_degree,
    simulator_requested,
    target_setting,
)

__all__ = ["RunOptions", "compiled_call", "launch", "options_in_force", "run_options"]


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


def options_in_force() -> RunOptions:
    """Return the options of `opennki run`, for the adapters of frameworks."""
    return _OPTIONS[0]


def launch(kernel: Kernel, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Return what the kernel returns for NumPy arrays; inputs that it writes are changed in place.

    Tensors of PyTorch and JAX go to their adapter.

    The graph's degree is `run --lnc`, NEURON_CC_FLAGS, the environment, the kernel's own; all rules of baking
    hold. With NKI_SIMULATOR=1 the kernel is simulated at its own degree instead. A call like an earlier one
    runs what was compiled then, unless something that the kernel depends on has changed.
    """
    quick = QUICK.get(type(args[0])) if args else None
    if quick is not None and (result := quick(kernel, args, kwargs)) is not MISSED:
        return result
    call = call_key(kernel, args, kwargs, _OPTIONS[0])
    known = recall(kernel, call, args, kwargs) if call is not None else None
    if known is not None:
        executable, arrays = known
        warn(executable.findings)
        return executable(*arrays)
    if call is None:
        framework = framework_of_call(kernel.name, (*args, *kwargs.values()))
        if framework is not None:
            return adapter(framework).launch(kernel, args, kwargs)
    if simulator_requested():
        from opennki.frontend.simulate import simulate

        return simulate(kernel)(*args, **kwargs)
    traced, baked, arguments = compiled_call(kernel, args, kwargs)
    remember(kernel, call, traced, baked, arguments, args, kwargs)
    warn((*baked.findings, *traced.remarks))
    return baked(*[argument.array for argument in arguments])


def compiled_call(
    kernel: Kernel, args: Sequence[object], kwargs: Mapping[str, object], *, is_eager: bool = False
) -> tuple[Traced, Executable, tuple[Argument, ...]]:
    """Return the trace of a direct call, the executable of it alone, and its arrays.

    The eager path of a framework compiles for LNC=1, whatever the settings say.
    """
    options, place = _OPTIONS[0], call_location()
    target = target_setting(options.target, spelled="--target ")
    degree = kernel_degree(kernel.degree, None, target, kernel.name, at=place)
    graph = eager_degree() if is_eager else direct_call_degree(degree, options.lnc)
    check_degree(degree, target, at=place)
    check_degree(graph, target, at=place)
    bound_args, bound_kwargs, arguments = bind_arguments(kernel, args, kwargs, texts=False)
    for argument in arguments:
        array_of(kernel, argument)
    traced = CACHE.trace(Bound(kernel, bound_args, bound_kwargs, arguments, degree.value, target.value))
    baked = compiled_before(traced, graph.value, target.value)
    if baked is None:
        call = KernelCall(artifact=traced.artifact, degree=degree, location=place, is_eager=is_eager)
        baked = bake(Graph(calls=(call,)), graph, target, traced.artifact.findings)
    return traced, baked, arguments

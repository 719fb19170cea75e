"""The names of JAX that are not documented, all of them: look here first after a new release of JAX."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import jax
from jax.extend import core
from jax.interpreters import ad, batching, mlir

__all__ = [
    "ARRAY",
    "FOLDER",
    "graph_of",
    "is_exported",
    "is_staged",
    "kept",
    "lower_callback",
    "lower_neuron",
    "retraced",
    "set_rules",
    "sub_jaxprs",
]

T = TypeVar("T")

FOLDER = str(Path(jax.__file__).parent)
"""Where JAX's own frames are."""

ARRAY: type = type(jax.numpy.zeros(0))
"""The type of JAX's arrays that hold values; `jax.Array` is that of tracers too."""


def set_rules(primitive: Any, derivative: Any, batch: Any, cpu: Any, other: Any) -> None:
    """Register what happens to a primitive under `grad`, under `vmap`, and when it is lowered."""
    ad.primitive_jvps[primitive] = derivative
    batching.primitive_batchers[primitive] = batch
    mlir.register_lowering(primitive, other)
    mlir.register_lowering(primitive, cpu, platform="cpu")


def is_staged() -> bool:
    """True while JAX traces a graph: inside `jit`, the body of a `scan`, an export."""
    found: Callable[[], bool] = vars(core)["unsafe_am_i_under_a_jit_DO_NOT_USE"]
    return found()


def sub_jaxprs(equation: core.JaxprEqn) -> Iterator[core.Jaxpr]:
    """Yield the graphs inside an equation: of an inner `jit`, of a loop, of branches."""
    yield from core.jaxprs_in_params(equation.params)


def graph_of(context: mlir.LoweringRuleContext) -> core.Jaxpr | None:
    """Return the whole graph that is being lowered, None where this JAX does not let us see it.

    A rule is given its own equation only; the graph is an argument of the function that walks it.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "lower_jaxpr_to_module":
            found = frame.f_locals.get("jaxpr")
            return getattr(found, "jaxpr", found)
        frame = frame.f_back
    return None


def kept(context: mlir.LoweringRuleContext, make: Callable[[], T]) -> T:
    """Return what is kept with the module that is being lowered, by the function that makes it.

    It is kept among JAX's own lowerings, as that is a dictionary which lives as long as the module: what
    `keepalives` holds keeps a module from being exported.
    """
    found: dict[Any, Any] = context.module_context.cached_primitive_lowerings
    if make not in found:
        found[make] = make()
    value: T = found[make]
    return value


def is_exported(context: mlir.LoweringRuleContext) -> bool:
    """True if the module is lowered by `jax.export`, to be run elsewhere."""
    module = context.module_context
    return bool(getattr(module.lowering_parameters, "for_export", False)) or len(module.platforms) > 1


def lower_callback(context: mlir.LoweringRuleContext, operands: Any, function: Any) -> Any:
    """Lower to a call of a Python function on NumPy arrays, as a pure function of them."""
    emit: Any = mlir.emit_python_callback
    results, _, _ = emit(
        context,
        function,
        None,
        operands,
        context.avals_in,
        context.avals_out,
        has_side_effect=False,
        returns_token=False,
    )
    return results


def lower_neuron(
    context: mlir.LoweringRuleContext, operands: Any, target: str, config: str, aliases: dict[int, int]
) -> Any:
    """Lower to the custom call that the Neuron compiler reads: a text as its config, status returned."""
    rule = jax.ffi.ffi_lowering(
        target, backend_config=config, api_version=2, operand_output_aliases=aliases or None
    )
    return rule(context, *operands)


_make_context: Any = getattr(jax, "make_user_context", None)
_SETTINGS = None if _make_context is None else _make_context(None)


def retraced(settings: object) -> AbstractContextManager[Any]:
    """Have what JAX keeps of functions not used for other settings than these."""
    return nullcontext() if _SETTINGS is None else _SETTINGS(settings)

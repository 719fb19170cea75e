"""`nki_op` and `wrap_nki`: kernels as operators of PyTorch, under the names that people import.

Source: notes of users of torch-neuronx 2.33 (nki-0.7 §7); the documents have no page on them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

import torch

from opennki.build.places import call_location
from opennki.diag import diagnostic, fail
from opennki.diag.say import warn
from opennki.frontend.kernel import Kernel, as_kernel

__all__ = ["NkiOp", "WrappedKernel", "decompositions", "nki_op", "wrap_nki"]

_FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""The Python function of each operator that writes no input, by the operator."""


def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Return the functions that operators of `nki_op` stand for: a graph needs their kernel calls."""
    return _FUNCTIONS


class NkiOp:
    """An operator around kernels. Call it, or give it a gradient: `op.register_autograd(…)`.

    All else is `torch.library.custom_op`'s. An operator that writes its inputs is followed into by compilers:
    it can have no gradient, and functionalization would hide its kernels.
    """

    def __init__(self, definition: Any, function: Callable[..., Any], *, is_functional: bool) -> None:
        self.definition = definition
        self.function = function
        self.is_functional = is_functional
        space, _, name = definition._qualname.partition("::")
        self.overload = getattr(getattr(torch.ops, space), name).default
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator; it becomes a node of a graph that is being made."""
        if not self.is_functional and torch.compiler.is_compiling():
            return self.function(*args, **kwargs)
        return self.overload(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["definition"], name)

    def __repr__(self) -> str:
        return f"<nki_op {self.definition._qualname}>"


@overload
def nki_op(name: str, fn: Callable[..., Any], mutates_args: Iterable[str] = ()) -> NkiOp: ...


@overload
def nki_op(
    name: str, fn: None = None, mutates_args: Iterable[str] = ()
) -> Callable[[Callable[..., Any]], NkiOp]: ...


def nki_op(name: str, fn: Callable[..., Any] | None = None, mutates_args: Iterable[str] = ()) -> Any:
    """Make an operator `"space::name"` of a function that calls kernels: a decorator, or called with it.

    The function's annotations are the operator's schema; `mutates_args` names the arguments that it writes.
    The function also tells the shapes of the outputs. Errors: ONKI006.
    """
    written = tuple(mutates_args)
    if fn is None:
        return lambda function: _operator(name, function, written)
    return _operator(name, fn, written)


def _operator(name: str, function: Callable[..., Any], written: tuple[str, ...]) -> NkiOp:
    called = function
    if isinstance(function, Kernel | WrappedKernel):

        def called(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        functools.update_wrapper(called, _plain(function))
    try:
        definition = torch.library.custom_op(name, called, mutates_args=written)
    except (ValueError, TypeError, AssertionError, RuntimeError) as problem:
        reason = " ".join(str(problem).split())
        fail(
            "ONKI006",
            at=call_location(),
            problem=f"`{name}` cannot be an operator of PyTorch: {reason[:200].rstrip('.')}",
            help=[
                'wrap an annotated function: `@nki_op("space::name", mutates_args=())` and '
                "`def f(x: torch.Tensor) -> torch.Tensor: return kernel(x)`"
            ],
        )
    definition.register_fake(called)
    found = NkiOp(definition, called, is_functional=not written)
    if not written:
        _FUNCTIONS[found.overload] = called
    return found


def _plain(function: Any) -> Callable[..., Any]:
    while isinstance(function, Kernel | WrappedKernel):
        function = function.kernel if isinstance(function, WrappedKernel) else function.function
    found: Callable[..., Any] = function
    return found


class WrappedKernel:
    """A kernel to be called on tensors: `wrap_nki(kernel)[2](x)`. It is the kernel itself, and its degree."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: Any) -> WrappedKernel:
        """Return the wrapped kernel with a degree. Errors: ONKI301 if the kernel has another one, ONKI308."""
        inner = self.kernel.degree
        wrapped = WrappedKernel(self.kernel[grid])
        if inner is not None and wrapped.kernel.degree != inner:
            name, other = self.kernel.name, wrapped.kernel.degree
            fail(
                "ONKI301",
                at=call_location(),
                kernel=name,
                bracket=inner,
                other=f"`wrap_nki(…)[{other}]`",
                option=other,
                help=[f"write the degree once: `wrap_nki({name})[{other}]`"],
            )
        return wrapped

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel: one output is a tensor, several are a tuple."""
        return self.kernel(*args, **kwargs)

    def __repr__(self) -> str:
        return f"wrap_nki({self.kernel!r})"


def wrap_nki(kernel: Any) -> WrappedKernel:
    """Return a kernel as something to call on tensors.

    Here `wrap_nki(kernel[2])` and `wrap_nki(kernel)[2]` both have the degree 2. The vendor's wrapper drops
    the inner one without a word, so that is said as ONKI616.
    """
    if isinstance(kernel, WrappedKernel):
        return kernel
    found = as_kernel(kernel)
    if found.degree is not None:
        at = call_location()
        warn([diagnostic("ONKI616", at=at, kernel=found.name, degree=found.degree)])
    return WrappedKernel(found)

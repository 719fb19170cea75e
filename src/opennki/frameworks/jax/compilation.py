"""A function of JAX compiled for a degree and a target: `opennki.compile(function, *examples)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import jax
import numpy as np

from opennki.build.executable import BakedCall, Executable
from opennki.build.places import call_location
from opennki.diag import Diagnostic, fail
from opennki.frameworks.jax.private import retraced
from opennki.frameworks.jax.site import GraphSettings, bake_sites, sites_in, with_settings
from opennki.ir.dtypes import canonical
from opennki.ir.types import Input, Output, Signature, Structure
from opennki.lnc import check_runtime
from opennki.settings import Setting
from opennki.targets import Target

__all__ = ["FunctionExecutable", "compile"]


class FunctionExecutable(Executable):
    """A compiled function. Call it on arrays of JAX or NumPy in the places of the examples."""

    def __init__(
        self,
        name: str,
        calls: Sequence[BakedCall],
        settings: GraphSettings,
        findings: Sequence[Diagnostic],
        inner: jax.stages.Compiled,
    ) -> None:
        super().__init__([], settings.degree.value, settings.target.value, findings)
        self.calls = tuple(calls)
        self.name = name
        self._problems = settings.problems
        self._inner = inner

    @property
    def signature(self) -> Signature:
        """The arrays that the function takes and gives; an array inside a structure has its path's name."""
        inputs = tuple(
            Input(name, f"input:{name}", tuple(info.shape), _dtype(info))
            for name, info in _named(self._inner.args_info[0], "x")
        )
        outputs = tuple(
            Output(name, name, tuple(info.shape), _dtype(info), 0, _pattern(info.shape))
            for name, info in _named(self._inner.out_info, "out")
        )
        numbers = iter(range(len(outputs)))
        return Signature(inputs, (), outputs, _structure(self._inner.out_info, numbers))

    def __call__(self, *arrays: Any) -> Any:
        """Return what the function returns, when it is computed: an error of a kernel is raised here.

        Errors: ONKI304, ONKI006 (arguments of another structure), ONKI702 (another shape or dtype), and
        those of running its kernels.
        """
        check_runtime(self.lnc, self._target)
        self._check(arrays)
        try:
            result = self._inner(*arrays)
            for array in jax.tree.leaves(result):
                array.block_until_ready()
            return result
        except (jax.errors.JaxRuntimeError, ValueError) as problem:  # either, by the way that XLA takes
            found = self._failure(str(problem))
            if found is None:
                raise
        raise found

    def save(self, path: str | Path) -> NoReturn:
        """Refuse: JAX's own part has no form in a file yet. ONKI626."""
        fail("ONKI626", at=call_location(), function=self.name)

    def _check(self, arrays: Sequence[Any]) -> None:
        expected = self._inner.args_info[0]
        given: object = jax.tree.structure(arrays)
        if given != jax.tree.structure(expected):
            fail(
                "ONKI006",
                at=call_location(),
                problem=f"`{self.name}` was compiled for the arguments {_shown(expected)}, "
                f"and is called with {_shown(arrays)}",
                help=["call it with arguments of the structure of the examples"],
            )
        for (name, info), value in zip(_named(expected, "x"), jax.tree.leaves(arrays), strict=True):
            shape, dtype = np.shape(value), _dtype_of(value)
            if shape != tuple(info.shape) or dtype != info.dtype:
                got = f"{dtype}{list(shape)}" if dtype is not None else f"a `{type(value).__name__}`"
                fail(
                    "ONKI702",
                    at=call_location(),
                    name=name,
                    got=got,
                    expected=f"{info.dtype}{list(info.shape)}",
                )

    def _failure(self, text: str) -> Exception | None:
        """Return the error of a kernel whose text JAX reports."""
        return next((problem for problem in self._problems if str(problem) in text), None)

    def __repr__(self) -> str:
        kernels = ", ".join(dict.fromkeys(call.name for call in self.calls)) or "no kernel"
        return f"<Executable of {self.name} ({kernels}) target={self.target} lnc={self.lnc}>"


def compile(
    graph: object,
    examples: Sequence[object],
    values: Mapping[str, object],
    degree: Setting[int],
    target: Setting[Target],
) -> Executable:
    """Return the executable of a function of JAX's arrays.

    `examples` are arrays or `jax.ShapeDtypeStruct`, in structures if need be; `values` are passed on as they
    are. All calls of kernels in the function are baked for `degree` and `target`.

    Errors: NCC_ENKI003, NCC_EVRF066 and the like, all calls in one report; ONKI601 for an export; those of
    tracing the kernels.
    """
    if isinstance(graph, jax.export.Exported):
        fail("ONKI601", at=call_location(), graph=graph.fun_name, kind="`jax.export`")
    if not callable(graph):
        fail("ONKI602", at=call_location(), graph=type(graph).__name__, reason="it is no function")
    function = cast("Callable[..., Any]", graph)
    name = getattr(function, "__name__", type(function).__name__)

    def called(*arguments: Any) -> Any:
        return function(*arguments, **values)

    _check_examples(examples, values)
    settings = GraphSettings(degree, target)
    with retraced((degree.value, target.value.name)), with_settings(settings):
        traced = jax.jit(called).trace(*examples)
        sites = list(sites_in(traced.jaxpr.jaxpr))
        baked = bake_sites(sites, settings)
        settings.calls.update(zip(sites, baked.calls, strict=True))
        inner = traced.lower().compile()
    calls = [settings.calls[site] for site in sites]
    return FunctionExecutable(name, calls, settings, baked.findings, inner)


def _check_examples(examples: Sequence[object], values: Mapping[str, object]) -> None:
    """Refuse what stands in the wrong place: arrays are given by position, all else by name. ONKI006."""
    for number, example in enumerate(examples):
        for leaf in jax.tree.leaves(example):
            if not (isinstance(leaf, bool | int | float | complex) or hasattr(leaf, "dtype")):
                fail(
                    "ONKI006",
                    at=call_location(),
                    problem=f"example {number} holds a `{type(leaf).__name__}`, which is no array",
                    help=["give it by name: `opennki.compile(function, *arrays, name=value)`"],
                )
    for name, value in values.items():
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(value)):
            fail(
                "ONKI006",
                at=call_location(),
                problem=f"`{name}` is the example of an array, given by name",
                help=["give the examples of arrays by position"],
            )


def _named(tree: Any, root: str) -> list[tuple[str, Any]]:
    """Return the leaves of a structure with their names, `x0` or `x1.weight`; a result alone is `out`."""
    found = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        names = [_key(key) for key in path]
        if not names or names[0].isdigit():
            names[:1] = [root + "".join(names[:1])]
        found.append((".".join(names), leaf))
    return found


def _key(key: Any) -> str:
    """Return the name, key or number of a step into a structure."""
    return str(next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)))


def _shown(tree: Any) -> str:
    """Return a structure with `float32[2, 3]` in the places of its arrays."""

    def shown(leaf: Any) -> str:
        dtype = getattr(leaf, "dtype", None)
        return type(leaf).__name__ if dtype is None else f"{dtype}{list(np.shape(leaf))}"

    return str(jax.tree.map(shown, tree)).replace("'", "")


def _dtype_of(value: Any) -> Any:
    """Return the dtype of an array; of a Python number the one that JAX gives it."""
    if isinstance(value, bool | int | float | complex):
        return jax.dtypes.canonicalize_dtype(type(value))
    return getattr(value, "dtype", None)


def _dtype(info: Any) -> str:
    return canonical(info.dtype) or str(info.dtype)


def _pattern(shape: Sequence[int]) -> tuple[tuple[int, int], ...]:
    steps = [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]
    return tuple(zip(steps, shape, strict=True))


def _structure(tree: Any, numbers: Any) -> Structure:
    """Return the nesting of a result; a node that is neither tuple, list nor dictionary is a tuple."""
    if tree is None:
        return Structure("none")
    if isinstance(tree, dict):
        names = sorted(tree)
        items = tuple(_structure(tree[name], numbers) for name in names)
        return Structure("dict", keys=tuple(map(str, names)), items=items)
    if isinstance(tree, list | tuple):
        items = tuple(_structure(item, numbers) for item in tree)
        return Structure("list" if isinstance(tree, list) else "tuple", items=items)
    return Structure("leaf", next(numbers))

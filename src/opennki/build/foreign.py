"""The seam to PyTorch and JAX: which framework values belong to, and the adapter that takes such calls over.

An adapter is a package of `opennki.frameworks`, imported when the first value of its framework arrives: this
is the one upward call of the build layer, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from opennki.build.places import call_location
from opennki.diag import fail

if TYPE_CHECKING:
    from opennki.build.executable import Executable
    from opennki.frontend.kernel import Kernel
    from opennki.graph import KernelCall
    from opennki.settings import Setting
    from opennki.targets import Target

__all__ = ["MISSED", "NAMES", "QUICK", "Adapter", "adapter", "framework_of", "framework_of_call"]

NAMES = {"torch": "PyTorch", "jax": "JAX"}
"""The frameworks, by the name of their adapter in `opennki.frameworks`."""

MISSED = object()
"""What a quick way answers for a call that it does not know."""

QUICK: dict[type, Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]] = {}
"""Type of a first argument → the quick way of its adapter to a call that is like an earlier one."""

_ADAPTER_OF = {"torch": "torch", "jax": "jax", "jaxlib": "jax"}
"""The adapter of values whose type comes from a package."""


class Adapter(Protocol):
    """What the build layer asks of a framework's package."""

    def launch(self, kernel: Kernel, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        """Return what a kernel gives that is called directly on the framework's tensors."""

    def compile(
        self,
        graph: object,
        examples: Sequence[object],
        values: Mapping[str, object],
        degree: Setting[int],
        target: Setting[Target],
    ) -> Executable:
        """Return the executable of a function, a module or an exported program of the framework."""

    def read(self, path: Path) -> object:
        """Return the graph in a file of the framework's, for `compile`."""

    def calls_of(
        self, graph: object, degree: Setting[int], target: Setting[Target]
    ) -> tuple[KernelCall, ...] | None:
        """Return the kernel calls that `compile` would bake of a graph, None for what is to be traced."""

    def load_graph(self, files: Mapping[str, bytes], executable: Executable, file: str) -> Executable:
        """Return the executable of the graph in a `.nkx` file; `executable` has its kernel calls, baked."""


def adapter(name: str) -> Adapter:
    """Return the adapter of a framework. Errors: ONKI604 where the framework is not installed."""
    if find_spec(name) is None:
        help = [f"install it: `pip install 'opennki[{name}]'`"]
        fail("ONKI604", at=call_location(), framework=NAMES[name], help=help)
    return cast("Adapter", import_module(f"opennki.frameworks.{name}"))


def framework_of(value: object) -> str | None:
    """Return the adapter's name of the framework that a value belongs to, None for none."""
    for base in type(value).__mro__:
        found = _ADAPTER_OF.get(base.__module__.partition(".")[0])
        if found is not None:
            return found
    return None


def framework_of_call(kernel: str, values: Iterable[object]) -> str | None:
    """Return the adapter's name for the arguments of a call, lists and such looked into; None for none.

    Errors: ONKI603 for tensors of two frameworks, and for NumPy arrays beside those of PyTorch: the kernel
    may write them in place.
    """
    found: dict[str, str] = {}
    _look(values, "", found)
    foreign = [name for name in found if name != "numpy"]
    if len(foreign) > 1 or ("torch" in found and "numpy" in found):
        first, second = list(found)[:2]
        fail(
            "ONKI603",
            at=call_location(),
            kernel=kernel,
            first=f"{NAMES.get(first, 'NumPy')} (`{found[first]}`)",
            second=f"{NAMES.get(second, 'NumPy')} (`{found[second]}`)",
        )
    return foreign[0] if foreign else None


def _look(values: Iterable[object], where: str, found: dict[str, str]) -> None:
    for number, value in enumerate(values):
        kind = type(value)
        place = f"{where}[{number}]" if where else f"argument {number}"
        if kind in (list, tuple):
            _look(cast("Sequence[object]", value), place, found)
        elif kind is dict:
            _look(cast("dict[object, object]", value).values(), place, found)
        elif kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            found.setdefault("numpy", place)
        elif kind.__module__ != "builtins":
            name = framework_of(value)
            if name is not None and hasattr(value, "shape"):
                found.setdefault(name, place)

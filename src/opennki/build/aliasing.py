"""`nki` as another name of `opennki.nki`: the same modules, found under both names.

The packages that people import PyTorch's operators of kernels from are served in the same way.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # importing it costs 30 ms
    from importlib.abc import Loader

__all__ = ["has_wheel", "install"]

_NAME = "nki"
_HOMES = {
    _NAME: "opennki.nki",
    "torch_neuronx": "opennki.frameworks.torch.neuron",
    "libtorch_neuronx_lite": "opennki.frameworks.torch.neuron_lite",
}
"""The packages that we stand in for, and where each is."""


class _Alias:
    """Finds packages that we stand in for and what is below them, and loads each as the module of ours.

    `names` are the packages that it serves.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return a spec for a name that we have, None for every other."""
        if name.partition(".")[0] not in self.names:
            return None
        if find_spec(_home(name)) is None:
            return None
        return ModuleSpec(
            name, cast("Loader", self), is_package=hasattr(import_module(_home(name)), "__path__")
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return our module; its own spec is put aside, so that it keeps its identity."""
        module = import_module(_home(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system wrote into the module: it has run already."""
        alias = module.__spec__
        if alias is not None and isinstance(alias.loader_state, ModuleSpec):
            module.__spec__ = alias.loader_state


def install(*, force: bool = False) -> bool:
    """Make `import nki` give OpenNKI's from here on, and return whether it does.

    A real `nki` wheel wins: then nothing changes and the answer is False, unless `force` is set. It is looked
    for, not imported. A folder named `nki` without `__init__.py` is no wheel. Modules that imported the
    wheel's functions before a forced call keep them. The packages of PyTorch's operators of kernels,
    `torch_neuronx` and `libtorch_neuronx_lite`, are served where they are not installed, forced or not.

    >>> import opennki
    >>> opennki.install(force=True)
    True
    >>> import nki.isa, opennki.nki.isa
    >>> nki.isa is opennki.nki.isa
    True
    """
    if _is_installed():
        return True
    if not force and has_wheel():
        return False
    for name in [name for name in sys.modules if name == _NAME or name.startswith(f"{_NAME}.")]:
        del sys.modules[name]
    others = (name for name in _HOMES if name != _NAME and not _is_found(name))
    sys.meta_path.insert(0, _Alias(frozenset((_NAME, *others))))
    return True


def has_wheel() -> bool:
    """True if there is another `nki` than ours, imported or to be found; it is not imported for this."""
    if _NAME in sys.modules:
        return not _is_installed()
    return _is_found(_NAME)


def _is_found(name: str) -> bool:
    """True if there is a package of that name, imported or on the path."""
    if name in sys.modules:
        return True
    spec = PathFinder.find_spec(name)
    return spec is not None and spec.origin is not None


def _is_installed() -> bool:
    return any(isinstance(finder, _Alias) for finder in sys.meta_path)


def _home(name: str) -> str:
    top, dot, rest = name.partition(".")
    return f"{_HOMES[top]}{dot}{rest}"

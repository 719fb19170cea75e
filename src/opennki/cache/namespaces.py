"""What code reads by name: globals, attributes of modules, modules that it imports when it runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from opennki.cache.cells import MISSING
from opennki.cache.code import Read
from opennki.cache.encoding import ATOMS, record
from opennki.cache.origin import module_file, unloaded_package

if TYPE_CHECKING:
    from opennki.cache.walk import Walk

__all__ = ["Namespaces"]

_DYNAMIC = {"getattr", "vars", "dir", "hasattr", "attrgetter", "__dict__"}
"""Names by which code may read an attribute that it does not name."""


class Namespaces:
    """The names that a walk has read. State: which ones, of which namespaces, and the loose modules.

    A module is loose if it is used otherwise than by `module.attribute`: passed on, or imported by a
    function. Then any attribute that any code names counts as read; all of them where code may make up names.
    """

    def __init__(self, walk: Walk) -> None:
        self.names: set[str] = set()
        self._walk = walk
        self._labels: dict[int, tuple[Mapping[str, Any], str]] = {}
        self._read: set[tuple[int, str]] = set()
        self._loose: dict[int, ModuleType] = {}
        self._imported: set[str] = set()

    def label(self, namespace: Mapping[str, Any], otherwise: str = "") -> str:
        """Return how a namespace is called: by its file, else by `otherwise`."""
        known = self._labels.get(id(namespace))
        if known is None:
            file = namespace.get("__file__")
            shown = self._walk.file(file if isinstance(file, str) else otherwise)
            known = self._labels[id(namespace)] = (namespace, self._walk.unique(shown))
        return known[1]

    def read_global(
        self, namespace: Mapping[str, Any], builtins: Mapping[str, Any], space: str, read: Read
    ) -> None:
        """Enter a global of a function, or the builtin that its name stands for, and what is taken of it."""
        label = f"global `{read.name}` of {space}"
        value = namespace.get(read.name, MISSING)
        self._walk.cells.name(namespace, read.name, value, label)
        where = label
        if value is MISSING:
            value = builtins.get(read.name, MISSING)
            self._walk.cells.name(builtins, read.name, value, label)
            where = self._walk.where
        with self._walk.at(where):
            self._bind(namespace, read.name, value, label)
        self._follow(value, read.attributes)

    def _bind(self, namespace: Mapping[str, Any], name: str, value: object, label: str) -> None:
        """Enter what a name stands for, once."""
        if (id(namespace), name) in self._read:
            return
        self._read.add((id(namespace), name))
        if isinstance(value, ModuleType):
            self._walk.part(label, record(b"module", self._name(value)))
        else:
            self._walk.value_part(label, value)

    def _follow(self, value: object, attributes: tuple[str, ...]) -> None:
        """Go along `module.attribute.attribute` as far as there are modules."""
        for i, name in enumerate(attributes):
            if not isinstance(value, ModuleType):
                if isinstance(value, type):
                    self._walk.refuse_outside(f"{value.__module__}.{value.__qualname__}.{name}")
                return
            value = self._attribute(value, name, attributes[i + 1 :])
        if isinstance(value, ModuleType):
            self._loose.setdefault(id(value), value)

    def _attribute(self, module: ModuleType, name: str, rest: tuple[str, ...] = ()) -> object:
        """Enter an attribute of a module as a part, and return it."""
        walk, namespace = self._walk, vars(module)
        is_installed = walk.package(module.__name__) is not None
        if name not in namespace and hasattr(module, name) and name not in namespace:
            if not is_installed:
                walk.refuse(f"reads `{module.__name__}.{name}`, which the module makes anew each time")
            return getattr(module, name)
        value = namespace.get(name, MISSING)
        full = f"{module.__name__}.{name}"
        label = f"`{full}`" if is_installed else f"global `{name}` of {self._space(module)}"
        walk.cells.name(namespace, name, value, label)
        if is_installed and type(value) not in ATOMS and not isinstance(value, ModuleType):
            walk.refuse_outside(".".join((full, *rest)))
            if isinstance(value, np.ufunc) and value.__name__ == name:  # not all say where they are from
                walk.part(label, record(b"ufunc", full.encode()))
                return value
        with walk.at(label):
            self._bind(namespace, name, value, label)
        return value

    # Modules as values ----------------------------------------------------------------------------------

    def loose_module(self, module: ModuleType) -> bytes:
        """Return a module that is used as a value."""
        self._loose.setdefault(id(module), module)
        return record(b"module", self._name(module))

    def read_import(self, level: int, name: str, namespace: Mapping[str, Any]) -> None:
        """Take in the modules that an import statement of a function loads."""
        walk = self._walk
        for full in _full_names(level, name, namespace):
            label = f"module `{full}`"
            package = walk.package(full) if full in sys.modules else unloaded_package(full.partition(".")[0])
            if package is False:  # where the function catches the error, the kernel goes on without it
                walk.cells.name(sys.modules, full, MISSING, label)
                walk.part(label, b"absent")
                return
            if package is not None:  # it is not loaded for this, and what is read of it has its version
                walk.refuse_outside(full)
                walk.part(label, record(b"package", package.name.encode(), package.version.encode()))
                self._imported.add(full)
                continue
            module = sys.modules.get(full) or self._load(full)
            walk.cells.name(sys.modules, full, module, label)
            walk.part(label, record(b"module", self._name(module)))
            self._loose.setdefault(id(module), module)

    def _load(self, full: str) -> ModuleType:
        """Load a module of the user's, as the function would. Errors: a refusal."""
        from importlib import import_module

        try:
            return import_module(full)
        except Exception as problem:
            self._walk.refuse(f"imports `{full}`, which fails ({type(problem).__name__})")

    def read_loose_modules(self) -> bool:
        """Enter what is read of loose modules; True if there was anything new."""
        before = len(self._read)
        names = sorted(self.names)
        self._walk.refuse_outside(*(f"{full}.{name}" for full in sorted(self._imported) for name in names))
        for module in list(self._loose.values()):
            namespace = vars(module)
            read = self.names.intersection(namespace)
            if self.names & _DYNAMIC and self._walk.package(module.__name__) is None:
                read = {name for name in namespace if not name.startswith("__")}
            for name in sorted(read):
                if (id(namespace), name) not in self._read:
                    with self._walk.at(f"module `{module.__name__}`"):
                        self._follow(self._attribute(module, name), ())
                    self._read.add((id(namespace), name))
        return len(self._read) > before

    def _name(self, module: ModuleType) -> bytes:
        is_installed = self._walk.package(module.__name__) is not None
        return (module.__name__ if is_installed else self._space(module)).encode()

    def _space(self, module: ModuleType) -> str:
        return self.label(vars(module), module_file(module) or module.__name__)


def _full_names(level: int, name: str, namespace: Mapping[str, Any]) -> list[str]:
    """Return the modules that `import name` loads: packages first, then what lies in them."""
    base = ""
    if level:
        package = namespace.get("__package__")
        if not isinstance(package, str) or not package:
            package = str(namespace.get("__name__", "")).rpartition(".")[0]
        parts = package.split(".")
        base = ".".join(parts[: len(parts) - level + 1])
    full = ".".join(part for part in (base, name) if part)
    pieces = full.split(".")
    start = len(base.split(".")) if base else 1
    return [".".join(pieces[:count]) for count in range(max(start, 1), len(pieces) + 1) if pieces[0]]

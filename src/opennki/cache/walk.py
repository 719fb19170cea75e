"""Walking over everything that a function reaches: functions, globals, modules, classes, values.

Functions and classes are nodes: each has a name of its own, refers to others by name, and is described once,
so cycles do no harm. Values are written out where they stand (`cache/values.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import NoReturn

from opennki.cache import classes, functions, values
from opennki.cache.cells import MISSING, Cells
from opennki.cache.digest import Digest, Part, Undigestible, combined
from opennki.cache.encoding import ATOMS, hashed, record
from opennki.cache.namespaces import Namespaces
from opennki.cache.origin import Package, is_outside, package_of
from opennki.ir.location import shown_file

__all__ = ["Walk", "digest_of"]

MAX_VALUES = 200_000
MAX_DEPTH = 100
_SHOWN_CHARACTERS = 80


class Refusal(Exception):
    """Internal signal: there is no digest, and why."""


class Walk:
    """One walk. State: the parts found so far, the cells, and the nodes that wait to be described.

    `root` is the folder that files are shown relative to, as in locations. `where` names what is looked at.
    """

    def __init__(self, root: str | None) -> None:
        self.parts: dict[str, Part] = {}
        self.cells = Cells()
        self.where = "the kernel"
        self.namespaces = Namespaces(self)
        self._root = root
        self._left = MAX_VALUES
        self._open: dict[int, int] = {}
        self._nodes: dict[int, tuple[object, bytes]] = {}
        self._labels: dict[str, int] = {}
        self._pending: deque[tuple[str, Callable[[], None]]] = deque()
        self._packages: dict[str, Package | None] = {}
        self._files: dict[str, str] = {}

    def finish(self) -> None:
        """Describe all nodes that are still waiting, and those that turn up."""
        while True:
            while self._pending:
                self.where, describe = self._pending.popleft()
                describe()
            if not self.namespaces.read_loose_modules() and not self._pending:
                break
        self.cells.close()

    def digest_apart(self, function: object) -> Digest | Undigestible:
        """Return the digest of a function alone, as a walk of its own gives it."""
        return digest_of(self._root, [("function", function)])

    def refuse(self, reason: str) -> NoReturn:
        """Give up: `reason` goes on where `where` ends."""
        raise Refusal(f"{self.where} {reason}")

    def refuse_outside(self, *names: str) -> None:
        """Give up if a function or object of one of these full names gives what no key can hold."""
        for name in names:
            if is_outside(name):
                self.refuse(f"uses `{name}`, which no key can answer for")

    # Parts ----------------------------------------------------------------------------------------------

    def part(self, label: str, content: bytes, shown: str = "") -> None:
        """Enter a named part; `shown` is its content as people read it, where that is short."""
        self.parts[label] = Part(hashed(content), shown)

    def value_part(self, label: str, value: object) -> None:
        """Enter a value as a part."""
        self.part(label, b"absent" if value is MISSING else self.encode(value), _shown(value))

    @contextmanager
    def at(self, label: str) -> Iterator[None]:
        """Name what is looked at in the body."""
        before, self.where = self.where, label
        yield
        self.where = before

    def unique(self, label: str) -> str:
        """Return a label that no other node or namespace has; the second one of a name gets a number."""
        count = self._labels[label] = self._labels.get(label, 0) + 1
        return label if count == 1 else f"{label} #{count}"

    def package(self, module: object) -> Package | None:
        """Return the package of a module's name, which becomes a part; None for the user's own."""
        name = module if isinstance(module, str) else ""
        if name not in self._packages:
            found = self._packages[name] = package_of(name)
            if found is not None and found.version:
                self.part(f"package `{found.name}`", found.version.encode(), found.version)
        return self._packages[name]

    def file(self, filename: str) -> str:
        """Return a file as messages show it: never a path of this machine."""
        if filename not in self._files:
            self._files[filename] = shown_file(filename, self._root)
        return self._files[filename]

    # Values and nodes -----------------------------------------------------------------------------------

    def encode(self, value: object) -> bytes:
        """Return the bytes of any value. Nodes that it refers to are described later."""
        found = ATOMS.get(type(value))
        if found is not None:
            return record(found[0], found[1](value))
        self._left -= 1
        if self._left < 0:
            self.refuse(f"reaches more than {MAX_VALUES} values")
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self.class_of(value)
        if isinstance(value, BuiltinFunctionType):
            return self._builtin(value)
        if isinstance(value, ModuleType):
            return self.namespaces.loose_module(value)
        return self._nested(value)

    def _nested(self, value: object) -> bytes:
        """Return a value that may hold others; inside of itself, it is the distance to where it began."""
        start = self._open.get(id(value))
        if start is not None:
            return record(b"again", b"%d" % (len(self._open) - start))
        if len(self._open) >= MAX_DEPTH:
            self.refuse(f"nests deeper than {MAX_DEPTH}")
        self._open[id(value)] = len(self._open)
        content = values.encode(self, value)
        del self._open[id(value)]
        return content

    def nameless(self, value: object, kind: str) -> bytes:
        """Return the reference to an object that is known by its identity alone."""
        known = self._nodes.get(id(value))
        return (
            known[1] if known is not None else self._enter(value, record(b"node", self.unique(kind).encode()))
        )

    def _enter(self, value: object, reference: bytes) -> bytes:
        self._nodes[id(value)] = (value, reference)  # held, so that no other object gets its id
        return reference

    def _function(self, function: FunctionType) -> bytes:
        known = self._nodes.get(id(function))
        if known is not None:
            return known[1]
        module = functions.module_of(function)
        code = function.__code__
        if self.package(module) is not None:
            self.refuse_outside(
                f"{module}.{code.co_qualname}", f"{function.__module__}.{function.__qualname__}"
            )
            name = f"{module}.{code.co_qualname}:{code.co_firstlineno}".encode()
            self._enter(function, record(b"function", name))
            closed = functions.closed_over(self, function)
            return self._enter(function, record(b"function", name, *closed))
        label = self.unique(f"function `{code.co_qualname}` of {self.file(code.co_filename)}")
        self._pending.append((label, partial(functions.describe, self, function, label)))
        return self._enter(function, record(b"node", label.encode()))

    def _builtin(self, function: BuiltinFunctionType) -> bytes:
        """Return a function that is written in C: its name, and the object that it is bound to."""
        owner: object = function.__self__
        is_bound = owner is not None and not isinstance(owner, ModuleType)
        module = function.__module__ or (type(owner).__module__ if is_bound else "builtins")
        name = f"{module}.{function.__qualname__}"
        self.refuse_outside(name)
        if self.package(module) is None:
            self.refuse(f"uses `{name}`, compiled code without a version")
        return record(b"builtin", name.encode(), *([self.encode(owner)] if is_bound else []))

    def class_of(self, cls: type) -> bytes:
        """Return the reference to a class: a package's by name, the user's described."""
        known = self._nodes.get(id(cls))
        if known is not None:
            return known[1]
        if self.package(cls.__module__) is not None and classes.is_found_by_name(cls):
            name = f"{cls.__module__}.{cls.__qualname__}"
            self.refuse_outside(name)
            return self._enter(cls, record(b"class", name.encode()))
        label = self.unique(f"class `{cls.__qualname__}` of {classes.file_of(cls, self.file)}")
        self._pending.append((label, partial(classes.describe, self, cls, label)))
        return self._enter(cls, record(b"node", label.encode()))


def digest_of(root: str | None, named: Iterable[tuple[str, object]]) -> Digest | Undigestible:
    """Return the digest of named values and all that they lead to, or why there is none."""
    walk = Walk(root)
    try:
        for label, value in named:
            with walk.at(label):
                walk.value_part(label, value)
        walk.finish()
    except Refusal as refusal:
        reason = str(refusal)
    except RecursionError:
        reason = f"{walk.where} nests too deep"
    else:
        return Digest(combined(walk.parts), walk.parts, walk.cells)
    walk.cells.close()
    return Undigestible(reason, walk.cells)


def _shown(value: object) -> str:
    """Return a short value as people read it, "" for what is long or no plain value."""
    if type(value) not in ATOMS:
        return ""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else ""

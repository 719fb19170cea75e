"""What a digest has read and what may change: looked at again before the digest is believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import is_
from typing import Any

from opennki.cache.encoding import hashed

__all__ = ["MISSING", "Cells"]

MISSING = object()
"""Stands for a name that a namespace lacks."""

_MANY_BYTES = 1 << 20
"""Of more than that, only a digest is kept."""

Reader = Callable[[], Sequence[Any]]


class Cells:
    """Everything that was read, with what it held. State: it grows while a digest is made, then stays.

    Objects are compared by identity, which is quick and never wrong: an equal object in the same place only
    costs a new digest. The bytes of arrays are compared as a whole.
    """

    def __init__(self) -> None:
        self._cells: list[tuple[Reader, Sequence[Any], Sequence[str]]] = []
        self._contents: list[tuple[Callable[[], bytes], bytes, str]] = []
        self._namespaces: dict[int, tuple[Mapping[str, Any], dict[str, tuple[Any, str]]]] = {}
        self._seen: dict[int, object] = {}

    def name(self, namespace: Mapping[str, Any], name: str, value: object, label: str) -> None:
        """Enter a name of a namespace and what it stands for, `MISSING` for nothing."""
        _, names = self._namespaces.setdefault(id(namespace), (namespace, {}))
        names.setdefault(name, (value, label))

    def items(self, owner: object, read: Reader, label: str) -> None:
        """Enter what `read` gives of `owner`; the second time nothing happens."""
        if id(owner) not in self._seen:
            self._seen[id(owner)] = owner
            self._cells.append((read, read(), (label,)))

    def content(self, owner: object, read: Callable[[], bytes], label: str) -> bytes:
        """Enter bytes that `read` gives of `owner`, and return them; of many, their digest."""
        found = _condensed(read)
        if id(owner) not in self._seen:
            self._seen[id(owner)] = owner
            self._contents.append((read, found, label))
        return found

    def close(self) -> None:
        """Make one cell of each namespace. Nothing is entered after that."""
        for namespace, names in self._namespaces.values():
            read = partial(_look_up, namespace.get, tuple(names))
            values = [value for value, _ in names.values()]
            self._cells.append((read, values, [label for _, label in names.values()]))
        self._namespaces.clear()

    def hold(self) -> bool:
        """True if nothing has changed since."""
        try:
            for read, before, _ in self._cells:
                now = read()
                if len(now) != len(before) or not all(map(is_, now, before)):
                    return False
        except RuntimeError:  # another thread is changing it
            return False
        return not self._contents or all([_condensed(read) == before for read, before, _ in self._contents])

    def changed(self) -> str | None:
        """Return what has changed, None for nothing."""
        for read, before, labels in self._cells:
            now = read()
            differing = [i for i, (a, b) in enumerate(zip(now, before, strict=False)) if a is not b]
            if differing or len(now) != len(before):
                return labels[differing[0]] if differing and len(labels) == len(before) else labels[0]
        return next((label for read, before, label in self._contents if _condensed(read) != before), None)


def _condensed(read: Callable[[], bytes]) -> bytes:
    found = read()
    return found if len(found) <= _MANY_BYTES else hashed(found).encode()


def _look_up(get: Callable[[str, object], Any], names: tuple[str, ...]) -> list[Any]:
    return [*map(get, names, repeat(MISSING))]

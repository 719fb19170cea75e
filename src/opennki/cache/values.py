"""How values become bytes: containers, arrays, enums, objects with what they hold.

A value that keeps state where we cannot see it (an open file, a lock, a generator, another library's tensor)
has no bytes: the walk refuses, and the kernel is traced each time.
"""

from __future__ import annotations

import functools
import re
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from operator import attrgetter
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from msgspec import Struct

from opennki.cache.classes import is_made_in_python, object_state, state_reader
from opennki.cache.digest import Digest, Undigestible
from opennki.cache.encoding import record
from opennki.frontend.kernel import Kernel

if TYPE_CHECKING:
    from opennki.cache.walk import Walk

__all__ = ["encode"]

Encoder = Callable[["Walk", Any], bytes]


def encode(walk: Walk, value: object) -> bytes:
    """Return the bytes of a value that is no atom, function, class or module."""
    if isinstance(value, Enum):
        return record(b"enum", walk.class_of(type(value)), str(value.name).encode(), walk.encode(value.value))
    encoder = _BY_TYPE.get(type(value))
    if encoder is not None:
        return encoder(walk, value)
    if isinstance(value, np.ndarray | np.generic):
        return _array(walk, value)
    if isinstance(value, np.dtype):
        return record(b"dtype", _dtype(walk, value))
    if isinstance(value, Struct):
        return _struct(walk, value)
    return _object(walk, value)


def _items(walk: Walk, tag: bytes, value: Any, read: Callable[[Any], Any]) -> bytes:
    """Return a container's bytes; `read` gives its items in order."""
    walk.cells.items(value, partial(read, value), walk.where)
    return record(tag, *[walk.encode(item) for item in read(value)])


def _list(walk: Walk, value: list[Any]) -> bytes:
    return _items(walk, b"list", value, list)


def _tuple(walk: Walk, value: tuple[Any, ...]) -> bytes:
    return record(b"tuple", *[walk.encode(item) for item in value])


def _flat(value: Mapping[Any, Any]) -> list[Any]:
    return [*value, *value.values()]


def _dict(walk: Walk, value: Mapping[Any, Any]) -> bytes:
    return _items(walk, b"dict", value, _flat)


def _ordered_dict(walk: Walk, value: OrderedDict[Any, Any]) -> bytes:
    return _items(walk, b"ordered", value, _flat)


def _default_dict(walk: Walk, value: defaultdict[Any, Any]) -> bytes:
    return _items(walk, b"default", value, lambda found: [found.default_factory, *_flat(found)])


def _deque(walk: Walk, value: deque[Any]) -> bytes:
    return record(b"deque", walk.encode(value.maxlen), _items(walk, b"list", value, list))


def _sentinel(walk: Walk, value: object) -> bytes:
    """An `object()` is nothing but itself: which one it is, in the order in which they are met."""
    return walk.nameless(value, "object")


def _set(walk: Walk, value: set[Any]) -> bytes:
    walk.cells.items(value, partial(list, value), walk.where)
    return record(type(value).__name__.encode(), *sorted([walk.encode(item) for item in value]))


def _bytearray(walk: Walk, value: bytearray | memoryview) -> bytes:
    return record(b"bytearray", walk.cells.content(value, partial(bytes, value), walk.where))


def _array(walk: Walk, value: np.ndarray[Any, Any] | np.generic) -> bytes:
    """Return an array by dtype, shape and bytes, in C order whatever the strides."""
    head = (walk.class_of(type(value)), _dtype(walk, value.dtype), repr(value.shape).encode())
    if isinstance(value, np.generic):
        return record(b"scalar", *head, value.tobytes())
    if type(value) not in (np.ndarray, np.memmap):
        walk.refuse(f"holds a `{type(value).__qualname__}`, an array with more to it than its elements")
    return record(b"array", *head, walk.cells.content(value, value.tobytes, walk.where))


def _dtype(walk: Walk, dtype: np.dtype[Any]) -> bytes:
    if dtype.hasobject:
        walk.refuse("holds an array of Python objects")
    return f"{dtype.name} {dtype.str} {dtype.descr if dtype.names else ''}".encode()


def _partial(walk: Walk, value: functools.partial[Any]) -> bytes:
    read = attrgetter("func", "args", "keywords", "__dict__")
    walk.cells.items(value, partial(read, value), walk.where)
    return record(b"partial", *[walk.encode(item) for item in read(value)])


def _method(walk: Walk, value: types.MethodType) -> bytes:
    return record(b"method", walk.encode(value.__func__), walk.encode(value.__self__))


def _wrapper(walk: Walk, value: Any) -> bytes:
    """A `staticmethod`, a `classmethod`: the function and what it is wrapped in."""
    return record(b"wrapped", type(value).__name__.encode(), walk.encode(value.__func__))


def _property(walk: Walk, value: property) -> bytes:
    return record(b"property", *[walk.encode(f) for f in (value.fget, value.fset, value.fdel)])


def _cached_property(walk: Walk, value: functools.cached_property[Any]) -> bytes:
    return record(b"property", walk.encode(value.func))


def _cached_function(walk: Walk, value: Any) -> bytes:
    """A function behind `lru_cache`. What it remembers is out of sight, so it must follow from what holds."""
    walk.cells.items(value, partial(_flat, value.__dict__), walk.where)
    if value.cache_info().currsize == 0 and value not in _LOOKED_AT:
        _LOOKED_AT.add(value)
        _EMPTY_WHEN[value] = walk.digest_apart(value.__wrapped__)
        _LOOKED_AT.discard(value)
    elif value.cache_info().currsize and not (value in _EMPTY_WHEN and _EMPTY_WHEN[value].cells.hold()):
        walk.refuse(f"uses what `{value.__name__}` remembers of earlier calls, by `functools.lru_cache`")
    return record(b"cached", walk.encode(value.__wrapped__), repr(value.cache_parameters()).encode())


def _descriptor(walk: Walk, value: Any) -> bytes:
    """A method or slot that is written in C, known by name."""
    owner = value.__objclass__
    if walk.package(owner.__module__) is None and not is_made_in_python(owner):
        walk.refuse(f"uses `{owner.__qualname__}.{value.__name__}`, compiled code without a version")
    return record(b"descriptor", walk.class_of(owner), value.__name__.encode())


def _bound_descriptor(walk: Walk, value: Any) -> bytes:
    return record(b"bound", value.__name__.encode(), walk.encode(value.__self__))


def _kernel(walk: Walk, value: Kernel) -> bytes:
    walk.cells.items(value, partial(_kernel_state, value), walk.where)
    return record(b"kernel", *[walk.encode(item) for item in _kernel_state(value)])


def _kernel_state(value: Kernel) -> list[Any]:
    return [value.function, value.degree]


def _struct(walk: Walk, value: Struct) -> bytes:
    walk.cells.items(value, partial(_fields, value), walk.where)
    names = "\0".join(type(value).__struct_fields__).encode()
    return record(
        b"struct", walk.class_of(type(value)), names, *[walk.encode(item) for item in _fields(value)]
    )


def _fields(value: Struct) -> list[Any]:
    return [getattr(value, name) for name in type(value).__struct_fields__]


def _range(walk: Walk, value: range | slice) -> bytes:
    return record(
        type(value).__name__.encode(), *[walk.encode(part) for part in (value.start, value.stop, value.step)]
    )


def _pattern(walk: Walk, value: Any) -> bytes:
    return record(b"pattern", walk.encode(value.pattern), b"%d" % value.flags)


def _path(walk: Walk, value: PurePath) -> bytes:
    return record(b"path", walk.class_of(type(value)), str(value).encode("utf-8", "surrogatepass"))


def _alias(walk: Walk, value: Any) -> bytes:
    """A generic type with its arguments: `list[int]`, `int | None`."""
    return record(b"alias", walk.encode(getattr(value, "__origin__", None)), walk.encode(value.__args__))


def _namespace(walk: Walk, value: types.SimpleNamespace) -> bytes:
    return record(b"namespace", walk.encode(vars(value)))


_EMPTY_WHEN: WeakKeyDictionary[Any, Digest | Undigestible] = WeakKeyDictionary()
"""Functions behind `lru_cache` that were seen before they remembered anything, with their digests then."""

_LOOKED_AT: WeakSet[Any] = WeakSet()
"""Those whose digest is being made just now: a function may lead to itself."""

_DESCRIPTORS: tuple[type, ...] = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)

_BY_TYPE: dict[type, Encoder] = {
    list: _list,
    tuple: _tuple,
    dict: _dict,
    OrderedDict: _ordered_dict,
    defaultdict: _default_dict,
    deque: _deque,
    object: _sentinel,
    re.Pattern: _pattern,
    types.MappingProxyType: _dict,
    set: _set,
    frozenset: _set,
    bytearray: _bytearray,
    memoryview: _bytearray,
    range: _range,
    slice: _range,
    functools.partial: _partial,
    functools.cached_property: _cached_property,
    type(functools.lru_cache(lambda: None)): _cached_function,
    types.MethodType: _method,
    staticmethod: _wrapper,
    classmethod: _wrapper,
    property: _property,
    types.MethodWrapperType: _bound_descriptor,
    types.GenericAlias: _alias,
    types.UnionType: _alias,
    types.SimpleNamespace: _namespace,
    PurePosixPath: _path,
    PureWindowsPath: _path,
    Kernel: _kernel,
    **dict.fromkeys(_DESCRIPTORS, _descriptor),
}

_BASES: dict[type, Callable[[Any], Iterator[Any]]] = {
    dict: lambda value: iter([*dict.keys(value), *dict.values(value)]),
    list: list.__iter__,
    tuple: tuple.__iter__,
    set: set.__iter__,
    frozenset: frozenset.__iter__,
    int: lambda value: iter([int.__index__(value)]),
    float: lambda value: iter([float.__float__(value)]),
    str: lambda value: iter([str.__str__(value)]),
    bytes: lambda value: iter([bytes.__getitem__(value, slice(None))]),
}
"""Builtin types that other classes derive from, and what such an object holds of theirs."""

_REDUCED = {"_operator", "datetime", "decimal", "operator"}
"""Modules whose objects say by `__reduce_ex__` of what they are made."""


def _object(walk: Walk, value: object) -> bytes:
    """Return any other object: its class and what it holds."""
    cls = type(value)
    logging = sys.modules.get("logging")
    if logging is not None and isinstance(value, logging.Logger):  # what it prints is no part of a trace
        return record(b"logger", value.name.encode())
    bases = [base for base in _BASES if issubclass(cls, base)][:1]
    if is_made_in_python(cls, bases) or cls in _BASES or hasattr(cls, "n_sequence_fields"):
        return _by_state(walk, value, bases)
    name = _name_in_module(walk, value)
    if name:
        return record(b"named", walk.class_of(cls), name.encode())
    if cls.__module__ in _REDUCED or cls.__name__ == "_tuplegetter":  # a field of a named tuple
        return record(b"reduced", *[walk.encode(part) for part in value.__reduce_ex__(2)])
    walk.refuse(f"holds a `{cls.__module__}.{cls.__qualname__}`, whose state cannot be read")


def _name_in_module(walk: Walk, value: object) -> str:
    """Return the full name of an object that a package holds and that pickling knows by name, else ""."""
    import copyreg

    cls = type(value)
    if walk.package(cls.__module__) is None or hasattr(cls, "__next__"):
        return ""
    reduce = copyreg.dispatch_table.get(cls, vars(cls).get("__reduce__"))
    is_compiled = isinstance(reduce, types.MethodDescriptorType)
    if not is_compiled and cls not in copyreg.dispatch_table:
        return ""
    name = reduce(value) if reduce is not None else None
    module = getattr(value, "__module__", None) or cls.__module__
    found = getattr(sys.modules.get(module), name, None) if isinstance(name, str) else None
    return f"{module}.{name}" if found is value else ""


def _by_state(walk: Walk, value: object, bases: Sequence[type]) -> bytes:
    read = state_reader(value)
    walk.cells.items(value, partial(_state, value, read, bases) if bases else read, walk.where)
    content = [walk.class_of(type(value))]
    for base in bases:
        items = [walk.encode(item) for item in _BASES[base](value)]
        if base in (set, frozenset):
            items.sort()
        content.append(record(base.__name__.encode(), *items))
    for name, held in object_state(value):
        content += [name.encode("utf-8", "surrogatepass"), walk.encode(held)]
    return record(b"object", *content)


def _state(value: object, read: Callable[[], list[Any]], bases: Sequence[type]) -> list[Any]:
    return [*read(), *[item for base in bases for item in _BASES[base](value)]]

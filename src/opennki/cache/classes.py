"""What a class and its objects hold: attributes, slots, bases; nothing of it by running the user's code."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import EnumMeta
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic

from opennki.cache.cells import MISSING
from opennki.cache.encoding import record
from opennki.cache.origin import module_file

if TYPE_CHECKING:
    from opennki.cache.walk import Walk

__all__ = [
    "describe",
    "file_of",
    "is_found_by_name",
    "is_made_in_python",
    "object_state",
    "state_reader",
]

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_POINTER = 8
_NOT_PART = {
    *("__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__"),
    *("__conditional_annotations__", "__dataclass_fields__", "__dict__", "__doc__", "__firstlineno__"),
    *("__module__", "__orig_bases__", "__parameters__", "__static_attributes__", "__type_params__"),
    *("__weakref__", "_abc_impl"),
}
"""Attributes of a class that change no trace, or that are written out in another form."""

_GENERATED = {"__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"}
_GENERATED |= {"__setattr__", "__delattr__", "__replace__"}
"""What `dataclass` makes of the fields."""


def is_made_in_python(cls: type, bases: Sequence[type] = ()) -> bool:
    """True if objects of the class keep their state in attributes and slots, beside that of builtin `bases`.

    A class that is written in C has a larger object than its slots explain, or lacks what `class` leaves.
    """
    for one in cls.__mro__[:-1]:
        if one in bases or one is Generic:
            continue
        if issubclass(one, type) or not one.__flags__ & _HEAP_TYPE or "__module__" not in vars(one):
            return False
        base = one.__base__ or object
        slots = sum(isinstance(item, types.MemberDescriptorType) for item in vars(one).values())
        extra = one.__basicsize__ - base.__basicsize__ - _POINTER * slots
        has_sign = not vars(one).keys().isdisjoint(("__slots__", "__weakref__", "__dict__"))
        if not (extra == 0 or (has_sign and 0 < extra <= 2 * _POINTER)):
            return False
    return cls is not object


def object_state(value: object) -> list[tuple[str, Any]]:
    """Return name and value of each filled slot and attribute."""
    slots, held, _ = _holders(value)
    filled = [(name, found) for name, slot in slots.items() if (found := _filled(slot, value)) is not MISSING]
    return [*sorted(filled, key=_first), *sorted(held.items(), key=_first)]


def state_reader(value: object) -> Callable[[], list[Any]]:
    """Return what reads an object's class and state, to see whether they have changed.

    That a cached property keeps its value is no change: it follows from the rest.
    """
    slots, held, derived = _holders(value)
    return partial(_flat_state, value, derived) if slots or derived else partial(_flat, value, held)


def _flat(value: object, held: Mapping[str, Any]) -> list[Any]:
    return [type(value), *held, *held.values()]


def _flat_state(value: object, derived: set[str]) -> list[Any]:
    pairs = [pair for pair in object_state(value) if pair[0] not in derived]
    return [type(value), *[part for pair in pairs for part in pair]]


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


def _holders(value: object) -> tuple[dict[str, types.MemberDescriptorType], Mapping[str, Any], set[str]]:
    """Return the slots of an object, its attributes, and which of these cached properties keep."""
    cls = type(value)
    slots: dict[str, types.MemberDescriptorType] = {}
    derived: set[str] = set()
    for one in reversed(cls.__mro__):
        for name, item in vars(one).items():
            if isinstance(item, types.MemberDescriptorType):
                slots[name] = item
            elif isinstance(item, functools.cached_property):
                derived.add(name)
    try:
        return slots, object.__getattribute__(value, "__dict__"), derived
    except AttributeError:
        return slots, {}, derived


def _filled(slot: types.MemberDescriptorType, value: object) -> Any:
    try:
        return slot.__get__(value, type(value))
    except AttributeError:
        return MISSING


def describe(walk: Walk, cls: type, label: str) -> None:
    """Enter the part of a user's class: its bases and attributes."""
    walk.cells.items(cls, partial(_state, cls), label)
    walk.part(label, _encode(walk, cls))


def _state(cls: type) -> list[Any]:
    """Return what a class is made of, flat, so that a change can be seen."""
    return [
        cls.__bases__,
        *[part for name, item in vars(cls).items() if name not in _NOT_PART for part in (name, item)],
    ]


def _encode(walk: Walk, cls: type) -> bytes:
    content = [cls.__qualname__.encode(), walk.encode(cls.__bases__)]
    if type(cls) is not type:
        content.append(walk.encode(type(cls)))
    fields = vars(cls).get("__dataclass_fields__")
    if fields is not None:
        content += [_field(walk, name, field) for name, field in fields.items()]
    for name, item in _own_items(cls, is_dataclass=fields is not None):
        content += [name.encode(), walk.encode(item)]
    return record(b"class", *content)


def _own_items(cls: type, *, is_dataclass: bool) -> Iterator[tuple[str, Any]]:
    members = getattr(cls, "_member_map_", {}) if isinstance(cls, EnumMeta) else {}
    for name, item in vars(cls).items():
        if name in _NOT_PART or name in members:
            continue
        if is_dataclass and name in _GENERATED and _is_generated(item):
            continue
        if isinstance(cls, EnumMeta) and name[:1] == name[-1:] == "_" and not _is_function(item):
            continue  # the tables of an enum
        yield name, item
    for name, member in members.items():
        yield f"member {name}", member.value


def _is_generated(item: object) -> bool:
    while hasattr(item, "__wrapped__"):
        item = item.__wrapped__
    return isinstance(item, FunctionType) and item.__code__.co_filename == "<string>"


def _is_function(item: object) -> bool:
    return isinstance(item, FunctionType | classmethod | staticmethod)


def _field(walk: Walk, name: str, field: Any) -> bytes:
    """Return a field of a dataclass without its annotation."""
    facts = (field.default, field.default_factory, field.init, field.kw_only, field.compare)
    return record(b"field", name.encode(), *[walk.encode(fact) for fact in facts])


def is_found_by_name(cls: type) -> bool:
    """True if the class stands in its module under its own name, or is written in C."""
    if not is_made_in_python(cls) and not issubclass(cls, type):
        return True
    found: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls


def file_of(cls: type, shown: Callable[[str], str]) -> str:
    """Return the file of a user's class as messages show it, else its module's name."""
    module = sys.modules.get(cls.__module__)
    file = module_file(module) if module is not None else ""
    return shown(file) if file else cls.__module__

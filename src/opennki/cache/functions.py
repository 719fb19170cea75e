"""The parts of a function: its code and place, defaults, outer variables, attributes, and what it reads."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from functools import partial
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

from opennki.cache.cells import MISSING
from opennki.cache.code import facts_of
from opennki.cache.encoding import record

if TYPE_CHECKING:
    from opennki.cache.walk import Walk

__all__ = ["closed_over", "describe", "module_of"]


_UNSEEN = {"__globals__", "__builtins__", "__subclasses__", "f_globals", "f_locals", "gi_frame"}
"""Attributes through which code gets at names and objects that it does not name."""


def module_of(function: FunctionType) -> object:
    """Return the name of the module whose globals a function reads; wrappers claim to be of another."""
    return function.__globals__.get("__name__") or function.__module__


def describe(walk: Walk, function: FunctionType, label: str) -> None:
    """Enter the parts of a user's function."""
    facts = facts_of(function.__code__)
    for name in sorted(facts.names & _UNSEEN):
        walk.refuse(f"uses `{name}`, by which it may reach anything")
    if facts.assigns:
        walk.refuse(f"assigns `{facts.assigns}`, which lies outside of it")
    walk.cells.items(function, partial(_state, function), label)
    space = walk.namespaces.label(function.__globals__, function.__code__.co_filename)
    walk.part(label, record(b"function", facts.content, function.__name__.encode(), space.encode()))
    walk.part(f"place of {label}", b"%d" % facts.first_line, f"line {facts.first_line}")
    _describe_values(walk, function, label)
    walk.namespaces.names |= facts.names
    for read in facts.reads:
        walk.namespaces.read_global(function.__globals__, _builtins_of(function), space, read)
    for level, name in facts.imports:
        walk.namespaces.read_import(level, name, function.__globals__)


def _describe_values(walk: Walk, function: FunctionType, label: str) -> None:
    """Enter defaults, outer variables and attributes of a function, one part each."""
    code = function.__code__
    defaults = function.__defaults__ or ()
    last = code.co_varnames[: code.co_argcount][-len(defaults) :] if defaults else ()
    outer = zip(code.co_freevars, _outer_values(walk, function, label), strict=True)
    held = [item for item in sorted(function.__dict__.items()) if item[0] != "__wrapped__"]
    named = [
        *[("default", *item) for item in zip(last, defaults, strict=False)],
        *[("default", *item) for item in (function.__kwdefaults__ or {}).items()],
        *[("outer variable", *item) for item in outer],
        *[("attribute", *item) for item in held],  # `__wrapped__` is reached by what the wrapper closed over
    ]
    for kind, name, value in named:
        with walk.at(f"{kind} `{name}` of {label}"):
            walk.value_part(walk.where, value)


def closed_over(walk: Walk, function: FunctionType) -> list[bytes]:
    """Return what a package's function has closed over, by value, with its defaults."""
    if not function.__closure__:
        return []
    given = (function.__defaults__, function.__kwdefaults__)
    outer = _outer_values(walk, function, f"`{function.__qualname__}`")
    return [walk.encode(value) for value in (*given, *outer) if value is not MISSING]


def _outer_values(walk: Walk, function: FunctionType, label: str) -> Sequence[Any]:
    cells = function.__closure__
    if not cells:
        return ()
    walk.cells.items(cells, partial(_contents, cells), f"an outer variable of {label}")
    return _contents(cells)


def _contents(cells: tuple[CellType, ...]) -> list[Any]:
    return [_content(cell) for cell in cells]


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return MISSING


def _state(function: FunctionType) -> tuple[Any, ...]:
    own = (function.__code__, function.__name__, function.__defaults__)
    named, held = function.__kwdefaults__, function.__dict__
    if not named and not held:
        return own
    named = named or {}
    return (*own, *named, *named.values(), *held, *held.values())


def _builtins_of(function: FunctionType) -> Mapping[str, Any]:
    found: Mapping[str, Any] = getattr(function, "__builtins__", vars(builtins))
    return found

"""Values of a call: the outputs nested as the kernel returns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, assert_never

from opennki.ir.types import Structure

__all__ = ["flatten", "nest"]

T = TypeVar("T")


def nest(
    structure: Structure, outputs: Sequence[T]
) -> T | tuple[object, ...] | list[object] | dict[str, object] | None:
    """Return the outputs in the shape of `structure`: None, one of them, a tuple, a list or a dictionary.

    >>> nest(Structure("tuple", items=(Structure("leaf", 1), Structure("leaf", 0))), ["a", "b"])
    ('b', 'a')
    """
    match structure.kind:
        case "none":
            return None
        case "leaf":
            return outputs[structure.index]
        case "tuple":
            return tuple(nest(item, outputs) for item in structure.items)
        case "list":
            return [nest(item, outputs) for item in structure.items]
        case "dict":
            return {
                key: nest(item, outputs) for key, item in zip(structure.keys, structure.items, strict=True)
            }
        case _:
            assert_never(structure.kind)


def flatten(structure: Structure, value: object) -> list[object]:
    """Return the outputs in order, out of a value of the shape of `structure`.

    >>> flatten(Structure("tuple", items=(Structure("leaf", 1), Structure("leaf", 0))), ("b", "a"))
    ['a', 'b']
    """
    found: dict[int, object] = {}
    _leaves(structure, value, found)
    return [found[number] for number in sorted(found)]


def _leaves(structure: Structure, value: Any, found: dict[int, object]) -> None:
    if structure.kind == "leaf":
        found[structure.index] = value
        return
    for position, item in enumerate(structure.items):
        key = structure.keys[position] if structure.kind == "dict" else position
        _leaves(item, value[key], found)

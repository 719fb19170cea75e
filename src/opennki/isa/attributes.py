"""Attributes of instructions: from what a kernel writes to canonical values and back.

An attribute's kind is the annotation of its parameter. Canonical values hash, keep type and sign of numbers
and are what a program stores; enums and operators are stored by name, lists become tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np
from msgspec import Struct

from opennki.ir.types import AttrValue, Engine
from opennki.isa.enums import DgeMode, DmaEngine, MatmulPerfMode, OobMode, ReduceCmd
from opennki.isa.operators import OPERATORS, Operator, operator_of

__all__ = ["KINDS", "AttributeKind"]

# The annotations that rows use for attributes. What a kernel may write is wider than what is stored.
Op = Operator | Callable[..., Any]
Ints = int | Sequence[int]
Floats = Sequence[float]


class AttributeKind(Struct, frozen=True):
    """How one annotation is made canonical (`ValueError` with what is expected) and decoded again."""

    expected: str
    canonical: Callable[[Any], AttrValue]
    decode: Callable[[Any], Any]


def _refuse(expected: str) -> ValueError:
    return ValueError(expected)


def _same(value: Any) -> Any:
    return value


def _bool(value: Any) -> AttrValue:
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise _refuse("a bool")


def _integer(value: Any) -> AttrValue:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise _refuse("an int")


def _integers(value: Any) -> AttrValue:
    if isinstance(value, (tuple, list)):
        return tuple(_integer(item) for item in value)
    return (_integer(value),)


def _integers_or_none(value: Any) -> AttrValue:
    return () if value is None else _integers(value)


def _numbers_or_none(value: Any) -> AttrValue:
    if value is None:
        return None
    if isinstance(value, (tuple, list)) and all(isinstance(item, (int, float, np.number)) for item in value):
        return tuple(float(item) for item in value)
    raise _refuse("a sequence of numbers or None")


def _operator(value: Any) -> AttrValue:
    found = operator_of(value)
    if found is None:
        raise _refuse("an operator of `nki.language` such as `nl.add`")
    return found.name


def _enum(cls: type[Enum], spelled: str, strings: bool = False) -> AttributeKind:
    expected = f"a member of `nisa.{spelled}`"

    def canonical(value: Any) -> AttrValue:
        if isinstance(value, cls):
            return value.name
        if strings and isinstance(value, str) and value in cls.__members__:
            return value
        raise _refuse(expected)

    return AttributeKind(expected, canonical, lambda name: cls[name])


def _optional(kind: AttributeKind) -> AttributeKind:
    return AttributeKind(
        f"{kind.expected} or None",
        lambda value: None if value is None else kind.canonical(value),
        lambda value: None if value is None else kind.decode(value),
    )


_BOOL = AttributeKind("a bool", _bool, _same)
_INT = AttributeKind("an int", _integer, _same)
_OP = AttributeKind("an operator of `nki.language`", _operator, OPERATORS.__getitem__)

KINDS: dict[str, AttributeKind] = {
    "bool": _BOOL,
    "bool | None": _optional(_BOOL),
    "int": _INT,
    "int | None": _optional(_INT),
    "Ints": AttributeKind("an int or a tuple of ints", _integers, _same),
    "Ints | None": AttributeKind("an int, a tuple of ints or None", _integers_or_none, _same),
    "Floats | None": AttributeKind("a sequence of numbers or None", _numbers_or_none, _same),
    "Op": _OP,
    "Op | None": _optional(_OP),
    "Engine": _enum(Engine, "engine"),
    "ReduceCmd": _enum(ReduceCmd, "reduce_cmd"),
    "DgeMode": _enum(DgeMode, "dge_mode"),
    "OobMode": _enum(OobMode, "oob_mode"),
    "MatmulPerfMode": _enum(MatmulPerfMode, "matmul_perf_mode", strings=True),
    "DmaEngine": _enum(DmaEngine, "dma_engine"),
}

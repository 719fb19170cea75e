"""Canonical bytes of plain values: equal values of equal types give equal bytes, all others differ."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import EllipsisType, NoneType, NotImplementedType
from typing import Any

__all__ = ["ATOMS", "atom", "hashed", "record"]


def record(tag: bytes, *items: bytes) -> bytes:
    """Return a tag and items as bytes that no other tag and items give."""
    sizes = b",".join([b"%d" % len(item) for item in items])
    return b"%b(%b:%b)" % (tag, sizes, b"".join(items))


def hashed(content: bytes) -> str:
    """Return 128 bits of BLAKE2b, as hexadecimal text."""
    from hashlib import blake2b

    return blake2b(content, digest_size=16).hexdigest()


ATOMS: dict[type, tuple[bytes, Callable[[Any], bytes]]] = {
    NoneType: (b"None", lambda _: b""),
    EllipsisType: (b"Ellipsis", lambda _: b""),
    NotImplementedType: (b"NotImplemented", lambda _: b""),
    bool: (b"bool", lambda value: b"1" if value else b"0"),
    int: (b"int", lambda value: b"%x" % value),
    float: (b"float", lambda value: struct.pack("<d", value)),  # sign of zero and bits of a NaN are kept
    complex: (b"complex", lambda value: struct.pack("<dd", value.real, value.imag)),
    str: (b"str", lambda value: value.encode("utf-8", "surrogatepass")),
    bytes: (b"bytes", bytes),
}
"""Types of values that cannot change and hold nothing, each with its tag and how it becomes bytes."""


def atom(value: object) -> bytes:
    """Return the bytes of a constant: an atom, or tuples, frozensets and slices of them."""
    kind = type(value)
    found = ATOMS.get(kind)
    if found is not None:
        return record(found[0], found[1](value))
    if isinstance(value, tuple):
        return record(b"tuple", *[atom(item) for item in value])
    if isinstance(value, frozenset):
        return record(b"frozenset", *sorted([atom(item) for item in value]))
    if isinstance(value, slice):
        return record(b"slice", atom(value.start), atom(value.stop), atom(value.step))
    raise TypeError(f"`{kind.__name__}` is no constant")

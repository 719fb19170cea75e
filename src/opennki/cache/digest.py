"""The records of a digest: its named parts, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from opennki.cache.cells import Cells
from opennki.cache.encoding import hashed, record

__all__ = ["Digest", "Part", "Undigestible", "combined"]


class Part(Struct, frozen=True):
    """A named part of a key: the digest of its content, and the content itself where it is short."""

    digest: str
    shown: str = ""


class Digest(Struct, frozen=True):
    """The digest of everything reachable, by named parts. It holds as long as its `cells` do."""

    value: str
    parts: dict[str, Part]
    cells: Cells


class Undigestible(Struct, frozen=True):
    """Why something has no digest. That, too, holds as long as the `cells` do."""

    reason: str
    cells: Cells


def combined(parts: Mapping[str, Part]) -> str:
    """Return the digest of named parts, in whatever order they come."""
    items = [record(b"part", name.encode(), parts[name].digest.encode()) for name in sorted(parts)]
    return hashed(record(b"parts", *items))

"""The constants of one core's trace: what `nl.shared_constant` was given, by content and by place."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from opennki.diag import Location

Place = tuple[str, int, int]

__all__ = ["ConstantPool", "Content", "KeptConstant", "Made"]


class Content(Struct, frozen=True):
    """What a constant is: dtype, shape and the SHA-256 of its raw little-endian bytes."""

    dtype: str
    shape: tuple[int, ...]
    digest: str

    @property
    def key(self) -> str:
        """The key of its buffer on every core; colons keep it apart from names that kernels give."""
        return f"constant:{self.dtype}{list(self.shape)}:{self.digest}".replace(" ", "")


class KeptConstant(Struct, frozen=True):
    """A constant's name and bytes, and the handle of its buffer, held so that its storage stays."""

    name: str
    data: bytes
    handle: Any


class Made(Struct, frozen=True):
    """One call that made a constant: what it gave, and the number of its location."""

    content: Content
    location: int


class ConstantPool:
    """State: one buffer for each content; what each call gave, by its place and the count at that place.

    `files`: the `.npy` files that were read and the SHA-256 of each; a kept trace is stale where it differs.
    """

    def __init__(self) -> None:
        self.kept: dict[Content, KeptConstant] = {}
        self.made: dict[tuple[Place, int], Made] = {}
        self.counts: dict[Place, int] = {}
        self.files: dict[str, str] = {}

    def note(self, place: Location, made: Made) -> None:
        """Remember what a call gave."""
        key = (place.file, place.line, place.column)
        count = self.counts[key] = self.counts.get(key, -1) + 1
        self.made[key, count] = made

    def data(self, key: str) -> bytes | None:
        """Return the bytes of the constant whose buffer has `key`, None for the key of another buffer."""
        return next((kept.data for content, kept in self.kept.items() if content.key == key), None)

"""The constants of one core's trace: what `nl.shared_constant` was given, by content and by place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from opennki.diag import Location

Place = tuple[str, int, int]

__all__ = ["ConstantPool", "Content", "KeptConstant", "Made", "note_file", "noted_files"]

_NOTED: ContextVar[dict[str, str] | None] = ContextVar("opennki.noted_files", default=None)


@contextmanager
def noted_files() -> Iterator[dict[str, str]]:
    """Give the files that are read while this is open: the path of each and the SHA-256 of its content."""
    noted: dict[str, str] = {}
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def note_file(path: str, digest: str) -> None:
    """Note that the trace under way depends on a file: one that is kept would be stale where it differs."""
    noted = _NOTED.get()
    if noted is not None:
        noted[path] = digest


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
    """State: one buffer for each content; what each call gave, by its place and the count at that place."""

    def __init__(self) -> None:
        self.kept: dict[Content, KeptConstant] = {}
        self.made: dict[tuple[Place, int], Made] = {}
        self.counts: dict[Place, int] = {}

    def note(self, place: Location, made: Made) -> None:
        """Remember what a call gave."""
        key = (place.file, place.line, place.column)
        count = self.counts[key] = self.counts.get(key, -1) + 1
        self.made[key, count] = made

    def data(self, key: str) -> bytes | None:
        """Return the bytes of the constant whose buffer has `key`, None for the key of another buffer."""
        return next((kept.data for content, kept in self.kept.items() if content.key == key), None)

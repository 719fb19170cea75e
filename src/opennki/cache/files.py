"""Files that a trace has read: part of what it depends on, known only when it is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from opennki.ir.types import KernelArtifact

__all__ = ["Files", "Kept"]


class Files(Mapping[str, str]):
    """Paths, as the kernel gives them, and the SHA-256 of what was read.

    A path is no part of a key: it is kept beside the artifact, and a relative one means the file that the
    kernel would read now.
    """

    def __init__(self, digests: Mapping[str, str]) -> None:
        self._digests = dict(digests)

    def __getitem__(self, path: str) -> str:
        return self._digests[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)

    def hold(self) -> bool:
        """True if every file still has that content."""
        return all(_digest(path) == digest for path, digest in self._digests.items())


class Kept(Struct, frozen=True):
    """An artifact, and the files that it depends on."""

    artifact: KernelArtifact
    files: Files


def _digest(path: str) -> str:
    from hashlib import sha256

    try:
        with open(path, "rb") as file:
            return sha256(file.read()).hexdigest()
    except OSError:
        return ""

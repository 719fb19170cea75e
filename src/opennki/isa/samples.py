"""Samples: what a row says of legal and illegal calls of itself, as data that tests turn into kernels."""

from __future__ import annotations

from msgspec import Struct

from opennki.ir.types import Space
from opennki.targets import Target

__all__ = ["RegisterSpec", "Sampler", "TileSpec"]


class TileSpec(Struct, frozen=True):
    """A tile to allocate; `window` picks `(start, stop, step)` of each axis from it."""

    space: Space
    shape: tuple[int, ...]
    dtype: str
    window: tuple[tuple[int, int, int], ...] | None = None

    def slice(self, *window: tuple[int, int] | tuple[int, int, int]) -> TileSpec:
        """The same tile, looked at through a window."""
        full = tuple((w[0], w[1], w[2] if len(w) == 3 else 1) for w in window)
        return TileSpec(self.space, self.shape, self.dtype, full)


class RegisterSpec(Struct, frozen=True):
    """A scalar register, int32 or int64."""

    dtype: str


class Sampler(Struct, frozen=True):
    """Makes tile specs for samples; rows look at `target` to leave out what it lacks."""

    target: Target

    @property
    def generation(self) -> int:
        """Generation of the target: 2, 3 or 4."""
        return self.target.generation

    def sbuf(self, *shape: int, dtype: str = "float32") -> TileSpec:
        """A tile in SBUF."""
        return TileSpec(Space.sbuf, shape, dtype)

    def psum(self, *shape: int, dtype: str = "float32") -> TileSpec:
        """A tile in PSUM."""
        return TileSpec(Space.psum, shape, dtype)

    def register(self, dtype: str) -> RegisterSpec:
        """A scalar register."""
        return RegisterSpec(dtype)

    def hbm(self, *shape: int, dtype: str = "float32") -> TileSpec:
        """A tensor in shared HBM."""
        return TileSpec(Space.shared_hbm, shape, dtype)

"""`nl.tile_size`: limits of tiles, of the target that is being traced for."""

from __future__ import annotations

from opennki.isa.recorder import CURRENT
from opennki.targets import Target

__all__ = ["TileSize", "tile_size"]


class TileSize:
    """Limits of tiles. Outside of a kernel they are those of the target from the environment (default trn3).

    Source: nki/api/nki/language/__init__.py:568 and nki/api/nki.language.tile_size.rst.
    """

    def _target(self) -> Target:
        recorder = CURRENT.get()
        if recorder is not None:
            return recorder.target
        from opennki.settings import target_setting

        return target_setting().value

    @property
    def pmax(self) -> int:
        """Partitions of a tile."""
        return self._target().partitions

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes per partition of a PSUM bank."""
        return self._target().psum_bank_bytes_per_partition

    @property
    def psum_bank_fmax(self) -> int:
        """Float32 elements per partition of a PSUM bank."""
        return self.psum_bank_fmax_bytes // 4

    @property
    def psum_fmax(self) -> int:
        """The older name of `psum_bank_fmax`."""
        return self.psum_bank_fmax

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks per partition."""
        return self._target().psum_banks

    @property
    def gemm_stationary_fmax(self) -> int:
        """Columns of a matmul's stationary operand."""
        return self._target().gemm_stationary_fmax

    @property
    def gemm_moving_fmax(self) -> int:
        """Columns of a matmul's moving operand into one PSUM bank of float32."""
        return 512  # nki/api/nki.language.tile_size.rst, the same for every target

    @property
    def bn_stats_fmax(self) -> int:
        """Elements per partition of `bn_stats`."""
        return self._target().bn_stats_fmax

    @property
    def psum_min_align(self) -> int:
        """Alignment of PSUM addresses in bytes."""
        return self._target().psum_alignment_bytes

    @property
    def sbuf_min_align(self) -> int:
        """Alignment of SBUF addresses in bytes."""
        return self._target().sbuf_alignment_bytes

    @property
    def sbuf_size_bytes(self) -> int:
        """Bytes of the whole SBUF."""
        return self._target().sbuf_bytes

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Usable bytes per partition of SBUF."""
        return self._target().sbuf_usable_bytes_per_partition

    @property
    def sbuf_fmax(self) -> int:
        """Usable float32 elements per partition of SBUF."""
        return self.sbuf_fmax_bytes // 4

    @property
    def total_available_sbuf_size(self) -> int:
        """The older name of `sbuf_fmax_bytes`: per partition, despite its name."""
        return self.sbuf_fmax_bytes


tile_size = TileSize()

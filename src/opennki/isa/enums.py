"""The documented option enums of `nki.isa`, exported there under their documented lower-case names.

Source: nki/api/nki/isa/__init__.py (SDK 2.32), names and numbers.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["DgeMode", "DmaEngine", "MatmulPerfMode", "NcVersion", "OobMode", "ReduceCmd"]


class ReduceCmd(Enum):
    """What an instruction does with its engine's accumulator registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4

    __hash__ = object.__hash__


class DgeMode(Enum):
    """Who makes a DMA's descriptors: the compiler's choice, software, hardware, or the runtime beforehand."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3

    __hash__ = object.__hash__


class OobMode(Enum):
    """What happens to an index outside of its axis at run time: an error, or that access is left out."""

    error = 0
    skip = 1

    __hash__ = object.__hash__


class MatmulPerfMode(Enum):
    """Whether a matmul contracts two rows of fp8 values at once."""

    none = "none"
    double_row = "double_row"

    __hash__ = object.__hash__


class NcVersion(Enum):
    """NeuronCore generations: gen2 is trn1 and inf2, gen3 trn2, gen4 trn3."""

    gen2 = 2
    gen3 = 3
    gen4 = 4

    __hash__ = object.__hash__


class DmaEngine(Enum):
    """Which DMA carries a `sendrecv`: the shared engines, or GpSimd's own."""

    dma = 1
    gpsimd_dma = 2

    __hash__ = object.__hash__

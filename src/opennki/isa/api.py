"""The public names of `nki.isa`: rows, pending instructions, enums under their documented names."""

from __future__ import annotations

from opennki.diag import NkiValidationError, fail
from opennki.ir.types import Engine
from opennki.isa.enums import DgeMode, DmaEngine, MatmulPerfMode, NcVersion, OobMode, ReduceCmd
from opennki.isa.pending import *  # noqa: F403  # the list of names lives there
from opennki.isa.pending import PENDING
from opennki.isa.recorder import CURRENT, NkiInstruction
from opennki.isa.table import *  # noqa: F403  # the list of names lives there
from opennki.isa.table import TABLE

engine = Engine
reduce_cmd = ReduceCmd
dge_mode = DgeMode
oob_mode = OobMode
matmul_perf_mode = MatmulPerfMode
nc_version = NcVersion
dma_engine = DmaEngine

tensor_engine = Engine.tensor
vector_engine = Engine.vector
scalar_engine = Engine.scalar
gpsimd_engine = Engine.gpsimd
unknown_engine = Engine.unknown


def get_nc_version() -> NcVersion:
    """Return the generation of the target that the running trace is for.

    Outside of a kernel it is that of the target from the environment (default trn3).
    Source: nki/api/nki/isa/__init__.py:242.
    """
    recorder = CURRENT.get()
    if recorder is not None:
        return NcVersion(recorder.target.generation)
    from opennki.settings import target_setting

    return NcVersion(target_setting().value.generation)


def get_nc_sub_version() -> int:
    """Return the silicon revision of the target: 0, the first. Source: nki/api/nki/isa/__init__.py:232."""
    if CURRENT.get() is None:
        fail("ONKI103", name="get_nc_sub_version")
    return 0


__all__ = [
    "NkiInstruction",
    "NkiValidationError",
    "dge_mode",
    "dma_engine",
    "engine",
    "get_nc_sub_version",
    "get_nc_version",
    "gpsimd_engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "scalar_engine",
    "tensor_engine",
    "unknown_engine",
    "vector_engine",
    *[row.name for row in TABLE if row.public],
    *PENDING,
]

"""`nki.isa.constants`: the enums of `nki.isa` under the module name that published kernels import."""

from __future__ import annotations

from opennki.isa.api import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

__all__ = ["dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd"]

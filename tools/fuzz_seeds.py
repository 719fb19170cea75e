"""The sound files that `fuzz_files` damages: artifacts and executables whose kernels use every record."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import opennki
from benchmarks.kernels import SMALL, product_sliced, trace_product
from opennki import nki
from opennki.artifact import artifact_bytes

__all__ = ["sound_files"]

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@nki.jit
def halves(x: Any, y: Any) -> Any:
    """Split rows over the cores, meet, write an input, return a tuple with a view in it."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    rows = x.shape[0] // nl.num_programs()
    start = nl.program_id(0) * rows
    tile = nl.ndarray((rows, x.shape[1]), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[start : start + rows])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=-0.5, op1=nl.add, operand1=float("nan"))
    nisa.dma_copy(dst=out[start : start + rows], src=tile)
    nisa.core_barrier(data=out, cores=(0, 1))
    nisa.dma_copy(dst=y[start : start + rows, 0:4], src=out[start : start + rows, 0:4])
    return out, {"part": out[:, 1:3], "y": y}


@nki.jit
def gathers(table: Any, rows: Any) -> Any:
    """Take rows by indices that a tensor holds, out of range ones skipped; add a constant."""
    out = nl.ndarray((rows.shape[0], table.shape[1]), dtype=table.dtype, buffer=nl.shared_hbm)
    numbers = nl.ndarray(rows.shape, dtype=nl.uint32, buffer=nl.sbuf)
    tile = nl.ndarray(out.shape, dtype=table.dtype, buffer=nl.sbuf)
    fixed = nl.ndarray(out.shape, dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=numbers, src=rows)
    nisa.memset(dst=tile, value=-1.0)
    width = table.shape[1]
    taken = table.ap(pattern=[[width, rows.shape[0]], [1, width]], vector_offset=numbers, indirect_dim=0)
    nisa.dma_copy(dst=tile, src=taken, oob_mode=nisa.oob_mode.skip)
    nisa.dma_copy(
        dst=fixed, src=nl.shared_constant(np.arange(tile.size, dtype=np.float32).reshape(out.shape))
    )
    nisa.tensor_tensor(dst=tile, data1=tile, data2=fixed, op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return [out]


@nki.jit
def loops(x: Any) -> Any:
    """Nested loops that stay loops, with an address of the outer turn."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((x.shape[1], x.shape[2]), dtype=nl.float32, buffer=nl.sbuf, address=(0, 64))
    nisa.memset(dst=total, value=0.0)

    def turn(i: Any) -> None:
        tile = nl.ndarray((x.shape[1], x.shape[2]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.select(0, i))

        def inner(j: Any) -> None:
            nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)

        nl.fori_loop(0, 2, inner)
        nisa.dma_copy(dst=out.select(0, i), src=total)

    nl.fori_loop(0, x.shape[0], turn)
    return out


def sound_files() -> Mapping[str, bytes]:
    """Return sound files by name: `.nka` and `.nkx`, one core and two, two targets."""
    artifacts = {
        "product": trace_product(product_sliced, SMALL, 1),
        "halves1": opennki.trace(halves, "float32[8,6]", "float32[8,6]", lnc=1, target="trn3"),
        "halves2": opennki.trace(halves, "float32[8,6]", "float32[8,6]", lnc=2, target="trn2"),
        "gathers": opennki.trace(gathers, "float32[9,4]", "uint32[3,1]", target="trn2"),
        "loops": opennki.trace(loops, "float32[3,4,5]", target="trn2"),
    }
    files = {f"{name}.nka": artifact_bytes(artifact) for name, artifact in artifacts.items()}
    both = [artifacts["gathers"], artifacts["loops"], artifacts["gathers"]]
    executables = {
        "two.nkx": opennki.compile(artifacts["halves2"], lnc=2),
        "three.nkx": opennki.compile(both, lnc=1),
    }
    with TemporaryDirectory() as folder:
        for name, executable in executables.items():
            files[name] = executable.save(Path(folder) / name).read_bytes()
    return files

"""A kernel file as an author writes it, checked by a type checker against the generated stubs."""

import numpy as np
import numpy.typing as npt

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def rows_over_cores(x: nl.NkiTensor, w: nl.NkiTensor) -> nl.NkiTensor:
    rows = x.shape[0] // nl.num_programs(0)
    low = nl.program_id(0) * rows
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm, name="out")
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    for j in nl.affine_range(rows // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[low + j * 128 : low + (j + 1) * 128, :])
        nisa.activation(dst=tile, op=nl.exp, data=tile, scale=0.5)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=1.0)
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        nisa.tensor_scalar(tile, tile, nl.multiply, total, engine=nisa.engine.vector)
        product = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=w, moving=tile, accumulate=j > 0)
        nisa.dma_copy(dst=out[low + j * 128 : low + (j + 1) * 128, :], src=tile)
    nisa.core_barrier(out, [0, 1])

    def body(i: nisa.NkiScalar) -> None:
        nisa.dma_copy(dst=total, src=x.select(0, i)[0:128])

    nl.fori_loop(0, 2, body)
    return out


def run(x: npt.NDArray[np.float32], w: npt.NDArray[np.float32]) -> object:
    return nki.simulate(rows_over_cores[2])(x, w)

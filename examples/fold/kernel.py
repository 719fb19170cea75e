"""The kernel of the demo: a darkroom effect on a picture, each core working on its share of the rows."""
# mypy: allow-untyped-decorators

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def fold(picture: Any) -> Any:
    """Fold the tones of a picture at middle grey, so that black turns white too, and draw its edges.

    `picture` is `[height, width]`, from 0 (black) to 1 (white), and so is the result. The number of cores
    must divide the height; the width is two at least.
    """
    height, width = picture.shape
    rows = height // nl.num_programs(0)
    first = nl.program_id(0) * rows
    out = nl.ndarray(picture.shape, dtype=picture.dtype, buffer=nl.shared_hbm)
    for top in range(first, first + rows, nl.tile_size.pmax):
        bottom = min(top + nl.tile_size.pmax, first + rows)
        count = bottom - top
        tones = nl.ndarray((count, width), dtype=nl.float32, buffer=nl.sbuf)
        below = nl.ndarray((count, width), dtype=nl.float32, buffer=nl.sbuf)
        folded = nl.ndarray((count, width), dtype=nl.float32, buffer=nl.sbuf)
        edges = nl.ndarray((count, width), dtype=nl.float32, buffer=nl.sbuf)

        # The rows, and the rows one below them: engines do not shift partitions, DMA does. Below the last row
        # of the picture there is none, so it comes again.
        following = min(bottom + 1, height)
        nisa.dma_copy(dst=tones, src=picture[top:bottom, :])
        if following - top > 1:
            nisa.dma_copy(dst=below[0 : following - top - 1, :], src=picture[top + 1 : following, :])
        if following == bottom:
            nisa.dma_copy(dst=below[count - 1 : count, :], src=picture[height - 1 : height, :])

        # |2 x - 1|
        nisa.tensor_scalar(
            dst=folded, data=tones, op0=nl.multiply, operand0=2.0, op1=nl.subtract, operand1=1.0
        )
        nisa.activation(dst=folded, op=nl.abs, data=folded)

        # The differences to the next row and to the next column, both doubled.
        nisa.tensor_tensor(dst=edges, data1=below, data2=tones, op=nl.subtract)
        nisa.activation(dst=edges, op=nl.abs, data=edges, scale=2.0)
        nisa.tensor_tensor(dst=below[:, 1:], data1=tones[:, 1:], data2=tones[:, :-1], op=nl.subtract)
        nisa.memset(dst=below[:, 0:1], value=0.0)
        nisa.activation(dst=below, op=nl.abs, data=below, scale=2.0)

        # Edges are dark lines on the folded tones.
        nisa.tensor_tensor(dst=edges, data1=edges, data2=below, op=nl.add)
        nisa.tensor_tensor(dst=folded, data1=folded, data2=edges, op=nl.subtract)
        nisa.tensor_scalar(dst=folded, data=folded, op0=nl.maximum, operand0=0.0)
        nisa.dma_copy(dst=out[top:bottom, :], src=folded)
    return out

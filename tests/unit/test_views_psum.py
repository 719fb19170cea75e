"""Views of PSUM buffers: an address is the buffer's, not that of a layout that it shares with others."""

from __future__ import annotations

from typing import Any

import numpy as np

import opennki
from opennki import nki
from opennki.ir.verify import verify
from opennki.isa.table import ROW_FACTS
from tests.unit.nl_run import nisa, nl


def test_views_of_an_addressed_and_of_another_buffer_stay_apart() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((128, 34), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        a = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.psum, address=(0, 64))
        b = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.psum)
        nisa.tensor_copy(dst=a, src=tile)
        nisa.tensor_copy(dst=b, src=tile)
        first = a[:, 0:100][:, 16:50]
        second = b[:, 16:116][:, 0:34]
        nisa.tensor_copy(dst=tile[:, 0:34], src=first)
        nisa.tensor_tensor(dst=tile[:, 0:34], data1=tile[:, 0:34], data2=second, op=nl.add)
        nisa.dma_copy(dst=out, src=tile[:, 0:34])
        return out

    x = np.arange(128 * 256, dtype=np.float32).reshape(128, 256)
    artifact = opennki.trace(kernel, x, lnc=1, target="trn2")
    assert list(verify(artifact, ROW_FACTS)) == []
    assert np.array_equal(opennki.compile(artifact, lnc=1)(x), 2 * x[:, 16:50])

"""What the tests of the command line share: a file with two kernels, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable

KERNELS = '''
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def fold(a):
    """Each core halves its rows."""
    rows = a.shape[0] // nl.num_programs(0)
    start = nl.program_id(0) * rows
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(0, rows, 128):
        tile = nl.ndarray((128, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[start + i : start + i + 128, :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
        nisa.dma_copy(dst=out[start + i : start + i + 128, :], src=tile)
    return out


@nki.jit
def half(a, scale=1.0, *, name="out"):
    """Write the first half of the rows."""
    if a.shape[0] % 2:
        raise ValueError("rows must be even")
    rows = a.shape[0] // 2
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name=name)
    tile = nl.ndarray((rows, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a[:rows, :])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    nisa.dma_copy(dst=out[:rows, :], src=tile)
    return out
'''

Run = Callable[..., tuple[int, str, str]]
"""The fixture `run`: the words of a command line to status, standard output and standard error."""


def trace_two(run: Run) -> None:
    """Trace `fold` for two cores into two.nka."""
    arguments = ("--arg", "a=float32[512,64]", "--lnc", "2", "--target", "trn2", "-o", "two.nka")
    status, _, err = run("trace", "k.py:fold", *arguments)
    assert (status, err) == (0, "")


def executable(run: Run, *, spec: str = "a=float32[512,64]", lnc: str = "2") -> None:
    """Compile `fold` into f.nkx, by way of t.nka."""
    arguments = ("--arg", spec, "--lnc", lnc, "--target", "trn2", "-o", "t.nka")
    assert run("trace", "k.py:fold", *arguments)[0] == 0
    assert run("compile", "t.nka", "--lnc", lnc, "-o", "f.nkx")[0] == 0

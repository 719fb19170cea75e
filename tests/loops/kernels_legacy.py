"""Kernels with the loops that NKI 0.7 dropped: `for … in nl.dynamic_range(…)` and `while register:`.

Source: nki/deep-dives/nki-dynamic-loops.rst, nki/migration/index.rst, nki/get-started/nki-language-guide.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from tests.loops.kernels_counted import add_into, bump, loaded, register_of, sbuf, shared
from tests.loops.loop_case import Array, LoopCase, counts, ints, loop_case, single

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


def ranges(bounds: Any, form: str = "stop") -> Any:
    """Count the turns and add up the values of a dynamic range in each of its forms."""
    held = loaded(bounds)
    low, high = register_of(held, 0), register_of(held, 1)
    count, total, here, one = (sbuf(1, 1, dtype=nl.int32) for _ in range(4))
    for tile, value in ((count, 0), (total, 0), (one, 1)):
        nisa.memset(dst=tile, value=value)
    forms = {
        "stop": (high,),
        "start-stop": (low, high),
        "step": (low, high, 3),
        "constant-start": (2, high, 2),
        "constants": (1, 8, 3),
        "constant": (4,),
    }
    for i in nl.dynamic_range(*forms[form]):
        nisa.register_store(here, i)
        add_into(total, here)
        add_into(count, one)
    out = shared(1, 2, dtype=nl.int32)
    nisa.dma_copy(dst=out[0:1, 0:1], src=count)
    nisa.dma_copy(dst=out[0:1, 1:2], src=total)
    return out


def ranges_reference(bounds: Array, form: str = "stop") -> Array:
    low, high = bounds[0].tolist()
    values = {
        "stop": range(high),
        "start-stop": range(low, high),
        "step": range(low, high, 3),
        "constant-start": range(2, high, 2),
        "constants": range(1, 8, 3),
        "constant": range(4),
    }[form]
    return np.array([[len(values), sum(values)]], np.int32)


def documented_range(x: Any) -> Any:
    """The document's example of a run-time trip count: registers for start and stop, step 128 (here 4)."""
    rows, width = x.shape
    out = shared(rows, width)
    start = nisa.register_alloc(0)
    stop = nisa.register_alloc(rows)
    for i in nl.dynamic_range(start, stop, 4):
        tile = sbuf(4, width)
        result = sbuf(4, width)
        nisa.dma_copy(src=x.ap([[width, 4], [1, width]], scalar_offset=i), dst=tile)
        nisa.tensor_scalar(dst=result, data=tile, op0=nl.add, operand0=2.0)
        nisa.dma_copy(src=result, dst=out.ap([[width, 4], [1, width]], scalar_offset=i))
    return out


def documented_while(bounds: Any) -> Any:
    """The migration guide's `while reg:`: store, count down, load."""
    total, out = sbuf(1, 1), shared(1, 1)
    cond = sbuf(1, 1, dtype=nl.int32)
    nisa.memset(dst=total, value=0.0)
    reg = register_of(loaded(bounds), 0)
    while reg:
        bump(total, 3.0)
        nisa.register_store(cond, reg)
        nisa.tensor_scalar(cond, cond, nl.add, -1)
        nisa.register_load(reg, cond)
    nisa.dma_copy(dst=out, src=total)
    return out


def nested_ranges(bounds: Any) -> Any:
    """Dynamic ranges in each other, a `while` in one, an unrolled loop between them, a new loop beside."""
    held = loaded(bounds)
    n, m = register_of(held, 0), register_of(held, 1)
    total, out, cond = sbuf(1, 1), shared(1, 1), sbuf(1, 1, dtype=nl.int32)
    nisa.memset(dst=total, value=0.0)
    reg = nisa.register_alloc()
    for _ in nl.dynamic_range(n):
        for _ in range(2):
            for _ in nl.dynamic_range(1, m):
                bump(total)
        nisa.register_move(reg, m)
        while reg:
            bump(total, 100.0)
            nisa.register_store(cond, reg)
            nisa.tensor_scalar(cond, cond, nl.add, -1)
            nisa.register_load(reg, cond)
        nl.fori_loop(0, m, lambda i: bump(total, 10000.0))
    for _ in nl.affine_range(2):
        bump(total, 0.5)
    nisa.dma_copy(dst=out, src=total)
    return out


def nested_ranges_reference(bounds: Array) -> Array:
    n, m = bounds[0].tolist()
    return np.array([[n * (2 * len(range(1, m)) + 100 * m + 10000 * m) + 1]], np.float32)


def unrolled(x: Any) -> Any:
    """`affine_range`, `sequential_range` and `static_range` are `range`: their values are ints."""
    out, tile = shared(*x.shape), sbuf(*x.shape)
    nisa.dma_copy(dst=tile, src=x)
    for make in (nl.affine_range, nl.sequential_range, nl.static_range):
        for i in make(1, 6, 2):
            assert type(i) is int
            bump(tile, float(i))
    nisa.dma_copy(dst=out, src=tile)
    return out


def cases() -> Iterator[LoopCase]:
    """Yield all cases of this module."""
    for form in ("stop", "start-stop", "step", "constant-start", "constants", "constant"):
        yield loop_case(ranges, ranges_reference, counts(3, 10), warns=True, form=form)
    yield loop_case(ranges, ranges_reference, counts(4, 4), name="empty", warns=True, form="start-stop")
    yield loop_case(documented_range, lambda x: x + 2, ints(12, 5, seed=12), warns=True)
    for n in (0, 1, 6):
        yield loop_case(documented_while, lambda b: single(3 * b), counts(n), name=f"{n}-turns", warns=True)
    for n, m in ((2, 3), (0, 3), (2, 0)):
        yield loop_case(nested_ranges, nested_ranges_reference, counts(n, m), name=f"{n}-{m}", warns=True)
    yield loop_case(unrolled, lambda x: x + 27, ints(3, 4, seed=13))

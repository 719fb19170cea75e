"""Kernels for two cores whose loops meet, or turn a different number of times.

Source: nki/api/nki/isa/__init__.py (`core_barrier`, `sendrecv`), nki/get-started/about/lnc.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from tests.loops.kernels_counted import add_into, bump, loaded, register_of, sbuf, scalar_of, shared
from tests.loops.loop_case import Array, LoopCase, counts, ints, loop_case, single

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


def mine_and_bound(x: Any, bounds: Any, kind: str) -> tuple[int, Any, Any]:
    """Return this core's number, its half of `x` as a tile, and the loop's bound of the kind asked for."""
    core, tile = nl.program_id(0), sbuf(*x.shape[1:])
    nisa.dma_copy(dst=tile, src=x[core])
    if kind == "int":
        return core, tile, 3
    held = loaded(bounds)
    return core, tile, (register_of if kind == "register" else scalar_of)(held, 0)


def exchanged(x: Any, bounds: Any, kind: str = "int") -> Any:
    """`mine += 2 * other's` in every turn, by `sendrecv`."""
    core, tile, turns = mine_and_bound(x, bounds, kind)
    other, out = sbuf(*x.shape[1:]), shared(*x.shape)

    def body(i: Any) -> None:
        nisa.sendrecv(src=tile, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        nisa.tensor_scalar(dst=other, data=other, op0=nl.multiply, operand0=2.0)
        add_into(tile, other)

    nl.fori_loop(0, turns, body)
    nisa.dma_copy(dst=out[core], src=tile)
    return out


def through_shared_memory(x: Any, bounds: Any, kind: str = "int") -> Any:
    """The same by a shared tensor: write, barrier, read the other's half, barrier before the next write."""
    core, tile, turns = mine_and_bound(x, bounds, kind)
    other, out, board = sbuf(*x.shape[1:]), shared(*x.shape), shared(*x.shape)

    def body(i: Any) -> None:
        nisa.dma_copy(dst=board[core], src=tile)
        nisa.core_barrier(data=board, cores=(0, 1))
        nisa.dma_copy(dst=other, src=board[1 - core])
        nisa.core_barrier(data=board, cores=(0, 1))
        nisa.tensor_scalar(dst=other, data=other, op0=nl.multiply, operand0=2.0)
        add_into(tile, other)

    nl.fori_loop(0, turns, body)
    nisa.dma_copy(dst=out[core], src=tile)
    return out


def met_reference(x: Array, bounds: Array, kind: str = "int") -> Array:
    both = x.copy()
    for _ in range(3 if kind == "int" else int(bounds[0, 0])):
        both = both + 2 * both[::-1]
    return both


def met_while(x: Any, bounds: Any) -> Any:
    """A barrier in a `while_loop`, and an exchange in a loop inside of it."""
    core, tile, _ = mine_and_bound(x, bounds, "int")
    count, one = loaded(bounds), sbuf(1, 1, dtype=nl.int32)
    other, out, board = sbuf(*x.shape[1:]), shared(*x.shape), shared(*x.shape)
    nisa.memset(dst=one, value=1)
    reg = register_of(count, 0)

    def swap(j: Any) -> None:
        nisa.sendrecv(src=tile, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=1)
        nisa.tensor_copy(dst=tile, src=other)
        bump(tile)

    def body(r: Any) -> Any:
        nisa.dma_copy(dst=board[core], src=tile)
        nisa.core_barrier(data=board, cores=(0, 1))
        nisa.dma_copy(dst=tile, src=board[1 - core])
        nisa.core_barrier(data=board, cores=(0, 1))
        nl.fori_loop(0, 2, swap)
        nisa.tensor_tensor(dst=count, data1=count, data2=one, op=nl.subtract)
        nisa.register_load(r, count)
        return r

    nl.while_loop(reg, body)
    nisa.dma_copy(dst=out[core], src=tile)
    return out


def met_while_reference(x: Array, bounds: Array) -> Array:
    both = x.copy()
    for _ in range(int(bounds[0, 0])):
        both = both[::-1]
        for _ in range(2):
            both = both[::-1] + 1
    return single(both)


def own_trips(x: Any, bounds: Any, kind: str = "register") -> Any:
    """Core i turns `bounds[0, i]` times: nothing meets in the body, so both may go their own way."""
    core, out = nl.program_id(0), shared(*x.shape)
    tile, held = sbuf(*x.shape[1:]), loaded(bounds)
    nisa.dma_copy(dst=tile, src=x[core])
    turns = {"register": register_of, "scalar": scalar_of}[kind](held, core)
    nl.fori_loop(0, turns, lambda i: bump(tile))
    nisa.dma_copy(dst=out[core], src=tile)
    return out


def own_trips_reference(x: Array, bounds: Array, kind: str = "register") -> Array:
    return single(x + bounds[0][:, None, None])


def known_trips(x: Any, turns: tuple[int, int] = (3, 5)) -> Any:
    """The trip counts differ while tracing already: the same blocks, but a finding (KERNEL_LNC-03)."""
    core, out, tile = nl.program_id(0), shared(*x.shape), sbuf(*x.shape[1:])
    nisa.dma_copy(dst=tile, src=x[core])
    nl.fori_loop(0, turns[core], lambda i: bump(tile))
    nisa.dma_copy(dst=out[core], src=tile)
    return out


def halves(x: Any, bounds: Any) -> Any:
    """Each core works through its half of the rows, at offsets from its number and the induction value."""
    core, half, width = nl.program_id(0), x.shape[0] // 2, x.shape[1]
    out, row, turns = shared(*x.shape), sbuf(1, width), scalar_of(loaded(bounds), 0)
    first = core * half

    def body(i: Any) -> None:
        here = i + first
        nisa.dma_copy(dst=row, src=x.ap(pattern=[[width, 1], [1, width]], scalar_offset=here))
        bump(row, float(core + 1))
        nisa.dma_copy(dst=out.ap(pattern=[[width, 1], [1, width]], scalar_offset=here), src=row)

    nl.fori_loop(0, turns, body)
    return out


def halves_reference(x: Array, bounds: Array) -> Array:
    half = x.shape[0] // 2
    return np.concatenate([x[:half] + 1, x[half:] + 2])


def cases() -> Iterator[LoopCase]:
    """Yield all cases of this module."""
    x = ints(2, 4, 3, seed=10)
    for kernel in (exchanged, through_shared_memory):
        for kind in ("int", "register", "scalar"):
            yield loop_case(kernel, met_reference, x, counts(4), degrees=(2,), kind=kind)
        yield loop_case(kernel, met_reference, x, counts(0), name="no-turn", degrees=(2,), kind="register")
    for turns in (0, 3):
        yield loop_case(met_while, met_while_reference, x, counts(turns), name=f"{turns}-turns", degrees=(2,))
    for kind in ("register", "scalar"):
        for first, second in ((3, 5), (4, 0)):
            yield loop_case(
                own_trips, own_trips_reference, x, counts(first, second),
                name=f"{first}-{second}", degrees=(2,), warns=True, kind=kind,
            )  # fmt: skip
    for pair in ((3, 5), (4, 0)):
        yield loop_case(
            known_trips, lambda x, turns: own_trips_reference(x, counts(*turns)), x,
            degrees=(2,), warns=True, turns=pair,
        )  # fmt: skip
    yield loop_case(halves, halves_reference, ints(8, 5, seed=11), counts(4), degrees=(2,))

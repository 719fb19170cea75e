"""Kernels with `nl.fori_loop`: bounds of every kind, offsets from the induction value, state over turns.

Source: nki/api/nki/language/__init__.py (`fori_loop`), SDK 2.33 pages nki.language.fori_loop and nki-scalar.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from tests.loops.loop_case import Array, LoopCase, counts, ints, loop_case, single

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


def sbuf(*shape: int, dtype: Any = None) -> Any:
    return nl.ndarray(shape, dtype=nl.float32 if dtype is None else dtype, buffer=nl.sbuf)


def shared(*shape: int, dtype: Any = None) -> Any:
    return nl.ndarray(shape, dtype=nl.float32 if dtype is None else dtype, buffer=nl.shared_hbm)


def loaded(row: Any) -> Any:
    """Return the elements of a `[1, n]` tensor in HBM as an SBUF tile."""
    tile = sbuf(*row.shape, dtype=row.dtype)
    nisa.dma_copy(dst=tile, src=row)
    return tile


def register_of(tile: Any, place: int) -> Any:
    register = nisa.register_alloc()
    nisa.register_load(register, tile[0:1, place : place + 1])
    return register


def scalar_of(tile: Any, place: int) -> Any:
    return nisa.scalar_load(tile[0:1, place : place + 1])


def bump(tile: Any, number: float = 1.0) -> None:
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=number)


def add_into(total: Any, more: Any) -> None:
    nisa.tensor_tensor(dst=total, data1=total, data2=more, op=nl.add)


# Bounds ---------------------------------------------------------------------------------------------------


def turns_and_sum(bounds: Any, lower: int = 0, upper: int = 5, step: int = 1, kind: str = "int") -> Any:
    """Count the turns, and add up the induction values (int32, on GpSimd, exact)."""
    held = loaded(bounds)
    if kind == "int":
        low, high = lower, upper
    elif kind == "register":
        low, high = register_of(held, 0), register_of(held, 1)
    elif kind == "scalar":
        low, high = scalar_of(held, 0), scalar_of(held, 1)
    else:  # one of each
        low, high = lower, register_of(held, 1) if kind == "mixed-register" else scalar_of(held, 1)
    count, total, here = (sbuf(1, 1, dtype=nl.int32) for _ in range(3))
    one = sbuf(1, 1, dtype=nl.int32)
    nisa.memset(dst=count, value=0)
    nisa.memset(dst=total, value=0)
    nisa.memset(dst=one, value=1)

    def body(i: Any) -> None:
        by_register = "register" in kind
        assert isinstance(i, nisa.VirtualRegister if by_register else nisa.NkiScalar)
        (nisa.register_store if by_register else nisa.scalar_store)(here, i)
        add_into(total, here)
        add_into(count, one)

    assert nl.fori_loop(low, high, body, step=step) is None
    out = shared(1, 2, dtype=nl.int32)
    nisa.dma_copy(dst=out[0:1, 0:1], src=count)
    nisa.dma_copy(dst=out[0:1, 1:2], src=total)
    return out


def turns_and_sum_reference(
    bounds: Array, lower: int = 0, upper: int = 5, step: int = 1, kind: str = "int"
) -> Array:
    low, high = (lower, upper) if kind == "int" else bounds[0].tolist()
    values = range(low, high, step)
    return np.array([[len(values), sum(values)]], np.int32)


def bound_cases() -> Iterator[LoopCase]:
    for kind in ("int", "register", "scalar", "mixed-register", "mixed-scalar"):
        for lower, upper, step in (
            (0, 5, 1), (2, 11, 3), (0, 1, 1), (7, 8, 100), (-3, 4, 2), (0, 9, 4),
            (0, 0, 1), (5, 3, 1), (-2, -5, 1),
        ):  # fmt: skip
            degrees = (1, 2) if kind in ("int", "register") and step == 1 else (1,)
            yield loop_case(
                turns_and_sum, turns_and_sum_reference, counts(lower, upper),
                degrees=degrees, lower=lower, upper=upper, step=step, kind=kind,
            )  # fmt: skip


def bound_expressions(bounds: Any) -> Any:
    """Bounds are expressions of scalars, and the body counts on in a tile."""
    held = loaded(bounds)
    a, b = scalar_of(held, 0), scalar_of(held, 1)
    total = sbuf(1, 1)
    nisa.memset(dst=total, value=0.0)
    nl.fori_loop(a - 1, a * b + 2, lambda i: bump(total))
    nl.fori_loop(-b, a, lambda i: bump(total, 100.0), step=2)
    out = shared(1, 1)
    nisa.dma_copy(dst=out, src=total)
    return out


def bound_expressions_reference(bounds: Array) -> Array:
    a, b = bounds[0].tolist()
    turns = len(range(a - 1, a * b + 2)) + 100 * len(range(-b, a, 2))
    return np.array([[turns]], np.float32)


def bounds_read_once(bounds: Any) -> Any:
    """The register that bounds a loop changes in the body: `range(lower, upper)` was evaluated before."""
    held = loaded(bounds)
    upper, total = register_of(held, 0), sbuf(1, 1)
    nisa.memset(dst=total, value=0.0)

    def body(i: Any) -> None:
        bump(total)
        nisa.register_move(upper, 2)

    nl.fori_loop(0, upper, body)
    out = shared(1, 1)
    nisa.dma_copy(dst=out, src=total)
    return out


# Offsets --------------------------------------------------------------------------------------------------


def reversed_rows(x: Any, bounds: Any) -> Any:
    """Row i goes to row n-1-i; n is known at run time only."""
    held, width = loaded(bounds), x.shape[1]
    n = scalar_of(held, 0)
    out, row = shared(*x.shape), sbuf(1, width)
    nisa.dma_copy(dst=out, src=x)

    def body(i: Any) -> None:
        nisa.dma_copy(dst=row, src=x.ap(pattern=[[width, 1], [1, width]], scalar_offset=i))
        nisa.dma_copy(dst=out.ap(pattern=[[width, 1], [1, width]], scalar_offset=n - 1 - i), src=row)

    nl.fori_loop(0, n, body)
    return out


def reversed_rows_reference(x: Array, bounds: Array) -> Array:
    n = int(bounds[0, 0])
    return np.concatenate([x[:n][::-1], x[n:]])


def doubled_blocks(x: Any, bounds: Any, rows: int = 4) -> Any:
    """Blocks of rows by the induction value itself (step = rows), as the documents' example does."""
    held, width = loaded(bounds), x.shape[1]
    stop = register_of(held, 0)
    out = shared(*x.shape)
    nisa.dma_copy(dst=out, src=x)

    def body(i: Any) -> None:
        tile, result = sbuf(rows, width), sbuf(rows, width)
        nisa.dma_copy(src=x.ap([[width, rows], [1, width]], scalar_offset=i), dst=tile)
        nisa.tensor_scalar(dst=result, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(src=result, dst=out.ap([[width, rows], [1, width]], scalar_offset=i))

    nl.fori_loop(0, stop, body, step=rows)
    return out


def doubled_blocks_reference(x: Array, bounds: Array, rows: int = 4) -> Array:
    out = x.copy()
    for i in range(0, int(bounds[0, 0]), rows):
        out[i : i + rows] *= 2
    return out


def first_of_blocks(x: Any) -> Any:
    """A block starts at a product of the induction value; its first row goes to row i of the output."""
    blocks, width = x.shape[0] // 3, x.shape[1]
    out = shared(blocks, width)

    def body(i: Any) -> None:
        tile = sbuf(3, width)
        nisa.dma_copy(dst=tile, src=x.ap(pattern=[[width, 3], [1, width]], scalar_offset=i * 3))
        bump(tile, 0.5)
        nisa.dma_copy(dst=out.ap(pattern=[[width, 1], [1, width]], scalar_offset=i), src=tile[0:1])

    nl.fori_loop(0, blocks, body)
    return out


def first_of_blocks_reference(x: Array) -> Array:
    return single(x[::3] + 0.5)


def columns_backwards(x: Any) -> Any:
    """Columns of an SBUF tile, read at i and written at n-1-i, on chip."""
    rows, width = x.shape
    tile, result, out = sbuf(rows, width), sbuf(rows, width), shared(rows, width)
    nisa.dma_copy(dst=tile, src=x)

    def body(i: Any) -> None:
        nisa.tensor_copy(
            dst=result.ap(pattern=[[width, rows], [1, 1]], scalar_offset=width - 1 - i, indirect_dim=1),
            src=tile.ap(pattern=[[width, rows], [1, 1]], scalar_offset=i, indirect_dim=1),
        )

    nl.fori_loop(0, width, body)
    nisa.dma_copy(dst=out, src=result)
    return out


def documented_copy(data: Any, ub_input: Any) -> Any:
    """The example on the page of `fori_loop`."""
    n = data.shape[1]
    output = shared(1, n)
    ub_reg = register_of(loaded(ub_input), 0)
    zeros = nl.zeros((1, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=output, src=zeros)
    temp = sbuf(1, 1)

    def body(i: Any) -> None:
        nisa.dma_copy(dst=temp, src=data.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1))
        nisa.dma_copy(dst=output.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1), src=temp)

    nl.fori_loop(0, ub_reg, body)
    return output


def documented_copy_reference(data: Array, ub_input: Array) -> Array:
    out = np.zeros_like(data)
    out[:, : int(ub_input[0, 0])] = data[:, : int(ub_input[0, 0])]
    return out


def offset_cases() -> Iterator[LoopCase]:
    x = ints(12, 5, seed=1)
    for n in (0, 1, 7, 12):
        yield loop_case(reversed_rows, reversed_rows_reference, x, counts(n), name=f"n{n}")
    for stop in (0, 4, 8, 12):
        yield loop_case(doubled_blocks, doubled_blocks_reference, x, counts(stop), name=f"stop{stop}")
    yield loop_case(first_of_blocks, first_of_blocks_reference, x)
    yield loop_case(columns_backwards, lambda x: x[:, ::-1].copy(), ints(9, 14, seed=2))
    for n in (0, 3, 6):
        yield loop_case(documented_copy, documented_copy_reference, ints(1, 6), counts(n), name=f"n{n}")
    yield loop_case(bound_expressions, bound_expressions_reference, counts(3, 4))
    yield loop_case(bound_expressions, bound_expressions_reference, counts(0, -2), name="empty")
    yield loop_case(bounds_read_once, lambda b: single(b[:, :1]), counts(5))


# State ----------------------------------------------------------------------------------------------------


def recurrence(x: Any, factor: float = 1.5) -> Any:
    """`total = total * factor + x[i]` in SBUF: every turn reads what the one before wrote."""
    rows, width = x.shape[1:]
    total, out = sbuf(rows, width), shared(rows, width)
    nisa.memset(dst=total, value=1.0)

    def body(i: Any) -> None:
        more = sbuf(rows, width)
        nisa.dma_copy(dst=more, src=x.ap([[width, rows], [1, width]], scalar_offset=i))
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=factor)
        add_into(total, more)

    nl.fori_loop(0, x.shape[0], body)
    nisa.dma_copy(dst=out, src=total)
    return out


def recurrence_reference(x: Array, factor: float = 1.5) -> Array:
    total = np.ones(x.shape[1:], np.float32)
    for row in x:
        total = total * np.float32(factor) + row
    return total


def fibonacci(bounds: Any) -> Any:
    """Two int32 tiles swap places through a third; wraps at 2**32 like the additions of GpSimd."""
    turns = scalar_of(loaded(bounds), 0)
    a, b, c = (sbuf(1, 1, dtype=nl.int32) for _ in range(3))
    nisa.memset(dst=a, value=0)
    nisa.memset(dst=b, value=1)

    def body(i: Any) -> None:
        nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)
        nisa.tensor_copy(dst=a, src=b)
        nisa.tensor_copy(dst=b, src=c)

    nl.fori_loop(0, turns, body)
    out = shared(1, 1, dtype=nl.int32)
    nisa.dma_copy(dst=out, src=a)
    return out


def fibonacci_reference(bounds: Array) -> Array:
    a, b = 0, 1
    for _ in range(int(bounds[0, 0])):
        a, b = b, a + b
    return np.array([[a]], np.uint64).astype(np.uint32).view(np.int32)


def scalar_state(bounds: Any, dtype: str = "int32") -> Any:
    """A scalar is carried from turn to turn through a tile: `state = state * 3 + 7`, with wrap-around."""
    held, kind = loaded(bounds), getattr(nl, dtype)
    state, out = sbuf(1, 1, dtype=kind), shared(1, 1, dtype=kind)
    nisa.scalar_store(state, scalar_of(held, 0))

    def body(i: Any) -> None:
        nisa.scalar_store(state, nisa.scalar_load(state) * 3 + 7)

    nl.fori_loop(0, 40, body)
    nisa.dma_copy(dst=out, src=state)
    return out


def scalar_state_reference(bounds: Array, dtype: str = "int32") -> Array:
    state, width = int(bounds[0, 0]), 32 if dtype == "int32" else 64
    for _ in range(40):
        state = (state * 3 + 7) % 2**width
    return np.array([[state]], np.uint64).astype(f"uint{width}").view(dtype)


def in_place(x: Any, bounds: Any) -> Any:
    """The input itself is the state: HBM is read and written in every turn."""
    tile = sbuf(*x.shape)
    turns = register_of(loaded(bounds), 0)

    def body(i: Any) -> None:
        nisa.dma_copy(dst=tile, src=x)
        bump(tile, 0.25)
        nisa.dma_copy(dst=x, src=tile)

    nl.fori_loop(0, turns, body)
    return x


def state_cases() -> Iterator[LoopCase]:
    generator = np.random.default_rng(4)
    yield loop_case(recurrence, recurrence_reference, generator.standard_normal((9, 4, 6), np.float32))
    for turns in (0, 1, 30, 60):
        yield loop_case(fibonacci, fibonacci_reference, counts(turns), name=f"{turns}-turns")
    for dtype in ("int32", "int64"):
        start = np.array([[-5]], dtype)
        yield loop_case(scalar_state, scalar_state_reference, start, dtype=dtype)
    for turns in (0, 6):
        yield loop_case(
            in_place, lambda x, b: single(x + 0.25 * b[0, 0]), ints(3, 4), counts(turns),
            name=f"{turns}-turns", degrees=(1,),
        )  # fmt: skip


def cases() -> Iterator[LoopCase]:
    """Yield all cases of this module."""
    yield from bound_cases()
    yield from offset_cases()
    yield from state_cases()

"""Kernels with `nl.while_loop`, nested and mixed loops, PSUM in loops, and engine state across turns.

Source: nki/api/nki/language/__init__.py (`while_loop`), nki/migration/index.rst ("Rules for migrated loops"),
nki/api/nki/isa/__init__.py (`nc_matmul`, `select_reduce`, `activation`), OpenNKI design §5 (PSUM).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from tests.loops.kernels_counted import add_into, bump, loaded, register_of, sbuf, scalar_of, shared
from tests.loops.loop_case import Array, LoopCase, counts, ints, loop_case, single

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


# while_loop -----------------------------------------------------------------------------------------------


def countdown(x: Any, start: Any) -> Any:
    """The example on the page of `while_loop`: the body reloads the register it was given and returns it."""
    count, val = loaded(start), loaded(x)
    one = sbuf(1, 1, dtype=nl.int32)
    nisa.memset(dst=one, value=1)
    acc = nl.zeros((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    reg = register_of(count, 0)

    def body(r: Any) -> Any:
        add_into(acc, val)
        nisa.tensor_tensor(dst=count, data1=count, data2=one, op=nl.subtract)
        nisa.register_load(r, count)
        return r

    assert nl.while_loop(reg, body) is None
    out = shared(1, 1)
    nisa.dma_copy(dst=out, src=acc)
    return out


def another_register(start: Any) -> Any:
    """The body returns a register of its own; `r`, passed by value, is what was tested, and is noted down."""
    count = loaded(start)
    seen, out = sbuf(1, 1, dtype=nl.int32), shared(1, 2, dtype=nl.int32)
    total, here = sbuf(1, 1, dtype=nl.int32), sbuf(1, 1, dtype=nl.int32)
    nisa.memset(dst=total, value=0)
    nisa.memset(dst=seen, value=0)
    reg = register_of(count, 0)

    def body(r: Any) -> Any:
        nisa.register_store(here, r)
        add_into(total, here)
        nisa.register_store(seen, r)
        nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=2)
        following = nisa.register_alloc()
        nisa.register_load(following, count)
        nisa.register_move(r, 1)  # no effect: the loop tests what the body returns
        return following

    nl.while_loop(reg, body)
    nisa.dma_copy(dst=out[0:1, 0:1], src=total)
    nisa.dma_copy(dst=out[0:1, 1:2], src=seen)
    return out


def another_register_reference(start: Array) -> Array:
    values = list(range(int(start[0, 0]), 0, -2))
    return np.array([[sum(values), values[-1] if values else 0]], np.int32)


def until_zero(x: Any) -> Any:
    """Walk a row up to its first zero: the condition is loaded from a place that the turn computes."""
    n = x.shape[1]
    place, element = sbuf(1, 1, dtype=nl.int32), sbuf(1, 1, dtype=nl.int32)
    total = sbuf(1, 1, dtype=nl.int32)
    nisa.memset(dst=place, value=0)
    nisa.memset(dst=total, value=0)
    one = sbuf(1, 1, dtype=nl.int32)
    nisa.memset(dst=one, value=1)

    def here() -> Any:
        return x.ap(pattern=[[n, 1], [1, 1]], scalar_offset=place, indirect_dim=1)

    first = nisa.register_alloc()
    nisa.dma_copy(dst=element, src=here())
    nisa.register_load(first, element)

    def body(r: Any) -> Any:
        add_into(total, element)
        add_into(place, one)
        nisa.dma_copy(dst=element, src=here())
        nisa.register_load(r, element)
        return r

    nl.while_loop(first, body)
    out = shared(1, 2, dtype=nl.int32)
    nisa.dma_copy(dst=out[0:1, 0:1], src=place)
    nisa.dma_copy(dst=out[0:1, 1:2], src=total)
    return out


def until_zero_reference(x: Array) -> Array:
    place = x[0].tolist().index(0)
    return np.array([[place, x[0, :place].sum()]], np.int32)


def while_cases() -> Iterator[LoopCase]:
    for n in (0, 1, 5):
        yield loop_case(
            countdown, lambda x, s: single(x * s[0, 0]), ints(1, 1, seed=5), counts(n), name=f"{n}-turns"
        )
    for n in (0, 2, 10):
        yield loop_case(another_register, another_register_reference, counts(n), name=f"{n}")
    yield loop_case(until_zero, until_zero_reference, np.array([[3, -7, 2**31 - 1, 1, 0, 9]], np.int32))
    yield loop_case(until_zero, until_zero_reference, np.array([[0, 4]], np.int32), name="at-once")


# Nesting --------------------------------------------------------------------------------------------------


def triangle(bounds: Any, depth: str = "upper") -> Any:
    """The inner loop's bound is the outer loop's induction value; both values meet in the body."""
    n = scalar_of(loaded(bounds), 0)
    count, total, product = sbuf(1, 1, dtype=nl.int32), sbuf(1, 1, dtype=nl.int32), sbuf(1, 1, dtype=nl.int32)
    one = sbuf(1, 1, dtype=nl.int32)
    for tile, value in ((count, 0), (total, 0), (one, 1)):
        nisa.memset(dst=tile, value=value)

    def outer(i: Any) -> None:
        def inner(j: Any) -> None:
            nisa.scalar_store(product, i * 10 + j)
            add_into(total, product)
            add_into(count, one)

        low, high = (0, i) if depth == "upper" else (i, n)
        nl.fori_loop(low, high, inner)

    nl.fori_loop(0, n, outer)
    out = shared(1, 2, dtype=nl.int32)
    nisa.dma_copy(dst=out[0:1, 0:1], src=count)
    nisa.dma_copy(dst=out[0:1, 1:2], src=total)
    return out


def triangle_reference(bounds: Array, depth: str = "upper") -> Array:
    n = int(bounds[0, 0])
    pairs = [(i, j) for i in range(n) for j in (range(i) if depth == "upper" else range(i, n))]
    return np.array([[len(pairs), sum(i * 10 + j for i, j in pairs)]], np.int32)


def three_deep(bounds: Any) -> Any:
    """A register, a scalar and an int bound three nested loops, between instructions of the outer bodies."""
    held = loaded(bounds)
    by_register, by_scalar = register_of(held, 0), scalar_of(held, 1)
    total, out = sbuf(1, 1), shared(1, 1)
    nisa.memset(dst=total, value=0.0)

    def inner(k: Any) -> None:
        bump(total)

    def middle(j: Any) -> None:
        bump(total, 100.0)
        nl.fori_loop(1, 8, inner, step=3)
        bump(total, 1000.0)

    def outer(i: Any) -> None:
        nl.fori_loop(0, by_scalar, middle)
        bump(total, 10000.0)

    nl.fori_loop(0, by_register, outer)
    nisa.dma_copy(dst=out, src=total)
    return out


def three_deep_reference(bounds: Array) -> Array:
    a, b = bounds[0].tolist()
    return np.array([[a * (b * (100 + 3 + 1000) + 10000)]], np.float32)


def mixed(bounds: Any) -> Any:
    """`while` in `fori`, `fori` in `while`, and Python loops and branches around and inside of both."""
    held = loaded(bounds)
    n, total, out = register_of(held, 0), sbuf(1, 1), shared(1, 1)
    left, one = sbuf(1, 1, dtype=nl.int32), sbuf(1, 1, dtype=nl.int32)
    nisa.memset(dst=total, value=0.0)
    nisa.memset(dst=one, value=1)

    def turn(number: float, r: Any) -> Any:
        bump(total, number)
        nl.fori_loop(0, 2, lambda k: bump(total, 0.5))
        nisa.tensor_tensor(dst=left, data1=left, data2=one, op=nl.subtract)
        nisa.register_load(r, left)
        return r

    def body(i: Any) -> None:
        nisa.register_store(left, n)
        for number in (1.0, 10.0):  # unrolled: two instructions
            bump(total, number)
        condition = nisa.register_alloc()
        nisa.register_load(condition, left)
        nl.while_loop(condition, partial(turn, 100.0))

    for repeat in range(2):
        if repeat == 1:
            bump(total, 100000.0)
        nl.fori_loop(0, n, body)
    nisa.dma_copy(dst=out, src=total)
    return out


def mixed_reference(bounds: Array) -> Array:
    n = int(bounds[0, 0])
    once = n * (11 + n * 101)
    return np.array([[2 * once + 100000]], np.float32)


class Summed:
    """A body that is a bound method, and its state an attribute."""

    def __init__(self) -> None:
        self.total = sbuf(1, 1)
        nisa.memset(dst=self.total, value=0.0)

    def turn(self, i: Any) -> None:
        bump(self.total, 2.0)

    def __call__(self, i: Any) -> None:
        bump(self.total, 30.0)


def bodies(bounds: Any) -> Any:
    """Bodies of all kinds: a method, a callable object, a partial of a lambda; arguments by keyword."""
    n = register_of(loaded(bounds), 0)
    summed, out = Summed(), shared(1, 1)
    nl.fori_loop(0, n, summed.turn)
    nl.fori_loop(0, n, summed)
    nl.fori_loop(
        lower=0, upper=n, body_fun=partial(lambda number, i: bump(summed.total, number), 400.0), step=1
    )
    nisa.dma_copy(dst=out, src=summed.total)
    return out


def nested_cases() -> Iterator[LoopCase]:
    for n, depth in ((0, "upper"), (1, "upper"), (5, "upper"), (5, "lower")):
        yield loop_case(triangle, triangle_reference, counts(n), name=f"n{n}", depth=depth)
    for a, b in ((2, 3), (0, 3), (3, 0)):
        yield loop_case(three_deep, three_deep_reference, counts(a, b), name=f"{a}-{b}")
    for n in (0, 1, 3):
        yield loop_case(mixed, mixed_reference, counts(n), name=f"n{n}")
    yield loop_case(bodies, lambda b: single(432 * b[:, :1]), counts(3))


# PSUM and engine state ------------------------------------------------------------------------------------


def matmul_in_body(a: Any, b: Any) -> Any:
    """Each turn has a PSUM tile of its own: two products accumulate in it, the next turn starts afresh."""
    turns, k, m, n = a.shape[0], a.shape[1] // 2, a.shape[2], b.shape[2]
    total, out = sbuf(m, n), shared(m, n)
    nisa.memset(dst=total, value=0.0)

    def body(i: Any) -> None:
        psum, result = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum), sbuf(m, n)
        for half in range(2):
            left, right = sbuf(k, m), sbuf(k, n)
            rows = half * k  # the batch's index is dynamic, the window inside of it is not
            nisa.dma_copy(
                dst=left,
                src=a.ap(pattern=[[m, k], [1, m]], offset=rows * m, scalar_offset=i, indirect_dim=0),
            )
            nisa.dma_copy(
                dst=right,
                src=b.ap(pattern=[[n, k], [1, n]], offset=rows * n, scalar_offset=i, indirect_dim=0),
            )
            nisa.nc_matmul(dst=psum, stationary=left, moving=right)
        nisa.tensor_copy(dst=result, src=psum)
        add_into(total, result)

    nl.fori_loop(0, turns, body)
    nisa.dma_copy(dst=out, src=total)
    return out


def matmul_outside(a: Any, b: Any, accumulate: str = "default") -> Any:
    """One PSUM tile for all turns: the first product overwrites (or adds to the memset), the rest add."""
    turns, k, m, n = a.shape[0], a.shape[1], a.shape[2], b.shape[2]
    psum, result, out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum), sbuf(m, n), shared(m, n)
    if accumulate == "true":
        nisa.memset(dst=psum, value=0.0)

    def body(i: Any) -> None:
        left, right = sbuf(k, m), sbuf(k, n)
        nisa.dma_copy(dst=left, src=a.ap(pattern=[[m, k], [1, m]], scalar_offset=i))
        nisa.dma_copy(dst=right, src=b.ap(pattern=[[n, k], [1, n]], scalar_offset=i))
        given = {"accumulate": True} if accumulate == "true" else {}
        nisa.nc_matmul(dst=psum, stationary=left, moving=right, **given)

    nl.fori_loop(0, turns, body)
    nisa.tensor_copy(dst=result, src=psum)
    nisa.dma_copy(dst=out, src=result)
    return out


def matmul_reference(a: Array, b: Array, accumulate: str = "default") -> Array:
    return single(np.einsum("tkm,tkn->mn", a, b))


def matmul_in_nested(a: Any, b: Any) -> Any:
    """Allocated in the outer body: the tile adds up over the inner loop and is fresh in each outer turn."""
    outer_turns, inner_turns = a.shape[0], b.shape[0]
    k, m, n = a.shape[1], a.shape[2], b.shape[2]
    total, out = sbuf(m, n), shared(m, n)
    nisa.memset(dst=total, value=0.0)

    def outer(i: Any) -> None:
        psum, result, left = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum), sbuf(m, n), sbuf(k, m)
        nisa.dma_copy(dst=left, src=a.ap(pattern=[[m, k], [1, m]], scalar_offset=i))

        def inner(j: Any) -> None:
            right = sbuf(k, n)
            nisa.dma_copy(dst=right, src=b.ap(pattern=[[n, k], [1, n]], scalar_offset=j))
            nisa.nc_matmul(dst=psum, stationary=left, moving=right)

        nl.fori_loop(0, inner_turns, inner)
        nisa.tensor_copy(dst=result, src=psum)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=2.0)
        add_into(total, result)

    nl.fori_loop(0, outer_turns, outer)
    nisa.dma_copy(dst=out, src=total)
    return out


def matmul_in_nested_reference(a: Array, b: Array) -> Array:
    total = np.zeros((a.shape[2], b.shape[2]), np.float32)
    for left in a:
        total = 2 * total + left.T @ b.sum(0)
    return total


def best_over_turns(x: Any) -> Any:
    """The Vector Engine's accumulator lives through the turns: reset before the loop, read after it."""
    turns, rows, width = x.shape
    tile, kept, always = sbuf(rows, width), sbuf(rows, width), sbuf(rows, width, dtype=nl.uint8)
    best, out = sbuf(rows, 1), shared(rows, 1)
    nisa.memset(dst=always, value=1)
    nisa.dma_copy(dst=tile, src=x[0])

    def select(command: Any, **more: Any) -> None:
        nisa.select_reduce(
            dst=kept, predicate=always, on_true=tile, on_false=0.0,
            reduce_cmd=nisa.reduce_cmd[command], reduce_op=nl.maximum, **more,
        )  # fmt: skip

    select("reset_reduce")

    def body(i: Any) -> None:
        nisa.dma_copy(dst=tile, src=x.select(0, at(i)))
        select("reduce", reduce_res=best)

    index = sbuf(1, 1, dtype=nl.int32)

    def at(i: Any) -> Any:
        nisa.scalar_store(index, i)
        return index

    nl.fori_loop(1, turns, body)
    nisa.dma_copy(dst=out, src=best)
    return out


def sum_over_turns(x: Any, bounds: Any) -> Any:
    """The Scalar Engine's registers likewise; zero turns leave what the call before the loop put there."""
    turns, (rows, width) = register_of(loaded(bounds), 0), x.shape
    tile, kept, total, out = sbuf(rows, width), sbuf(rows, width), sbuf(rows, 1), shared(rows, 1)
    nisa.dma_copy(dst=tile, src=x)

    def squares(command: str, **more: Any) -> None:
        nisa.activation(
            dst=kept, op=nl.square, data=tile, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd[command], **more
        )

    squares("reset_reduce")
    nl.fori_loop(0, turns, lambda i: squares("reduce"))
    squares("idle", reduce_res=total)
    nisa.dma_copy(dst=out, src=total)
    return out


def gathered_over_turns(table: Any, index: Any) -> Any:
    """The vector index itself changes from turn to turn; rows outside of the table are skipped."""
    rows, width = index.shape[0], table.shape[1]
    chosen, tile, total = sbuf(rows, 1, dtype=nl.int32), sbuf(rows, width), sbuf(rows, width)
    out = shared(rows, width)
    nisa.dma_copy(dst=chosen, src=index)
    nisa.memset(dst=total, value=0.0)

    def body(i: Any) -> None:
        nisa.memset(dst=tile, value=-100.0)
        nisa.dma_copy(
            dst=tile,
            src=table.ap(pattern=[[width, rows], [1, width]], vector_offset=chosen, indirect_dim=0),
            oob_mode=nisa.oob_mode.skip,
        )
        add_into(total, tile)
        nisa.tensor_scalar(dst=chosen, data=chosen, op0=nl.add, operand0=1)

    nl.fori_loop(0, 4, body)
    nisa.dma_copy(dst=out, src=total)
    return out


def gathered_over_turns_reference(table: Array, index: Array) -> Array:
    total = np.zeros((index.shape[0], table.shape[1]), np.float32)
    for turn in range(4):
        for row, start in enumerate(index[:, 0].tolist()):
            place = start + turn
            total[row] += table[place] if 0 <= place < len(table) else np.float32(-100)
    return total


def state_cases() -> Iterator[LoopCase]:
    a, b = ints(3, 8, 5, seed=6), ints(3, 8, 7, seed=7)
    yield loop_case(matmul_in_body, matmul_reference, a, b)
    yield loop_case(matmul_outside, matmul_reference, a, b)
    yield loop_case(matmul_outside, matmul_reference, a, b, accumulate="true")
    yield loop_case(matmul_in_nested, matmul_in_nested_reference, a, ints(4, 8, 7, seed=8))
    x = ints(6, 5, 9, seed=9, low=-1000, high=1000)
    yield loop_case(best_over_turns, lambda x: x.max((0, 2))[:, None], x)
    for turns in (0, 4):
        yield loop_case(
            sum_over_turns, lambda x, b: single((b[0, 0] + 1) * (x * x).sum(1, keepdims=True)),
            ints(5, 9), counts(turns), name=f"{turns}-turns",
        )  # fmt: skip
    index = np.array([[0], [7], [-2], [9]], np.int32)
    yield loop_case(gathered_over_turns, gathered_over_turns_reference, ints(10, 4), index, degrees=(1,))


def cases() -> Iterator[LoopCase]:
    """Yield all cases of this module."""
    yield from while_cases()
    yield from nested_cases()
    yield from state_cases()

"""Kernels with one mistake each, for `test_messages.py`. Messages show lines: add new ones at the end."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
# Kernels stand here as their authors write them, and messages show their first lines.

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import opennki
from opennki import nki

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@nki.jit
def number_for_a_tile(x):
    tile = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=0.0)
    return x


@nki.jit
def string_for_an_operator(x):
    tile = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=tile, data=tile, op0="multiply", operand0=2.0)
    return x


@nki.jit
def function_of_the_language(x):
    return nl.dropout(x, 0.1)


@nki.jit
def truth_of_a_tensor(x):
    if x:
        return x


@nki.jit
def tile_returned(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return {"tile": tile}


@nki.jit
def number_returned(x):
    return x, x.shape[0]


@nki.jit
def output_forgotten(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)


@nki.jit
def name_in_a_loop(x):
    for _ in range(2):
        nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf, name="weights")
    return x


def load(source, rows):
    """A helper, as real kernels have them."""
    tile = nl.ndarray((rows, source.shape[1]), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


@nki.jit
def helper_with_the_wrong_rows(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=load(x, 64))
    return out


@nki.jit
def tail_tile(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(0, x.shape[0], 128):
        tile = load(x[i : i + 128, :], 128)
        nisa.dma_copy(dst=out[i : i + 128, :], src=tile)
    return out


@nki.jit
def window_reshaped(x):
    return x[:, 0:32].reshape((4096,))


@nki.jit
def partitions_permuted(x):
    load(x, 128).permute((1, 0))
    return x


@nki.jit
def column_broadcast(x):
    load(x, 128).broadcast(1, 128)
    return x


@nki.jit
def written_through_a_broadcast(x):
    tile = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile.broadcast(1, 64), value=0.0)
    return x


@nki.jit
def assigned_to_a_window(x):
    tile = load(x, 128)
    tile[:, 0:8] = 0.0
    return x


@nki.jit
def wrong_reshape(x):
    return x.reshape((128, 63))


@nki.jit
def too_many_partitions(x):
    nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    return x


@nki.jit
def no_rows(x):
    nl.ndarray((0, 64), dtype=nl.float32, buffer=nl.sbuf)
    return x


@nki.jit
def too_much_psum(x):
    nl.ndarray((128, 4097), dtype=nl.float32, buffer=nl.psum)
    return x


@nki.jit
def beyond_the_last_byte(x):
    nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf, address=(0, 196500))
    return x


@nki.jit
def beyond_the_last_partition(x):
    nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf, address=(96, 0))
    return x


@nki.jit
def unaligned(x):
    nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum, address=(0, 6))
    return x


@nki.jit
def address_in_hbm(x):
    nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm, address=(0, 0))
    return x


@nki.jit
def double_precision(x):
    nl.ndarray((64, 64), dtype="float64", buffer=nl.sbuf)
    return x


@nki.jit
def wide_integers(x):
    tile = nl.ndarray((64, 64), dtype=nl.int64, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0)
    return x


@nki.jit
def matmul_from_hbm(x):
    acc = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=x, moving=load(x, 128))
    return x


@nki.jit
def matmul_into_bfloat16(x):
    acc = nl.ndarray((64, 64), dtype=nl.bfloat16, buffer=nl.psum)
    tile = load(x, 128)
    nisa.nc_matmul(dst=acc, stationary=tile, moving=tile)
    return x


@nki.jit
def odd_partition(x):
    tile = load(x, 128)
    nisa.tensor_copy(dst=tile[16:48, :], src=tile[16:48, :])
    return x


@nki.jit
def wide_matmul(x):
    acc = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.psum)
    left = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    right = nl.ndarray((128, 1024), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.nc_matmul(dst=acc, stationary=left, moving=right)
    return x


@nki.jit
def no_implicit_broadcast(x):
    tile = load(x, 128)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile[:, 0:1], op=nl.add)
    return x


@nki.jit
def barrier(x):
    nisa.core_barrier(data=x, cores=(0, 1))
    return x


@nki.jit
def output_on_core_0(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        return out, x
    return out


@nki.jit
def list_on_core_0(x):
    return [x] if nl.program_id(0) == 0 else (x,)


@nki.jit
def rows_by_core(x):
    rows = 64 + 32 * nl.program_id(0)
    out = nl.ndarray((rows, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    return out


@nki.jit
def barrier_and_exchange(x):
    tile = load(x, 128)
    if nl.program_id(0) == 0:
        nisa.core_barrier(data=x, cores=(0, 1))
    else:
        nisa.sendrecv(src=tile, dst=tile, send_to_rank=0, recv_from_rank=0, pipe_id=0)
    return x


@nki.jit
def halves(x):
    rows = x.shape[0] // nl.num_programs(0)
    start = nl.program_id(0) * rows
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[start : start + rows, :], src=load(x[start : start + rows, :], rows))
    return out


@nki.jit
def whole(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=load(x, 128))
    return out


@nki.jit
def first_half_only(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0:64, :], src=load(x[0:64, :], 64))
    return out


@nki.jit
def doubled(x):
    tile = load(x, 128)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=x, src=tile)


@nki.jit
def nested(x):
    return halves[2](x)


@nki.jit
def raising(x):
    if x.shape[1] % 128:
        raise ValueError(f"columns must be a multiple of 128, got {x.shape[1]}")
    return x


kept: list[Any] = []


@nki.jit
def keeping(x):
    tile = load(x, 128)
    kept.append(tile)
    nisa.tensor_copy(dst=tile, src=kept[0])
    return x


@nki.jit
def offset_of_a_window(x):
    load(x, 128)[:, 32:64].ap([[64, 128], [1, 8]], offset=8)
    return x


@nki.jit
def transposed(x):
    out = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=out, data=load(x, 128))
    return x


SPEC = "float32[128,64]"
Run = Callable[[], object]


def traced(kernel: Any, spec: Any = SPEC, *, lnc: Any = None, target: str = "trn2") -> Run:
    """Return a run that traces a kernel."""
    return lambda: opennki.trace(kernel, spec, lnc=lnc, target=target)


def checked(kernel: Any, target: str = "trn2") -> Run:
    """Return a run that checks a kernel and gives what it finds."""
    return lambda: opennki.check(kernel, SPEC, target=target).findings


def simulated(kernel: Any, *arrays: Any) -> Run:
    """Return a run that simulates a kernel."""
    return lambda: nki.simulate(kernel)(*arrays)


def baked(*kernels: Any, lnc: int) -> Run:
    """Return a run that traces kernels, each at its own degree, and bakes them into one graph."""
    return lambda: opennki.compile(
        [opennki.trace(kernel, SPEC, target="trn2") for kernel in kernels], lnc=lnc
    )


def called(kernel: Any, value: Any) -> Run:
    """Return a run that calls a kernel."""
    return lambda: kernel(value)


def two_axes() -> object:
    return halves[2, 2]


def two_brackets(array: Any) -> object:
    return nki.simulate(halves[2])[1](array)


def option_of_earlier_releases() -> object:
    return nki.jit(platform_target="trn2")


def outside_of_a_kernel() -> object:
    return nisa.memset(None, 0.0)


def launched_twice() -> object:
    kept.clear()
    opennki.trace(keeping, SPEC, target="trn2")
    try:
        return opennki.trace(keeping, SPEC, target="trn2")
    finally:
        kept.clear()

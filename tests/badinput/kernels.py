"""Kernels that are wrong in one way each. The line of the mistake ends in `# here`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

__all__ = ["MISTAKES", "Mistake"]

Kernel = Callable[..., Any]


@dataclass
class Mistake:
    """A kernel, the code of its error, and what the message says of it."""

    kernel: Kernel
    code: str
    says: tuple[str, ...]
    lnc: int = 1
    arrays: tuple[Any, ...] = (np.ones((128, 64), np.float32),)


def output(x: Any) -> Any:
    """Return an output like `x`."""
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


def wrong_dtype(x: Any) -> Any:
    out, tile = output(x), nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.bitwise_and)  # here
    nisa.dma_copy(dst=out, src=tile)
    return out


def unknown_dtype(x: Any) -> Any:
    tile = nl.ndarray(x.shape, dtype="float64", buffer=nl.sbuf)  # here
    return tile


def wrong_rank(x: Any) -> Any:
    out, tile = output(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_copy(dst=tile, src=tile[0:128, 0:32, 0])  # here
    return out


def too_many_partitions(x: Any) -> Any:
    tile = nl.ndarray((129, 4), dtype=x.dtype, buffer=nl.sbuf)  # here
    return tile


def other_partitions(x: Any) -> Any:
    out, tile = output(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile[0:64], op=nl.add)  # here
    return out


def other_free_size(x: Any) -> Any:
    out, tile = output(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile[:, 0:63], op=nl.add)  # here
    return out


def too_much_for_a_partition(x: Any) -> Any:
    tile = nl.ndarray((128, 1 << 20), dtype=x.dtype, buffer=nl.sbuf)  # here
    return tile


def view_outside(x: Any) -> Any:
    out, tile = output(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile[:, 60:65])  # here
    return out


def pattern_outside(x: Any) -> Any:
    out, tile = output(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap(pattern=[[64, 128], [1, 64]], offset=1))  # here
    return out


def reshaped_to_another_count(x: Any) -> Any:
    out = output(x)
    nisa.dma_copy(dst=out, src=x.reshape((128, 65)))  # here
    return out


def returns_a_tile(x: Any) -> Any:  # here
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def returns_a_number(x: Any) -> Any:  # here
    return 3


def outputs_differ(x: Any) -> Any:  # here
    rows = 64 + 64 * nl.program_id(0)
    out = nl.ndarray((rows, 64), dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    nisa.dma_copy(dst=out, src=x[0:rows])
    return out


def read_only(x: Any) -> Any:  # here
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=x, src=tile)
    return x


def plain(x: Any) -> Any:  # here
    out, tile = output(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out


def wide_integers(x: Any) -> Any:
    out, tile = output(x), nl.ndarray(x.shape, dtype=nl.int64, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)  # here
    nisa.dma_copy(dst=out, src=tile)
    return out


def frozen() -> Any:
    """Return an array that cannot be written."""
    array = np.ones((128, 64), np.float32)
    array.flags.writeable = False
    return array


MISTAKES = (
    Mistake(wrong_dtype, "ONKI202", ("float32",)),
    Mistake(unknown_dtype, "ONKI214", ("float64",)),
    Mistake(wrong_rank, "ONKI208", ("2 axes",)),
    Mistake(too_many_partitions, "ONKI212", ("129", "128")),
    Mistake(other_partitions, "ONKI205", ("128", "64")),
    Mistake(other_free_size, "ONKI205", ("64", "63")),
    Mistake(too_much_for_a_partition, "ONKI212", ("4194304",)),
    Mistake(view_outside, "ONKI208", ("65", "64")),
    Mistake(pattern_outside, "ONKI208", ("8192",)),
    Mistake(reshaped_to_another_count, "ONKI213", ("8192", "8320")),
    Mistake(returns_a_tile, "ONKI105", ("sbuf",)),
    Mistake(returns_a_number, "ONKI105", ("int",)),
    Mistake(outputs_differ, "ONKI305", (), lnc=2),
    Mistake(wide_integers, "ONKI214", ("int64",), arrays=(np.ones((128, 64), np.int64),)),
    Mistake(plain, "ONKI214", ("float64", ".astype(np.float32)"), arrays=(np.ones((128, 64)),)),
    Mistake(plain, "ONKI214", ("complex64",), arrays=(np.ones((128, 64), np.complex64),)),
)
"""What is refused while a kernel is traced, and so in every way to run it."""

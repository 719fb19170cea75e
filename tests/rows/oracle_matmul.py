"""The oracle of `nc_matmul`: the product with its error bound, and what accumulation makes of a PSUM tile.

Source: nki/api/nki/isa/__init__.py, `nc_matmul` ("The accumulation precision internal to Tensor Engine is
float32"); nki/guides/architecture/trainium3_arch.rst "BF16 Matmul Results in PSUM" (upcast, add in fp32,
round, write); OpenNKI design §5 (`accumulate=None`: per element, add where written since allocation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.rows.conversions import F64, load, store
from tests.rows.oracle_result import Result, gamma
from tests.rows.oracles import Tile


@dataclass(frozen=True)
class Psum:
    """A PSUM view: the interval of each element, and whether it was written since its allocation."""

    low: F64
    high: F64
    written: NDArray[np.bool_]

    def result(self) -> Result:
        """Return the elements as a result to be judged; those never written are NaN."""
        with np.errstate(invalid="ignore"):
            middle, reach = (self.low + self.high) / 2, (self.high - self.low) / 2
        same = self.low == self.high
        return Result(
            np.where(same, self.low, middle),
            bound=np.where(same | ~np.isfinite(reach), 0.0, reach),
            free_zero=True,
        )


def product(stationary: Tile, moving: Tile, *, double_row: bool = False) -> Result:
    """Return stationary.T @ moving with the bound gamma(K)·|stationary|.T @ |moving|.

    K is the partition extent, times 2 under `double_row`, whose operands are [K, 2, M] and [K, 2, N].
    """
    left, right = stationary.values, moving.values
    if double_row:
        left = left.reshape(left.shape[0] * 2, -1)
        right = right.reshape(right.shape[0] * 2, -1)
    else:
        left = left.reshape(left.shape[0], -1)
        right = right.reshape(right.shape[0], -1)
    depth = left.shape[0]
    with np.errstate(all="ignore"):
        values = np.einsum("km,kn->mn", left, right)
        magnitude = np.einsum("km,kn->mn", np.abs(left), np.abs(right))
    bound = gamma(depth) * magnitude + depth * 2.0**-149
    return Result(values, bound=np.where(np.isfinite(values), bound, 0.0), free_zero=True)


def transposed(stationary: Tile) -> Result:
    """Return what `is_transpose=True` gives from gen3 on, moving an identity: the bits, transposed."""
    return Result(stationary.rows().bits.T, "bits")


def accumulate(psum: Psum, term: Result, mode: bool | None, dtype: str) -> Psum:
    """Return the PSUM view after one matmul: overwrite (False), add (True), or add where written (None)."""
    shape = psum.low.shape
    low, high = (side.reshape(shape) for side in term.interval())
    adds = np.full(shape, mode) if mode is not None else psum.written
    with np.errstate(invalid="ignore"):
        new_low = np.where(adds, psum.low + low, low)
        new_high = np.where(adds, psum.high + high, high)
    return Psum(
        load(store(new_low, dtype), dtype), load(store(new_high, dtype), dtype), np.ones(shape, np.bool_)
    )

"""The oracle of accesses whose place is read at run time, and of the DMA instructions that make them.

An access is worked out as element numbers of its buffer in row-major order, in the view's shape. `ap` follows
the loops that the documents print; `select` and `vector_select` take along an axis of those numbers.

Source: nki/deep-dives/nki-aps.rst ("Dynamic Access with scalar_offset and vector_offset"),
nki/api/nki/language/__init__.py (`select`, `vector_select`), nki/api/nki/isa/__init__.py (`dma_copy`,
`dma_compute`, `oob_mode`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tests.rows import oracles
from tests.rows.cases import TileSpec, View
from tests.rows.conversions import Array, bits_of
from tests.rows.oracle_result import Result, explain, gamma, stored
from tests.rows.oracles import Tile

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]
Instruction = Literal["dma_copy", "tensor_copy", "dma_compute"]


@dataclass(frozen=True)
class IndexSource:
    """Where an index comes from: a window of an SBUF tile, or a register or scalar loaded from one."""

    buffer: str
    view: View | None = None
    by: Literal["tile", "register", "scalar"] = "tile"


@dataclass(frozen=True)
class Access:
    """A view of a buffer: slices, then at most one of `ap`, `select` and `vector_select`, then slices.

    With `pattern` it is `ap(pattern, offset, scalar_offset | vector_offset, indirect_dim=dim)`; without, a
    `scalar` index is `select(dim, …)` and a `vector` index `vector_select(dim, …)`.
    """

    buffer: str
    view: View | None = None
    pattern: tuple[tuple[int, int], ...] | None = None
    offset: int | None = None
    scalar: IndexSource | None = None
    vector: IndexSource | None = None
    dim: int = 0
    after: View | None = None


@dataclass(frozen=True)
class Transfer:
    """One instruction that moves: `dst` from one source, or from the sum of several (`dma_compute`)."""

    instruction: Instruction
    dst: Access
    srcs: tuple[Access, ...]
    skip: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexedCase:
    """Transfers in order on buffers that all hold data; for one target."""

    name: str
    buffers: Mapping[str, TileSpec]
    data: Mapping[str, Array]
    transfers: tuple[Transfer, ...]
    target: str = "trn2"

    @property
    def id(self) -> str:
        """A name for the test's report."""
        return f"{self.transfers[0].instruction}-{self.name}-{self.target}"

    def written(self) -> list[str]:
        """Return the buffers that the transfers write, each once."""
        return list(dict.fromkeys(transfer.dst.buffer for transfer in self.transfers))


class OutOfRange(Exception):
    """An index outside of its axis under `oob_mode.error`."""

    def __init__(self, index: int, extent: int) -> None:
        super().__init__(f"{index} is not in 0 … {extent - 1}")
        self.index = index
        self.extent = extent


@dataclass(frozen=True)
class Cover:
    """The element numbers of a view, whether each may be touched, and the indices that were read."""

    numbers: I64
    legal: Mask
    indices: tuple[int, ...]
    extent: int


@dataclass(frozen=True)
class Claim:
    """What a transfer wrote: flat element numbers of a buffer and the results there."""

    buffer: str
    numbers: I64
    result: Result


def evaluate(case: IndexedCase) -> tuple[list[Claim], dict[str, Array]]:
    """Return what the transfers write, in order, and the buffers afterwards; `OutOfRange` is an error."""
    contents = {name: array.copy() for name, array in case.data.items()}
    claims = []
    for transfer in case.transfers:
        dst = cover(transfer.dst, case, contents)
        srcs = [cover(access, case, contents) for access in transfer.srcs]
        legal = dst.legal.ravel().copy()
        for source in srcs:
            legal &= source.legal.ravel()
        if not legal.all() and not transfer.skip:
            raise _first_fault([dst, *srcs])
        spec = case.buffers[transfer.dst.buffer]
        tiles = [
            _read(contents[access.buffer], source, case.buffers[access.buffer].dtype)
            for access, source in zip(transfer.srcs, srcs, strict=True)
        ]
        result = pick(_computed(transfer.instruction, spec.dtype, tiles), legal)
        numbers = dst.numbers.ravel()[legal]
        contents[transfer.dst.buffer].reshape(-1)[numbers] = stored(result, spec.dtype)
        claims.append(Claim(transfer.dst.buffer, numbers, result))
    return claims, contents


def _computed(instruction: Instruction, dst: str, tiles: Sequence[Tile]) -> Result:
    if instruction == "dma_compute":
        return dma_compute(dst, tiles)
    return (oracles.dma_copy if instruction == "dma_copy" else oracles.tensor_copy)(dst, tiles[0])


def dma_compute(dst: str, srcs: Sequence[Tile]) -> Result:
    """Return the sum of the sources in fp32; any order of additions is within (n-1)·u·sum|x|.

    Two terms are rounded once, so their sum is exact. One source is its fp32 cast: the API page's formula
    (the migration guide lists the call with one source as a replacement of a read-modify-write).
    """
    terms = np.stack([tile.fp32.ravel() for tile in srcs])
    with np.errstate(all="ignore"):
        total = terms.sum(0) if len(srcs) != 2 else terms[0] + terms[1]
        if len(srcs) <= 2:
            silent = "one source: dst = src, not dst += src" if len(srcs) == 1 else ""
            return Result(terms[0] if len(srcs) == 1 else total, silent=silent)
        bound = gamma(len(srcs) - 1) * np.abs(terms).sum(0)
    return Result(total, bound=np.where(np.isfinite(total), bound, 0.0), free_zero=True)


def pick(result: Result, where: Mask) -> Result:
    """Return the chosen elements of a result, flat."""
    flat = result.reshaped((result.values.size,))
    bound = None if flat.bound is None else flat.bound[where]
    return replace(flat, values=flat.values[where], bound=bound)


def _read(base: Array, source: Cover, dtype: str) -> Tile:
    numbers = np.where(source.legal, source.numbers, 0)
    return Tile(base.reshape(-1)[numbers.ravel()], dtype)


def _first_fault(covers: Sequence[Cover]) -> OutOfRange:
    for one in covers:
        for row, index in enumerate(one.indices):
            legal = one.legal if len(one.indices) == 1 else one.legal[row]
            if not legal.all():
                return OutOfRange(index, one.extent)
    raise AssertionError("no fault")


# Which elements a view covers -----------------------------------------------------------------------------


def cover(access: Access, case: IndexedCase, contents: Mapping[str, Array]) -> Cover:
    """Return the elements of an access, its index read from `contents` now."""
    spec = case.buffers[access.buffer]
    numbers = np.arange(prod(spec.shape), dtype=np.int64).reshape(spec.shape)
    if access.view is not None:
        numbers = numbers[access.view]
    source = access.scalar or access.vector
    if source is None:
        numbers = _static(access, numbers)
        return Cover(numbers, np.ones(numbers.shape, np.bool_), (), 0)
    tile = contents[source.buffer]
    window = tile if source.view is None else tile[source.view]
    indices = [int(index) for index in window.ravel()]
    found = (
        _along_axis(access, numbers, indices)
        if access.pattern is None
        else _along_pattern(access, spec, numbers, indices)
    )
    if access.after is None:
        return found
    return replace(found, numbers=found.numbers[access.after], legal=found.legal[access.after])


def _static(access: Access, numbers: I64) -> I64:
    if access.pattern is not None:
        start = int(numbers.flat[0]) if access.offset is None else access.offset
        return start + loop(access.pattern)
    return numbers if access.after is None else numbers[access.after]


def loop(pattern: Sequence[tuple[int, int]]) -> I64:
    """Return the sum of step times counter for every turn of the nested loops that a pattern stands for."""
    total = np.zeros((), np.int64)
    for step, count in pattern:
        total = np.asarray(total[..., None] + step * np.arange(count, dtype=np.int64))
    return total


def _along_axis(access: Access, numbers: I64, indices: Sequence[int]) -> Cover:
    """`select` drops an axis at one index, `vector_select` picks a row of axis 0 for each partition."""
    extent = numbers.shape[access.dim]
    inside = np.array([0 <= index < extent for index in indices])
    safe = np.array([index if ok else 0 for index, ok in zip(indices, inside, strict=True)])
    if access.vector is not None:
        picked = numbers[safe]
        legal = np.broadcast_to(inside.reshape(-1, *[1] * (picked.ndim - 1)), picked.shape)
    else:
        picked = numbers.take(int(safe[0]), axis=access.dim)
        legal = np.broadcast_to(inside[0], picked.shape)
    return Cover(picked, np.array(legal), tuple(indices), extent)


def _along_pattern(access: Access, spec: TileSpec, numbers: I64, indices: Sequence[int]) -> Cover:
    """`offset + index · prod(shape[dim+1:])` plus the pattern; a vector index replaces its leading step.

    Legal: the index is one of the axis, and no element leaves the tensor (on chip: its partition's row).
    """
    assert access.pattern is not None
    start = int(numbers.flat[0]) if access.offset is None else access.offset
    step, extent = prod(spec.shape[access.dim + 1 :]), spec.shape[access.dim]
    pitch = prod(spec.shape[1:])
    if access.vector is not None:
        rows = np.array([index * step for index in indices], dtype=object)
        inner = loop(access.pattern[1:])
        reach = start + inner
        touched = np.stack([np.asarray(reach, object) + row for row in rows])
        fits = [(r.min() >= 0) and (r.max() < prod(spec.shape)) for r in touched]
    else:
        reach = start + loop(access.pattern)
        touched = np.asarray(reach, object) + indices[0] * step
        free = (
            touched if spec.space == "hbm" else np.asarray(start % pitch + loop(access.pattern[1:]), object)
        )
        free = free if spec.space == "hbm" else free + indices[0] * step
        top = prod(spec.shape) if spec.space == "hbm" else pitch
        fits = [(free.min() >= 0) and (free.max() < top)]
    inside = np.array([ok and 0 <= index < extent for index, ok in zip(indices, fits, strict=True)])
    legal = np.broadcast_to(inside.reshape(-1, *[1] * (touched.ndim - 1)), touched.shape)
    return Cover(np.where(legal, touched, 0).astype(np.int64), np.array(legal), tuple(indices), extent)


# Judging --------------------------------------------------------------------------------------------------


def disagreement(case: IndexedCase, claims: Sequence[Claim], actual: Mapping[str, Array]) -> str:
    """Return what is wrong in the buffers after a run, an empty text if nothing is.

    Elements that no transfer wrote, skipped ones among them, must hold what they held, bit for bit.
    """
    return "\n".join(text for name in case.written() for text in _judged(case, name, claims, actual[name]))


def _judged(case: IndexedCase, name: str, claims: Sequence[Claim], actual: Array) -> Iterator[str]:
    flat = np.ascontiguousarray(actual).reshape(-1)
    owner = np.full(flat.size, -1)
    mine = [claim for claim in claims if claim.buffer == name]
    for number, claim in enumerate(mine):
        owner[claim.numbers] = number
    changed = (bits_of(case.data[name]).ravel() != bits_of(flat)) & (owner == -1)
    if changed.any():
        yield f"{name}: {int(changed.sum())} elements outside the destination changed"
    for number, claim in enumerate(mine):
        own = owner[claim.numbers] == number
        if own.any():
            result = pick(claim.result, own)
            text = explain(result, flat[claim.numbers[own]], case.buffers[name].dtype)
            if text:
                yield f"{name}: {text}" + (f"\n  (silent: {result.silent})" if result.silent else "")

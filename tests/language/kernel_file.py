"""A kernel file after the language guide, a feature after the other: all of Python while tracing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import nki
import nki.isa as nisa
import nki.language as nl

SCALES = {"half": 0.5, "double": 2.0}


class Mode(Enum):
    """What an elementwise kernel does."""

    SCALE = "scale"
    SQUARE = "square"


@dataclass(frozen=True)
class Tiling:
    """Rows and columns of a tile."""

    rows: int = 128
    columns: int = 32

    def tiles(self, shape: tuple[int, int]) -> Iterator[tuple[slice, slice]]:
        """Give the tiles of a matrix; the last ones may be smaller."""
        for row in range(0, shape[0], self.rows):
            for column in range(0, shape[1], self.columns):
                yield (
                    slice(row, min(row + self.rows, shape[0])),
                    slice(column, min(column + self.columns, shape[1])),
                )


class Pair(NamedTuple):
    """Two outputs."""

    first: Any
    second: Any


class Step(nl.NKIObject):
    """A class that computes; a subclass replaces a method."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def apply(self, tile: Any) -> None:
        """Scale a tile in place."""
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=self.factor)


class Shifted(Step):
    """Scale and shift."""

    def apply(self, tile: Any) -> None:
        super().apply(tile)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)


def load(source: Any) -> Any:
    """Return a new tile with what a view holds: a function without a decorator is a part of the kernel."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


@nki.jit
def control_flow(x: Any, mode: Mode = Mode.SCALE, tiling: Tiling | None = None, scale: str = "half") -> Any:
    """Defaults, None, enums, dataclasses, generators, conditional expressions, match, dictionaries."""
    tiling = tiling or Tiling()
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for where in tiling.tiles(x.shape):
        tile = load(x[where])
        match mode:
            case Mode.SCALE:
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=SCALES[scale])
            case Mode.SQUARE:
                nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
        nisa.dma_copy(dst=out[where], src=tile)
    return out


@nki.jit
def classes(x: Any, steps: Any) -> Any:
    """Objects with inheritance and `super()`, in a list; closures, lambdas, partial functions, try."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load(x)
    count = 0

    def run(step: Step) -> None:
        nonlocal count
        count += 1
        step.apply(tile)

    for step in steps:
        run(step)
    halve = partial(nisa.tensor_scalar, dst=tile, data=tile, op0=nl.multiply)
    try:
        [0][count]
    except IndexError:
        halve(operand0=0.5)
    assert count == len(steps)
    (lambda: nisa.dma_copy(dst=out, src=tile))()
    return out


@nki.jit
def structures(inputs: dict[str, Any], pair: tuple[Any, Any], *more: Any) -> Any:
    """Dictionaries and tuples of tensors in, a named tuple out; comprehensions, star arguments, recursion."""

    def total(tiles: list[Any]) -> Any:
        if len(tiles) == 1:
            return tiles[0]
        rest = total(tiles[1:])
        nisa.tensor_tensor(dst=rest, data1=rest, data2=tiles[0], op=nl.add)
        return rest

    first = total([load(inputs[name]) for name in sorted(inputs)])
    second = total([load(one) for one in (*pair, *more)])
    outs = [nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm) for tile in (first, second)]
    for out, tile in zip(outs, (first, second), strict=True):
        nisa.dma_copy(dst=out, src=tile)
    return Pair(*outs)


@nki.jit
def views(x: Any) -> Any:
    """Slices with steps, `...`, reshapes, broadcasts, permutations and access patterns."""
    rows, columns = x.shape
    out = nl.ndarray((rows, 2, columns // 2), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load(x)
    first = load(x[:, 0:1])
    nisa.tensor_tensor(
        dst=tile[:, 0::2],
        data1=tile[:, 0::2],
        data2=first.ap(pattern=[[1, rows], [0, columns // 2]]),
        op=nl.add,
    )
    nisa.dma_copy(dst=out[:, 0, :], src=tile[..., 0 : columns // 2])
    nisa.dma_copy(dst=out[:, 1, :], src=tile.reshape((rows, 2, columns // 2))[:, 1, :])
    return out


@nki.jit
def loops(x: Any, n: Any) -> Any:
    """A loop of the hardware with a count known when it runs, one inside whose end the device decides."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load(x)
    trips = nisa.register_alloc()
    nisa.register_load(trips, n)

    def turn(i: Any) -> None:
        def again(j: Any) -> None:
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

        nl.fori_loop(0, 3, again)

    nl.fori_loop(0, trips, turn)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def cores(x: Any) -> Any:
    """Each core its rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs(0)
    mine = nl.ds(nl.program_id(0) * rows, rows)
    tile = load(x[mine, :])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(nl.program_id(0) + 1))
    nisa.dma_copy(dst=out[mine, :], src=tile)
    return out

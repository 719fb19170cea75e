"""The kernels that are measured: a tiled matrix product, written in three ways, and loops of one instruction.

The product adds nothing new to what tests check; its shape is that of real kernels: resident operands, tiles
sliced at the call, one PSUM and one SBUF tile allocated for each tile of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct

from opennki import nki
from opennki.frontend.kernel import Kernel
from opennki.frontend.trace import bind_arguments, trace_program
from opennki.ir.types import KernelArtifact
from opennki.targets import TARGETS

__all__ = [
    "FULL",
    "OPERATIONS",
    "SMALL",
    "Product",
    "count_instructions",
    "product_chained",
    "product_sliced",
    "product_whole",
    "repeated",
    "trace_product",
    "trace_repeated",
]

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


class Product(Struct, frozen=True):
    """Sizes of a tiled product: how many tiles of `[k, m]` and `[k, n]` elements, and of which dtype."""

    k: int
    m: int
    n: int
    k_tiles: int
    m_tiles: int
    n_tiles: int
    dtype: str

    @property
    def specs(self) -> tuple[str, str]:
        """The specs of both operands, the first one transposed."""
        rows = self.k * self.k_tiles
        columns = (self.m * self.m_tiles, self.n * self.n_tiles)
        return f"{self.dtype}[{rows},{columns[0]}]", f"{self.dtype}[{rows},{columns[1]}]"

    @property
    def instructions(self) -> int:
        """Instructions of one repetition."""
        return 2 * self.k_tiles + self.m_tiles * self.n_tiles * (self.k_tiles + 3)

    def repeats(self, instructions: int) -> int:
        """How many repetitions have at least that many instructions."""
        return -(-instructions // self.instructions)


FULL = Product(k=128, m=128, n=512, k_tiles=16, m_tiles=16, n_tiles=4, dtype="bfloat16")
"""A product of two 2048 by 2048 matrices in tiles as large as the tensor engine takes."""

SMALL = Product(k=8, m=8, n=8, k_tiles=8, m_tiles=2, n_tiles=2, dtype="float32")
"""Tiles so small that running them costs what the machinery costs."""


@nki.jit
def product_sliced(a: Any, b: Any, size: Product, repeats: int) -> Any:
    """Slice each operand at the call."""
    k, m, n = size.k, size.m, size.n
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm, name="out")
    left = nl.ndarray((k, size.k_tiles, a.shape[1]), dtype=a.dtype)
    right = nl.ndarray((k, size.k_tiles, b.shape[1]), dtype=b.dtype)
    for _ in range(repeats):
        for i in range(size.k_tiles):
            nisa.dma_copy(dst=left[:, i, :], src=a[i * k : (i + 1) * k, :])
            nisa.dma_copy(dst=right[:, i, :], src=b[i * k : (i + 1) * k, :])
        for row in range(size.m_tiles):
            for column in range(size.n_tiles):
                total = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
                tile = nl.ndarray((m, n), dtype=nl.float32)
                for i in range(size.k_tiles):
                    nisa.nc_matmul(
                        dst=total[0:m, 0:n],
                        stationary=left[0:k, i, row * m : (row + 1) * m],
                        moving=right[0:k, i, column * n : (column + 1) * n],
                        accumulate=i > 0,
                    )
                nisa.tensor_copy(dst=tile, src=total)
                nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
                nisa.dma_copy(dst=out[row * m : (row + 1) * m, column * n : (column + 1) * n], src=tile)
    return out


@nki.jit
def product_whole(a: Any, b: Any, size: Product, repeats: int) -> Any:
    """Slice everything once, before the loops."""
    k, m, n = size.k, size.m, size.n
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm, name="out")
    left = nl.ndarray((k, size.k_tiles, a.shape[1]), dtype=a.dtype)
    right = nl.ndarray((k, size.k_tiles, b.shape[1]), dtype=b.dtype)
    inner, rows, columns = range(size.k_tiles), range(size.m_tiles), range(size.n_tiles)
    loads = [(left[:, i, :], a[i * k : (i + 1) * k, :]) for i in inner]
    loads += [(right[:, i, :], b[i * k : (i + 1) * k, :]) for i in inner]
    stationary = [[left[:, i, row * m : (row + 1) * m] for i in inner] for row in rows]
    moving = [[right[:, i, column * n : (column + 1) * n] for i in inner] for column in columns]
    results = [[out[r * m : (r + 1) * m, c * n : (c + 1) * n] for c in columns] for r in rows]
    for _ in range(repeats):
        for target, source in loads:
            nisa.dma_copy(dst=target, src=source)
        for row in rows:
            for column in columns:
                total = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
                tile = nl.ndarray((m, n), dtype=nl.float32)
                lefts, rights = stationary[row], moving[column]
                for i in inner:
                    nisa.nc_matmul(dst=total, stationary=lefts[i], moving=rights[i], accumulate=i > 0)
                nisa.tensor_copy(dst=tile, src=total)
                nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
                nisa.dma_copy(dst=results[row][column], src=tile)
    return out


@nki.jit
def product_chained(a: Any, b: Any, size: Product, repeats: int) -> Any:
    """Slice each operand at the call, every instruction two function calls away from the kernel."""
    k, m, n = size.k, size.m, size.n
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm, name="out")
    left = nl.ndarray((k, size.k_tiles, a.shape[1]), dtype=a.dtype)
    right = nl.ndarray((k, size.k_tiles, b.shape[1]), dtype=b.dtype)
    for _ in range(repeats):
        for i in range(size.k_tiles):
            _load(left[:, i, :], a[i * k : (i + 1) * k, :])
            _load(right[:, i, :], b[i * k : (i + 1) * k, :])
        for row in range(size.m_tiles):
            for column in range(size.n_tiles):
                total = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
                tile = nl.ndarray((m, n), dtype=nl.float32)
                for i in range(size.k_tiles):
                    _multiply(
                        total[0:m, 0:n],
                        left[0:k, i, row * m : (row + 1) * m],
                        right[0:k, i, column * n : (column + 1) * n],
                        i > 0,
                    )
                _finish(out[row * m : (row + 1) * m, column * n : (column + 1) * n], tile, total)
    return out


def _load(target: Any, source: Any) -> None:
    _copy(target, source)


def _copy(target: Any, source: Any) -> None:
    nisa.dma_copy(dst=target, src=source)


def _multiply(total: Any, stationary: Any, moving: Any, adds: bool) -> None:
    _multiply_tiles(total, stationary, moving, adds)


def _multiply_tiles(total: Any, stationary: Any, moving: Any, adds: bool) -> None:
    nisa.nc_matmul(dst=total, stationary=stationary, moving=moving, accumulate=adds)


def _finish(target: Any, tile: Any, total: Any) -> None:
    _double(tile, total)
    _copy(target, tile)


def _double(tile: Any, total: Any) -> None:
    nisa.tensor_copy(dst=tile, src=total)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)


Operation = Callable[[Any, Any, Any], object]
"""One instruction on a destination and two sources, all `[128, 1]`."""

OPERATIONS: dict[str, Operation] = {
    "tensor_tensor": lambda t, x, y: nisa.tensor_tensor(dst=t, data1=x, data2=y, op=nl.add),
    "tensor_scalar": lambda t, x, y: nisa.tensor_scalar(dst=t, data=x, op0=nl.multiply, operand0=0.5),
    "tensor_copy": lambda t, x, y: nisa.tensor_copy(dst=t, src=x),
    "tensor_reduce": lambda t, x, y: nisa.tensor_reduce(dst=t, op=nl.add, data=x, axis=1),
    "activation": lambda t, x, y: nisa.activation(dst=t, op=nl.copy, data=x, scale=0.5),
    "reciprocal": lambda t, x, y: nisa.reciprocal(dst=t, data=x),
    "memset": lambda t, x, y: nisa.memset(dst=t, value=1.0),
    "dma_copy": lambda t, x, y: nisa.dma_copy(dst=t, src=x),
}
"""What a `[128, 1]` instruction of each kind costs to run is measured with these."""


@nki.jit
def repeated(x: Any, operation: Operation, repeats: int) -> Any:
    """Run one instruction again and again on `[128, 1]` tiles."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    target = nl.ndarray(x.shape, dtype=x.dtype)
    first = nl.ndarray(x.shape, dtype=x.dtype)
    second = nl.ndarray(x.shape, dtype=x.dtype)
    for tile in (target, first, second):
        nisa.dma_copy(dst=tile, src=x)
    for _ in range(repeats):
        operation(target, first, second)
    nisa.dma_copy(dst=out, src=target)
    return out


def trace_product(kernel: Kernel, size: Product, repeats: int) -> KernelArtifact:
    """Return the artifact of one of the products, for one core of trn2."""
    return _traced(kernel, size.specs, size=size, repeats=repeats)


def trace_repeated(operation: str, repeats: int, dtype: str = "float32") -> KernelArtifact:
    """Return the artifact of a loop of one instruction, for one core of trn2."""
    return _traced(repeated, [f"{dtype}[128,1]"], operation=OPERATIONS[operation], repeats=repeats)


def _traced(kernel: Kernel, specs: Sequence[str], **values: object) -> KernelArtifact:
    """Trace a kernel, past every cache: `opennki.trace` runs a kernel once and then remembers."""
    args, keywords, arguments = bind_arguments(kernel, specs, values, texts=True)
    return trace_program(kernel, args, keywords, arguments, 1, TARGETS["trn2"])


def count_instructions(artifact: KernelArtifact) -> int:
    """Return the number of instructions of all cores."""
    return sum(len(program.body) for program in artifact.programs)

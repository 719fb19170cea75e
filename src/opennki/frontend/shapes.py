"""`nl` functions that move elements: broadcasts, transposes, products of matrices.

Source of names, operands and defaults: nki/api/nki/language/__init__.py (SDK 2.32).
"""

from __future__ import annotations

from opennki.frontend.composition import Composition, composed, spread
from opennki.frontend.tensor import NkiTensor
from opennki.frontend.valueless import is_int
from opennki.ir.types import Space
from opennki.isa.table import dma_copy, nc_matmul, nc_transpose, tensor_copy

__all__ = ["broadcast_to", "expand_dims", "load_transpose2d", "matmul", "transpose"]

_HBM = (Space.shared_hbm, Space.private_hbm)
_ARRAY = 128  # rows and columns of the tensor engine, nki/api/nki/language/__init__.py:2259


def _matrix(call: Composition, role: str, value: object, spaces: tuple[Space, ...]) -> NkiTensor:
    """Return an operand of two axes. Errors: ONKI101, ONKI201, ONKI205."""
    tensor = call.operand(role, value, spaces)
    if tensor.ndim != 2:
        call.refuse(
            "ONKI205",
            f"`{call.name}` needs two axes, `{role}` is {list(tensor.shape)}",
            help=f"flatten its free axes with a view: `.reshape(({tensor.shape[0]}, -1))`",
            role=role,
            tensor=tensor,
        )
    return tensor


@composed
def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """Return a view of the tile x with a new axis of size 1 at `axis`, which is not 0. Errors: ONKI210."""
    return Composition("expand_dims").operand("x", x).expand_dim(axis)


@composed
def broadcast_to(x: NkiTensor, shape: tuple[int, ...], dtype: object = None) -> NkiTensor:
    """Return x repeated along its axes of size 1 up to `shape`, in SBUF; x itself if nothing is to do.

    Free axes are read again, the partition axis goes through a private HBM tensor, bits kept. `shape` has as
    many axes as x. Errors: ONKI101, ONKI205.
    """
    call = Composition("broadcast_to")
    call.operand("x", x)
    if not isinstance(shape, (tuple, list)) or not all(is_int(count) for count in shape):
        call.wrong_kind("shape", "a tuple of ints", shape)
    wanted = tuple(int(count) for count in shape)
    if len(wanted) != x.ndim or any(a not in (1, b) for a, b in zip(x.shape, wanted, strict=True)):
        call.refuse(
            "ONKI205",
            f"`{call.name}` repeats axes of size 1: `x` {list(x.shape)} cannot become {list(wanted)}",
            help="give as many axes as `x` has, each of its size or any size where `x` has 1",
            role="shape",
            tensor=x,
        )
    if x.shape == wanted:
        return call.cast(x, dtype)
    result = call.new(wanted, x.dtype if dtype is None else dtype)
    if x.shape[0] == wanted[0]:
        tensor_copy(dst=result, src=spread(x, wanted))
        return result
    row = call.new(x.shape, result.dtype, Space.private_hbm)
    source = call.cast(x, result.dtype)
    if source.buffer is Space.psum:
        source = call.like(x)
        tensor_copy(dst=source, src=x)
    dma_copy(dst=row, src=source)
    dma_copy(dst=result, src=spread(row, wanted).broadcast(0, wanted[0]))
    return result


@composed
def transpose(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return x `[P<=128, F<=128]` transposed, as a tile `[F, P]` in PSUM, as documented.

    The Tensor engine moves bits, but for NaN and infinities on trn1 (ONKI404, a warning). Errors: ONKI101,
    ONKI201, ONKI204, ONKI205.
    """
    call = Composition("transpose")
    _matrix(call, "x", x, (Space.sbuf, Space.psum))
    if x.shape[1] > _ARRAY:
        call.refuse(
            "ONKI204",
            f"`{call.name}` takes {_ARRAY} columns of `x` at most, it has {x.shape[1]}",
            help=f"slice `x` into parts of {_ARRAY} columns",
            role="x",
            tensor=x,
        )
    source = call.cast(x, dtype)
    if source.buffer is Space.psum:
        source = call.like(x)
        tensor_copy(dst=source, src=x)
    return _transposed(call, source)


def _transposed(call: Composition, x: NkiTensor) -> NkiTensor:
    result = call.new((x.shape[1], x.shape[0]), x.dtype, Space.psum)
    nc_transpose(dst=result, data=x)
    return result


@composed
def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """Return x @ y, or x.T @ y with `transpose_x`, as a float32 tile `[M, N]` in PSUM, as documented.

    `x` is `[M<=128, K<=128]`, transposed here first, or `[K, M]` with `transpose_x`; `y` is `[K, N<=512]`;
    both are in SBUF. Errors: ONKI101, ONKI201, ONKI202, ONKI204, ONKI205.
    """
    call = Composition("matmul")
    _matrix(call, "x", x, (Space.sbuf,))
    _matrix(call, "y", y, (Space.sbuf,))
    rows, what = (x.shape[0], "rows") if transpose_x else (x.shape[1], "columns")
    if rows != y.shape[0]:
        call.refuse(
            "ONKI205",
            f"`{call.name}` contracts the {rows} {what} of `x` {list(x.shape)} "
            f"with the {y.shape[0]} rows of `y` {list(y.shape)}",
            help="give both as many" if transpose_x else "give both as many, or say `transpose_x=True`",
            role="y",
            tensor=y,
        )
    stationary = x
    if not transpose_x:
        stationary = call.new((x.shape[1], x.shape[0]), x.dtype)
        tensor_copy(dst=stationary, src=_transposed(call, x))
    result = call.new((stationary.shape[1], y.shape[1]), "float32", Space.psum)
    nc_matmul(dst=result, stationary=stationary, moving=y)
    return result


@composed
def load_transpose2d(src: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return the transpose of the HBM matrix `src` `[N, P<=128]` as a tile `[P, N]` in SBUF.

    The DMA reads element by element, which is exact and slow. Errors: ONKI101, ONKI201, ONKI205, ONKI212.
    """
    call = Composition("load_transpose2d")
    _matrix(call, "src", src, _HBM)
    result = call.new((src.shape[1], src.shape[0]), src.dtype if dtype is None else dtype)
    dma_copy(dst=result, src=src.permute((1, 0)))
    return result

"""Independent oracles of the rows, from the vendor's documents (`nc_matmul` has oracle_matmul.py).

One function per instruction, with the documented keyword names. Tiles come in as `Tile` (storage and
element type), `dst` is the destination's element type, the answer is a `Result`: what is known before the
store and how far from it OpenNKI may be. Nothing here imports OpenNKI.

Source: nki/api/nki/isa/__init__.py (SDK 2.32), the docstring of the instruction of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.rows.conversions import (
    F64,
    INTEGER_DTYPES,
    PACKED,
    U64,
    Array,
    bits_of,
    load,
    round32,
    storage,
    ulp32,
)
from tests.rows.oracle_activation import EXACT, FREE_ZERO, affine, function
from tests.rows.oracle_alu import (
    BIT_REDUCTIONS,
    BITVEC,
    MAGNITUDE,
    UNARY,
    Step,
    binary,
    bits,
    exact_binary,
    unary,
)
from tests.rows.oracle_result import Result, gamma

NATIVE_INTEGERS = frozenset(("int32", "uint32"))


@dataclass(frozen=True)
class Tile:
    """The elements that an operand's view covers, in the view's shape."""

    array: Array
    dtype: str

    @property
    def values(self) -> F64:
        """The exact values of the elements."""
        return load(self.array, self.dtype)

    @property
    def fp32(self) -> F64:
        """The elements cast to fp32, as arithmetic instructions read them."""
        return round32(self.values)

    @property
    def bits(self) -> U64:
        """The elements' bit patterns."""
        return bits_of(self.array)

    @property
    def width(self) -> int:
        """The bits of an element."""
        return int(storage(self.dtype).itemsize * 8)

    @property
    def shape(self) -> tuple[int, ...]:
        """The view's shape."""
        return tuple(self.array.shape)

    def rows(self) -> Tile:
        """Return the tile as [partitions, elements per partition]."""
        return Tile(self.array.reshape(self.shape[0], -1), self.dtype)


Number = float | int
Vector = Number | Tile | None


def dma_copy(dst: str, src: Tile) -> Result:
    """Copy in row-major order of the two views; another dtype goes through fp32 ("a two-step process")."""
    return _copy(dst, src)


def tensor_copy(dst: str, src: Tile) -> Result:
    """Copy on chip: "bit-accurate when input and output data types are the same", else through fp32.

    (Scalar Engine on gen2 would go through fp32, but the same page rules it out there.)
    """
    return _copy(dst, src)


def _copy(dst: str, src: Tile) -> Result:
    return Result(src.bits, "bits") if dst == src.dtype else Result(src.fp32)


def memset(dst: str, value: Number, shape: tuple[int, ...]) -> Result:
    """Fill with a constant of the dtype's kind; integers are exact."""
    if dst in PACKED:
        return Result(np.zeros(shape, np.uint64), "bits")  # "only value=0 is supported"
    if dst in INTEGER_DTYPES:
        return Result(np.full(shape, int(value), np.int64), "integer")
    return Result(np.full(shape, float(value)), silent="a constant reaches 16- and 8-bit floats through fp32")


def runs_native_integers(op: str, dtypes: Sequence[str], *, engine: str, in_psum: bool) -> bool:
    """Return whether `tensor_tensor` computes in 32-bit integers.

    "When all input/output tiles are int32 or uint32, the operation defaults to GpSimd Engine, which uses
    native integer arithmetic … You may override this by passing engine=vector explicitly"; "falls back to
    Vector Engine when any operand resides in PSUM". abs_max and abs_min exist on Vector only.
    """
    native = all(dtype in NATIVE_INTEGERS for dtype in dtypes)
    return native and not in_psum and engine in ("unknown", "gpsimd") and op not in MAGNITUDE


def tensor_tensor(
    dst: str, data1: Tile, data2: Tile, op: str, *, engine: str = "unknown", in_psum: bool = False
) -> Result:
    """Combine two tiles element by element."""
    left, right = data1.rows(), data2.rows()
    if op in BITVEC:
        return Result(bits(op, left.bits, right.bits, left.width), "bits")
    if runs_native_integers(op, (dst, data1.dtype, data2.dtype), engine=engine, in_psum=in_psum):
        exact = exact_binary(op, left.array, right.array)
        return Result(exact, "integer", silent="an exact result outside the range of `dst` wraps")
    return _result(binary(op, left.fp32, right.fp32))


def _result(step: Step, error: F64 | None = None) -> Result:
    bound = None
    if error is not None:
        bound = np.where(np.isfinite(step.values), error + step.ulps * ulp32(step.values), 0.0)
    return Result(step.values, ulps=step.ulps if bound is None else 0, bound=bound, free_zero=step.free_zero)


def _column(operand: Vector) -> F64:
    if isinstance(operand, Tile):
        return operand.rows().fp32
    return round32(np.array(0.0 if operand is None else float(operand)))


def _pattern(operand: Vector, width: int) -> U64:
    if isinstance(operand, Tile):
        return operand.rows().bits
    return np.array(int(operand or 0) % 2**width, np.uint64)


def tensor_scalar(
    dst: str,
    data: Tile,
    op0: str,
    operand0: Vector = None,
    reverse0: bool = False,
    op1: str | None = None,
    operand1: Vector = None,
    reverse1: bool = False,
) -> Result:
    """Return (data op0 operand0) op1 operand1, each stage rounded to fp32; bitvec operators on patterns."""
    rows = data.rows()
    stages = [(op0, operand0, reverse0)] + ([(op1, operand1, reverse1)] if op1 is not None else [])
    if op0 in BITVEC:
        patterns = rows.bits
        for op, operand, reverse in stages:
            other = np.broadcast_to(_pattern(operand, rows.width), patterns.shape)
            pair = (other, patterns) if reverse else (patterns, other)
            patterns = bits(op, *pair, rows.width)
        return Result(patterns, "bits")
    first = _stage(rows.fp32, *stages[0])
    if len(stages) == 1:
        return _result(first)
    second = _stage(first.values, *stages[1])
    second = Step(second.values, second.ulps, first.free_zero or second.free_zero)
    if first.ulps == 0:
        return _result(second)
    reach = first.ulps * ulp32(first.values)
    ends = [_stage(first.values + sign * reach, *stages[1]).values for sign in (-1, 1)]
    with np.errstate(invalid="ignore"):
        error = np.maximum(np.abs(ends[0] - second.values), np.abs(ends[1] - second.values))
    return _result(second, error)


def _stage(values: F64, op: str, operand: Vector, reverse: bool) -> Step:
    if op in UNARY:
        return unary(op, values)
    other = np.broadcast_to(_column(operand), values.shape)
    return binary(op, other, values) if reverse else binary(op, values, other)


_FOLDS = {name: getattr(np, name) for name in (*BIT_REDUCTIONS, "logical_and", "logical_or", "logical_xor")}


def tensor_reduce(
    dst: str, op: str, data: Tile, axis: int | Sequence[int], negate: bool = False, keepdims: bool = False
) -> Result:
    """Reduce the last free axes, from `axis` on; `keepdims` changes nothing but the shape.

    Sums: any order of fp32 additions is within (n-1)·u·sum|x| (Higham); products within that, relative.
    """
    first_axis = axis if isinstance(axis, int) else min(axis)
    lead = data.shape[:first_axis]
    if op in BIT_REDUCTIONS:
        return Result(_FOLDS[op].reduce(data.bits.reshape(*lead, -1), axis=-1), "bits")
    result = _reduce(op, data.fp32.reshape(*lead, -1))
    return replace(result, values=-result.values) if negate else result


def _reduce(op: str, values: F64) -> Result:
    if op in ("add", "subtract"):
        return _sum(values, op == "subtract")
    if op in ("maximum", "minimum"):
        return Result(values.max(-1) if op == "maximum" else values.min(-1), free_zero=True)
    if op == "multiply":
        with np.errstate(all="ignore"):
            total = values.prod(-1)
            bound = gamma(values.shape[-1] - 1) * np.abs(total) + values.shape[-1] * 2.0**-149
        return Result(total, bound=np.where(np.isfinite(total), bound, 0.0), free_zero=True)
    return Result(_FOLDS[op].reduce(values != 0, axis=-1).astype(np.float64))


def _sum(values: F64, subtracts: bool) -> Result:
    first, rest = values[..., 0], values[..., 1:]
    with np.errstate(all="ignore"):
        total = first - rest.sum(-1) if subtracts else first + rest.sum(-1)
        bound = gamma(values.shape[-1] - 1) * np.abs(values).sum(-1)
    silent = "subtract folds from the left: x0 - x1 - x2 - …" if subtracts else ""
    return Result(total, bound=np.where(np.isfinite(total), bound, 0.0), free_zero=True, silent=silent)


@dataclass(frozen=True)
class Registers:
    """The Scalar Engine's `reduce_regs`, one per partition: the sum so far and what its error may be."""

    total: F64
    magnitude: F64
    error: F64
    terms: int = 0

    def result(self) -> Result:
        """Return what reading the registers gives."""
        bound = self.error + gamma(self.terms) * (self.magnitude + self.error)
        return Result(self.total, bound=np.where(np.isfinite(self.total), bound, 0.0), free_zero=True)


def reset_registers(partitions: int) -> Registers:
    """Return registers after a reset: zero."""
    zero = np.zeros(partitions)
    return Registers(zero, zero, zero)


def activation(
    dst: str,
    op: str,
    data: Tile,
    bias: Vector = None,
    scale: Vector = 1.0,
    reduce_cmd: str = "idle",
    registers: Registers | None = None,
) -> tuple[Result, Registers | None]:
    """Return op(data·scale + bias), and the registers after the call.

    The reduction (always `add`) is over the fp32 activated data, before it is cast to `dst`: the pseudo
    code reduces `output`. Its line `result = reduce_op(reduce_regs, …)` followed by `reduce_regs += result`
    would count the registers twice; the text ("Reduce activated data over existing values") is taken
    instead.
    """
    rows = data.rows()
    inputs = affine(rows.fp32, _column(scale), None if bias is None else _column(bias))
    values = function(op, inputs)
    ulps = 0 if op in EXACT else 4
    result = Result(values, ulps=ulps, free_zero=op in FREE_ZERO)
    after = registers
    if reduce_cmd in ("reset", "reset_reduce"):
        after = reset_registers(rows.shape[0])
    if reduce_cmd in ("reduce", "reset_reduce"):
        if after is None:
            raise ValueError("reduce before a reset: the registers' first value is not documented")
        rounded = round32(values)
        with np.errstate(all="ignore"):
            after = Registers(
                after.total + rounded.sum(-1),
                after.magnitude + np.abs(rounded).sum(-1),
                after.error + (ulps * ulp32(rounded)).sum(-1),
                after.terms + rounded.shape[-1],
            )
    return result, after


def reciprocal(dst: str, data: Tile) -> Result:
    """Return 1.0/x in fp32 math."""
    return _result(unary("reciprocal", data.rows().fp32))


def nc_transpose(dst: str, data: Tile, *, on_gen2_tensor_engine: bool = False) -> Result:
    """Return the 2D transpose of partitions and flattened free axes, bit for bit.

    On gen2 the Tensor Engine multiplies with an identity: exact for finite values, but for the sign of zeros.
    """
    rows = data.rows()
    if on_gen2_tensor_engine:
        return Result(rows.fp32.T, free_zero=True)
    return Result(rows.bits.T, "bits")


def core_barrier(data: NDArray[Any]) -> NDArray[Any]:
    """Return the tensor unchanged: a barrier orders accesses and computes nothing."""
    return data

"""The oracles of the rows that choose: `select_reduce`, `tensor_copy_predicated`; and `activation_reduce`.

Source: nki/api/nki/isa/__init__.py (SDK 2.32), the docstring of the instruction of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.rows import oracles
from tests.rows.cases import Call, Case, TileSpec
from tests.rows.conversions import F64, Array, bits_of, round32
from tests.rows.oracle_calls import Claim, Memory, start, viewed
from tests.rows.oracle_result import Result, stored
from tests.rows.oracles import Number, Tile

MINUS_INFINITY = float("-inf")


def chosen(predicate: Tile, reverse_pred: bool) -> NDArray[np.bool_]:
    """Return where the predicate holds: anything but zero, "the meaning of the condition" reversed if asked.

    The documents write `~predicate` for the reversal, which in NumPy is right for booleans only.
    """
    return np.asarray((predicate.rows().bits != 0) != reverse_pred)


def select_reduce(
    dst: str,
    predicate: Tile,
    on_true: Tile,
    on_false: Number | Tile,
    reduce_cmd: str = "idle",
    reverse_pred: bool = False,
    accumulator: F64 | None = None,
) -> tuple[Result, F64 | None]:
    """Return `where(predicate, on_true, on_false)` and the accumulator registers after the call.

    `reset_reduce` takes the maximum of each partition of the result, `reduce` that and what the registers
    held; NaN wins, as in `np.max`. The result is reduced before it is cast to `dst` (the documents reduce
    `result`, not `dst`). After `idle` the registers are not known: "may still be modified".
    """
    other = on_false.rows().fp32 if isinstance(on_false, Tile) else round32(np.array([[on_false]], float))
    values = np.where(chosen(predicate, reverse_pred), on_true.rows().fp32, other)
    result = Result(values)
    if reduce_cmd == "idle":
        return result, None
    best = np.max(values, axis=1)
    if reduce_cmd == "reset_reduce":
        return result, np.maximum(best, MINUS_INFINITY)
    if accumulator is None:
        raise ValueError("reduce without a reset before it: what the registers hold is not documented")
    return result, np.maximum(best, accumulator)


def tensor_copy_predicated(
    dst: Tile, src: Number | Tile, predicate: Tile, reverse_pred: bool = False
) -> Result:
    """Return the destination's patterns with those of `src` where the predicate holds.

    "src and dst must share the same data type", so a tile is copied bit for bit (`derived`: the page on
    `tensor_copy` says so of equal dtypes). A number becomes an element of that type.
    """
    before = dst.rows()
    if isinstance(src, Tile):
        new = src.rows().bits
    elif np.issubdtype(before.array.dtype, np.integer):
        new = bits_of(np.array([[int(src)]]).astype(before.array.dtype))
    else:
        new = bits_of(stored(Result(np.array([[float(src)]])), dst.dtype))
    return Result(np.where(chosen(predicate, reverse_pred), new, before.bits), "bits")


@dataclass
class Engines:
    """The hidden registers of a case while its calls are evaluated."""

    vector: F64 | None = None
    scalar: oracles.Registers | None = None


def run(case: Case) -> tuple[list[Claim], dict[str, Array]]:
    """Return what the calls of a case write, in order, and the contents of its buffers afterwards."""
    memory, engines, claims = start(case), Engines(), []
    for call in case.calls:
        for role, result in _outcome(call, memory, engines).items():
            spec = call.operands[role]
            target = viewed(memory.contents[call.buffer(role)], spec)
            target[...] = stored(result, spec.element).reshape(target.shape)
            claims.append(Claim(call.buffer(role), spec, result.reshaped(target.shape)))
    return claims, memory.contents


def _outcome(call: Call, memory: Memory, engines: Engines) -> dict[str, Result]:
    if call.instruction == "select_reduce":
        return _select(call, memory, engines)
    if call.instruction in ("activation", "activation_reduce"):
        return _activation(call, memory, engines)
    old = _operand(call, memory, "dst")
    src, predicate = _operand(call, memory, "src"), _operand(call, memory, "predicate")
    return {"dst": tensor_copy_predicated(old, src, predicate, **call.attributes)}


def _select(call: Call, memory: Memory, engines: Engines) -> dict[str, Result]:
    attributes = {key: value for key, value in call.attributes.items() if key != "reduce_op"}
    operands = {role: _operand(call, memory, role) for role in ("predicate", "on_true", "on_false")}
    result, engines.vector = select_reduce(
        call.operands["dst"].element, **operands, **attributes, accumulator=engines.vector
    )
    outcome = {"dst": result}
    if "reduce_res" in call.operands and engines.vector is not None:
        outcome["reduce_res"] = Result(engines.vector, free_zero=True)
    return outcome


def _activation(call: Call, memory: Memory, engines: Engines) -> dict[str, Result]:
    scale = _operand(call, memory, "scale")
    command = "reset_reduce" if call.instruction == "activation_reduce" else call.attributes["reduce_cmd"]
    result, engines.scalar = oracles.activation(
        call.operands["dst"].element,
        call.attributes["op"],
        _operand(call, memory, "data"),
        bias=_operand(call, memory, "bias"),
        scale=1.0 if scale is None else scale,
        reduce_cmd=command,
        registers=engines.scalar,
    )
    outcome = {"dst": result}
    if "reduce_res" in call.operands and engines.scalar is not None:
        outcome["reduce_res"] = engines.scalar.result()
    return outcome


def _operand(call: Call, memory: Memory, role: str) -> Any:
    if role in call.operands:
        spec: TileSpec = call.operands[role]
        return Tile(viewed(memory.contents[call.buffer(role)], spec).copy(), spec.element)
    return call.numbers.get(role)

"""Evaluates a case with the oracles: what every buffer holds afterwards, and how far it may be from that.

Views are NumPy views of the buffers' contents. A source is read in full before the destination is written, so
operands may overlap (OpenNKI design §4: semantics are pure functions).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.rows import oracles
from tests.rows.cases import Call, Case, TileSpec
from tests.rows.conversions import PACKED, Array, bits_of, load, storage
from tests.rows.oracle_matmul import Psum, accumulate, product, transposed
from tests.rows.oracle_result import Result, explain, stored
from tests.rows.oracles import Registers, Tile


@dataclass(frozen=True)
class Claim:
    """What one call wrote through one view."""

    buffer: str
    spec: TileSpec
    result: Result


@dataclass
class Memory:
    """The state of a case while its calls are evaluated: contents, PSUM intervals, reduce registers."""

    target: str
    contents: dict[str, Array]
    written: dict[str, NDArray[np.bool_]]
    low: dict[str, Array] = field(default_factory=dict)
    high: dict[str, Array] = field(default_factory=dict)
    registers: Registers | None = None


def viewed(base: NDArray[Any], spec: TileSpec) -> NDArray[Any]:
    """Return the NumPy view of a buffer that an operand covers."""
    view = base[spec.view] if spec.view is not None else base
    for method, arguments in spec.moves:
        view = _move(view, method, arguments)
    return view


def _move(view: NDArray[Any], method: str, arguments: tuple[Any, ...]) -> NDArray[Any]:
    if method == "permute":
        return view.transpose(arguments[0])
    if method == "view":
        return view.view(storage(arguments[0]))
    if method == "expand_dim":
        return np.expand_dims(view, arguments[0])
    if method == "broadcast":
        dim, size = arguments
        return np.broadcast_to(view, (*view.shape[:dim], size, *view.shape[dim + 1 :]))
    raise KeyError(method)


def start(case: Case) -> Memory:
    """Return the state before the first call."""
    contents, written = {}, {}
    for name, spec in case.buffers().items():
        fresh = name not in case.data
        contents[name] = np.zeros(spec.shape, storage(spec.dtype)) if fresh else case.data[name].copy()
        written[name] = np.full(spec.shape, not fresh)
    return Memory(case.target, contents, written)


def evaluate(case: Case) -> list[Claim]:
    """Return what the calls of a case write, in order."""
    return run(case)[0]


def run(case: Case) -> tuple[list[Claim], dict[str, Array]]:
    """Return what the calls of a case write, in order, and the contents of its buffers afterwards."""
    memory, claims = start(case), []
    for call in case.calls:
        for role, result in _outcome(call, memory).items():
            name, spec = call.buffer(role), call.operands[role]
            target = viewed(memory.contents[name], spec)
            target[...] = stored(result, spec.element).reshape(target.shape)
            viewed(memory.written[name], _whole(spec))[...] = True
            claims.append(Claim(name, spec, result.reshaped(target.shape)))
    return claims, memory.contents


def _operand(call: Call, memory: Memory, role: str) -> Any:
    if role in call.operands:
        spec = call.operands[role]
        return Tile(viewed(memory.contents[call.buffer(role)], spec).copy(), spec.element)
    return call.numbers.get(role)


def _outcome(call: Call, memory: Memory) -> dict[str, Result]:
    if call.instruction == "activation":
        return _activation(call, memory)
    return {"dst": _EVALUATE[call.instruction](call, memory)}


def _copy(call: Call, memory: Memory) -> Result:
    function = oracles.dma_copy if call.instruction == "dma_copy" else oracles.tensor_copy
    return function(call.operands["dst"].element, _operand(call, memory, "src"))


def _memset(call: Call, memory: Memory) -> Result:
    spec = call.operands["dst"]
    shape = viewed(memory.contents[call.buffer("dst")], spec).shape
    return oracles.memset(spec.element, call.numbers["value"], shape)


def _tensor_tensor(call: Call, memory: Memory) -> Result:
    return oracles.tensor_tensor(
        call.operands["dst"].element,
        _operand(call, memory, "data1"),
        _operand(call, memory, "data2"),
        call.attributes["op"],
        engine=call.engine or "unknown",
        in_psum=any(spec.space == "psum" for spec in call.operands.values()),
    )


def _tensor_scalar(call: Call, memory: Memory) -> Result:
    operands = {role: _operand(call, memory, role) for role in ("data", "operand0", "operand1")}
    return oracles.tensor_scalar(call.operands["dst"].element, **operands, **call.attributes)


def _tensor_reduce(call: Call, memory: Memory) -> Result:
    data = _operand(call, memory, "data")
    return oracles.tensor_reduce(call.operands["dst"].element, data=data, **call.attributes)


def _reciprocal(call: Call, memory: Memory) -> Result:
    return oracles.reciprocal(call.operands["dst"].element, _operand(call, memory, "data"))


def _nc_transpose(call: Call, memory: Memory) -> Result:
    spec = call.operands["dst"]
    old = memory.target == "trn1" and spec.space == "psum"
    return oracles.nc_transpose(spec.element, _operand(call, memory, "data"), on_gen2_tensor_engine=old)


def _activation(call: Call, memory: Memory) -> dict[str, Result]:
    scale = _operand(call, memory, "scale")
    result, memory.registers = oracles.activation(
        call.operands["dst"].element,
        call.attributes["op"],
        _operand(call, memory, "data"),
        bias=_operand(call, memory, "bias"),
        scale=1.0 if scale is None else scale,
        reduce_cmd=call.attributes.get("reduce_cmd", "idle"),
        registers=memory.registers,
    )
    outcome = {"dst": result}
    if "reduce_res" in call.operands and memory.registers is not None:
        outcome["reduce_res"] = memory.registers.result()
    return outcome


def _matmul(call: Call, memory: Memory) -> Result:
    name, spec = call.buffer("dst"), call.operands["dst"]
    stationary, moving = _operand(call, memory, "stationary"), _operand(call, memory, "moving")
    if call.attributes.get("is_transpose") and memory.target != "trn1":
        return transposed(stationary)
    term = product(stationary, moving, double_row=call.attributes.get("perf_mode") == "double_row")
    if name not in memory.low:
        memory.low[name] = load(memory.contents[name], spec.element)
        memory.high[name] = memory.low[name].copy()
    low, high = viewed(memory.low[name], spec), viewed(memory.high[name], spec)
    before = Psum(low.copy(), high.copy(), viewed(memory.written[name], spec).copy())
    after = accumulate(before, term, call.attributes.get("accumulate"), spec.element)
    low[...], high[...] = after.low, after.high
    return after.result()


_EVALUATE: dict[str, Callable[[Call, Memory], Result]] = {
    "dma_copy": _copy,
    "tensor_copy": _copy,
    "memset": _memset,
    "tensor_tensor": _tensor_tensor,
    "tensor_scalar": _tensor_scalar,
    "tensor_reduce": _tensor_reduce,
    "reciprocal": _reciprocal,
    "nc_transpose": _nc_transpose,
    "nc_matmul": _matmul,
}


def disagreement(case: Case, claims: list[Claim], actual: Mapping[str, Array]) -> str:
    """Return what is wrong in the buffers after a run as text, an empty text if nothing is.

    Elements that no call wrote must still hold what they held at first, bit for bit.
    """
    lines = []
    for name, spec in case.buffers().items():
        if name not in actual:
            continue
        mine = [claim for claim in claims if claim.buffer == name]
        owner = np.full(spec.shape, -1)
        for number, claim in enumerate(mine):
            viewed(owner, _whole(claim.spec))[...] = number
        if name in case.data:
            changed = (bits_of(case.data[name]) != bits_of(actual[name])) & (owner == -1)
            if changed.any():
                lines.append(f"{name}: {int(changed.sum())} elements outside the destination changed")
        for number, claim in enumerate(mine):
            view, own = viewed(actual[name], claim.spec), viewed(owner, _whole(claim.spec)) == number
            if own.shape != view.shape:
                own = np.ones(view.shape, np.bool_)  # of another width: judged whole, one call writes it
            text = _judged(claim, own, view)
            lines += [f"{name}: {text}"] if text else []
    return "\n".join(lines)


def _whole(spec: TileSpec) -> TileSpec:
    """Return the view without its changes of element type: the elements of the buffer that it touches."""
    return replace(spec, moves=tuple(move for move in spec.moves if move[0] != "view"))


def _judged(claim: Claim, own: NDArray[np.bool_], actual: Array) -> str:
    if not own.any():
        return ""
    result = claim.result
    bound = None if result.bound is None else result.bound[own]
    picked = type(result)(
        result.values[own], result.kind, result.ulps, bound, result.free_zero, result.silent
    )
    if claim.spec.element in PACKED:
        same = bits_of(stored(picked, claim.spec.element)) == bits_of(np.ascontiguousarray(actual[own]))
        return "" if same.all() else f"{int((~same).sum())} patterns differ ({claim.spec.element})"
    text = explain(picked, np.ascontiguousarray(actual[own]), claim.spec.element)
    return f"{text}\n  (silent: {result.silent})" if text and result.silent else text

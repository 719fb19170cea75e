"""Turns a `Case` into a kernel: loads the buffers, runs the calls on the views, brings back the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.rows.cases import Call, Case, TileSpec
from tests.rows.conversions import PACKED, Array, storage

PSUM_COLUMNS = 2048
"""PSUM is read back in pieces of this size; an access may span 4096 elements (GEN-13)."""

_ENUMS: Mapping[str, Any] = {
    "reduce_cmd": nisa.reduce_cmd,
    "dge_mode": nisa.dge_mode,
    "perf_mode": nisa.matmul_perf_mode,
}


def kernel_of(case: Case) -> Callable[..., Any]:
    """Return a kernel that takes the case's data in order and returns the buffers that its calls write."""
    specs, written = case.buffers(), outputs_of(case)
    given = list(case.data)

    def kernel(*inputs: Any) -> Any:
        sources = dict(zip(given, inputs, strict=True))
        tiles = {name: _allocate(spec, sources.get(name), name in written) for name, spec in specs.items()}
        for call in case.calls:
            _run(call, tiles)
        results = tuple(_bring_back(specs[name], tiles[name]) for name in written)
        return results[0] if len(results) == 1 else results

    return nki.jit(kernel)


def outputs_of(case: Case) -> list[str]:
    """Return the names of the buffers that the case's calls write, each once."""
    roles = ("dst", "reduce_res")
    return list(dict.fromkeys(c.buffer(role) for c in case.calls for role in roles if role in c.operands))


def inputs_of(case: Case) -> list[Array]:
    """Return copies of the arrays that the kernel takes."""
    return [array.copy() for array in case.data.values()]


def named(case: Case, results: Any) -> dict[str, Array]:
    """Return a run's results by buffer, as arrays of the buffers' storage types."""
    several = results if isinstance(results, tuple) else (results,)
    specs = case.buffers()
    arrays = {}
    for name, result in zip(outputs_of(case), several, strict=True):
        array = np.asarray(result)
        assert array.shape == specs[name].shape, (name, array.shape)
        assert array.dtype == storage(specs[name].dtype), (name, array.dtype)
        arrays[name] = array
    return arrays


def _dtype(name: str) -> Any:
    return getattr(nl, "bool_" if name == "bool" else name, name)


def _allocate(spec: TileSpec, source: Any, is_written: bool) -> Any:
    """Return the buffer's tensor, holding `source` if there is one."""
    if source is not None and (spec.dtype == "tfloat32" or spec.dtype in PACKED):
        source = source.view(_dtype(spec.dtype))
    if spec.space == "hbm" and not is_written:
        return source
    places = {"hbm": nl.shared_hbm, "sbuf": nl.sbuf, "psum": nl.psum}
    made = nl.ndarray(spec.shape, dtype=_dtype(spec.dtype), buffer=places[spec.space])
    if source is None:
        return made
    if spec.space != "psum":
        nisa.dma_copy(dst=made, src=source)
        return made
    staging = nl.ndarray(spec.shape, dtype=_dtype(spec.dtype), buffer=nl.sbuf)
    nisa.dma_copy(dst=staging, src=source)
    _copy_columns(made, staging)
    return made


def _copy_columns(dst: Any, src: Any) -> None:
    """Copy on chip, at most as many columns at a time as one access of PSUM takes."""
    width = dst.shape[-1]
    for begin in range(0, width, PSUM_COLUMNS):
        columns = slice(begin, min(begin + PSUM_COLUMNS, width))
        nisa.tensor_copy(dst=dst[..., columns], src=src[..., columns])


def _bring_back(spec: TileSpec, tile: Any) -> Any:
    if spec.space == "hbm":
        return tile
    out = nl.ndarray(spec.shape, dtype=_dtype(spec.dtype), buffer=nl.shared_hbm)
    if spec.space == "psum":
        staging = nl.ndarray(spec.shape, dtype=_dtype(spec.dtype), buffer=nl.sbuf)
        _copy_columns(staging, tile)
        tile = staging
    nisa.dma_copy(dst=out, src=tile)
    return out


def _run(call: Call, tiles: Mapping[str, Any]) -> None:
    arguments: dict[str, Any] = {
        role: _view(tiles[call.buffer(role)], spec) for role, spec in call.operands.items()
    }
    arguments |= call.numbers
    for key, value in call.attributes.items():
        arguments[key] = _attribute(key, value)
    if call.engine is not None:
        arguments["engine"] = getattr(nisa.engine, call.engine)
    if call.instruction == "tensor_scalar":
        arguments.setdefault("operand0", None)
    getattr(nisa, call.instruction)(**arguments)


def _attribute(key: str, value: Any) -> Any:
    if key in _ENUMS:
        return _ENUMS[key][value]
    return getattr(nl, value) if isinstance(value, str) else value


def _view(tensor: Any, spec: TileSpec) -> Any:
    view = tensor[spec.view] if spec.view is not None else tensor
    for method, arguments in spec.moves:
        given = (_dtype(arguments[0]),) if method == "view" else arguments
        view = getattr(view, method)(*given)
    return view

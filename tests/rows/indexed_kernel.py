"""Turns an `IndexedCase` into a kernel: loads the buffers, makes the transfers, brings back the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from tests.rows.case_kernel import _allocate, _bring_back
from tests.rows.conversions import Array, storage
from tests.rows.oracle_indexed import Access, IndexedCase, IndexSource, Transfer

nki: Any = import_module("opennki.nki")
nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


def kernel_of(case: IndexedCase) -> Callable[..., Any]:
    """Return a kernel that takes the case's data in order and returns the buffers that transfers write."""
    written, given = case.written(), list(case.data)

    def kernel(*inputs: Any) -> Any:
        sources = dict(zip(given, inputs, strict=True))
        tiles = {name: _allocate(spec, sources[name], name in written) for name, spec in case.buffers.items()}
        for transfer in case.transfers:
            _run(transfer, tiles)
        results = tuple(_bring_back(case.buffers[name], tiles[name]) for name in written)
        return results[0] if len(results) == 1 else results

    return nki.jit(kernel)  # type: ignore[no-any-return]  # the façade's own types are not what is tested here


def inputs_of(case: IndexedCase) -> list[Array]:
    """Return copies of the arrays that the kernel takes."""
    return [array.copy() for array in case.data.values()]


def named(case: IndexedCase, results: Any) -> dict[str, Array]:
    """Return a run's results by buffer."""
    several = results if isinstance(results, tuple) else (results,)
    arrays = {}
    for name, result in zip(case.written(), several, strict=True):
        array = np.asarray(result)
        assert array.shape == case.buffers[name].shape, (name, array.shape)
        assert array.dtype == storage(case.buffers[name].dtype), (name, array.dtype)
        arrays[name] = array
    return arrays


def view_of(access: Access, tiles: Mapping[str, Any]) -> Any:
    """Return the tensor view of an access, with the methods that it names."""
    tensor = tiles[access.buffer]
    if access.view is not None:
        tensor = tensor[access.view]
    if access.pattern is not None:
        tensor = _pattern(access, tensor, tiles)
    elif access.scalar is not None:
        tensor = tensor.select(access.dim, _index(access.scalar, tiles))
    elif access.vector is not None:
        tensor = tensor.vector_select(access.dim, _index(access.vector, tiles))
    return tensor if access.after is None else tensor[access.after]


def _pattern(access: Access, tensor: Any, tiles: Mapping[str, Any]) -> Any:
    given: dict[str, Any] = {"pattern": [list(pair) for pair in access.pattern or ()]}
    if access.offset is not None:
        given["offset"] = access.offset
    if access.scalar is not None:
        given |= {"scalar_offset": _index(access.scalar, tiles), "indirect_dim": access.dim}
    if access.vector is not None:
        given |= {"vector_offset": _index(access.vector, tiles), "indirect_dim": access.dim}
    return tensor.ap(**given)


def _index(source: IndexSource, tiles: Mapping[str, Any]) -> Any:
    tile = tiles[source.buffer]
    if source.view is not None:
        tile = tile[source.view]
    if source.by == "register":
        register = nisa.register_alloc()
        nisa.register_load(register, tile)
        return register
    return nisa.scalar_load(tile) if source.by == "scalar" else tile


def _run(transfer: Transfer, tiles: Mapping[str, Any]) -> None:
    arguments: dict[str, Any] = {"dst": view_of(transfer.dst, tiles)}
    sources = [view_of(access, tiles) for access in transfer.srcs]
    if transfer.skip:
        arguments["oob_mode"] = nisa.oob_mode.skip
    for key, value in transfer.attributes.items():
        arguments[key] = nisa.dge_mode[value] if key == "dge_mode" else value
    if transfer.instruction == "dma_compute":
        arguments["reduce_op"] = getattr(nl, arguments.get("reduce_op", "add"))
        nisa.dma_compute(srcs=sources, **arguments)
    else:
        getattr(nisa, transfer.instruction)(src=sources[0], **arguments)

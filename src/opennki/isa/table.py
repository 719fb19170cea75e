"""The instruction table: the one module that imports all rows. Who needs the table imports it from here."""

from __future__ import annotations

from opennki.ir.program import RoleFacts, RowFacts
from opennki.isa.define import Barrier, Exchange, Row, freeze
from opennki.isa.dma.compute import dma_compute
from opennki.isa.dma.copy import dma_copy
from opennki.isa.scalar.activation import activation, activation_reduce
from opennki.isa.sync.barrier import core_barrier
from opennki.isa.sync.exchange import sendrecv
from opennki.isa.sync.registers import (
    register_load,
    register_move,
    register_store,
    scalar_arithmetic,
    scalar_read,
    scalar_store,
)
from opennki.isa.tensor.matmul import nc_matmul
from opennki.isa.tensor.transpose import nc_transpose
from opennki.isa.vector.broadcast import tensor_scalar
from opennki.isa.vector.elementwise import tensor_tensor
from opennki.isa.vector.move import memset, reciprocal, tensor_copy
from opennki.isa.vector.reduce import tensor_reduce
from opennki.isa.vector.select import select_reduce, tensor_copy_predicated

__all__ = [
    "BY_NAME",
    "OPCODES",
    "ROW_FACTS",
    "TABLE",
    "activation",
    "activation_reduce",
    "core_barrier",
    "dma_compute",
    "dma_copy",
    "memset",
    "nc_matmul",
    "nc_transpose",
    "reciprocal",
    "register_load",
    "register_move",
    "register_store",
    "scalar_arithmetic",
    "scalar_read",
    "scalar_store",
    "select_reduce",
    "sendrecv",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_tensor",
]

TABLE: tuple[Row, ...] = freeze()
BY_NAME: dict[str, Row] = {row.name: row for row in TABLE}
OPCODES: tuple[str, ...] = tuple(row.name for row in TABLE)


def _facts(row: Row) -> RowFacts:
    sync = row.sync
    kind = None if sync is None else sync.kind
    return RowFacts(
        roles=tuple(
            RoleFacts(
                role.name,
                optional=role.optional,
                number=role.number,
                register=role.register,
                view=bool(role.spaces),
                many=role.many,
                spaces=role.spaces,
            )
            for role in row.roles
        ),
        attributes=tuple(a.name for a in row.attributes) + (("count",) if row.has_many else ()),
        sync=None
        if kind is None
        else "barrier"
        if isinstance(kind, Barrier)
        else "exchange"
        if isinstance(kind, Exchange)
        else "collective",
    )


ROW_FACTS: dict[str, RowFacts] = {row.name: _facts(row) for row in TABLE}

"""What a row's cost model says of the row's own first sample."""

from __future__ import annotations

from typing import Any

from opennki.ir.program import steps_of
from opennki.ir.types import Engine, Layout
from opennki.isa.attributes import KINDS
from opennki.isa.cost import Cost
from opennki.isa.define import Call, Row
from opennki.isa.emit import check_call
from opennki.isa.layout import SCALARS, TileLayout
from opennki.isa.samples import RegisterSpec, Sampler, TileSpec
from opennki.targets import Target

__all__ = ["example_cost"]


def example_cost(row: Row, target: Target) -> str | None:
    """Return the cost of the row's first sample in one line, None if the target has no legal sample."""
    sample = next(iter(row.rules["samples"](Sampler(target))), None)
    if sample is None:
        return None
    bound = row.signature.bind(**sample)
    bound.apply_defaults()
    given = bound.arguments
    operands = {role.name: _fact(given[role.name]) for role in row.roles}
    values = tuple(KINDS[one.annotation].canonical(given[one.name]) for one in row.attributes)
    engine = given["engine"] if row.selects_engine else Engine.unknown
    call = Call(row, operands, row.decode(values), engine or Engine.unknown, target, max(target.lnc_allowed))
    check_call(call, lambda check, numbers: None)  # settles the engine; a sample is legal
    cost: Cost = row.rules["cost"](call)
    amount = f"{cost.cycles:g} cycles of {call.engine.name}" if cost.cycles else f"{cost.nanoseconds:g} ns"
    shown = ", ".join(f"{name} {layout.describe()}" for name, layout in call.layouts()) or "registers"
    return f"{amount} ({cost.basis}) on {target.name} for {shown}"


def _fact(value: Any) -> Any:
    """Return an operand as checks and costs see it: a tile's layout, a number, None, a tuple for a list."""
    if isinstance(value, TileSpec):
        pattern = tuple(zip(steps_of(value.shape), value.shape, strict=True))
        return TileLayout(0, Layout(value.space, value.dtype, pattern), steps_of(value.shape)[0])
    if isinstance(value, RegisterSpec):
        return SCALARS[value.dtype]
    if isinstance(value, list | tuple):
        return tuple(_fact(item) for item in value)
    return value

"""Rows that make the cores of a logical core meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opennki.ir.types import Engine, Space
from opennki.isa.attributes import Ints
from opennki.isa.checks import Numbers, rule
from opennki.isa.cost import Cost, cycles
from opennki.isa.define import Barrier, Call, Sync, instruction, orders
from opennki.isa.layout import Tile
from opennki.isa.samples import Sampler

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]


def _wrong_cores(call: Call) -> Numbers:
    cores = call.attrs["cores"]
    if call.degree == 1 or tuple(sorted(cores)) == (0, 1):
        return None
    return {"cores": list(cores), "degree": call.degree, "role": "cores"}


@instruction(
    engines=(Engine.gpsimd, Engine.vector, Engine.scalar, Engine.tensor, Engine.sync),
    since=3,
    since_rule="CORE_BARRIER-01",
    space_rule="CORE_BARRIER-03",
    data=orders(frozenset({Space.shared_hbm})),
    sync=Sync(Barrier(), group=lambda attrs: tuple(sorted(attrs["cores"])), channel=lambda attrs: "barrier"),
    any_partition=True,
    checks=(
        rule(
            "ONKI206",
            "CORE_BARRIER-02",
            "`{instruction}` at LNC={degree} joins cores 0 and 1, got cores={cores}",
            _wrong_cores,
            help="write `cores=(0, 1)`",
        ),
    ),
    source="nki/api/nki/isa/__init__.py:2601",
)
def core_barrier(
    data: Tile,
    cores: Ints | None = None,
    engine: Engine = Engine.gpsimd,
    name: str | None = None,
) -> None:
    """Wait until all of `cores` have arrived; accesses to `data`, in shared HBM, are ordered by it.

    From NeuronCore-v3. At degree 2 `cores` is (0, 1), as a tuple or a list; at degree 1 the barrier orders
    nothing, and an int or nothing at all is taken too, as real kernels write it.

    Errors: ONKI201 (data not in shared HBM), ONKI206 (cores), ONKI207 (target); at run time ONKI701 when a
    core never arrives. Source: nki/api/nki/isa/__init__.py:2601.
    """


@core_barrier.cost
def _core_barrier_cost(call: Call) -> Cost:
    return cycles(64, "assumed")


@core_barrier.samples
def _core_barrier_samples(t: Sampler) -> Samples:
    if t.generation >= 3:
        yield {"data": t.hbm(128, 8), "cores": (0, 1)}
        yield {"data": t.hbm(128, 8), "cores": [0, 1], "engine": Engine.vector}


@core_barrier.rejects
def _core_barrier_rejects(t: Sampler) -> Rejects:
    if t.generation >= 3:
        yield "CORE_BARRIER-03", {"data": t.sbuf(128, 8), "cores": (0, 1)}
    else:
        yield "CORE_BARRIER-01", {"data": t.hbm(128, 8), "cores": (0, 1)}

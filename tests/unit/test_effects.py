"""Effects: what instructions touch, worked out by hand for each way of touching."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from opennki.analyse.effects import Effect, EffectReader, Turns, effects, program_effects
from opennki.ir.types import (
    Engine,
    Index,
    IndexKind,
    Instruction,
    Loop,
    LoopKind,
    Origin,
    Register,
    Space,
    View,
)
from opennki.isa import define
from opennki.isa.define import Access
from opennki.isa.enums import ReduceCmd
from opennki.isa.operators import OPERATORS
from opennki.isa.table import BY_NAME
from tests.unit.build_programs import ProgramBuilder

PATTERN_TILE = ((8, 4), (1, 8))


@pytest.fixture
def builder() -> ProgramBuilder:
    """Return a program with `x`, `out` in HBM, `tile` and integer `rows` in SBUF, `total` in PSUM."""
    builder = ProgramBuilder(core=1)
    builder.tensor("x", (16, 8), origin=Origin.input)
    builder.tensor("out", (16, 8))
    builder.tensor("tile", (4, 8), space=Space.sbuf)
    builder.tensor("total", (4, 8), space=Space.psum)
    builder.tensor("rows", (4, 1), "int32", space=Space.sbuf)
    return builder


def view(builder: ProgramBuilder, name: str, *slices: slice, index: Index | None = None) -> View:
    buffer = next(b for b in builder.buffers if b.name == name)
    return builder.view(buffer, *slices, index=index)


def read(builder: ProgramBuilder, instruction: Instruction) -> list[Effect]:
    return list(effects(builder.program(), instruction))


def short(found: list[Effect]) -> list[tuple[Any, ...]]:
    """Return access, buffer, pattern, offset and exactness of each effect."""
    return [
        (e.access, e.buffer, e.region.pattern if e.region is not None else None, e.offset, e.exact)
        for e in found
    ]


def test_a_copy_writes_and_reads(builder: ProgramBuilder) -> None:
    copy = builder.add("dma_copy", view(builder, "out", slice(4, 8)), view(builder, "tile"), line=7)
    write, load = read(builder, copy)
    assert (write.access, write.buffer, write.offset, write.exact) == (Access.WRITE, 1, 32, True)
    assert (load.access, load.buffer, load.offset, load.exact) == (Access.READ, 2, 0, True)
    assert write.region is builder.layouts[copy.operands[0].layout]  # type: ignore[union-attr]  # it is a view
    assert (write.core, write.actor, write.state, write.register) == (1, Engine.dma, None, -1)
    assert builder.locations[write.location].line == 7


def test_numbers_and_absent_operands_have_no_effect(builder: ProgramBuilder) -> None:
    tile = view(builder, "tile")
    function = builder.add("activation", tile, tile, None, 0.5, None, op=OPERATORS["exp"])
    found = read(builder, function)
    assert [e.access for e in found if e.state is None] == [Access.WRITE, Access.READ]


def test_hidden_state_is_an_effect(builder: ProgramBuilder) -> None:
    tile = view(builder, "tile")
    commands = {
        ReduceCmd.idle: Access.READ,
        ReduceCmd.reduce: Access.UPDATE,
        ReduceCmd.reset_reduce: Access.WRITE,
    }
    for command, access in commands.items():
        function = builder.add(
            "activation",
            tile,
            tile,
            None,
            1.0,
            None,
            op=OPERATORS["exp"],
            reduce_op=OPERATORS["add"],
            reduce_cmd=command,
        )
        last = read(builder, function)[-1]
        assert (last.access, last.state, last.buffer, last.region) == (access, "scalar.accumulator", -1, None)


def test_the_access_follows_the_attributes(builder: ProgramBuilder) -> None:
    total, tile = view(builder, "total"), view(builder, "tile")
    kinds = {None: Access.ACCUMULATE, True: Access.UPDATE, False: Access.WRITE}
    for accumulate, access in kinds.items():
        product = builder.add("nc_matmul", total, tile, tile, accumulate=accumulate)
        found = read(builder, product)
        assert [e.access for e in found] == [access, Access.READ, Access.READ]
        assert all(e.exact for e in found)
        assert {e.actor for e in found} == {Engine.tensor}


def test_a_barrier_orders_and_touches_nothing(builder: ProgramBuilder) -> None:
    barrier = builder.add("core_barrier", view(builder, "out"), cores=(0, 1))
    assert short(read(builder, barrier)) == [(Access.ORDER, 1, ((8, 16), (1, 8)), 0, True)]


def test_a_scalar_index_widens_to_all_that_it_may_pick(builder: ProgramBuilder) -> None:
    index = Index(IndexKind.scalar, view(builder, "rows", slice(0, 1)), 8, 13)
    store = builder.add("dma_copy", view(builder, "out", slice(0, 4), index=index), view(builder, "tile"))
    assert short(read(builder, store)) == [
        (Access.READ, 4, ((1, 1), (1, 1)), 0, True),
        (Access.WRITE, 1, ((8, 4), (1, 8), (8, 13)), 0, False),
        (Access.READ, 2, PATTERN_TILE, 0, True),
    ]


def test_a_vector_index_replaces_its_axis(builder: ProgramBuilder) -> None:
    index = Index(IndexKind.vector, view(builder, "rows"), 8, 16)
    gather = builder.add("dma_copy", view(builder, "tile"), view(builder, "x", slice(0, 4), index=index))
    assert short(read(builder, gather)) == [
        (Access.WRITE, 2, PATTERN_TILE, 0, True),
        (Access.READ, 4, ((1, 4), (1, 1)), 0, True),
        (Access.READ, 0, ((8, 16), (1, 8)), 0, False),
    ]
    region = read(builder, gather)[2].region
    assert region is not None
    assert region.index is IndexKind.none


def test_a_register_that_indexes_is_read(builder: ProgramBuilder) -> None:
    index = Index(IndexKind.scalar, Register(7, "int32"), 8, 13)
    store = builder.add("dma_copy", view(builder, "out", slice(0, 4), index=index), view(builder, "tile"))
    source, write, _ = read(builder, store)
    assert (source.access, source.register, source.buffer, source.region) == (Access.READ, 7, -1, None)
    assert not write.exact


def test_lanes_limit_the_partitions(builder: ProgramBuilder) -> None:
    row = BY_NAME["tensor_copy"]
    dst = replace(row.roles[0], lanes=lambda attrs: slice(1, None, 2))
    copy = builder.add("tensor_copy", view(builder, "tile"), view(builder, "tile"))
    with patch.object(row, "roles", (dst, *row.roles[1:])):
        assert short(read(builder, copy)) == [
            (Access.WRITE, 2, ((16, 2), (1, 8)), 8, True),
            (Access.READ, 2, PATTERN_TILE, 0, True),
        ]


def test_a_predicated_store_is_never_exact(builder: ProgramBuilder) -> None:
    row = BY_NAME["tensor_copy"]
    dst = replace(row.roles[0], access=lambda attrs: Access.WRITE_WHERE)
    copy = builder.add("tensor_copy", view(builder, "tile"), view(builder, "tile"))
    with patch.object(row, "roles", (dst, *row.roles[1:])):
        assert [(e.access, e.exact) for e in read(builder, copy)] == [
            (Access.WRITE_WHERE, False),
            (Access.READ, True),
        ]


def test_a_list_of_tiles_is_spread_out(builder: ProgramBuilder) -> None:
    row = BY_NAME["tensor_copy"]
    sources = replace(row.roles[1], many=True)
    tile, total = view(builder, "tile"), view(builder, "total")
    copy = builder.add("tensor_copy", tile, total, tile, total)
    with patch.object(row, "roles", (row.roles[0], sources)):
        assert [(e.access.name, e.buffer) for e in read(builder, copy)] == [
            ("WRITE", 2),
            ("READ", 3),
            ("READ", 2),
            ("READ", 3),
        ]


def test_every_row_gives_an_effect_for_each_tile(builder: ProgramBuilder) -> None:
    """The first operand of every row that stores is what it stores into."""
    for row in BY_NAME.values():
        attrs = {name: None for name in ("accumulate", "reduce_cmd")} | {"reduce_cmd": ReduceCmd.idle}
        accesses = [role.access(attrs) for role in row.roles]
        assert all(isinstance(access, define.Access) for access in accesses)
        if row.sync is None:
            assert accesses[0] in (Access.WRITE, Access.WRITE_WHERE, Access.ACCUMULATE), row.name
        elif isinstance(row.sync.kind, define.Exchange):
            assert accesses == [Access.READ, Access.WRITE]
        else:
            assert accesses == [Access.ORDER]


def loop_effects(builder: ProgramBuilder) -> Iterator[tuple[Access, int, bool]]:
    for _, effect in program_effects(builder.program()):
        if effect.buffer >= 0:
            yield effect.access, effect.buffer, effect.exact


def test_a_loop_that_certainly_turns_is_exact(builder: ProgramBuilder) -> None:
    copy = builder.instruction("dma_copy", view(builder, "out", slice(0, 4)), view(builder, "tile"))
    builder.loop([copy], 0, 4)
    assert list(loop_effects(builder)) == [(Access.WRITE, 1, True), (Access.READ, 2, True)]


def test_a_loop_that_never_turns_has_no_effects(builder: ProgramBuilder) -> None:
    copy = builder.instruction("dma_copy", view(builder, "out", slice(0, 4)), view(builder, "tile"))
    builder.loop([copy], 4, 4)
    builder.loop([copy], 0, 4, step=-1)
    assert list(loop_effects(builder)) == []


def test_a_loop_of_unknown_count_may_write(builder: ProgramBuilder) -> None:
    copy = builder.instruction("dma_copy", view(builder, "out", slice(0, 4)), view(builder, "tile"))
    inner = Loop(5, LoopKind.counted, Register(5, "int32"), 0, 2, 1, (copy,), 0)
    builder.loop([inner], 0, Register(3, "int32"))
    assert list(loop_effects(builder)) == [(Access.WRITE, 1, False), (Access.READ, 2, False)]


def test_a_while_loop_may_write(builder: ProgramBuilder) -> None:
    copy = builder.instruction("dma_copy", view(builder, "out", slice(0, 4)), view(builder, "tile"))
    builder.body.append(Loop(1, LoopKind.conditional, Register(1, "int32"), None, None, 1, (copy,), 0))
    assert list(loop_effects(builder)) == [(Access.WRITE, 1, False), (Access.READ, 2, False)]


def test_an_index_by_the_loop_register_is_known(builder: ProgramBuilder) -> None:
    index = Index(IndexKind.scalar, Register(0, "int32"), 8, 13)
    copy = builder.instruction(
        "dma_copy", view(builder, "out", slice(0, 4), index=index), view(builder, "tile")
    )
    builder.loop([copy], 4, 13, step=4)
    stores = [e for _, e in program_effects(builder.program()) if e.access is Access.WRITE]
    assert short(stores) == [(Access.WRITE, 1, ((8, 4), (1, 8), (32, 3)), 32, True)]


def test_an_index_by_the_loop_register_beyond_its_axis_is_not(builder: ProgramBuilder) -> None:
    index = Index(IndexKind.scalar, Register(0, "int32"), 8, 13)
    copy = builder.instruction(
        "dma_copy", view(builder, "out", slice(0, 4), index=index), view(builder, "tile")
    )
    found = EffectReader(builder.program()).read(copy, turns={0: Turns(12, 1, 2)})
    assert [(e.access.name, e.exact) for e in found if e.buffer == 1] == [("WRITE", False)]


def test_only_instructions_at_the_buffers_asked_for(builder: ProgramBuilder) -> None:
    builder.add("dma_copy", view(builder, "tile"), view(builder, "x", slice(0, 4)))
    store = builder.add("dma_copy", view(builder, "out", slice(0, 4)), view(builder, "tile"))
    found = list(program_effects(builder.program(), frozenset({1})))
    assert [(i, e.buffer) for i, e in found] == [(store, 1), (store, 2)]

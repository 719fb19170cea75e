"""Every invariant, broken on purpose: found under its name, at its place, and nowhere in a sound artifact."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from opennki.ir.types import (
    Index,
    IndexKind,
    Instruction,
    Loop,
    LoopKind,
    Program,
    Register,
    View,
)
from opennki.ir.verify import MAX_VIOLATIONS, Violation, verify, verify_program
from opennki.ir.violation import subject_of
from tests.unit.ir_records import (
    ATTRS,
    FACTS,
    LAYOUTS,
    LOOP_REGISTER,
    Change,
    artifact,
    inner,
    item,
    program,
    table,
    with_program,
)


def first(change: Change) -> Violation:
    """Return the first violation of the artifact in which core 1 is changed."""
    found = verify(with_program(change), FACTS)
    assert found != []
    return found[0]


def test_a_sound_artifact_has_no_violations() -> None:
    assert verify(artifact(), FACTS) == []
    assert verify_program(subject_of(program(1), FACTS)) == []


def nested(depth: int) -> Change:
    def change(one: Program) -> Program:
        body: tuple[Instruction | Loop, ...] = ()
        for i in range(depth):
            body = (Loop(100 + i, LoopKind.counted, LOOP_REGISTER, 0, 1, 1, body, 0),)
        return replace(one, body=one.body + body)

    return change


TABLES: list[tuple[str, Change, str, int, str]] = [
    ("id", table("buffers", 3, id=4), "buffers_legal", 3, "buffer 3 (`tile`) has the id 4"),
    (
        "key",
        table("buffers", 3, key="out"),
        "buffers_legal",
        3,
        "buffer 3 (`tile`) shares its key `out` with another",
    ),
    (
        "dtype",
        table("buffers", 3, dtype="float64"),
        "buffers_legal",
        3,
        "buffer 3 (`tile`) has the unknown dtype `float64`",
    ),
    (
        "shape",
        table("buffers", 3, shape=(128, 0)),
        "buffers_legal",
        3,
        "buffer 3 (`tile`) has the impossible shape [128, 0]",
    ),
    (
        "size",
        table("buffers", 3, shape=(2, 1 << 46)),
        "buffers_legal",
        3,
        "buffer 3 (`tile`) has the impossible shape [2, 70368744177664]",
    ),
    (
        "rank",
        table("buffers", 3, shape=(1,) * 17),
        "buffers_legal",
        3,
        f"buffer 3 (`tile`) has the impossible shape {[1] * 17}",
    ),
    (
        "address",
        table("buffers", 3, address=(0, -4)),
        "buffers_legal",
        3,
        "buffer 3 (`tile`) has the impossible address (0, -4)",
    ),
    (
        "place",
        table("buffers", 3, location=3),
        "buffers_legal",
        3,
        "buffer 3 (`tile`) is at location 3, which does not exist",
    ),
    (
        "layout dtype",
        table("layouts", 0, dtype="f32"),
        "layouts_legal",
        0,
        "layout 0 has the unknown dtype `f32`",
    ),
    ("count", table("layouts", 1, pattern=((64, 0),)), "layouts_legal", 1, "layout 1 has the counts [0]"),
    (
        "129 partitions",
        table("layouts", 0, pattern=((64, 129), (1, 64))),
        "partitions_legal",
        0,
        "layout 0 takes (129,) partitions from 0, byte 0 of the bank",
    ),
    (
        "128 from 1",
        table("layouts", 0, start_partition=1),
        "partitions_legal",
        0,
        "layout 0 takes (128,) partitions from 1, byte 0 of the bank",
    ),
    (
        "from -1",
        table("layouts", 0, start_partition=-1),
        "partitions_legal",
        0,
        "layout 0 takes (128,) partitions from -1, byte 0 of the bank",
    ),
    (
        "no partition axis",
        table("layouts", 0, pattern=()),
        "partitions_legal",
        0,
        "layout 0 takes () partitions from 0, byte 0 of the bank",
    ),
    (
        "bank",
        table("layouts", 2, bank_offset_bytes=2048),
        "partitions_legal",
        2,
        "layout 2 takes (128,) partitions from 0, byte 2048 of the bank",
    ),
    (
        "sbuf bank",
        table("layouts", 0, bank_offset_bytes=4),
        "partitions_legal",
        0,
        "layout 0 takes (128,) partitions from 0, byte 4 of the bank",
    ),
    (
        "hbm partition",
        table("layouts", 1, start_partition=32),
        "partitions_legal",
        1,
        "layout 1 takes (128,) partitions from 32, byte 0 of the bank",
    ),
    (
        "129 rows",
        table("buffers", 3, shape=(129, 64)),
        "partitions_legal",
        3,
        "buffer 3 (`tile`) of shape [129, 64] starts at partition 0",
    ),
    (
        "rows beyond",
        table("buffers", 4, address=(1, 0)),
        "partitions_legal",
        4,
        "buffer 4 (`sum`) of shape [128, 64] starts at partition 1",
    ),
    (
        "unknown row",
        lambda p: replace(p, opcodes=(*p.opcodes, "shift")),
        "rows_known",
        4,
        "opcode 4 (`shift`) is no known instruction",
    ),
    (
        "opcode twice",
        lambda p: replace(p, opcodes=(*p.opcodes, "move")),
        "tables_interned",
        4,
        "opcode 4 repeats an earlier one",
    ),
    (
        "layout twice",
        lambda p: replace(p, layouts=(*LAYOUTS, LAYOUTS[2])),
        "tables_interned",
        6,
        "layout 6 repeats an earlier one",
    ),
    (
        "attributes twice",
        lambda p: replace(p, attrs=(*ATTRS, ((0, 1),))),
        "tables_interned",
        5,
        "attribute tuple 5 repeats an earlier one",
    ),
    (
        "caller",
        table("locations", 2, caller=3),
        "locations_legal",
        2,
        "location 2 (`pkg/k.py`) was called from 3, which leads nowhere",
    ),
    (
        "ring",
        table("locations", 1, caller=2),
        "locations_legal",
        1,
        "location 1 (`pkg/k.py`) was called from 2, which leads nowhere",
    ),
    ("depth", nested(65), "loops_legal", -1, "loops nest deeper than 64"),
    (
        "loop id",
        lambda p: replace(p, body=(*p.body, p.body[1])),
        "loops_legal",
        1,
        "loop 1 shares its id with another",
    ),
    ("loop place", item(1, location=-1), "loops_legal", 1, "loop 1 is at location -1, which does not exist"),
    (
        "induction",
        item(1, induction=Register(0, "float32")),
        "loops_legal",
        1,
        "loop 1 counts in a register that is no integer",
    ),
    (
        "bound register",
        item(1, upper=Register(0, "bool")),
        "loops_legal",
        1,
        "loop 1 counts in a register that is no integer",
    ),
    (
        "wide bound",
        item(1, upper=1 << 31),
        "loops_legal",
        1,
        "loop 1 counts by or to what no 32-bit register holds",
    ),
    (
        "wide step",
        item(1, step=1 << 31),
        "loops_legal",
        1,
        "loop 1 counts by or to what no 32-bit register holds",
    ),
    (
        "bound",
        item(1, upper=4.0),
        "loops_legal",
        1,
        "loop 1 has a bound that is neither an integer nor a register",
    ),
    ("step", item(1, step=0), "loops_legal", 1, "loop 1 counts by 0"),
    (
        "buffer's loop",
        table("buffers", 4, loop=2),
        "loops_legal",
        4,
        "buffer 4 (`sum`) is allocated in loop 2, which does not exist",
    ),
    (
        "opcode",
        item(0, opcode=4),
        "references_resolve",
        0,
        "instruction 0 refers to opcode 4, which it cannot",
    ),
    (
        "attributes",
        item(0, attrs=-1),
        "references_resolve",
        0,
        "instruction 0 refers to attributes -1, which it cannot",
    ),
    (
        "location",
        item(2, location=3),
        "references_resolve",
        3,
        "instruction 3 refers to location 3, which it cannot",
    ),
    (
        "later",
        inner(0, after=(1,)),
        "references_resolve",
        1,
        "instruction 1 refers to instruction 1, which it cannot",
    ),
    (
        "buffer",
        item(0, operands=(View(6, 0, 0), View(0, 0, 1))),
        "references_resolve",
        0,
        "instruction 0 refers to buffer 6, which it cannot",
    ),
    (
        "layout",
        item(0, operands=(View(3, 0, 6), View(-1, 0, 1))),
        "references_resolve",
        0,
        "instruction 0 refers to layout 6, buffer -1, which it cannot",
    ),
    (
        "index of an index",
        item(
            0,
            operands=(
                View(3, 0, 0),
                View(
                    0,
                    0,
                    4,
                    Index(
                        IndexKind.vector, View(0, 0, 4, Index(IndexKind.scalar, LOOP_REGISTER, 1, 1)), 64, 256
                    ),
                ),
            ),
        ),
        "references_resolve",
        0,
        "instruction 0 refers to the source of an index, which it cannot",
    ),
]

TILE = View(3, 0, 0)
CODE: list[tuple[str, Change, str, int, str]] = [
    (
        "too few",
        item(0, operands=(TILE,)),
        "operands_match_row",
        0,
        "instruction 0 (`move`) has 1 operands, its row has 2",
    ),
    (
        "too many",
        item(0, operands=(TILE, TILE, TILE)),
        "operands_match_row",
        0,
        "instruction 0 (`move`) has 3 operands, its row has 2",
    ),
    (
        "attributes",
        item(0, attrs=1),
        "operands_match_row",
        0,
        "instruction 0 (`move`) has 2 attributes, its row has 1",
    ),
    (
        "required",
        inner(1, operands=(View(4, 0, 2), None, 1.0)),
        "operands_match_row",
        2,
        "instruction 2 (`combine`) cannot have nothing as `data`",
    ),
    (
        "number",
        inner(1, operands=(View(4, 0, 2), 1, 1.0)),
        "operands_match_row",
        2,
        "instruction 2 (`combine`) cannot have a number as `data`",
    ),
    (
        "register",
        inner(1, operands=(View(4, 0, 2), LOOP_REGISTER, 1)),
        "operands_match_row",
        2,
        "instruction 2 (`combine`) cannot have a register of int32 as `data`",
    ),
    (
        "register dtype",
        inner(1, operands=(View(4, 0, 2), TILE, Register(0, "float32"))),
        "operands_match_row",
        2,
        "instruction 2 (`combine`) cannot have a register of float32 as `scale`",
    ),
    (
        "space",
        inner(1, operands=(View(4, 0, 2), View(0, 0, 1), 1)),
        "operands_match_row",
        2,
        "instruction 2 (`combine`) cannot have a view in shared_hbm as `data`",
    ),
    (
        "list",
        item(2, operands=(TILE,)),
        "operands_match_row",
        3,
        "instruction 3 (`gather`) has 1 operands, its row has 3",
    ),
    (
        "in a list",
        item(2, operands=(TILE, TILE, 4, None)),
        "operands_match_row",
        3,
        "instruction 3 (`gather`) cannot have a number as `srcs`",
    ),
    ("engine", item(0, engine=0), "engine_concrete", 0, "instruction 0 is for engine 0, which is none"),
    ("no engine", inner(1, engine=7), "engine_concrete", 2, "instruction 2 is for engine 7, which is none"),
    ("no line", table("locations", 0, line=0), "has_user_line", 0, "instruction 0 has no source line"),
    ("no file", table("locations", 1, file=""), "has_user_line", 3, "instruction 3 has no source line"),
]


@pytest.mark.parametrize(
    ("change", "invariant", "where", "says"),
    [pytest.param(*case[1:], id=case[0]) for case in TABLES + CODE],
)
def test_an_invariant_of_one_program(change: Change, invariant: str, where: int, says: str) -> None:
    assert first(change) == Violation(invariant, 1, where, says)


def test_a_loop_without_a_line_is_found() -> None:
    found = verify(with_program(table("locations", 2, line=0)), FACTS)
    assert Violation("has_user_line", 1, 1, "loop 1 has no source line") in found


def test_a_flood_of_violations_is_cut() -> None:
    body = tuple(Instruction(0, (TILE, TILE), 0, 0, 0) for _ in range(1000))
    found = verify(with_program(lambda p: replace(p, body=(*p.body, *body))), FACTS)
    assert len([one for one in found if one.invariant == "engine_concrete"]) == MAX_VIOLATIONS

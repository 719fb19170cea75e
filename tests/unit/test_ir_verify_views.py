"""Every access inside its buffer: the first and the last legal offset, and one beyond on either side."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from opennki.ir.types import (
    Buffer,
    Index,
    IndexKind,
    Instruction,
    Layout,
    Origin,
    Program,
    Register,
    Space,
    View,
)
from opennki.ir.verify import verify_program
from opennki.ir.violation import subject_of
from tests.unit.ir_records import (
    BUFFERS,
    FACTS,
    LOCATIONS,
    LOOP_REGISTER,
)

SBUF = Buffer(0, "t", "t", Space.sbuf, (128, 512), "float32", Origin.local, None, -1, 0)
SMALL = replace(SBUF, shape=(4, 8))
PLACED = replace(SBUF, shape=(64, 512), address=(64, 0))
ODD = replace(SBUF, shape=(128, 3), dtype="uint8")
HBM = replace(SBUF, space=Space.private_hbm, shape=(4, 6, 8))


def view_problems(buffer: Buffer, layout: Layout, offset: int, index: Index | None = None) -> list[str]:
    """Return what is wrong with one access of a buffer."""
    picks = replace(BUFFERS[5], id=1, location=0)
    layouts = (layout, Layout(Space.sbuf, "int32", ((1, 128), (1, 1))))
    body = (Instruction(0, (View(0, offset, 0, index), View(1, 0, 1)), 0, 4, 0),)
    one = Program(0, ("move",), (buffer, picks), layouts, (("copy",),), LOCATIONS, body)
    found = [v for v in verify_program(subject_of(one, FACTS)) if f"from element {offset} " in v.says]
    assert {v.invariant for v in found} <= {"views_inside"}
    return [v.says for v in found]


@pytest.mark.parametrize(
    ("buffer", "layout", "lowest", "highest"),
    [
        (SBUF, Layout(Space.sbuf, "float32", ((512, 128), (1, 512))), 0, 0),
        (SBUF, Layout(Space.sbuf, "float32", ((512, 128), (1, 64))), 0, 448),
        (SBUF, Layout(Space.sbuf, "float32", ((512, 128), (-1, 64))), 63, 511),
        (SBUF, Layout(Space.sbuf, "float32", ((512, 128), (0, 1000), (2, 3))), 0, 507),
        (SBUF, Layout(Space.sbuf, "uint8", ((2048, 128), (1, 2000))), 0, 48),
        (SBUF, Layout(Space.sbuf, "float32", ((512, 32), (1, 512)), 96), 96 * 512, 96 * 512),
        (SMALL, Layout(Space.sbuf, "float32", ((-8, 4), (1, 8)), 3), 24, 24),
        (SMALL, Layout(Space.sbuf, "float32", ((16, 2), (1, 8)), 1), 8, 8),
        (SMALL, Layout(Space.sbuf, "float32", ((999, 1), (1, 8)), 3), 24, 24),
        (PLACED, Layout(Space.sbuf, "float32", ((512, 64), (1, 512)), 64), 0, 0),
        (HBM, Layout(Space.private_hbm, "float32", ()), 0, 191),
        (HBM, Layout(Space.private_hbm, "float32", ((48, 4), (1, 40))), 0, 8),
        (HBM, Layout(Space.private_hbm, "float32", ((-48, 4), (1, 9))), 144, 183),
        (HBM, Layout(Space.private_hbm, "int8", ((1, 768),)), 0, 0),
        (HBM, Layout(Space.private_hbm, "int64", ((1, 90),)), 0, 6),
    ],
)
def test_the_limits_of_an_access(buffer: Buffer, layout: Layout, lowest: int, highest: int) -> None:
    for offset in (lowest, highest):
        assert view_problems(buffer, layout, offset) == []
    for offset in (lowest - 1, highest + 1):
        says = f"instruction 0 looks at `t` from element {offset} and leaves its {list(buffer.shape)}"
        assert view_problems(buffer, layout, offset) == [says]


def test_an_access_does_not_wrap_into_the_next_partition() -> None:
    def is_legal(offset: int) -> bool:
        layout = Layout(Space.sbuf, "float32", ((8, 2), (1, 8)), max(offset, 0) // 8)
        return view_problems(SMALL, layout, offset) == []

    assert [offset for offset in range(-1, 32) if is_legal(offset)] == [0, 8, 16]


PSUM = replace(SBUF, space=Space.psum, shape=(64, 1024), address=(32, 1024))


@pytest.mark.parametrize(
    ("buffer", "offset", "start", "bank"),
    [
        (SBUF, 0, 0, 0),
        (SBUF, 3 * 512 + 5, 3, 0),
        (PLACED, 512, 65, 0),
        (PSUM, 0, 32, 1024),
        (PSUM, 255, 32, 2044),
        (PSUM, 256, 32, 0),
        (PSUM, 1024 + 1023, 33, 1020),
    ],
)
def test_a_layout_says_where_the_access_starts(buffer: Buffer, offset: int, start: int, bank: int) -> None:
    layout = Layout(buffer.space, "float32", ((512, 1), (1, 1)), start, bank)
    assert view_problems(buffer, layout, offset) == []
    others = [replace(layout, start_partition=start + 1)]
    if buffer.space is Space.psum:
        others.append(replace(layout, bank_offset_bytes=bank ^ 4))
    for other in others:
        says = f"partition {other.start_partition}, byte {other.bank_offset_bytes} of the bank"
        found = f"instruction 0 looks at `t` from element {offset} and does not start at {says}"
        assert view_problems(buffer, other, offset) == [found]


@pytest.mark.parametrize(
    ("buffer", "layout", "says"),
    [
        (SBUF, Layout(Space.psum, "float32", ((512, 1),)), "looks for it in psum"),
        (
            SBUF,
            Layout(Space.sbuf, "float32", ((511, 2), (1, 1))),
            "steps over 511 elements from one partition to the next, a row has 512",
        ),
        (ODD, Layout(Space.sbuf, "float16", ((1, 1),)), "holds no whole number of float16 in a partition"),
        (
            replace(HBM, shape=(3,), dtype="int8"),
            Layout(Space.private_hbm, "float32", ()),
            "is shorter than one element",
        ),
        (
            SBUF,
            Layout(Space.sbuf, "float32", ((512, 1),), index=IndexKind.scalar),
            "has an index of another kind than its layout",
        ),
    ],
)
def test_layouts_that_fit_nowhere(buffer: Buffer, layout: Layout, says: str) -> None:
    assert f"instruction 0 looks at `t` from element 7 and {says}" in view_problems(buffer, layout, 7)


VECTOR = Layout(Space.private_hbm, "float32", ((48, 128), (1, 40)), index=IndexKind.vector)
SCALAR = Layout(Space.private_hbm, "float32", ((48, 2), (1, 40)), index=IndexKind.scalar)
COLUMN = Layout(Space.sbuf, "float32", ((512, 128), (1, 12)), index=IndexKind.scalar)
PICKS = View(1, 0, 1)


@pytest.mark.parametrize(
    ("buffer", "layout", "index", "highest"),
    [
        (HBM, VECTOR, Index(IndexKind.vector, PICKS, 48, 4), 8),
        (HBM, SCALAR, Index(IndexKind.scalar, LOOP_REGISTER, 48, 3), 8),
        (HBM, SCALAR, Index(IndexKind.scalar, Register(0, "int64"), 8, 7), 56),
        (SBUF, COLUMN, Index(IndexKind.scalar, LOOP_REGISTER, 100, 6), 0),
        (
            replace(SBUF, shape=(128, 513)),
            replace(COLUMN, pattern=((513, 128), (1, 12))),
            Index(IndexKind.scalar, LOOP_REGISTER, 100, 6),
            1,
        ),
        (
            SBUF,
            replace(COLUMN, pattern=((512, 120), (1, 12))),
            Index(IndexKind.scalar, LOOP_REGISTER, 512, 9),
            500,
        ),
    ],
)
def test_the_limits_of_an_indexed_access(buffer: Buffer, layout: Layout, index: Index, highest: int) -> None:
    assert view_problems(buffer, layout, highest, index) == []
    says = f"instruction 0 looks at `t` from element {highest + 1} and leaves its {list(buffer.shape)}"
    assert view_problems(buffer, layout, highest + 1, index) == [says]
    wider = view_problems(buffer, layout, highest, replace(index, extent=index.extent + 1))
    assert wider == [f"instruction 0 looks at `t` from element {highest} and leaves its {list(buffer.shape)}"]


@pytest.mark.parametrize(
    ("index", "says"),
    [
        (Index(IndexKind.vector, PICKS, 48, 0), "looks at `t` from element 7 and has an index of extent 0"),
        (
            Index(IndexKind.vector, PICKS, 48, 4, 2),
            "looks at `t` from element 7 and has an index along axis 2",
        ),
        (
            Index(IndexKind.scalar, PICKS, 48, 4),
            "looks at `t` from element 7 and has an index of another kind than its layout",
        ),
        (
            Index(IndexKind.vector, Register(0, "float32"), 48, 4),
            "looks at `t` from element 7 and is indexed by a register of float32",
        ),
        (
            Index(IndexKind.vector, View(1, 7, 1), 48, 4),
            "looks at `picks` from element 7 and leaves its [128, 1]",
        ),
    ],
)
def test_indices_that_cannot_be(index: Index, says: str) -> None:
    assert view_problems(HBM, VECTOR, 7, index) == [f"instruction 0 {says}"]

"""Coverage: who writes what, checked against sets of elements, and the sentences that follow."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from opennki.analyse import coverage as coverage_module
from opennki.analyse import stores
from opennki.analyse.coverage import coverage, findings, lost, repeats
from opennki.analyse.regions import Boxes, Grid, describe, normal, part_of, percent, ranges, spread
from opennki.diag import Severity
from opennki.diag.render import render_text
from opennki.ir.program import steps_of
from opennki.ir.types import (
    Constant,
    Index,
    IndexKind,
    Input,
    KernelArtifact,
    Origin,
    Output,
    Register,
    Space,
    View,
)
from tests.golden_file import Golden
from tests.unit.build_programs import ProgramBuilder, artifact, split, whole

Pattern = tuple[tuple[int, int], ...]


def places(pattern: Pattern, offset: int = 0) -> set[int]:
    """Return the places of an access pattern, one by one."""
    return {
        offset + sum(step * i for (step, _), i in zip(pattern, turn, strict=True))
        for turn in product(*(range(count) for _, count in pattern))
    }


patterns = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 5)), max_size=4).map(tuple)


# ------------------------------------------------------------------------------------------------ regions


@given(patterns)
def test_normal_patterns_hold_the_same_places(pattern: Pattern) -> None:
    shift, pairs = normal(pattern)
    assert places(pairs, shift) == places(pattern)
    assert [step for step, _ in pairs] == sorted({step for step, _ in pairs}, reverse=True)
    assert all(step > 0 and count > 1 for step, count in pairs)


@given(patterns, st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_marks_are_the_places(pattern: Pattern, offsets: list[int]) -> None:
    shift, pairs = normal(pattern)
    boxes = Boxes(pairs, [64 + 4 * offset for offset in offsets])
    wanted = set().union(*(places(pattern, offset - shift) for offset in boxes.offsets))
    total = 64 * ((max(wanted) + 64) // 64)
    grain = int(np.gcd(boxes.grain, total))
    bits = np.zeros(total // grain, np.bool_)
    boxes.mark(bits, grain)
    assert set(np.flatnonzero(np.repeat(bits, grain)).tolist()) == wanted


def test_marks_that_overlap_many_times() -> None:
    bits = np.zeros(40, np.bool_)
    Boxes(((3, 5), (2, 7), (2, 7)), [1]).mark(bits, 1)
    assert set(np.flatnonzero(bits).tolist()) == places(((3, 5), (2, 7), (2, 7)), 1)


@pytest.mark.parametrize("shape", [(12,), (6, 8), (4, 6, 8), (1, 6, 8), (6, 1, 8), (6, 8, 1)])
@pytest.mark.parametrize("grain", [1, 2, 4, 8, 16, 24, 48])
def test_a_grid_is_as_coarse_as_its_boxes_allow(shape: tuple[int, ...], grain: int) -> None:
    total = prod(shape)
    pattern = tuple(zip(steps_of(shape), shape, strict=True))
    boxes = Boxes(((1, grain),) if grain > 1 else (), [0, grain % total])
    grid = Grid.of(pattern, 0, total, [boxes])
    assert total % grid.grain == 0
    assert grain % grid.grain == 0
    bits = np.arange(grid.total) % 2 == 0
    fine = np.repeat(bits, grid.grain).reshape(shape)
    assert np.array_equal(spread(grid.window(bits), shape), fine)
    if shape == (6, 8) and grain in (1, 2, 4, 8, 16):
        assert grid.grain == grain
        assert grid.cells == {1: (6, 8), 2: (6, 4), 4: (6, 2), 8: (6, 1), 16: (3, 1)}[grain]


@pytest.mark.parametrize(
    ("pattern", "offset"),
    [
        (((8, 6), (1, 4)), 4),
        (((1, 8), (8, 6)), 0),
        (((-8, 6), (1, 8)), 40),
        (((16, 3), (-1, 8)), 7),
        (((16, 2), (8, 2), (2, 4)), 1),
    ],
    ids=["columns", "transposed", "rows backwards", "columns backwards", "strided"],
)
def test_a_grid_of_a_returned_view(pattern: Pattern, offset: int) -> None:
    shape = tuple(count for _, count in pattern)
    boxes = Boxes(((1, 2),), [0, 6, 22])
    grid = Grid.of(pattern, offset, 48, [boxes])
    bits = np.zeros(grid.total, np.bool_)
    boxes.mark(bits, grid.grain)
    written = {0, 1, 6, 7, 22, 23}
    expected = np.zeros(shape, np.bool_)
    for at in np.ndindex(shape):
        expected[at] = offset + sum(step * i for (step, _), i in zip(pattern, at, strict=True)) in written
    assert np.array_equal(spread(grid.window(bits), shape), expected)


# -------------------------------------------------------------------------------------------------- words


def mask(
    shape: tuple[int, ...], *boxes: tuple[slice, ...]
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    bits = np.zeros(shape, np.bool_)
    for box in boxes:
        bits[box] = True
    return bits


S = slice
WITHIN = "elements within"


@pytest.mark.parametrize(
    ("shape", "boxes", "words"),
    [
        ((128, 16), [(S(0, 128),)], "all"),
        ((128, 16), [], "nothing"),
        ((128, 16), [(S(64, 128),)], "rows 64..127"),
        ((128, 16), [(S(5, 6),)], "row 5"),
        ((128, 16), [(S(0, 3),), (S(5, 6),)], "rows 0..2, 5"),
        ((128, 16), [(S(0, 128), S(4, 16))], "columns 4..15"),
        ((128, 16), [(S(0, 64), S(4, 8))], "rows 0..63 in columns 4..7"),
        ((128, 16), [(S(0, 4), S(0, 16)), (S(4, 8), S(0, 8))], "96 elements within rows 0..7"),
        ((16, 16), [(S(0, 4), S(0, 2)), (S(9, 10), S(4, 8))], f"12 {WITHIN} rows 0..9 in columns 0..7"),
        ((128, 16), [(S(0, 128, 2),)], "rows 0, 2, 4 and 61 more"),
        ((128, 1), [(S(64, 128),)], "rows 64..127"),
        ((1, 512), [(S(0, 1), S(0, 256))], "columns 0..255"),
        ((100,), [(S(50, 100),)], "elements 50..99"),
        ((100,), [(S(7, 8),)], "element 7"),
        ((4, 6, 8), [(S(0, 2),)], "elements [0..1, :, :]"),
        ((8, 6, 8), [(S(0, 4), S(5, 6), S(0, 7))], "elements [0..3, 5, 0..6]"),
        ((8, 6, 8), [(S(0, 1),), (S(4, 6),)], "elements [0, :, :], [4..5, :, :]"),
        ((64, 2, 2), [(S(0, 64, 2),)], "elements [0, :, :], [2, :, :], [4, :, :] and 29 more"),
        ((4, 6, 8), [(S(0, 1), S(1, 2), S(0, 1)), (S(3, 4), S(5, 6))], f"9 {WITHIN} [:, 1..5, :]"),
    ],
)  # fmt: skip
def test_words_for_masks(shape: tuple[int, ...], boxes: list[tuple[slice, ...]], words: str) -> None:
    assert describe(mask(shape, *boxes), "out") == f"{words} of `out`"


def test_words_for_a_mask_of_cells() -> None:
    assert describe(mask((4, 1), (S(2, 4),)), "out", (512, 64)) == "rows 256..511 of `out`"
    assert describe(mask((512, 2), (S(0, 512), S(1, 2))), "out", (512, 64)) == "columns 32..63 of `out`"


@pytest.mark.parametrize("shape", [(7,), (5, 6), (3, 4, 5)])
def test_the_count_of_a_part_is_exact(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    for _ in range(20):
        bits = rng.random(shape) < rng.random()
        if bits.any():
            part = part_of(bits, shape)
            count = {"rows": bits.any(1).sum, "columns": bits.any(0).sum} if len(shape) == 2 else {}
            assert part.count == count.get(part.unit, bits.sum)()


def test_ranges_hold_both_ends() -> None:
    assert ranges(np.array([True, True, False, True])) == [(0, 1), (3, 3)]
    assert ranges(np.array([False, False])) == []


@pytest.mark.parametrize(
    ("part", "total", "words"),
    [
        (64, 128, "50 %"),
        (1, 3, "33.3 %"),
        (2, 3, "66.7 %"),
        (1, 8, "12.5 %"),
        (1, 1001, "less than 0.1 %"),
        (1, 1000, "0.1 %"),
        (1000, 1001, "more than 99.9 %"),
        (999, 1000, "99.9 %"),
        (0, 7, "0 %"),
        (7, 7, "100 %"),
    ],
)
def test_percent(part: int, total: int, words: str) -> None:
    assert percent(part, total) == words


# ----------------------------------------------------------------------------------------------- coverage


def test_a_split_of_rows() -> None:
    out = coverage(split())["out"]
    upper, lower = mask((128, 16), (S(0, 64),)), mask((128, 16), (S(64, 128),))
    assert np.array_equal(out.written(0), upper)
    assert np.array_equal(out.written(1), lower)
    assert np.array_equal(out.only_by(1), lower)
    assert not out.unwritten.any()
    assert not out.twice.any()
    assert not out.may(0).any()
    assert out.certain[0].size == 2, "the map has a cell for each half"


def test_elements_written_twice() -> None:
    out = coverage(split(shares=[S(0, 80), S(48, 128)]))["out"]
    assert np.array_equal(out.twice, mask((128, 16), (S(48, 80),)))
    assert np.array_equal(out.only_by(0), mask((128, 16), (S(0, 48),)))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.tuples(st.integers(0, 11), st.integers(1, 12), st.integers(1, 3)),
            st.tuples(st.integers(0, 7), st.integers(1, 8), st.integers(1, 3)),
            st.booleans(),
        ),
        max_size=6,
    )
)
def test_coverage_is_what_numpy_marks(
    writes: list[tuple[int, tuple[int, int, int], tuple[int, int, int], bool]],
) -> None:
    builders = [ProgramBuilder(0), ProgramBuilder(1)]
    marked = np.zeros((2, 2, 12, 8), np.bool_)  # core, certain or may, rows, columns
    for builder in builders:
        builder.tensor("out", (12, 8))
        builder.tensor("tile", (12, 8), space=Space.sbuf)
    for core, rows, columns, is_certain in writes:
        builder = builders[core]
        slices = (S(*rows), S(*columns))
        if not (len(range(12)[slices[0]]) and len(range(8)[slices[1]])):
            continue
        marked[(core, int(not is_certain), *slices)] = True
        tile = builder.view(builder.buffers[1])
        store = builder.instruction("dma_copy", builder.view(builder.buffers[0], *slices), tile)
        if is_certain:
            builder.body.append(store)
        else:
            builder.loop([store], 0, Register(1, "int32"), number=len(builder.body))
    out = coverage(artifact(*builders))["out"]
    for core in (0, 1):
        assert np.array_equal(out.written(core), marked[core, 0])
        assert np.array_equal(out.may(core), marked[core, 1] & ~marked[core, 0])
        touched = marked[:, 0] | marked[:, 1]
        assert np.array_equal(out.only_by(core), touched[core] & ~touched[1 - core])
    assert np.array_equal(out.unwritten, ~marked.any(axis=(0, 1)))
    assert np.array_equal(out.twice, marked[0, 0] & marked[1, 0])


def test_stores_in_another_dtype() -> None:
    builder = ProgramBuilder()
    out = builder.tensor("out", (4, 8))
    tile = builder.tensor("tile", (4, 16), "bfloat16", space=Space.sbuf)
    builder.add("dma_copy", builder.view(out, S(0, 4), S(0, 4), dtype="bfloat16"), builder.view(tile))
    found = coverage(artifact(builder))["out"]
    assert np.array_equal(found.written(0), mask((4, 8), (S(0, 4), S(0, 2))))
    assert found.certain[0].size == 16, "whole elements are stored, two at a time"


def test_half_an_element_is_not_written() -> None:
    builder = ProgramBuilder()
    out = builder.tensor("out", (4, 8))
    tile = builder.tensor("tile", (4, 16), "bfloat16", space=Space.sbuf)
    builder.add("dma_copy", builder.view(out, S(0, 4), S(0, 5), dtype="bfloat16"), builder.view(tile))
    found = coverage(artifact(builder))["out"]
    assert found.parts == 2
    assert np.array_equal(found.written(0), mask((4, 8), (S(0, 4), S(0, 2))))
    assert np.array_equal(found.unwritten, mask((4, 8), (S(0, 4), S(2, 8))))
    assert np.array_equal(found.only_by(0), mask((4, 8), (S(0, 4), S(0, 3))))


def test_stores_in_a_wider_dtype() -> None:
    builder = ProgramBuilder()
    out = builder.tensor("out", (4, 8), "bfloat16")
    tile = builder.tensor("tile", (4, 4), space=Space.sbuf)
    builder.add("dma_copy", builder.view(out, S(0, 4), S(1, 3), dtype="float32"), builder.view(tile))
    found = coverage(artifact(builder))["out"]
    assert np.array_equal(found.written(0), mask((4, 8), (S(0, 4), S(2, 6))))


def test_only_the_returned_view_counts() -> None:
    builder = ProgramBuilder()
    out = builder.tensor("out", (128, 16))
    tile = builder.tensor("tile", (64, 16), space=Space.sbuf)
    builder.add("dma_copy", builder.view(out, S(0, 64)), builder.view(tile))
    upper = Output("out", "out", (64, 16), "float32", 0, ((16, 64), (1, 16)))
    assert findings(artifact(builder, outputs=[upper])) == []
    last = Output("out", "out", (2, 16), "float32", 63 * 16, ((16, 2), (1, 16)))
    (found,) = findings(artifact(builder, outputs=[last]))
    assert found.message == "`out` has 1 of 2 rows never written: row 1"


def indexed(shape: tuple[int, int] = (128, 16), cores: int = 1, extent: int = 113) -> KernelArtifact:
    """Return an artifact whose cores store 16 rows where a register says."""
    builders = []
    for core in range(cores):
        builder = ProgramBuilder(core)
        out = builder.tensor("out", shape)
        tile = builder.tensor("tile", (16, shape[1]), space=Space.sbuf)
        index = Index(IndexKind.scalar, Register(0, "int32"), shape[1], extent)
        builder.add("dma_copy", builder.view(out, S(0, 16), index=index), builder.view(tile))
        builders.append(builder)
    return artifact(*builders)


def test_what_an_index_decides_may_be_written() -> None:
    out = coverage(indexed())["out"]
    assert not out.written(0).any()
    assert out.may(0).all()
    assert findings(indexed()) == []
    (found,) = findings(indexed(extent=49))
    assert found.message == "`out` has 64 of 128 rows never written: rows 64..127"
    assert found.notes == ("core 0 may write rows 0..63 of `out` at kernels.py:9",)


def test_an_input_written_in_place_is_covered_and_exempt() -> None:
    builders = []
    for core in (0, 1):
        builder = ProgramBuilder(core)
        x = builder.tensor("x", (128, 16), origin=Origin.input)
        tile = builder.tensor("tile", (32, 16), space=Space.sbuf)
        builder.add("dma_copy", builder.view(x, S(32 * core, 32 * core + 32)), builder.view(tile))
        builders.append(builder)
    inputs = [Input("x", "x", (128, 16), "float32", is_written=True)]
    alias = Output("x", "x", (128, 16), "float32", 0, ((16, 128), (1, 16)), alias=0)
    found = artifact(*builders, outputs=[alias], inputs=inputs)
    assert [tensor.name for tensor in coverage(found).tensors] == ["x"]
    assert coverage(found)["x"].is_in_place
    assert findings(found) == []
    assert lost(found) == ["core 1 alone writes rows 32..63 of `x`, 25 % of it"]


def test_a_tensor_returned_twice_is_covered_once() -> None:
    made = split()
    twice = artifact_with_outputs(made, [*made.signature.outputs, *made.signature.outputs])
    assert [tensor.name for tensor in coverage(twice).tensors] == ["out"]


def test_a_returned_constant_holds_its_bytes() -> None:
    builder = ProgramBuilder()
    table = builder.tensor("table", (4, 8), origin=Origin.constant)
    made = artifact(builder, outputs=[whole(table)])
    constant = Constant("table", "table", (4, 8), "float32", "0" * 64)
    made = replace(made, signature=replace(made.signature, constants=(constant,)))
    assert coverage(made).tensors == ()
    assert findings(made) == []


def artifact_with_outputs(made: KernelArtifact, outputs: list[Output]) -> KernelArtifact:
    return replace(made, signature=replace(made.signature, outputs=tuple(outputs)))


# ----------------------------------------------------------------------------------------- what is lost


def test_the_lost_half() -> None:
    assert lost(split()) == ["core 1 alone writes rows 64..127 of `out`, 50 % of it"]
    assert lost(split(), kept=2) == []


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ([S(0, 128), S(0, 128)], ["no element of `out`: core 0 writes all of it"]),
        ([S(0, 64), S(0, 32)], [
            "no element of `out`: core 0 writes all that core 1 writes of it",
            "no core at all writes rows 64..127 of `out`, 50 % of it",
        ]),
        ([S(0, 64), S(64, 96)], [
            "core 1 alone writes rows 64..95 of `out`, 25 % of it",
            "no core at all writes rows 96..127 of `out`, 25 % of it",
        ]),
        ([S(0, 128, 2), S(1, 128, 2)], ["core 1 alone writes rows 1, 3, 5 and 61 more of `out`, 50 % of it"]),
    ],
    ids=["both write all", "half by both", "a rest by nobody", "every other row"],
)  # fmt: skip
def test_what_would_be_lost(shares: list[slice], says: list[str]) -> None:
    assert lost(split(shares=shares)) == says


def one_sided(writer: int) -> KernelArtifact:
    """Return an artifact in which only one core writes anything."""
    builders = []
    for core in (0, 1):
        builder = ProgramBuilder(core)
        out = builder.tensor("out", (128, 16))
        tile = builder.tensor("tile", (128, 16), space=Space.sbuf)
        if core == writer:
            builder.add("dma_copy", builder.view(out), builder.view(tile))
        builders.append(builder)
    return artifact(*builders)


def test_all_of_it_would_be_lost() -> None:
    assert lost(one_sided(1)) == ["core 1 alone writes all of `out`"]
    assert lost(one_sided(0)) == ["nothing of `out`: core 1 does not write it"]


def test_a_loss_that_an_index_decides() -> None:
    assert lost(indexed(cores=2)) == [
        "core 1 may write all of `out`, and so may core 0: an index or a predicate decides what is lost"
    ]
    made = indexed(cores=2)
    silent = artifact_with_programs(made, one_sided(1).programs[0])
    assert lost(silent) == ["core 1 alone may write all of `out`: an index or a predicate decides"]


def artifact_with_programs(made: KernelArtifact, first: object) -> KernelArtifact:
    return replace(made, programs=(first, *made.programs[1:]))


def test_core_0_that_reads_from_core_1_is_named() -> None:
    made = []
    for core in (0, 1):
        builder = ProgramBuilder(core)
        out = builder.tensor("out", (128, 16))
        tile = builder.tensor("tile", (128, 16), space=Space.sbuf)
        builder.add("core_barrier", builder.view(out), cores=(0, 1), line=8)
        builder.add("dma_copy", builder.view(out), builder.view(tile))
        made.append(builder)
    assert lost(artifact(*made)) == [
        "no element of `out`: core 0 writes all of it, but after meeting core 1 at kernels.py:8, whose data "
        "would be missing"
    ]
    assert repeats(artifact(*made)) == [], "they may write in turns"


# ---------------------------------------------------------------------------------------------- findings


def test_never_written_in_full(golden: Golden) -> None:
    golden(render_text(findings(split(shares=[S(0, 64)]))))


def test_the_numbers_of_a_finding() -> None:
    (found,) = findings(split(shares=[S(0, 32), S(32, 100)]))
    assert (found.code, found.severity) == ("ONKI401", Severity.error)
    assert found.message == "`out` has 28 of 128 rows never written: rows 100..127"
    assert [label.location.line for label in found.labels] == [5, 4]
    assert found.notes == (
        "core 0 writes rows 0..31 of `out` at kernels.py:9",
        "core 1 writes rows 32..99 of `out` at kernels.py:9",
    )
    assert found.data == {
        "says": found.message,
        "tensor": "out",
        "shape": [128, 16],
        "count": 28,
        "total": 128,
        "unit": "rows",
        "where": "rows 100..127",
        "lnc": 2,
    }


@pytest.mark.parametrize(
    ("share", "target", "hint"),
    [
        (S(0, 64), "trn2", "launch it as `split[2]`, or compute the shard from `nl.num_programs(0)`"),
        (S(0, 64), "trn1", "for 2 cores: compute the shard from `nl.num_programs(0)`, which is 1 here"),
        (S(64, 128), "trn2", None),
        (S(0, 63), "trn2", None),
        (S(0, 128, 2), "trn2", None),
    ],
)  # fmt: skip
def test_the_hint_at_a_fixed_shard(share: slice, target: str, hint: str | None) -> None:
    (found,) = findings(replace(split(shares=[share]), target=target))
    (help,) = found.help
    if hint is None:
        assert help.startswith("write every element of the output, or launch on as many cores")
    else:
        assert hint in help
        assert ("launch it as" in help) is (target == "trn2")


def test_an_output_that_nothing_writes() -> None:
    builder = ProgramBuilder()
    builder.tensor("out", (4, 6, 8))
    (found,) = findings(artifact(builder))
    assert found.message == "`out` has 192 of 192 elements never written: elements [:, :, :]"
    assert found.notes == ("no instruction writes `out`",)


def test_scattered_holes() -> None:
    builder = ProgramBuilder()
    out = builder.tensor("out", (8, 8))
    tile = builder.tensor("tile", (8, 8), space=Space.sbuf)
    for row in range(8):
        builder.add(
            "dma_copy", builder.view(out, S(row, row + 1), S(0, row + 1)), builder.view(tile), line=10 + row
        )
    (found,) = findings(artifact(builder))
    assert found.message == "`out` has 28 of 64 elements never written: within rows 0..6 in columns 1..7"
    assert found.notes[0] == "core 0 writes row 0 in column 0 of `out` at kernels.py:10"
    assert found.notes[-1] == "5 more lines write into `out`"
    assert len(found.notes) == 4


def test_outputs_are_reported_each() -> None:
    builder = ProgramBuilder()
    outputs = [whole(builder.tensor(name, (16, 8))) for name in ("a", "b", "c")]
    tile = builder.tensor("tile", (16, 8), space=Space.sbuf)
    builder.add("dma_copy", builder.view(builder.buffers[1]), builder.view(tile))
    found = findings(artifact(builder, outputs=outputs))
    assert [f.data["tensor"] for f in found] == ["a", "c"]


def test_everything_written_twice_in_full(golden: Golden) -> None:
    golden(render_text(repeats(split(shares=[S(0, 128), S(0, 128)]))))


def test_repeats() -> None:
    assert repeats(split()) == []
    assert repeats(split(shares=[S(0, 64)])) == []
    (found,) = repeats(split(shares=[S(0, 66), S(64, 128)]))
    assert (found.code, found.severity) == ("ONKI405", Severity.warning)
    assert found.message == "cores 0 and 1 both write rows 64..65 of `out`, 1.6 % of it"


def test_an_output_in_too_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage_module, "MOST_CELLS", 100)
    made = split(shares=[S(0, 63), S(63, 128)])
    assert not coverage(made)["out"].is_known
    (found,) = findings(made)
    assert (found.code, found.severity) == ("ONKI406", Severity.warning)
    assert found.message == "`out` is stored in 128 pieces, of which a check can tell at most 100 apart"
    assert lost(made) == ["`out` is stored in too many pieces to say which core writes what"]
    assert repeats(made) == []
    assert stores.MOST_CELLS == 1 << 28


def test_a_large_output_has_a_small_map() -> None:
    made = split((1 << 15, 1 << 15), [S(0, 1 << 14), S(1 << 14, 1 << 15)])
    assert coverage(made)["out"].certain[1].tolist() == [[False], [True]]
    assert lost(made) == ["core 1 alone writes rows 16384..32767 of `out`, 50 % of it"]


def test_a_view_is_a_view() -> None:
    """The helper that these tests stand on gives the offsets and patterns of NumPy's basic slicing."""
    builder = ProgramBuilder()
    out = builder.tensor("out", (6, 8))
    view = builder.view(out, S(1, 6, 2), S(3, 5))
    assert isinstance(view, View)
    assert (view.offset, builder.layouts[view.layout].pattern) == (11, ((16, 3), (1, 2)))

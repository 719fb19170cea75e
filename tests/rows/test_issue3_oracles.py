"""The oracles of indices, choices, sums and scalars against values worked out by hand from the documents."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.rows import cases_indexed, cases_scalar, cases_select, oracle_select
from tests.rows.cases import Case, S, tile
from tests.rows.conversions import bits_of, storage
from tests.rows.oracle_calls import disagreement as disagreement_of_calls
from tests.rows.oracle_indexed import (
    Access,
    IndexedCase,
    IndexSource,
    OutOfRange,
    cover,
    disagreement,
    dma_compute,
    evaluate,
    loop,
)
from tests.rows.oracle_result import stored
from tests.rows.oracle_scalar import Applied, Constant, Loaded, spelled, wrapped
from tests.rows.oracle_scalar import evaluate as value_of
from tests.rows.oracle_select import select_reduce, tensor_copy_predicated
from tests.rows.oracles import Tile
from tests.rows.test_oracle_calls import flipped

INDEXED = list(cases_indexed.cases())
CHOOSING = list(cases_select.cases())


def row(dtype: str, *values: float) -> Tile:
    """Return a tile of one partition."""
    return Tile(np.array([values]).astype(storage(dtype)), dtype)


# Indexed accesses ----------------------------------------------------------------------------------------


def numbers(access: Access, shape: tuple[int, ...], indices: list[int], space: str = "hbm") -> list[object]:
    """Return the element numbers of an access; None where its index is out of range."""
    table = tile(shape, space="hbm" if space == "hbm" else "sbuf")
    buffers = {"table": table, "index": tile((len(indices), 1), "int32")}
    case = IndexedCase("", buffers, {}, ())
    found = cover(access, case, {"index": np.array(indices, np.int32).reshape(-1, 1)})
    shown = found.numbers.astype(object)
    shown[~found.legal] = None
    return list(shown.tolist())


def test_a_pattern_is_a_nest_of_loops() -> None:
    """The example of "A Concrete Example": idx = 8 + w·16 + z."""
    wanted = [[8 + w * 16 + z for z in range(8)] for w in range(16)]
    assert (8 + loop(((16, 16), (1, 8)))).tolist() == wanted


def test_a_scalar_offset_counts_rows_of_the_base_tensor() -> None:
    """`offset + scalar_offset · prod(A.shape[indirect_dim+1:])`; 512 is read from the base tensor."""
    index = IndexSource("index")
    access = Access("table", pattern=((512, 2), (1, 2)), offset=0, scalar=index)
    assert numbers(access, (512, 512), [384]) == [[384 * 512, 384 * 512 + 1], [385 * 512, 385 * 512 + 1]]
    middle = Access("table", pattern=((24, 2), (1, 2)), offset=3, scalar=index, dim=1)
    assert numbers(middle, (4, 6, 4), [2]) == [[11, 12], [35, 36]]


def test_a_vector_offset_replaces_the_leading_step() -> None:
    """`A[offset + 1·z + 512·dynamic_idx]`, "the 512 is read from the shape of the base tensor"."""
    access = Access("table", pattern=((7, 2), (1, 3)), offset=1, vector=IndexSource("index"))
    assert numbers(access, (5, 4), [4, 0]) == [[17, 18, 19], [1, 2, 3]]


def test_selects_take_along_an_axis() -> None:
    index = IndexSource("index")
    assert numbers(Access("table", scalar=index, dim=1), (2, 3, 2), [2]) == [[4, 5], [10, 11]]
    assert numbers(Access("table", vector=index), (3, 2), [2, 2, 0]) == [[4, 5], [4, 5], [0, 1]]
    sliced = Access("table", (S(1, 3), S(0, 2)), scalar=index, dim=0)
    assert numbers(sliced, (3, 2), [1]) == [4, 5]


def test_an_index_is_legal_up_to_the_last_row_that_fits() -> None:
    index = IndexSource("index")
    window = Access("table", pattern=((4, 3), (1, 4)), scalar=index)
    assert None not in numbers(window, (10, 4), [7])[0]  # type: ignore[operator]
    for outside in (8, 10, -1):
        assert numbers(window, (10, 4), [outside]) == [[None] * 4] * 3
    wide = Access("table", pattern=((4, 2), (1, 8)), vector=index)
    assert numbers(wide, (6, 4), [5, 4]) == [[None] * 8, list(range(16, 24))]
    # on chip the window ends with the partition's row
    columns = Access("table", pattern=((8, 2), (1, 3)), scalar=index, dim=1)
    assert numbers(columns, (2, 8), [5], "sbuf") == [[5, 6, 7], [13, 14, 15]]
    assert numbers(columns, (2, 8), [6], "sbuf") == [[None] * 3] * 2


def test_skips_leave_rows_and_errors_name_the_index() -> None:
    skipping = cases_indexed.moved("", "ap", cases_indexed.hbm(10, 4), (10, 2), skip=True)
    _, after = evaluate(skipping)
    assert np.array_equal(bits_of(after["tile"][0]), bits_of(skipping.data["tile"][0]))
    assert np.array_equal(bits_of(after["tile"][1]), bits_of(skipping.data["table"][2]))
    with pytest.raises(OutOfRange, match=r"10 is not in 0 … 9"):
        evaluate(cases_indexed.moved("", "ap", cases_indexed.hbm(10, 4), (3, 10, 11)))


def test_sums_are_of_fp32() -> None:
    big = 2**24 + 1  # the first integer that fp32 does not hold
    assert dma_compute("int32", [row("int32", big)]).values.tolist() == [2**24]
    assert dma_compute("int32", [row("int32", big), row("int32", 2)]).values.tolist() == [2**24 + 2]
    minus = dma_compute("float32", [row("float32", -0.0), row("float32", -0.0)])
    assert math.copysign(1, minus.values[0]) == -1
    many = dma_compute("float32", [row("float32", 1.0)] * 16)
    assert many.values.tolist() == [16.0]
    assert many.bound is not None
    assert 0 < many.bound[0] < 2e-5


@pytest.mark.parametrize("case", INDEXED[::9], ids=lambda case: case.id)
def test_the_indexed_oracle_accepts_itself_and_no_flipped_bit(case: IndexedCase) -> None:
    claims, after = evaluate(case)
    actual = {name: after[name] for name in case.written()}
    assert disagreement(case, claims, actual) == ""
    name = claims[-1].buffer
    if case.buffers[name].dtype in ("bool", "tfloat32"):
        return
    patterns = bits_of(actual[name]).ravel()
    for place in {0, len(patterns) - 1, *claims[-1].numbers[:1].tolist()}:
        index = tuple(int(i) for i in np.unravel_index(place, actual[name].shape))
        broken = flipped(np.ascontiguousarray(actual[name]), index)
        held = float(actual[name][index]) if actual[name].dtype.kind == "f" else 1.0
        if not math.isnan(held):
            assert disagreement(case, claims, {**actual, name: broken}) != "", index


# Choices -------------------------------------------------------------------------------------------------


def test_selection_reverses_the_condition_not_the_bits() -> None:
    """`~1` is -2, which NumPy takes for true: the reversal is of the condition."""
    predicate, data = row("uint8", 0, 1, 2, 255), row("float32", 1, 2, 3, 4)
    assert select_reduce("float32", predicate, data, -1.0)[0].values.tolist() == [[-1, 2, 3, 4]]
    reverse, _ = select_reduce("float32", predicate, data, -1.0, reverse_pred=True)
    assert reverse.values.tolist() == [[1, -1, -1, -1]]


def test_selection_accumulates_the_maximum() -> None:
    some, data = row("uint8", 1, 0, 1), row("float32", -3, 9, -2)
    _, registers = select_reduce("float32", some, data, -5.0, "reset_reduce")
    assert registers is not None
    assert registers.tolist() == [-2.0]
    _, more = select_reduce("float32", some, row("float32", -7, 9, -8), -9.0, "reduce", accumulator=registers)
    assert more is not None
    assert more.tolist() == [-2.0]
    _, again = select_reduce("float32", some, row("float32", -7, 9, -8), -9.0, "reset_reduce")
    assert again is not None
    assert again.tolist() == [-7.0]
    _, nan = select_reduce("float32", some, row("float32", math.nan, 9, 1), 0.0, "reset_reduce")
    assert nan is not None
    assert math.isnan(nan[0])
    assert select_reduce("float32", some, data, 0.0, "idle")[1] is None
    with pytest.raises(ValueError, match="reset"):
        select_reduce("float32", some, data, 0.0, "reduce")


def test_predicated_copies_keep_what_they_do_not_choose() -> None:
    before = Tile(np.array([[0x7FC00001, 1, 2]], np.uint32).view(np.float32), "float32")
    src = Tile(np.array([[5, 0x7FC00002, 7]], np.uint32).view(np.float32), "float32")
    some = row("uint16", 0, 256, 0)
    assert tensor_copy_predicated(before, src, some).values.tolist() == [[0x7FC00001, 0x7FC00002, 2]]
    assert tensor_copy_predicated(before, src, some, True).values.tolist() == [[5, 1, 7]]
    number = tensor_copy_predicated(before, -2.0, some)
    assert stored(number, "float32")[0, 1] == -2.0
    whole = tensor_copy_predicated(row("int8", 1, 2, 3), -1, some)
    assert stored(whole, "int8").tolist() == [[1, -1, 3]]


@pytest.mark.parametrize("case", CHOOSING[::9], ids=lambda case: case.id)
def test_the_choosing_oracles_accept_themselves_and_no_flipped_bit(case: Case) -> None:
    claims, after = oracle_select.run(case)
    assert disagreement_of_calls(case, claims, after) == ""
    claim = claims[-1]
    spec = case.buffers()[claim.buffer]
    if spec.dtype in ("bool", "tfloat32") or np.isnan(after[claim.buffer].astype(np.float64)).any():
        return
    broken = {**after, claim.buffer: flipped(after[claim.buffer], (0,) * len(spec.shape))}
    assert disagreement_of_calls(case, claims, broken) != ""


# Scalars -------------------------------------------------------------------------------------------------


def test_scalars_wrap() -> None:
    """100000 · 100000 in int32 is 1410065408; the largest plus one is the smallest."""
    assert wrapped(100000 * 100000, "int32") == 1410065408
    assert wrapped(2**31, "int32") == -(2**31)
    assert wrapped(-(2**63) - 1, "int64") == 2**63 - 1
    assert wrapped(5, "int64") == 5
    negated = Applied("-", (Loaded(0),))
    assert value_of(negated, [-(2**31)], "int32") == -(2**31)
    mixed = Applied("-", (Constant(3), Applied("*", (Loaded(0), Loaded(1)))))
    assert spelled(mixed) == "(3 - (x0 * x1))"
    assert value_of(mixed, [5, 7], "int32") == -32
    last = list(cases_scalar.cases())[-1]
    assert [value_of(e, last.data[0].tolist(), "int32") for e in last.expressions] == [1410065408, -(2**31)]


def test_the_suites_are_of_the_planned_size_and_names_unique() -> None:
    names = [
        *(case.id for case in INDEXED), *(fault.id for fault in cases_indexed.faults()),
        *(case.id for case in CHOOSING), *(illegal.case.id for illegal in cases_select.refused()),
    ]  # fmt: skip
    assert len(set(names)) == len(names)
    assert 550 < len(names) < 750

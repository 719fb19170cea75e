"""Views of tensors: shape, strides and offset of each method, and what each refuses, in exact words."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.diag import Diagnostic, OpenNkiError
from opennki.ir.types import Space

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

Make = Callable[[Any], Any]
Facts = tuple[tuple[int, ...], tuple[int, ...], int]


def tensor(shape: tuple[int, ...], space: Space = Space.sbuf, dtype: str = "float32") -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=space, name="t")


def traced(make: Callable[[], Any]) -> opennki.KernelArtifact:
    """Trace `make` and give the kernel an output."""

    def kernel() -> Any:
        make()
        return nl.ndarray((1,), dtype=nl.float32, buffer=nl.shared_hbm)

    return opennki.trace(kernel, target="trn2")


def inside(make: Callable[[], Any]) -> Any:
    """Return what `make` returns in a kernel that is traced."""
    found = []
    traced(lambda: found.append(make()))
    return found[0]


def refused(make: Callable[[], Any]) -> Diagnostic:
    """Return the diagnostic with which `make` is refused in a trace."""
    with pytest.raises(nisa.NkiValidationError) as caught:
        traced(make)
    assert isinstance(caught.value, OpenNkiError)
    (found,) = caught.value.diagnostics
    return found


def facts(view: Any) -> Facts:
    return view.shape, view.strides, view.offset


LEGAL: list[tuple[str, tuple[int, ...], Space, Make, Facts]] = [
    ("whole", (4, 6), Space.sbuf, lambda t: t[...], ((4, 6), (6, 1), 0)),
    ("rows", (4, 6), Space.sbuf, lambda t: t[1:3], ((2, 6), (6, 1), 6)),
    ("negative ends", (4, 6), Space.sbuf, lambda t: t[-3:-1, -2:], ((2, 2), (6, 1), 10)),
    ("steps", (4, 6), Space.sbuf, lambda t: t[:, 1:6:2], ((4, 3), (6, 2), 1)),
    ("steps that end early", (4, 6), Space.sbuf, lambda t: t[:, 0:6:4], ((4, 2), (6, 4), 0)),
    ("a row of a chip tensor", (4, 6), Space.sbuf, lambda t: t[2], ((1, 6), (6, 1), 12)),
    ("an element of a chip tensor", (4, 6), Space.sbuf, lambda t: t[2, 3], ((1, 1), (6, 1), 15)),
    ("a column of a chip tensor", (4, 6), Space.sbuf, lambda t: t[:, 3], ((4, 1), (6, 1), 3)),
    ("a row of HBM", (4, 6), Space.shared_hbm, lambda t: t[2], ((6,), (1,), 12)),
    ("an element of HBM", (4, 6), Space.shared_hbm, lambda t: t[-1, -1], ((1,), (1,), 23)),
    ("one row on the chip", (4, 6), Space.sbuf, lambda t: t[3:4:2], ((1, 6), (12, 1), 18)),
    ("steps over rows of HBM", (4, 6), Space.shared_hbm, lambda t: t[::3], ((2, 6), (18, 1), 0)),
    ("dots first", (4, 2, 3), Space.sbuf, lambda t: t[..., 1], ((4, 2), (6, 3), 1)),
    ("dots between", (4, 2, 3), Space.sbuf, lambda t: t[1:2, ..., 0:2], ((1, 2, 2), (6, 3, 1), 6)),
    ("dots of nothing", (4, 6), Space.sbuf, lambda t: t[0:2, ..., 1:3], ((2, 2), (6, 1), 1)),
    ("ds", (4, 6), Space.sbuf, lambda t: t[nl.ds(1, 2), nl.ds(3, 3)], ((2, 3), (6, 1), 9)),
    ("NumPy ints", (4, 6), Space.sbuf, lambda t: t[np.int64(1) : np.int8(3)], ((2, 6), (6, 1), 6)),
    ("slice", (4, 6), Space.sbuf, lambda t: t.slice(1, 1, 6, 2), ((4, 3), (6, 2), 1)),
    ("slice of the last axis", (4, 6), Space.sbuf, lambda t: t.slice(-1, 0, 2), ((4, 2), (6, 1), 0)),
    ("select", (4, 2, 3), Space.sbuf, lambda t: t.select(1, 1), ((4, 3), (6, 1), 3)),
    ("select in HBM", (4, 2, 3), Space.shared_hbm, lambda t: t.select(0, -1), ((2, 3), (3, 1), 18)),
    ("permute", (4, 2, 3), Space.sbuf, lambda t: t.permute((0, 2, 1)), ((4, 3, 2), (6, 1, 3), 0)),
    ("permute in HBM", (4, 2), Space.shared_hbm, lambda t: t.permute([1, 0]), ((2, 4), (1, 2), 0)),
    ("broadcast", (4, 1), Space.sbuf, lambda t: t.broadcast(1, 5), ((4, 5), (1, 0), 0)),
    ("expand_dim", (4, 6), Space.sbuf, lambda t: t.expand_dim(1), ((4, 1, 6), (6, 6, 1), 0)),
    ("expand_dim at the end", (4, 6), Space.sbuf, lambda t: t.expand_dim(-1), ((4, 6, 1), (6, 1, 1), 0)),
    ("expand_dim of HBM", (4, 6), Space.shared_hbm, lambda t: t.expand_dim(0), ((1, 4, 6), (24, 6, 1), 0)),
    ("squeeze_dim", (4, 1, 3), Space.sbuf, lambda t: t.squeeze_dim(1), ((4, 3), (3, 1), 0)),
    ("reshape_dim", (4, 6), Space.sbuf, lambda t: t.reshape_dim(1, (2, -1)), ((4, 2, 3), (6, 3, 1), 0)),
    (
        "reshape_dim of a stepped axis",
        (4, 12),
        Space.sbuf,
        lambda t: t[:, 0:12:2].reshape_dim(1, (2, 3)),
        ((4, 2, 3), (12, 6, 2), 0),
    ),
    ("flatten_dims", (4, 2, 3), Space.sbuf, lambda t: t.flatten_dims(1, 2), ((4, 6), (6, 1), 0)),
    ("flatten_dims of HBM", (4, 2, 3), Space.shared_hbm, lambda t: t.flatten_dims(0, 2), ((24,), (1,), 0)),
    ("reshape", (4, 6), Space.sbuf, lambda t: t.reshape((4, 3, 2)), ((4, 3, 2), (6, 2, 1), 0)),
    ("reshape of sizes", (4, 6), Space.sbuf, lambda t: t.reshape(4, -1, 3), ((4, 2, 3), (6, 3, 1), 0)),
    ("reshape of HBM", (4, 6), Space.shared_hbm, lambda t: t.reshape((2, 12)), ((2, 12), (12, 1), 0)),
    (
        "reshape of a window",
        (4, 8),
        Space.sbuf,
        lambda t: t[:, 2:8].reshape((4, 3, 2)),
        ((4, 3, 2), (8, 2, 1), 2),
    ),
    (
        "rearrange",
        (4, 6),
        Space.sbuf,
        lambda t: t.rearrange(("p", ("a", "b")), ("p", "b", "a"), {"a": 2}),
        ((4, 3, 2), (6, 1, 3), 0),
    ),
    (
        "rearrange of HBM",
        (4, 6),
        Space.shared_hbm,
        lambda t: t.rearrange((("q", "r"), "f"), ("r", "q", "f"), {"q": 2}),
        ((2, 2, 6), (6, 12, 1), 0),
    ),
    (
        "rearrange that merges",
        (4, 6),
        Space.shared_hbm,
        lambda t: t.rearrange(("p", "f"), (("p", "f"),)),
        ((24,), (1,), 0),
    ),
    ("ap", (4, 6), Space.sbuf, lambda t: t.ap([[6, 2], [2, 3]]), ((2, 3), (6, 2), 0)),
    ("ap from an offset", (4, 6), Space.sbuf, lambda t: t.ap([[6, 2], [1, 3]], 8), ((2, 3), (6, 1), 8)),
    (
        "ap that repeats",
        (4, 6),
        Space.sbuf,
        lambda t: t.ap([[6, 4], [0, 5], [1, 6]]),
        ((4, 5, 6), (6, 0, 1), 0),
    ),
    ("ap backwards", (4, 6), Space.sbuf, lambda t: t.ap([[6, 4], [-1, 6]], 5), ((4, 6), (6, -1), 5)),
    ("ap of HBM", (4, 6), Space.shared_hbm, lambda t: t.ap([[1, 6], [6, 4]]), ((6, 4), (1, 6), 0)),
    ("ap of a view", (4, 6), Space.sbuf, lambda t: t[1:, 2:].ap([[6, 2], [1, 4]]), ((2, 4), (6, 1), 8)),
]


@pytest.mark.parametrize(
    ("shape", "space", "make", "expected"), [c[1:] for c in LEGAL], ids=[c[0] for c in LEGAL]
)
def test_shape_strides_and_offset(shape: tuple[int, ...], space: Space, make: Make, expected: Facts) -> None:
    assert facts(inside(lambda: make(tensor(shape, space)))) == expected


REFUSED: list[tuple[str, str, Space, Make]] = [
    ("ONKI208", "slice 0:5 leaves axis 0 of `t`, which has 4 rows", Space.sbuf, lambda t: t[0:5]),
    ("ONKI208", "slice 4:7 leaves axis 1 of `t`, which has 6 elements", Space.sbuf, lambda t: t[:, 4:7]),
    ("ONKI208", "slice 3:2 leaves axis 1 of `t`, which has 6 elements", Space.sbuf, lambda t: t[:, 3:2]),
    ("ONKI208", "slice 2:2 leaves axis 1 of `t`, which has 6 elements", Space.sbuf, lambda t: t[:, 2:2]),
    ("ONKI208", "slice -1:6 leaves axis 1 of `t`, which has 6 elements", Space.sbuf, lambda t: t[:, -7:]),
    (
        "ONKI208",
        "slice 5:7 leaves axis 1 of `t`, which has 6 elements",
        Space.sbuf,
        lambda t: t[:, nl.ds(5, 2)],
    ),
    ("ONKI208", "index 4 leaves axis 0 of `t`, which has 4 rows", Space.shared_hbm, lambda t: t[4]),
    ("ONKI208", "index -7 leaves axis 1 of `t`, which has 6 elements", Space.sbuf, lambda t: t.select(1, -7)),
    ("ONKI208", "3 indices for `t`, which has 2 axes [4, 6]", Space.sbuf, lambda t: t[0, 0, 0]),
    ("ONKI210", "an index may hold `...` once", Space.sbuf, lambda t: t[..., ...]),
    ("ONKI210", "None is no index", Space.sbuf, lambda t: t[:, None]),
    ("ONKI210", "True is no index", Space.sbuf, lambda t: t[True]),
    ("ONKI210", "the index of a view must be an int, got 1.0", Space.sbuf, lambda t: t[1.0]),
    ("ONKI210", "the index of a view must be an int, got [0, 1]", Space.sbuf, lambda t: t[[0, 1]]),
    ("ONKI210", "the start of a view must be an int, got 0.5", Space.sbuf, lambda t: t[0.5:2]),
    ("ONKI210", "a slice steps forward, got a step of -1", Space.sbuf, lambda t: t[:, ::-1]),
    (
        "ONKI210",
        "partitions are taken one by one, got a step of 2 on axis 0 of `t`",
        Space.sbuf,
        lambda t: t[0:4:2],
    ),
    ("ONKI210", "`slice` has no axis 2 in a view of 2 axes", Space.sbuf, lambda t: t.slice(2, 0, 1)),
    (
        "ONKI210",
        "`permute` needs each of the 2 axes once, got (0, 0)",
        Space.sbuf,
        lambda t: t.permute((0, 0)),
    ),
    (
        "ONKI210",
        "`permute` cannot change the partition axis of `t` [4, 6] in sbuf",
        Space.sbuf,
        lambda t: t.permute((1, 0)),
    ),
    (
        "ONKI210",
        "`broadcast` repeats an axis of size 1, axis 1 of [4, 6] has 6",
        Space.sbuf,
        lambda t: t.broadcast(1, 2),
    ),
    (
        "ONKI210",
        "`broadcast` cannot change the partition axis of `t` [1, 6] in sbuf",
        Space.sbuf,
        lambda t: t[0:1].broadcast(0, 2),
    ),
    (
        "ONKI210",
        "`squeeze_dim` drops an axis of size 1, axis 1 of [4, 6] has 6",
        Space.sbuf,
        lambda t: t.squeeze_dim(1),
    ),
    (
        "ONKI210",
        "`expand_dim` cannot change the partition axis of `t` [4, 6] in sbuf",
        Space.sbuf,
        lambda t: t.expand_dim(0),
    ),
    (
        "ONKI210",
        "`reshape` cannot change the partition axis of `t` [4, 6] in sbuf",
        Space.sbuf,
        lambda t: t.reshape((8, 3)),
    ),
    (
        "ONKI210",
        "`flatten_dims` cannot change the partition axis of `t` [4, 6] in sbuf",
        Space.sbuf,
        lambda t: t.flatten_dims(0, 1),
    ),
    ("ONKI210", "`flatten_dims` needs start <= end, got 1 and 0", Space.sbuf, lambda t: t.flatten_dims(1, 0)),
    (
        "ONKI213",
        "`reshape` keeps the number of elements: [4, 6] has 24, [4, 7] has 28",
        Space.sbuf,
        lambda t: t.reshape((4, 7)),
    ),
    (
        "ONKI213",
        "`reshape` cannot split 24 elements as [5, -1]",
        Space.shared_hbm,
        lambda t: t.reshape((5, -1)),
    ),
    (
        "ONKI213",
        "`reshape_dim` cannot split 6 elements as [4, -1]",
        Space.sbuf,
        lambda t: t.reshape_dim(1, (4, -1)),
    ),
    (
        "ONKI209",
        "`reshape` of a view that is not contiguous: shape [4, 3] with strides [6, 1] cannot be seen as [12]",
        Space.shared_hbm,
        lambda t: t[:, 0:3].reshape((12,)),
    ),
    (
        "ONKI210",
        "`rearrange` needs the same names on both sides, got ['p', 'f'] and ['p', 'g']",
        Space.shared_hbm,
        lambda t: t.rearrange(("p", "f"), ("p", "g")),
    ),
    (
        "ONKI210",
        "`rearrange` names 3 axes of 2",
        Space.shared_hbm,
        lambda t: t.rearrange(("a", "b", "c"), ("a", "b", "c")),
    ),
    (
        "ONKI213",
        "`rearrange` cannot split 6 elements as [4, -1]",
        Space.sbuf,
        lambda t: t.rearrange(("p", ("a", "b")), ("p", "a", "b"), {"a": 4}),
    ),
    (
        "ONKI209",
        "`view` needs a contiguous last axis: shape [4, 3] has strides [6, 2]",
        Space.sbuf,
        lambda t: t[:, ::2].view(nl.int16),
    ),
    (
        "ONKI210",
        "the first pair of `ap` walks the partitions of `t`: its step must be the row size 6, got 12",
        Space.sbuf,
        lambda t: t.ap([[12, 2], [1, 6]]),
    ),
    (
        "ONKI208",
        "the free pattern reaches elements 0 to 6 of a partition of `t`, which has 6",
        Space.sbuf,
        lambda t: t.ap([[6, 2], [1, 7]]),
    ),
    (
        "ONKI208",
        "the pattern reaches elements 0 to 24 of `t`, which has 24",
        Space.shared_hbm,
        lambda t: t.ap([[1, 25]]),
    ),
    (
        "ONKI208",
        "the pattern reaches elements -1 to 4 of `t`, which has 24",
        Space.shared_hbm,
        lambda t: t.ap([[-1, 6]], offset=4),
    ),
    (
        "ONKI210",
        "`ap` needs pairs [step, count] with counts above 0, got [[6, 4], [1, 0]]",
        Space.sbuf,
        lambda t: t.ap([[6, 4], [1, 0]]),
    ),
]


@pytest.mark.parametrize(("code", "says", "space", "make"), REFUSED, ids=[c[1][:60] for c in REFUSED])
def test_refusals(code: str, says: str, space: Space, make: Make) -> None:
    found = refused(lambda: make(tensor((4, 6), space)))
    assert (found.code, found.message) == (code, says)
    assert found.location is not None
    assert found.location.file.endswith("test_views.py")
    assert [label.text for label in found.labels] == ["this view", "`t` is allocated here"]
    assert found.help


def test_the_help_of_a_tail_tile_shortens_it() -> None:
    found = refused(lambda: tensor((100, 8), Space.shared_hbm)[64:128])
    assert found.help == ("shorten the last tile, for example `64:min(128, 100)`",)
    assert found.notes == ("`t` is float32[100, 8] in shared_hbm, strides [8, 1], offset 0",)


def test_assigning_to_a_window_is_refused() -> None:
    def assign() -> None:
        tensor((4, 6))[0:2] = 1.0

    found = refused(assign)
    assert found.code == "ONKI210"
    assert found.message == "`t[…] = …` writes nothing: tensors are written by instructions"
    assert "nisa.memset" in found.help[0]


def test_facts_of_a_tensor() -> None:
    t = inside(lambda: tensor((4, 2, 3), dtype="bfloat16"))
    assert (t.shape, t.ndim, t.size, t.dtype, t.buffer, t.name) == (
        (4, 2, 3),
        3,
        24,
        "bfloat16",
        nl.sbuf,
        "t",
    )
    assert len(t) == 4
    assert t.is_contiguous()
    assert not t.is_indirect()
    assert t.get_pattern() == [[6, 4], [3, 2], [1, 3]]
    assert repr(t) == "<NkiTensor t bfloat16[4, 2, 3] sbuf>"
    with pytest.raises(TypeError, match="the truth of `t`"):
        bool(t)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda t: t, True),
        (lambda t: t[1:3], True),
        (lambda t: t[:, 0:3], True),
        (lambda t: t[:, ::2], False),
        (lambda t: t[:, 2], True),
        (lambda t: t[:, 0:1].broadcast(1, 4), False),
        (lambda t: t.reshape((4, 2, 3)).permute((0, 2, 1)), False),
    ],
)
def test_is_contiguous_leaves_the_partition_axis_out(make: Make, expected: bool) -> None:
    assert inside(lambda: make(tensor((4, 6))).is_contiguous()) is expected


@pytest.mark.parametrize(
    ("made_as", "seen_as", "shape", "expected"),
    [
        ("float32", "int32", (4, 6), ((4, 6), (6, 1), 0)),
        ("float32", "bfloat16", (4, 6), ((4, 12), (12, 1), 0)),
        ("float32", "uint8", (4, 6), ((4, 24), (24, 1), 0)),
        ("int16", "float32", (4, 6), ((4, 3), (3, 1), 0)),
        ("float8_e4m3fn", "float8_e4m3fn_x4", (4, 8), ((4, 2), (2, 1), 0)),
    ],
)
def test_view_as_another_dtype(made_as: str, seen_as: str, shape: tuple[int, ...], expected: Facts) -> None:
    view = inside(lambda: tensor(shape, dtype=made_as).view(getattr(nl, seen_as)))
    assert facts(view) == expected
    assert view.dtype == seen_as
    assert inside(lambda: facts(tensor(shape, dtype=made_as).reinterpret_cast(seen_as))) == expected


def test_view_scales_the_offset() -> None:
    assert inside(lambda: facts(tensor((4, 6))[1:, 2:].view(nl.int16))) == ((3, 8), (12, 1), 16)


@pytest.mark.parametrize(
    ("shape", "dtype", "make"),
    [
        ((4, 7), "int16", lambda t: t.view(nl.float32)),
        ((4, 8), "int16", lambda t: t[:, 1:5].view(nl.float32)),
        ((4, 8), "int16", lambda t: t[:, 0:3].view(nl.float32)),
    ],
)
def test_view_needs_whole_elements(shape: tuple[int, ...], dtype: str, make: Make) -> None:
    found = refused(lambda: make(tensor(shape, dtype=dtype)))
    assert found.code == "ONKI213"
    assert "as float32: 2-byte elements do not divide into 4" in found.message


def test_view_as_an_unknown_dtype() -> None:
    with pytest.raises(OpenNkiError) as caught:
        traced(lambda: tensor((4, 6)).view("float64"))
    assert caught.value.code == "ONKI214"


def test_view_as_a_dtype_of_equal_width_keeps_the_strides() -> None:
    assert inside(lambda: facts(tensor((4, 6))[:, ::2].view(nl.int32))) == ((4, 3), (6, 2), 0)


def test_view_does_not_look_at_the_step_of_an_axis_of_one() -> None:
    assert inside(lambda: facts(tensor((4, 4, 1), dtype="int16").permute((0, 2, 1)).view(nl.int32))) == (
        (4, 1, 2),
        (2, 0, 1),
        0,
    )


@pytest.mark.parametrize(
    ("shape", "make"),
    [
        ((4, 8), lambda t: t[:, 1:].ap([[4, 4], [1, 1]], dtype=nl.int32)),
        ((4, 7), lambda t: t.ap([[3, 4], [1, 1]], dtype=nl.int32)),
    ],
    ids=["start", "row"],
)
def test_ap_as_another_dtype_needs_whole_elements(shape: tuple[int, ...], make: Make) -> None:
    assert refused(lambda: make(tensor(shape, dtype="int16"))).code == "ONKI213"


@pytest.mark.parametrize("make", [lambda t: t.ap([[6]]), lambda t: t.ap(6)], ids=["single", "number"])
def test_a_malformed_pattern_is_a_users_mistake(make: Make) -> None:
    assert refused(lambda: make(tensor((4, 6)))).code == "ONKI210"


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.reshape((4, 3.0, 2)),
        lambda t: t.reshape_dim(1, (3.0, 2)),
        lambda t: t.reshape((4, True, 6)),
    ],
    ids=["reshape", "reshape_dim", "bool"],
)
def test_sizes_are_ints(make: Make) -> None:
    assert refused(lambda: make(tensor((4, 6)))).code == "ONKI210"


def test_broadcast_takes_a_numpy_int() -> None:
    assert inside(lambda: facts(tensor((4, 1)).broadcast(1, np.int64(3)))) == ((4, 3), (1, 0), 0)


def test_rearrange_takes_a_group_of_one_for_its_name() -> None:
    expected = ((4, 3, 2), (6, 1, 3), 0)
    view = inside(lambda: tensor((4, 6)).rearrange((("p",), ["a", "b"]), ["p", "b", "a"], {"a": 2}))
    assert facts(view) == expected


def test_rearrange_keeps_the_step_of_a_single_partition() -> None:
    view = inside(lambda: tensor((1, 6)).rearrange(("p", ("a", "b")), ("p", "b", "a"), {"a": 2}))
    assert facts(view) == ((1, 3, 2), (6, 1, 3), 0)


@pytest.mark.parametrize(
    ("method", "make"),
    [
        ("flatten_dims", lambda t: t.permute((0, 2, 1)).flatten_dims(1, 2)),
        ("rearrange", lambda t: t.rearrange(("p", "a", "b"), ("p", ("b", "a")))),
        ("reshape_dim", lambda t: t.reshape_dim(2, (2, 2))),
    ],
    ids=["flatten_dims", "rearrange", "reshape_dim"],
)
def test_a_refusal_names_the_method_that_was_called(method: str, make: Make) -> None:
    assert f"`{method}`" in refused(lambda: make(tensor((4, 2, 3)))).message


def test_offset_of_a_view_that_starts_elsewhere_is_a_warning() -> None:
    def make() -> Any:
        t = tensor((4, 8))
        view = t[:, 4:8].ap([[8, 4], [1, 2]], offset=2)
        t.ap([[8, 4], [1, 2]], offset=2)
        return view

    with pytest.warns(opennki.OpenNkiWarning, match="ONKI403"):
        artifact = traced(make)
    (found,) = artifact.findings
    assert (found.code, found.rule) == ("ONKI403", "AP-90")
    assert (found.data["offset"], found.data["view_offset"]) == (2, 4)
    assert found.message == (
        "`ap(offset=2)` on a view of `t` that starts at element 4: the documents contradict each other, "
        "OpenNKI counts from the tensor's start"
    )


@pytest.mark.parametrize(
    ("says", "rule", "make"),
    [
        ("picked at run time from HBM only, `t` is in sbuf", "GEN-31", lambda t: t.vector_select(0, t)),
        ("along axis 0 only, got 1", "GEN-32", lambda t: t.vector_select(1, t)),
        ("the partition axis of `t` in sbuf takes no run-time index", "GEN-30", lambda t: t.select(0, t)),
        ("read from a tile of integers, got float32", "DMA_COPY-04", lambda t: t.select(1, t)),
        ("picked at run time from HBM only", "GEN-31", lambda t: t.ap([[6, 4], [1, 6]], vector_offset=t)),
        (
            "exclude each other",
            "GEN-29",
            lambda t: t.ap([[6, 4], [1, 6]], vector_offset=t, scalar_offset=t),
        ),
    ],
)
def test_run_time_indices_where_they_cannot_be(says: str, rule: str | None, make: Make) -> None:
    with pytest.raises(OpenNkiError) as caught:
        traced(lambda: make(tensor((4, 6))))
    (found,) = caught.value.diagnostics
    assert (found.code, found.rule) == ("ONKI210", rule)
    assert says in found.message


def test_equal_windows_share_one_layout() -> None:
    def make() -> Any:
        t = tensor((128, 64))
        views = [t[:, i : i + 8] for i in range(0, 64, 8)]
        for view in views:
            nisa.memset(dst=view, value=0.0)
        return views

    artifact = traced(make)
    assert len({view.layout for view in inside(make)}) == 1
    program = artifact.programs[0]
    assert [i.operands[0].offset for i in program.body] == list(range(0, 64, 8))  # type: ignore[union-attr]
    assert {program.opcodes[i.opcode] for i in program.body} == {"memset"}  # type: ignore[union-attr]


def test_psum_layouts_tell_the_place_in_their_bank_apart() -> None:
    def make() -> Any:
        t = tensor((16, 1024), Space.psum)
        return [t[:, i : i + 256].layout.record.bank_offset_bytes for i in range(0, 1024, 256)]

    assert inside(make) == [0, 1024, 0, 1024]


@pytest.mark.parametrize("first", [0, 32, 64, 96])
def test_a_layout_knows_its_first_partition(first: int) -> None:
    view = inside(lambda: tensor((128, 8))[first : first + 32, 2:4])
    assert (view.layout.start_partition, view.layout.partitions, view.layout.free_elements) == (first, 32, 2)


def test_addressed_tiles_count_partitions_from_the_start_of_the_memory() -> None:
    def make() -> Any:
        t = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf, address=(32, 1024))
        return t.layout.start_partition, t[32:64].layout.start_partition

    assert inside(make) == (32, 64)


def test_a_view_shows_the_memory_of_its_tensor() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        t = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.sbuf)
        out = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=t, src=x)
        nisa.memset(dst=t.reshape((4, 2, 3))[:, 1, 1:3], value=-1.0)
        nisa.dma_copy(dst=out, src=t)
        return out

    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected = x.copy()
    expected[:, 4:6] = -1.0
    assert np.array_equal(nki.simulate(kernel)(x), expected)

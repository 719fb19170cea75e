"""Tracing: what a kernel records on each core, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.ir.types import Buffer, Origin, Output, Space, Structure
from tests.unit.tracing import called, halves, hbm, line_of, place, refused, sbuf, trace, view

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call traces: a cache would answer for it."""
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "0")


# ----------------------------------------------------------------------------------- cores and degrees


@pytest.mark.parametrize("lnc", [1, 2])
def test_one_program_for_each_core(lnc: int) -> None:
    artifact = trace(halves, "float32[8,6]", lnc=lnc)
    assert artifact.lnc == len(artifact.programs) == lnc
    assert [program.core for program in artifact.programs] == list(range(lnc))
    rows = 8 // lnc
    for core, program in enumerate(artifact.programs):
        load, store = called(program, "dma_copy")
        assert view(load, 1).offset == view(store, 0).offset == core * rows * 6
        assert program.layouts[view(load, 1).layout].shape == (rows, 6)
    assert artifact.kernel == "halves"
    assert artifact.target == "trn2"
    assert (artifact.location.line, artifact.location.function) == (line_of(halves, "def halves"), "halves")
    assert (
        repr(artifact)
        == f"<KernelArtifact halves target=trn2 lnc={lnc} {2 * lnc} instructions -> out float32[8, 6]>"
    )


@pytest.mark.parametrize(
    ("bracket", "lnc", "expected"),
    [(None, None, (0, 1, 0)), (1, None, (0, 1, 1)), (None, 2, (1, 2, 1)), (2, None, (1, 2, 1))],
)
def test_the_launch_as_a_kernel_sees_it(
    bracket: int | None, lnc: int | None, expected: tuple[int, int, int]
) -> None:
    seen = []

    @nki.jit
    def kernel(x: Any) -> Any:
        seen.append((nl.program_id(0), nl.num_programs(0), nl.program_ndim()))
        assert nl.program_id() == nl.program_id(axis=0)
        assert nl.num_programs() == nl.num_programs((0,))
        return x

    opennki.trace(kernel if bracket is None else kernel[bracket], "float32[1]", lnc=lnc, target="trn2")
    assert seen[-1] == expected


@pytest.mark.parametrize(
    ("call", "role"), [(lambda: nl.program_id(1), "axis"), (lambda: nl.num_programs(2), "axes")]
)
def test_the_launch_has_one_axis(call: Callable[[], Any], role: str) -> None:
    (found,) = refused(lambda x: call(), "float32[1]")
    assert found.code == "ONKI101"
    assert f"for `{role}`" in found.message
    assert "the launch grid has one axis" in found.message


def test_tile_size_is_that_of_the_target() -> None:
    seen = {}

    def kernel(x: Any) -> Any:
        seen[nisa.get_nc_version().name] = nl.tile_size.sbuf_fmax_bytes
        return x

    for target in ("trn1", "trn2", "trn3"):
        opennki.trace(kernel, "float32[1]", target=target)
    assert seen == {"gen2": 180224, "gen3": 212984, "gen4": 245752}


# ----------------------------------------------------------------------------------- buffers and names


def test_keys_are_names_or_lines_with_a_count() -> None:
    def kernel(x: Any) -> Any:
        first, second = sbuf(2, 2), sbuf(2, 2)  # two on one line
        for _ in range(2):
            loop = sbuf(2, 2)
        named = sbuf(2, 2, name="weights")
        return hbm(1), first, second, loop, named

    def buffers(x: Any) -> Any:
        return kernel(x)[0]

    artifact = trace(buffers, "float32[1]", lnc=2)
    # allocations of helpers share their helper's line, so the count tells them apart
    helper, own = line_of(sbuf, "return nl.ndarray"), line_of(hbm, "return nl.ndarray")
    keys = [
        "input:x",
        *(f"tracing.py:{helper}#{i}" for i in range(4)),
        "weights",
        f"tracing.py:{own}#0",
    ]
    for program in artifact.programs:
        assert [buffer.key.rpartition("/")[2] for buffer in program.buffers] == keys
    assert artifact.programs[0].buffers == artifact.programs[1].buffers


def test_names_come_from_the_kernel_or_the_variable() -> None:
    def kernel(x: Any) -> Any:
        plain = nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.sbuf)
        hinted: Any = nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.sbuf)
        given = nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.sbuf, name="given_name")
        tiles = [nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2)]
        nisa.memset(dst=nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.sbuf), value=0.0)
        del plain, hinted, given, tiles
        return x

    (program,) = trace(kernel, "float32[1]").programs
    assert [b.name for b in program.buffers] == ["x", "plain", "hinted", "given_name", "", "", ""]
    assert [b.origin for b in program.buffers] == [Origin.input] + [Origin.local] * 6
    assert [b.id for b in program.buffers] == list(range(7))


def test_a_name_may_occur_once_a_core() -> None:
    def kernel(x: Any) -> Any:
        nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.sbuf, name="w")  # first
        nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.psum, name="w")  # again
        return x

    (found,) = refused(kernel, "float32[1]")
    assert found.code == "ONKI108"
    assert found.message == "the name `w` is used for two tensors of one core"
    assert [place(found, 0), place(found, 1)] == [line_of(kernel, "# again"), line_of(kernel, "# first")]
    assert [label.text for label in found.labels] == ["again here", "first here"]
    assert trace(lambda x: (sbuf(2, 2, name="w"), x)[1], "float32[1]", lnc=2).lnc == 2


def test_buffers_record_their_memory() -> None:
    def kernel(x: Any) -> Any:
        nl.ndarray((4, 2, 3), dtype=nl.bfloat16, buffer=nl.sbuf, address=(32, 256))
        nl.ndarray((4, 2), dtype=nl.float32, buffer=nl.psum)
        nl.ndarray((4, 2), dtype=nl.int32, buffer=nl.hbm)
        return x

    (program,) = trace(kernel, "float32[1]").programs

    def facts(b: Buffer) -> tuple[Space, str, tuple[int, ...], tuple[int, int] | None]:
        return b.space, b.dtype, b.shape, b.address

    assert [facts(b) for b in program.buffers] == [
        (Space.shared_hbm, "float32", (1,), None),
        (Space.sbuf, "bfloat16", (4, 2, 3), (32, 256)),
        (Space.psum, "float32", (4, 2), None),
        (Space.private_hbm, "int32", (4, 2), None),
    ]


# --------------------------------------------------------------------------------------------- outputs

LEAF = [Structure("leaf", i) for i in range(3)]

NESTS: list[tuple[str, Callable[[Any, Any], Any], Structure, list[str]]] = [
    ("alone", lambda a, b: a, LEAF[0], ["a"]),
    ("tuple", lambda a, b: (a, b), Structure("tuple", items=(LEAF[0], LEAF[1])), ["a", "b"]),
    ("list", lambda a, b: [b, a], Structure("list", items=(LEAF[0], LEAF[1])), ["b", "a"]),
    ("one in a tuple", lambda a, b: (a,), Structure("tuple", items=(LEAF[0],)), ["a"]),
    (
        "dict",
        lambda a, b: {"y": b, "x": a},
        Structure("dict", keys=("y", "x"), items=(LEAF[0], LEAF[1])),
        ["b", "a"],
    ),
    (
        "nested",
        lambda a, b: ([a], {"b": (b, None)}),
        Structure(
            "tuple",
            items=(
                Structure("list", items=(LEAF[0],)),
                Structure(
                    "dict", keys=("b",), items=(Structure("tuple", items=(LEAF[1], Structure("none"))),)
                ),
            ),
        ),
        ["a", "b"],
    ),
    ("twice", lambda a, b: (a, b, a), Structure("tuple", items=tuple(LEAF)), ["a", "b", "a_1"]),
]


@pytest.mark.parametrize(("nest", "returns", "names"), [n[1:] for n in NESTS], ids=[n[0] for n in NESTS])
@pytest.mark.parametrize("lnc", [1, 2])
def test_return_values(
    nest: Callable[[Any, Any], Any], returns: Structure, names: list[str], lnc: int
) -> None:
    def kernel() -> Any:
        a, b = hbm(4, 2, name="a"), hbm(3, name="b")
        return nest(a, b)

    signature = trace(kernel, lnc=lnc).signature
    assert signature.returns == returns
    assert [output.name for output in signature.outputs] == names
    assert [output.key for output in signature.outputs] == [name[0] for name in names]
    assert signature.inputs == ()


def test_returned_views_and_unnamed_outputs() -> None:
    def kernel(x: Any) -> Any:
        big = hbm(8, 6, name="big")
        return big[2:4, ::2], big.reshape((6, 8)), x[1], [hbm(1)][0]

    view, reshaped, row, plain = trace(kernel, "float32[4,6]").signature.outputs
    assert view == Output("big", "big", (2, 3), "float32", 12, ((6, 2), (2, 3)), -1)
    assert reshaped == Output("big_1", "big", (6, 8), "float32", 0, ((8, 6), (1, 8)), -1)
    assert row == Output("x", "input:x", (6,), "float32", 6, ((1, 6),), 0)
    assert (plain.name, plain.shape) == ("out3", (1,))


def test_inputs_that_are_written_or_returned() -> None:
    def kernel(read: Any, written: Any, both: Any, returned: Any) -> Any:
        tile = sbuf(2, 2)
        nisa.dma_copy(dst=tile, src=read)
        nisa.dma_copy(dst=written[0:1, :], src=tile[0:1, :])
        nisa.dma_copy(dst=both, src=tile)
        return both, returned

    signature = trace(kernel, *["float32[2,2]"] * 4).signature
    assert [(i.name, i.is_written) for i in signature.inputs] == [
        ("read", False),
        ("written", True),
        ("both", True),
        ("returned", False),
    ]
    assert [(o.name, o.alias) for o in signature.outputs] == [("both", 2), ("returned", 3)]


def test_an_input_that_one_core_writes_is_written() -> None:
    def kernel(x: Any) -> None:
        if nl.program_id(0) == 1:
            nisa.dma_copy(dst=x, src=sbuf(2, 2))

    signature = trace(kernel, "float32[2,2]", lnc=2).signature
    assert signature.inputs[0].is_written
    assert (signature.outputs, signature.returns) == ((), Structure("none"))


@pytest.mark.parametrize(
    ("make", "got"),
    [
        (lambda: sbuf(2, 2, name="tile"), "`tile`, a tensor in sbuf"),
        (lambda: nl.ndarray((2, 2), nl.float32, nl.psum, name="tile"), "`tile`, a tensor in psum"),
        (lambda: nl.ndarray((2, 2), nl.float32, nl.hbm, name="tile"), "`tile`, a tensor in private_hbm"),
        (lambda: 5, "an object of type `int`"),
        (lambda: {"a", "b"}, "an object of type `set`"),
        (lambda: [(1.0,)], "an object of type `float`"),
        (lambda: np.zeros(3), "an object of type `ndarray`"),
    ],
)
def test_what_cannot_be_returned(make: Callable[[], Any], got: str) -> None:
    def kernel() -> Any:
        return make()

    (found,) = refused(kernel)
    assert (found.code, found.message) == ("ONKI105", f"kernel `kernel` returns {got}, which is no output")
    assert place(found) == line_of(kernel, "def kernel")
    assert len(found.labels) == (2 if "tensor" in got else 1)


def test_a_kernel_without_an_effect() -> None:
    def kernel(x: Any) -> None:
        nisa.dma_copy(dst=sbuf(2, 2), src=x)

    (found,) = refused(kernel, "float32[2,2]")
    assert found.message == "kernel `kernel` returns nothing and writes no input"
    assert (found.code, place(found)) == ("ONKI106", line_of(kernel, "def kernel"))


# ------------------------------------------------------------------------------------------- two cores


def test_outputs_on_one_core_only() -> None:
    def kernel(x: Any) -> Any:
        out = hbm(2, 2, name="out")
        return (out, x) if nl.program_id(0) == 0 else out

    (found,) = refused(kernel, "float32[2,2]", lnc=2)
    assert (found.code, found.core) == ("ONKI305", 1)
    assert found.message == "kernel `kernel` returns 2 tensors on core 0 and 1 on core 1"


def test_another_nesting_on_the_other_core() -> None:
    def kernel(x: Any) -> Any:
        return [x] if nl.program_id(0) == 0 else (x,)

    (found,) = refused(kernel, "float32[2,2]", lnc=2)
    assert found.code == "ONKI305"
    assert found.message == "kernel `kernel` nests its return value in another way on core 1 than on core 0"


def test_other_outputs_on_the_other_core_are_shown_with_both_lines() -> None:
    def kernel() -> Any:
        if nl.program_id(0) == 0:
            out = nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.shared_hbm)  # core 0
        else:
            out = nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.shared_hbm)  # core 1
        return out

    (found,) = refused(kernel, lnc=2)
    first, second = line_of(kernel, "# core 0"), line_of(kernel, "# core 1")
    assert found.code == "ONKI305"
    assert f":{first} on core 0 and `out` of line" in found.message
    assert [place(found, i) for i in (1, 2)] == [first, second]
    assert [label.text for label in found.labels] == ["this kernel", "core 0's output", "core 1's output"]


def test_a_shape_that_depends_on_the_core() -> None:
    def kernel() -> Any:
        rows = 4 + nl.program_id(0)
        out = nl.ndarray((rows, 2), dtype=nl.float32, buffer=nl.shared_hbm)  # allocated
        return out

    output, shared = refused(kernel, lnc=2)
    assert output.code == "ONKI305"
    assert "`out` float32[4, 2] on core 0 and `out` float32[5, 2] on core 1" in output.message
    assert shared.code == "ONKI306"
    assert shared.message == "shared tensor `out` is float32[4, 2] on core 0 and float32[5, 2] on core 1"
    assert place(shared) == line_of(kernel, "# allocated")
    assert shared.labels[0].text == "core 1 allocates float32[5, 2]"


def test_a_shared_tensor_allocated_on_two_lines() -> None:
    def kernel(x: Any) -> Any:
        if nl.program_id(0) == 0:
            nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.shared_hbm, name="s")  # core 0
        else:
            nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.shared_hbm, name="s")  # core 1
        return x

    (found,) = refused(kernel, "float32[2,2]", lnc=2)
    assert found.code == "ONKI306"
    assert [place(found, i) for i in (0, 1)] == [line_of(kernel, "# core 1"), line_of(kernel, "# core 0")]


def test_private_tensors_may_differ_between_the_cores() -> None:
    def kernel(x: Any) -> Any:
        rows = 4 + nl.program_id(0)
        nisa.memset(dst=sbuf(rows, 2), value=0.0)
        nl.ndarray((rows, 2), dtype=nl.float32, buffer=nl.hbm)
        return x

    assert trace(kernel, "float32[2,2]", lnc=2).lnc == 2


def test_a_barrier_on_one_core_only() -> None:
    def kernel(x: Any) -> Any:
        if nl.program_id(0) == 0:
            nisa.core_barrier(data=x, cores=(0, 1))  # alone
        return x

    (found,) = refused(kernel, "float32[2,2]", lnc=2)
    assert (found.code, found.core, found.related) == ("ONKI307", 0, ("NCC_IXGM002",))
    assert found.message == "core 0 waits at `core_barrier` and is never met: core 1 has finished"
    assert place(found) == line_of(kernel, "# alone")


def test_more_barriers_on_one_core_than_on_the_other() -> None:
    def kernel(x: Any) -> Any:
        for _ in range(2 + nl.program_id(0)):
            nisa.core_barrier(data=x, cores=(0, 1))
        return x

    (found,) = refused(kernel, "float32[2,2]", lnc=2)
    assert (found.code, found.core) == ("ONKI307", 1)
    assert found.message == "core 1 waits at `core_barrier` and is never met: core 0 has finished"

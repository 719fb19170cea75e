"""Tracing: what a kernel records on each core, what it returns, and what it is refused for, and where."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from enum import Enum
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opennki
from opennki import KernelArtifact, Spec, nki
from opennki.diag import Diagnostic, Location, OpenNkiError
from opennki.ir.codec import encode_artifact
from opennki.ir.program import instructions
from opennki.ir.types import Buffer, Instruction, Origin, Output, Space, Structure, View
from opennki.ir.verify import verify
from opennki.isa.pending import PENDING
from opennki.isa.recorder import CURRENT
from opennki.isa.table import ROW_FACTS

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call traces: a cache would answer for it."""
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "0")


def trace(kernel: Any, *specs: object, lnc: int = 1, **values: object) -> KernelArtifact:
    """Trace for trn2 and check every invariant of the result."""
    artifact = opennki.trace(kernel, *specs, lnc=lnc, target="trn2", **values)
    assert verify(artifact, ROW_FACTS) == []
    return artifact


def refused(kernel: Any, *specs: object, lnc: int | None = None, **values: object) -> tuple[Diagnostic, ...]:
    """Return the diagnostics with which a trace ends."""
    with pytest.raises(OpenNkiError) as caught:
        opennki.trace(kernel, *specs, lnc=lnc, target="trn2", **values)
    return caught.value.diagnostics


def line_of(function: Callable[..., Any], text: str) -> int:
    """Return the number of the one line of a function's source that holds `text`."""
    lines, first = inspect.getsourcelines(getattr(function, "function", function))
    (found,) = [first + i for i, line in enumerate(lines) if text in line]
    return found


def place(found: Diagnostic, label: int = 0) -> int:
    """Return the line that a label points at, in this file."""
    location = found.labels[label].location
    assert location.file.endswith("test_trace.py")
    return location.line


def called(program: Any, name: str) -> list[Instruction]:
    """Return a program's instructions of one row."""
    return [i for i in instructions(program) if program.opcodes[i.opcode] == name]


def view(instruction: Instruction, role: int = 0) -> View:
    found = instruction.operands[role]
    assert isinstance(found, View)
    return found


def hbm(*shape: int, name: str = "") -> Any:
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm, name=name)


def sbuf(*shape: int, name: str = "") -> Any:
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf, name=name)


# ----------------------------------------------------------------------------------- cores and degrees


def halves(x: Any) -> Any:
    rows = x.shape[0] // nl.num_programs(0)
    start = nl.program_id(0) * rows
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[start : start + rows, :])
    nisa.dma_copy(dst=out[start : start + rows, :], src=tile)
    return out


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
        *(f"test_trace.py:{helper}#{i}" for i in range(4)),
        "weights",
        f"test_trace.py:{own}#0",
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
    assert found.message == "core 0 waits at a barrier that is never completed: core 1 has finished"
    assert place(found) == line_of(kernel, "# alone")


def test_more_barriers_on_one_core_than_on_the_other() -> None:
    def kernel(x: Any) -> Any:
        for _ in range(2 + nl.program_id(0)):
            nisa.core_barrier(data=x, cores=(0, 1))
        return x

    (found,) = refused(kernel, "float32[2,2]", lnc=2)
    assert (found.code, found.core) == ("ONKI307", 1)
    assert found.message == "core 1 waits at a barrier that is never completed: core 0 has finished"


# --------------------------------------------------------------------------- kernels and their helpers


def test_a_kernels_own_exception_passes_with_a_note() -> None:
    class Own(Exception):
        pass

    def kernel(x: Any) -> Any:
        if nl.program_id(0) == 1:
            raise Own("no such mode")
        return x

    with pytest.raises(Own, match="no such mode") as caught:
        opennki.trace(kernel, "float32[1]", lnc=2, target="trn2")
    (note,) = caught.value.__notes__
    line = line_of(kernel, "def kernel")
    assert note.startswith("raised by kernel `kernel` (")
    assert note.endswith(f"test_trace.py:{line}) on core 1 of 2")


@pytest.mark.parametrize("problem", [KeyboardInterrupt, SystemExit])
def test_exits_pass_without_a_note(problem: type[BaseException]) -> None:
    def kernel(x: Any) -> Any:
        raise problem

    with pytest.raises(problem) as caught:
        opennki.trace(kernel, "float32[1]")
    assert not hasattr(caught.value, "__notes__")
    assert CURRENT.get() is None


def test_nothing_stays_behind_when_a_kernel_fails() -> None:
    was = gc.isenabled()
    gc.enable()
    try:
        with pytest.raises(ZeroDivisionError):
            opennki.trace(lambda x: 1 // 0, "float32[1]")
        assert gc.isenabled()
        assert CURRENT.get() is None
        with pytest.raises(OpenNkiError) as caught:
            sbuf(2, 2)
        assert caught.value.code == "ONKI103"
    finally:
        if not was:
            gc.disable()


def test_nested_kernels_are_inlined_with_a_prefix() -> None:
    @nki.jit
    def innermost() -> None:
        sbuf(2, 2, name="w")

    @nki.jit
    def inner() -> None:
        sbuf(2, 2, name="w")
        innermost()
        innermost[2]()

    def helper() -> None:
        sbuf(2, 2, name="h")

    @nki.jit
    def outer(x: Any) -> Any:
        sbuf(2, 2, name="w")
        inner()
        inner()
        helper()
        sbuf(2, 2)
        return x

    names = [
        "w",
        "inner.0.w",
        "inner.0.innermost.0.w",
        "inner.0.innermost.1.w",
        "inner.1.w",
        "inner.1.innermost.0.w",
        "inner.1.innermost.1.w",
        "h",
    ]
    for program in trace(outer, "float32[1]", lnc=2).programs:
        assert [b.key for b in program.buffers if "#" not in b.key] == ["input:x", *names]
        assert [b.name for b in program.buffers][1:9] == names


def test_a_nested_kernel_of_another_degree() -> None:
    @nki.jit
    def inner(x: Any) -> Any:
        return x

    @nki.jit
    def outer(x: Any) -> Any:
        return inner[2](x)  # nested

    (found,) = refused(outer, "float32[1]", lnc=1)
    assert (found.code, place(found)) == ("ONKI309", line_of(outer, "# nested"))
    assert found.message == "kernel `inner[2]` is called inside a kernel that runs at LNC=1"


def load(path: Path, source: str) -> ModuleType:
    """Write a module and import it."""
    path.write_text(source)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HELPERS = """\
from opennki.nki import isa as nisa


def fill(tile):
    for i in range(2):
        nisa.memset(dst=tile, value=float(i))


def fill_twice(tile):
    fill(tile); fill(tile)


def bad(tile):
    nisa.memset(dst=tile, value="0")
"""


def test_call_chains_through_helpers_of_another_file(tmp_path: Path) -> None:
    helpers = load(tmp_path / "helpers.py", HELPERS)

    def kernel(x: Any) -> Any:
        tile = sbuf(2, 2)
        helpers.fill(tile)  # direct
        helpers.fill_twice(tile)  # two deep
        return x

    (program,) = trace(kernel, "float32[1]").programs

    def chain(location: int) -> list[tuple[str, int, str]]:
        found: list[tuple[str, int, str]] = []
        while location >= 0:
            at: Location = program.locations[location]
            found.append((at.file.rpartition("/")[2], at.line, at.function))
            location = at.caller
        return found

    direct = [("helpers.py", 6, "fill"), ("test_trace.py", line_of(kernel, "# direct"), "kernel")]
    deep = [
        ("helpers.py", 6, "fill"),
        ("helpers.py", 10, "fill_twice"),
        ("test_trace.py", line_of(kernel, "# two deep"), "kernel"),
    ]
    memsets = called(program, "memset")
    assert [chain(i.location) for i in memsets] == [direct] * 2 + [deep] * 4
    # one place for both turns of a loop; the two calls on one line differ by their column
    assert len({i.location for i in memsets}) == 3
    columns = {program.locations[program.locations[i.location].caller].column for i in memsets[2:]}
    assert columns == {4, 16}


def test_a_refusal_in_a_helper_names_its_callers(tmp_path: Path) -> None:
    helpers = load(tmp_path / "helpers.py", HELPERS)

    def kernel(x: Any) -> Any:
        helpers.bad(sbuf(2, 2))  # here
        return x

    (found,) = refused(kernel, "float32[1]")
    assert found.code == "ONKI101"
    assert found.message == "`memset` needs a number for `value`, got `'0'` (str)"
    assert found.location is not None
    assert (found.location.file, found.location.line) == ("helpers.py", 14)
    assert found.location.text == '    nisa.memset(dst=tile, value="0")'
    (caller,) = found.callers
    assert (caller.line, caller.function) == (line_of(kernel, "# here"), "kernel")


def test_locations_have_columns_and_text() -> None:
    def kernel(x: Any) -> Any:
        nisa.memset(dst=sbuf(2, 2), value=0.0)
        return x

    (program,) = trace(kernel, "float32[1]").programs
    (memset,) = program.body
    at = program.locations[memset.location]
    assert at.text.strip() == "nisa.memset(dst=sbuf(2, 2), value=0.0)"
    assert at.text[at.column : at.end_column] == "nisa.memset(dst=sbuf(2, 2), value=0.0)"
    assert at.function == "kernel"


def test_recursion_keeps_every_level() -> None:
    def fill(tile: Any, depth: int) -> None:
        if depth:
            fill(tile, depth - 1)
        else:
            nisa.memset(dst=tile, value=0.0)

    def kernel(x: Any) -> Any:
        fill(sbuf(2, 2), 3)
        return x

    (program,) = trace(kernel, "float32[1]").programs
    location, functions = program.body[0].location, []
    while location >= 0:
        functions.append(program.locations[location].function)
        location = program.locations[location].caller
    assert functions == ["fill"] * 4 + ["kernel"]


# -------------------------------------------------------------------------------------------- findings


def test_a_warning_is_said_once_a_place_and_stands_in_the_artifact() -> None:
    def kernel(x: Any) -> Any:
        tile = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
        for _ in range(3):
            tile[:, 4:8].ap([[8, 4], [1, 2]], offset=2)  # once
        tile[:, 2:8].ap([[8, 4], [1, 2]], offset=2)  # and here
        return x

    with pytest.warns(opennki.OpenNkiWarning) as said:
        artifact = trace(kernel, "float32[1]", lnc=2)
    lines = [line_of(kernel, "# once"), line_of(kernel, "# and here")]
    assert [place(found) for found in artifact.findings] == lines
    assert [found.code for found in artifact.findings] == ["ONKI403"] * 2
    assert len(said) == 2
    assert encode_artifact(artifact) == encode_artifact(trace_quietly(kernel, "float32[1]"))


@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")
def trace_quietly(kernel: Any, *specs: object) -> KernelArtifact:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trace(kernel, *specs, lnc=2)


def test_a_clean_kernel_has_no_findings() -> None:
    assert trace(halves, "float32[8,6]", lnc=2).findings == ()


# ------------------------------------------------------------------------------ attributes and numbers


def stored(kernel: Callable[[], object]) -> tuple[Any, ...]:
    """Return attributes and numbers of the one instruction that a kernel records."""

    def whole(x: Any) -> Any:
        kernel()
        return x

    (program,) = trace(whole, "float32[1]").programs
    (instruction,) = program.body
    assert isinstance(instruction, Instruction)
    numbers = [operand for operand in instruction.operands if not isinstance(operand, View)]
    return (*numbers, *program.attrs[instruction.attrs])


@pytest.mark.parametrize(
    "value", [2, 2.0, -0.0, float("inf"), np.float32(2), np.int64(2), np.float16(2), True]
)
def test_numbers_are_pythons_own(value: Any) -> None:
    (found,) = stored(lambda: nisa.memset(dst=sbuf(2, 2), value=value))
    expected = value.item() if isinstance(value, np.generic) else float(value) if value is True else value
    assert (type(found), repr(found)) == (type(expected), repr(expected))


def test_numpy_ints_are_keys_as_pythons_are() -> None:
    def product(position: Any, size: Any) -> None:
        dst = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst, sbuf(16, 8), sbuf(16, 4), tile_position=position, tile_size=size)

    plain = stored(lambda: product((0, 0), (64, 128)))
    assert stored(lambda: product((np.int64(0), np.int32(0)), np.array([64, 128]).tolist())) == plain
    assert stored(lambda: product([0, np.int8(0)], [np.int64(64), 128])) == plain
    assert all(type(part) is int for attribute in plain if isinstance(attribute, tuple) for part in attribute)


def test_attributes_keep_type_and_sign_apart() -> None:
    def kernel(x: Any) -> Any:
        tile = sbuf(2, 2)
        for value in (0.0, -0.0, 0, 1, 1.0, float("nan")):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=value)
        for axis in (1, (1,), [1], -1):
            nisa.tensor_reduce(dst=tile[:, 0:1], op=nl.add, data=tile, axis=axis)
        return x

    (program,) = trace(kernel, "float32[1]").programs
    body = instructions(program)
    scalars = called(program, "tensor_scalar")
    assert [repr(i.operands[2]) for i in scalars] == ["0.0", "-0.0", "0", "1", "1.0", "nan"]
    assert len({i.attrs for i in scalars}) == 1
    axes = [program.attrs[i.attrs] for i in body[6:]]
    assert [a[1] for a in axes] == [(1,), (1,), (1,), (-1,)]
    assert len({i.attrs for i in body[6:9]}) == 1


@pytest.mark.parametrize("index", [np.int64(1), np.uint8(1), np.array(1), True])
def test_what_indexes_a_list_indexes_a_range(index: Any) -> None:
    if index is True:
        (found,) = refused(lambda x: nl.affine_range(index) and x, "float32[1]")
        assert found.code == "ONKI101"
    else:
        assert trace(lambda x: (list(nl.affine_range(index)), x)[1], "float32[1]").lnc == 1


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda t: nisa.tensor_copy(dst=t, src=1.0),
            "`tensor_copy` needs a tensor for `src`, got `1.0` (float)",
        ),
        (
            lambda t: nisa.tensor_copy(dst=t, src=None),
            "`tensor_copy` needs a tensor for `src`, got `None` (NoneType)",
        ),
        (
            lambda t: nisa.tensor_copy(dst=t, src=np.zeros((2, 2), np.float32)),
            "`tensor_copy` needs a tensor for `src`, got an object of type `ndarray`",
        ),
        (
            lambda t: nisa.tensor_scalar(dst=t, data=t, op0="add", operand0=1.0),
            "`tensor_scalar` needs an operator of `nki.language` such as `nl.add` for `op0`, "
            "got `'add'` (str)",
        ),
        (
            lambda t: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0="1"),
            "`tensor_scalar` needs a tensor or a number or None for `operand0`, got `'1'` (str)",
        ),
        (
            lambda t: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0, reverse0=2),
            "`tensor_scalar` needs a bool for `reverse0`, got `2` (int)",
        ),
        (
            lambda t: nisa.tensor_copy(dst=t, src=t, engine="vector"),
            "`tensor_copy` needs a member of `nisa.engine` for `engine`, got `'vector'` (str)",
        ),
        (
            lambda t: nisa.tensor_copy(dst=t, src=t, name=3),
            "`tensor_copy` needs a str or None for `name`, got `3` (int)",
        ),
        (
            lambda t: nl.ndarray((2, 2), nl.float32, "sbuf"),
            "`nl.ndarray` needs a memory region such as `nl.sbuf` for `buffer`, got `'sbuf'` (str)",
        ),
        (
            lambda t: nl.ndarray((2, 2.5), nl.float32),
            "`nl.ndarray` needs a tuple of ints for `shape`, got `(2, 2.5)` (tuple)",
        ),
    ],
)
def test_arguments_of_a_wrong_kind(make: Callable[[Any], Any], says: str) -> None:
    (found,) = refused(lambda: make(sbuf(2, 2)))
    assert (found.code, found.message) == ("ONKI101", says)
    with pytest.raises(TypeError):
        opennki.trace(lambda: make(sbuf(2, 2)))


# --------------------------------------------------------------------------------- specs and arguments


@pytest.mark.parametrize(
    ("spec", "dtype", "shape"),
    [
        ("float32[4,6]", "float32", (4, 6)),
        (" bfloat16[ 128 , 512 ] ", "bfloat16", (128, 512)),
        ("bool_[3]", "bool", (3,)),
        ("float8_e4m3fn_x4[2,2,2,]", "float8_e4m3fn_x4", (2, 2, 2)),
        (Spec("int32", (3,)), "int32", (3,)),
        (Spec(np.float16, (2, np.int64(3))), "float16", (2, 3)),  # type: ignore[arg-type]  # NumPy's own are taken
        (np.zeros((2, 3), np.int8), "int8", (2, 3)),
        (np.zeros((1,), ml_dtypes.bfloat16), "bfloat16", (1,)),
        (np.zeros((1,), np.int64), "int64", (1,)),
    ],
)
def test_specs(spec: object, dtype: str, shape: tuple[int, ...]) -> None:
    (found,) = trace(lambda x: x, spec).signature.inputs
    assert (found.name, found.key, found.dtype, found.shape) == ("x", "input:x", dtype, shape)


@pytest.mark.parametrize(
    "text", ["float32[0,4]", "float32[4,0]", "float32[4,-1]", "float32[a]", "float32[4]x"]
)
def test_malformed_specs(text: str) -> None:
    (found,) = refused(lambda x: x, text)
    assert (found.code, found.message) == ("ONKI003", f"`{text}` is no tensor spec")


@pytest.mark.parametrize("text", ["float99[4,4]", "fp32[128]"])
def test_text_of_a_specs_form_with_a_misspelt_dtype(text: str) -> None:
    (found,) = refused(lambda x: x, text)
    assert found.code == "ONKI003"


@pytest.mark.parametrize(
    ("dtype", "help"),
    [
        (np.float64, "pass `x.astype(np.float32)`"),
        (np.longdouble, "pass `x.astype(np.float32)`"),
        (np.complex64, "convert `x` with `.astype(…)`"),
        (np.uint64, "convert `x` with `.astype(…)`"),
        (object, "convert `x` with `.astype(…)`"),
        ("U3", "convert `x` with `.astype(…)`"),
    ],
)
def test_dtypes_that_the_hardware_lacks(dtype: Any, help: str) -> None:
    def kernel(x: Any) -> Any:
        return x

    (found,) = refused(kernel, np.zeros((2, 2), dtype))
    assert found.code == "ONKI214"
    assert found.message == f"argument `x` of kernel `kernel` is {np.dtype(dtype)}, which the hardware lacks"
    assert found.help == (help,)
    assert place(found) == line_of(kernel, "def kernel")
    with pytest.raises(OpenNkiError) as simulated:
        nki.simulate(kernel)(np.zeros((2, 2), dtype))
    assert simulated.value.diagnostics == (found,)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: nisa.tensor_copy(dst=t, src=t),
        lambda t: nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add),
        lambda t: nisa.memset(dst=t, value=0),
    ],
    ids=["tensor_copy", "tensor_tensor", "memset"],
)
def test_int64_is_for_dma_only(make: Callable[[Any], Any]) -> None:
    (found,) = refused(lambda: make(nl.ndarray((2, 2), dtype=nl.int64, buffer=nl.sbuf)))
    assert found.code == "ONKI214"


def test_an_array_without_elements() -> None:
    (found,) = refused(lambda x: x, np.zeros((0, 3), np.float32))
    assert found.code == "ONKI212"
    assert found.message.endswith("has no elements: shape [0, 3]")


@pytest.mark.parametrize(
    ("specs", "values", "problem"),
    [
        ((), {}, "missing a required argument: 'x'"),
        (("float32[1]", 1, 2), {}, "too many positional arguments"),
        (("float32[1]",), {"z": 1}, "got an unexpected keyword argument 'z'"),
        (("float32[1]",), {"x": 1}, "multiple values for argument 'x'"),
    ],
)
def test_arguments_that_do_not_fit(specs: tuple[Any, ...], values: dict[str, Any], problem: str) -> None:
    def kernel(x: Any, y: int = 0) -> Any:
        return x

    (found,) = refused(kernel, *specs, **values)
    assert found.code == "ONKI006"
    assert found.message == f"the arguments do not fit kernel `kernel`: {problem}"
    assert place(found) == line_of(kernel, "def kernel")


class Mode(Enum):
    fast = 1


@pytest.mark.parametrize("value", [None, 3, 2.5, True, "fast", Mode.fast, (1, 2), [3], {"a": None}, range(3)])
def test_plain_values_reach_the_kernel(value: object) -> None:
    seen = []

    def kernel(x: Any, mode: Any, *, flag: Any) -> Any:
        seen.append((mode, flag))
        return x

    assert [i.name for i in trace(kernel, "float32[1]", value, flag=value).signature.inputs] == ["x"]
    assert seen == [(value, value)]
    assert type(seen[0][0]) is type(value)


def test_tensors_inside_of_lists_tuples_and_dicts() -> None:
    seen = []

    def kernel(xs: Any, pair: Any, *rest: Any, table: Any, **more: Any) -> Any:
        seen.append((xs, pair, rest, table, more))
        return xs[0]

    one = "float32[1]"
    artifact = trace(kernel, [one, 2], (one, [one]), one, "text", table={"k": one, "n": 7}, extra=one)
    names = ["xs.0", "pair.0", "pair.1.0", "rest.0", "table.k", "extra"]
    assert [i.name for i in artifact.signature.inputs] == names
    xs, pair, rest, table, more = seen[0]
    assert (xs[1], rest[1], table["n"]) == (2, "text", 7)
    assert [t.name for t in (xs[0], pair[0], pair[1][0], rest[0], table["k"], more["extra"])] == names


def test_defaults_stay_and_scalars_are_values() -> None:
    seen = []

    def kernel(x: Any, scale: Any = 0.5, bias: Any = None) -> Any:
        seen.append((scale, bias))
        return x

    trace(kernel, "float32[1]")
    trace(kernel, "float32[1]", np.float32(2), bias=np.array(3))
    assert seen[0] == (0.5, None)
    assert (type(seen[1][0]), seen[1][1].shape) == (np.float32, ())


# ------------------------------------------------------------------------ launches and what is outside


def test_a_tensor_of_another_launch() -> None:
    kept: list[Any] = []

    def kernel(x: Any) -> Any:
        tile = nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.sbuf)
        kept.append(tile)
        nisa.tensor_copy(dst=tile, src=kept[0])  # the first launch's
        return x

    trace(kernel, "float32[1]")
    (found,) = refused(kernel, "float32[1]")
    assert (found.code, found.message) == ("ONKI109", "tensor `tile` belongs to another launch")
    assert place(found) == line_of(kernel, "# the first launch's")
    kept.clear()
    (found,) = refused(kernel, "float32[1]", lnc=2)
    assert (found.code, found.core) == ("ONKI109", 1)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("nl.ndarray", lambda: nl.ndarray((2, 2), nl.float32)),
        ("nl.zeros", lambda: nl.zeros((2, 2), nl.float32)),
        ("nl.program_id", lambda: nl.program_id(0)),
        ("nl.num_programs", lambda: nl.num_programs(0)),
        ("nl.program_ndim", lambda: nl.program_ndim()),
        ("tensor_copy", lambda: nisa.tensor_copy(None, None)),
        ("nl.exp", lambda: nl.exp(None)),
    ],
)
def test_outside_of_a_kernel(name: str, call: Callable[[], Any]) -> None:
    with pytest.raises(OpenNkiError) as caught:
        call()
    assert caught.value.diagnostics[0].message == f"`{name}` is called outside of a kernel"
    assert caught.value.code == "ONKI103"


def test_pending_instructions_exist_and_say_so() -> None:
    for name in PENDING:
        function = getattr(nisa, name)
        parameters = inspect.signature(function).parameters.values()
        given = {
            p.name: None for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
        }
        (found,) = refused(lambda function=function, given=given: function(**given))
        assert found.code == "ONKI102"
        assert found.message.endswith(f".{name}` is documented but not yet in OpenNKI")


def test_pending_functions_say_so() -> None:
    (found,) = refused(lambda x: nl.dropout(x, 0.5), "float32[1]")
    assert (found.code, found.message) == ("ONKI102", "`nl.dropout` is documented but not yet in OpenNKI")


def test_a_bracket_and_an_option_that_disagree() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        return x

    (found,) = refused(kernel[2], "float32[1]", lnc=1)
    assert found.code == "ONKI301"
    assert "LNC=2 by its bracket" in found.message
    assert "LNC=1" in found.message
    assert opennki.trace(kernel[2], "float32[1]", lnc=2, target="trn2").lnc == 2


@pytest.mark.parametrize("grid", [(2, 2), [1, 2], ()])
def test_a_grid_of_several_axes(grid: Any) -> None:
    kernel = nki.jit(lambda x: x)
    with pytest.raises(OpenNkiError) as caught:
        kernel[grid]
    assert caught.value.code == "ONKI308"
    assert f"got `{list(grid)}`" in caught.value.diagnostics[0].message
    assert opennki.trace(kernel[(2,)], "float32[1]", target="trn2").lnc == 2


def test_jit_with_options() -> None:
    def kernel(x: Any) -> Any:
        """What it does."""
        return x

    made = nki.jit(mode="simulation")(kernel)
    assert (made.name, made.__doc__, made.function) == ("kernel", "What it does.", kernel)
    assert repr(nki.jit(made)[2]) == "<nki kernel kernel[2]>"
    with pytest.warns(opennki.OpenNkiWarning, match="ignores `colour`"):
        nki.jit(colour="red")(kernel)
    with pytest.raises(OpenNkiError) as caught:
        nki.jit(platform_target="trn2")
    assert caught.value.code == "ONKI107"
    assert "NEURON_PLATFORM_TARGET_OVERRIDE=trn2" in caught.value.diagnostics[0].help[0]


@pytest.mark.parametrize("value", [5, "kernel", None, object()])
def test_what_is_no_kernel(value: object) -> None:
    (found,) = refused(value)
    assert found.code == "ONKI006"


@pytest.mark.parametrize("use", [bool, lambda t: t and t, lambda t: not t], ids=["bool", "and", "not"])
def test_the_truth_of_a_tensor_is_a_users_mistake_with_a_code(use: Callable[[Any], Any]) -> None:
    (found,) = refused(lambda x: use(x), "float32[1]")
    assert found.code.startswith("ONKI1")


# ------------------------------------------------------------------------------- order and equal bytes


def test_dependencies_are_positions() -> None:
    def kernel(x: Any) -> Any:
        tile = sbuf(2, 2)
        first = nisa.memset(dst=tile, value=0.0)
        second = nisa.memset(dst=tile, value=1.0, name="second")
        third = nisa.memset(dst=tile, value=2.0).depends_on(second, first)
        third.depends_on(first)
        return x

    (program,) = trace(kernel, "float32[1]").programs
    body = instructions(program)
    assert [i.after for i in body] == [(), (), (0, 1)]
    assert [i.name for i in body] == [None, "second", None]


def test_two_traces_give_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = encode_artifact(trace(halves, "float32[8,6]", lnc=2))
    monkeypatch.chdir(tmp_path)
    assert encode_artifact(trace(halves, "float32[8,6]", lnc=2)) == first


def test_a_trace_inside_of_a_trace_is_a_launch_of_its_own() -> None:
    seen = []

    def outer(x: Any) -> Any:
        seen.append(opennki.trace(halves, "float32[8,6]", lnc=2, target="trn2").lnc)
        tile = sbuf(2, 2)
        nisa.memset(dst=tile, value=0.0)
        return x

    (program,) = trace(outer, "float32[1]").programs
    assert seen == [2]
    assert len(program.body) == 1

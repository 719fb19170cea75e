"""Tracing: nested kernels and helpers, findings, launches, and what is outside of a kernel."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import opennki
from opennki import KernelArtifact, nki
from opennki.diag import Location, OpenNkiError
from opennki.ir.codec import encode_artifact
from opennki.ir.program import instructions
from opennki.isa.pending import PENDING
from opennki.isa.recorder import CURRENT
from tests.unit.tracing import called, halves, line_of, place, refused, sbuf, trace

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call traces: a cache would answer for it."""
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "0")


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
    assert note.endswith(f"test_trace_kernels.py:{line}) on core 1 of 2")


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

    direct = [("helpers.py", 6, "fill"), ("test_trace_kernels.py", line_of(kernel, "# direct"), "kernel")]
    deep = [
        ("helpers.py", 6, "fill"),
        ("helpers.py", 10, "fill_twice"),
        ("test_trace_kernels.py", line_of(kernel, "# two deep"), "kernel"),
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

"""Compiling and running: what an executable is, does and saves."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import opennki
from opennki.build.values import nest
from opennki.diag import OpenNkiError, OpenNkiUsageError, OpenNkiWarning
from opennki.ir.types import Structure
from tests.unit.kernels import add_scaled, double_in_place, first_half, halve, raises, ramp

SPEC = "float32[128,16]"


def two() -> opennki.KernelArtifact:
    return opennki.trace(halve, SPEC, lnc=2, target="trn2")


def one() -> opennki.KernelArtifact:
    return opennki.trace(halve, SPEC, lnc=1, target="trn2")


def code_of(caught: pytest.ExceptionInfo[OpenNkiError]) -> str:
    (found,) = caught.value.diagnostics
    return found.code


# What comes out


def test_core_i_runs_program_i() -> None:
    artifact = two()
    (call,) = opennki.compile(artifact, lnc=2).calls
    assert call.programs == artifact.programs
    assert [program.core for program in call.programs] == [0, 1]


def test_an_executable_says_what_it_is() -> None:
    executable = opennki.compile(two(), lnc=2)
    assert (executable.lnc, executable.target) == (2, "trn2")
    assert repr(executable) == "<Executable halve target=trn2 lnc=2>"
    assert [tensor.name for tensor in executable.signature.inputs] == ["x"]
    assert [tensor.name for tensor in executable.signature.outputs] == ["out"]


@pytest.mark.parametrize("lnc", [1, 2])
def test_both_degrees_give_the_same_values(lnc: int) -> None:
    x = ramp()
    executable = opennki.compile(opennki.trace(halve, x, lnc=lnc, target="trn2"), lnc=lnc)
    np.testing.assert_array_equal(executable(x), x * 0.5)
    np.testing.assert_array_equal(executable(-x), x * -0.5)


def test_the_value_is_nested_as_the_kernel_returns_it() -> None:
    executable = opennki.compile(opennki.trace(add_scaled, SPEC, SPEC, scale=2.0, target="trn2"), lnc=1)
    a, b = ramp(), ramp()[::-1].copy()
    total, difference = executable(a, b)
    np.testing.assert_array_equal(total, a + 2 * b)
    np.testing.assert_array_equal(difference, a - 2 * b)


def test_nesting() -> None:
    leaves = tuple(Structure("leaf", i) for i in range(3))
    inner = Structure("list", items=(leaves[2], Structure("none")))
    structure = Structure("dict", keys=("a", "b"), items=(inner, Structure("tuple", items=leaves[:2])))
    assert nest(structure, ["x", "y", "z"]) == {"a": ["z", None], "b": ("x", "y")}


def test_an_input_that_is_written_and_returned_is_that_same_array() -> None:
    executable = opennki.compile(opennki.trace(double_in_place, SPEC, target="trn2"), lnc=1)
    x = ramp()
    before = x.copy()
    assert executable(x) is x
    np.testing.assert_array_equal(x, before * 2)


def test_independent_calls_run_by_number() -> None:
    other = opennki.trace(add_scaled, SPEC, SPEC, lnc=1, target="trn2")
    executable = opennki.compile([one(), other], lnc=1)
    x = ramp()
    assert [call.name for call in executable.calls] == ["halve", "add_scaled"]
    np.testing.assert_array_equal(executable.calls[0](x), x * 0.5)
    np.testing.assert_array_equal(executable.calls[1](x, x)[0], x * 2)


def test_several_calls_have_no_call_of_their_own() -> None:
    executable = opennki.compile([one(), one()], lnc=1)
    with pytest.raises(OpenNkiUsageError) as caught:
        executable(ramp())
    assert code_of(caught) == "ONKI006"
    assert "`calls[1]` is `halve`" in str(caught.value)


def test_a_wrong_number_of_arrays_names_the_tensors() -> None:
    executable = opennki.compile(one(), lnc=1)
    with pytest.raises(OpenNkiUsageError) as caught:
        executable(ramp(), ramp())
    assert code_of(caught) == "ONKI006"
    assert "kernel `halve` takes 1 arrays, got 2" in str(caught.value)


def test_a_kernel_is_traced_first() -> None:
    x = ramp()
    executable = opennki.compile(halve[2], x, target="trn2")
    assert executable.lnc == 2
    np.testing.assert_array_equal(executable(x), x * 0.5)


def test_a_kernel_with_values() -> None:
    x = ramp()
    executable = opennki.compile(add_scaled, x, x, scale=3.0, lnc=1, target="trn2")
    np.testing.assert_array_equal(executable(x, x)[0], x * 4)


# Degrees


def test_a_kernels_degree_is_its_own_and_not_the_graphs() -> None:
    with pytest.raises(OpenNkiError) as caught:
        opennki.compile(halve, SPEC, lnc=2, target="trn2")
    assert code_of(caught) == "NCC_EVRF066"


def test_a_kernel_takes_the_graphs_degree_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENNKI_KERNEL_LNC", "graph")
    assert opennki.compile(halve, SPEC, lnc=2, target="trn2").lnc == 2


def test_the_degree_of_a_graph_without_option_is_the_targets_default() -> None:
    assert opennki.compile(two()).lnc == 2
    with pytest.raises(OpenNkiError) as caught:
        opennki.compile(one())
    assert code_of(caught) == "NCC_EVRF066"


def test_the_target_is_the_artifacts_own() -> None:
    assert opennki.compile(opennki.trace(halve, SPEC, target="inf2")).target == "inf2"


def test_an_artifact_for_another_target_is_refused() -> None:
    with pytest.raises(OpenNkiError) as caught:
        opennki.compile(two(), lnc=2, target="trn3")
    assert code_of(caught) == "ONKI302"


def test_all_disagreeing_calls_are_reported_in_one_go() -> None:
    artifacts = [two(), one(), two(), opennki.trace(halve, SPEC, lnc=1, target="trn1")]
    with pytest.raises(OpenNkiError) as caught:
        opennki.compile(artifacts, lnc=1, target="trn2")
    assert [found.code for found in caught.value.diagnostics] == ["NCC_ENKI003", "NCC_ENKI003", "ONKI302"]


def test_a_degree_that_is_no_number_is_wrong_use() -> None:
    with pytest.raises(OpenNkiUsageError) as caught:
        opennki.compile(two(), lnc="two")
    assert code_of(caught) == "ONKI001"


def test_another_runtime_degree_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = opennki.compile(two(), lnc=2)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    x = ramp()
    with pytest.raises(OpenNkiError) as caught:
        executable(x)
    assert code_of(caught) == "ONKI304"
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG")
    np.testing.assert_array_equal(executable(x), x * 0.5)


# What is no graph


@pytest.mark.parametrize(
    ("graph", "code"),
    [
        ([], "ONKI602"),
        (3, "ONKI602"),
        ([3], "ONKI602"),
        ("model.nkx", "ONKI602"),
        ("model.pt2", "ONKI005" if find_spec("torch") else "ONKI604"),
        ("model.hlo", "ONKI601"),
        ("model.mlir", "ONKI601"),
        ("missing.nka", "ONKI005"),
    ],
    ids=str,
)
def test_what_is_no_graph(graph: object, code: str) -> None:
    with pytest.raises(OpenNkiError) as caught:
        opennki.compile(graph, lnc=1)
    assert code_of(caught) == code


def test_examples_beside_an_artifact_are_wrong_use() -> None:
    with pytest.raises(OpenNkiUsageError) as caught:
        opennki.compile(one(), SPEC, lnc=1)
    assert code_of(caught) == "ONKI006"


# Elements that no core writes


def test_never_written_elements_are_one_warning_at_the_users_line() -> None:
    artifact = opennki.trace(first_half, SPEC, lnc=1, target="trn2")
    with pytest.warns(OpenNkiWarning, match=r"`out` has 64 of 128 rows never written") as caught:
        executable = opennki.compile(artifact, lnc=1)
    (warning,) = caught
    assert warning.filename == __file__
    assert [found.severity.value for found in executable.findings] == ["warning"]


def test_a_kernel_that_writes_everything_is_compiled_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    opennki.compile(opennki.trace(first_half, SPEC, lnc=2, target="trn2"), lnc=2)
    assert [str(one.message) for one in recwarn] == []


# Direct calls


def test_a_direct_call_runs_at_the_kernels_own_degree() -> None:
    x = ramp()
    np.testing.assert_array_equal(halve(x), x * 0.5)
    np.testing.assert_array_equal(halve[2](x), x * 0.5)


def test_a_direct_call_obeys_the_flags_and_names_both_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=1")
    with pytest.raises(OpenNkiError) as caught:
        halve(ramp())
    (found,) = caught.value.diagnostics
    assert found.code == "NCC_ENKI003"
    assert found.data["kernel_origin"] == "NEURON_LOGICAL_NC_CONFIG=2"
    assert found.data["graph_origin"] == "the flag `--lnc=1` in NEURON_CC_FLAGS"
    assert found.location is not None
    assert found.location.text.strip() == "halve(ramp())"


def test_a_direct_call_with_fewer_programs_than_the_environment_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    with pytest.raises(OpenNkiError) as caught:
        halve[1](ramp())
    assert code_of(caught) == "NCC_EVRF066"


def test_a_direct_call_in_the_simulator_makes_no_bake_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=1")
    x = ramp()
    np.testing.assert_array_equal(halve[2](x), x * 0.5)


def test_a_direct_call_warns_of_elements_that_no_core_writes() -> None:
    x = ramp()
    with pytest.warns(OpenNkiWarning, match="never written"):
        found = first_half(x)
    np.testing.assert_array_equal(found[:64], x[:64])


def test_a_direct_call_changes_an_input_in_place() -> None:
    x = ramp()
    expected = x * 2
    double_in_place(x)
    np.testing.assert_array_equal(x, expected)


def test_a_direct_call_on_a_spec_is_refused() -> None:
    with pytest.raises(OpenNkiError) as caught:
        halve(opennki.Spec("float32", (128, 16)))
    assert code_of(caught) == "ONKI104"


def test_a_kernels_own_exception_passes() -> None:
    with pytest.raises(ValueError, match="rows must be a multiple of 256, got 128") as caught:
        raises(ramp())
    assert not isinstance(caught.value, OpenNkiError)


# Files


def test_an_executable_survives_its_file(tmp_path: Path) -> None:
    x = ramp()
    path = opennki.compile(two(), lnc=2).save(tmp_path / "model.nkx")
    loaded = opennki.load(path)
    assert isinstance(loaded, opennki.Executable)
    assert (loaded.lnc, loaded.target) == (2, "trn2")
    np.testing.assert_array_equal(loaded(x), x * 0.5)


def test_an_artifact_is_loaded_as_one(tmp_path: Path) -> None:
    artifact = two()
    loaded = opennki.load(artifact.save(tmp_path / "two.nka"))
    assert isinstance(loaded, opennki.KernelArtifact)
    assert loaded.programs == artifact.programs


def test_the_name_of_a_file_does_not_decide_what_it_is(tmp_path: Path) -> None:
    path = opennki.compile(two(), lnc=2).save(tmp_path / "model.bin")
    assert isinstance(opennki.load(path), opennki.Executable)


def test_equal_executables_are_equal_bytes(tmp_path: Path) -> None:
    first = opennki.compile(two(), lnc=2).save(tmp_path / "a.nkx")
    second = opennki.compile(opennki.load(two().save(tmp_path / "two.nka")), lnc=2).save(tmp_path / "b.nkx")
    assert first.read_bytes() == second.read_bytes()


def test_an_artifact_that_is_called_twice_is_stored_once(tmp_path: Path) -> None:
    from zipfile import ZipFile

    path = opennki.compile([two(), two()], lnc=2).save(tmp_path / "twice.nkx")
    with ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name != "manifest.json"]
    assert len(names) == 1
    assert re.fullmatch(r"artifacts/[0-9a-f]{64}\.nka", names[0])
    assert [call.name for call in opennki.load(path).calls] == ["halve", "halve"]  # type: ignore[union-attr]


def test_loading_under_another_runtime_degree_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = opennki.compile(two(), lnc=2).save(tmp_path / "model.nkx")
    monkeypatch.setenv("NEURON_RT_VIRTUAL_CORE_SIZE", "1")
    with pytest.raises(OpenNkiError) as caught:
        opennki.load(path)
    assert code_of(caught) == "ONKI304"
    assert "NEURON_RT_VIRTUAL_CORE_SIZE=1" in str(caught.value)


def test_a_file_in_a_missing_folder_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(OpenNkiError) as caught:
        opennki.compile(two(), lnc=2).save(tmp_path / "missing" / "model.nkx")
    assert code_of(caught) == "ONKI504"

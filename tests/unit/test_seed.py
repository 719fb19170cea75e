"""The document that the project starts from, NCC_ENKI003, clause by clause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opennki
from opennki.diag import CATALOGUE, Diagnostic, OpenNkiError, Severity
from opennki.diag.explain import explain
from opennki.lnc import CallFacts, check_calls
from opennki.settings import Setting, eager_degree, graph_degree, target_setting
from opennki.targets import TARGETS, Target
from tests.unit.kernels import halve, ramp

HEADLINE = (
    "NKI kernel halve was traced for 2 NeuronCores but the graph is compiled for LNC=1; "
    "baking only core 0's function would silently produce a partial output."
)
SPEC = "float32[128,16]"


def refused(graph: object, **options: Any) -> Diagnostic:
    """Return the one finding of a compilation that must be refused."""
    with pytest.raises(OpenNkiError) as caught:
        opennki.compile(graph, **options)
    (found,) = caught.value.diagnostics
    return found


def traced(lnc: int | None = None, target: str = "trn2") -> opennki.KernelArtifact:
    return opennki.trace(halve, SPEC, lnc=lnc, target=target)


def on(target: str) -> Setting[Target]:
    return target_setting(target)


# Error message


def test_seed_error_message_is_exact() -> None:
    assert refused(traced(2), lnc=1).message == HEADLINE


def test_seed_error_message_is_the_published_template() -> None:
    assert CATALOGUE["NCC_ENKI003"].template == (
        "NKI kernel {kernel} was traced for {num_funcs} NeuronCores but the graph is compiled for "
        "LNC={lnc_count}; baking only core 0's function would silently produce a partial output."
    )


def test_seed_error_message_reports_both_values() -> None:
    found = refused(traced(2), lnc=1)
    assert (found.data["kernel"], found.data["num_funcs"], found.data["lnc_count"]) == ("halve", 2, 1)
    assert "2 NeuronCores" in found.message
    assert "LNC=1" in found.message


def test_seed_error_is_an_error_and_no_warning() -> None:
    assert CATALOGUE["NCC_ENKI003"].severity is Severity.error
    assert refused(traced(2), lnc=1).severity is Severity.error


@pytest.mark.parametrize("target", TARGETS)
def test_seed_document_is_relevant_for_every_target(target: str) -> None:
    facts = CallFacts(kernel="halve", num_funcs=2, target=target)
    (found,) = check_calls([facts], graph_degree(1, on(target)), on(target))
    assert (found.code, found.message) == ("NCC_ENKI003", HEADLINE)


def test_seed_error_occurs_for_more_cores_than_the_graph_has_and_not_for_fewer() -> None:
    codes = {
        (programs, degree): [
            found.code
            for found in check_calls(
                [CallFacts(kernel="k", num_funcs=programs, target="trn2")],
                graph_degree(degree, on("trn2")),
                on("trn2"),
            )
        ]
        for programs in (1, 2)
        for degree in (1, 2)
    }
    assert codes == {(1, 1): [], (2, 2): [], (2, 1): ["NCC_ENKI003"], (1, 2): ["NCC_EVRF066"]}


def test_seed_remaining_parts_would_be_dropped_and_are_named() -> None:
    found = refused(traced(2), lnc=1)
    (lost,) = found.data["lost"]
    assert "core 1" in lost
    assert "rows 64..127 of `out`" in lost
    assert "50 %" in lost
    assert f"what would be lost: {lost}" in found.notes


# How LNC and NKI kernels interact


def test_seed_graph_degree_is_controlled_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    found = graph_degree(None, on("trn2"))
    assert (found.value, found.origin) == (1, "NEURON_LOGICAL_NC_CONFIG=1")


def test_seed_graph_degree_is_controlled_by_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    found = graph_degree("1", on("trn2"), spelled="--lnc ")
    assert (found.value, found.origin) == (1, "the option `--lnc 1`")


def test_seed_kernel_traced_for_two_contains_two_separate_pieces_of_work() -> None:
    artifact = traced(2)
    assert [program.core for program in artifact.programs] == [0, 1]
    assert artifact.programs[0].body != artifact.programs[1].body


def test_seed_kernel_traced_for_one_computes_its_whole_output() -> None:
    artifact = traced(1)
    assert len(artifact.programs) == 1
    x = ramp()
    np.testing.assert_array_equal(opennki.compile(artifact, lnc=1)(x), x * 0.5)


def test_seed_complete_result_when_both_numbers_are_equal() -> None:
    x = ramp()
    np.testing.assert_array_equal(opennki.compile(traced(2), lnc=2)(x), x * 0.5)


# Why the compiler stops instead of warning


def test_seed_stops_instead_of_warning_and_leaves_no_file(tmp_path: Path) -> None:
    source, destination = tmp_path / "two.nka", tmp_path / "model.nkx"
    traced(2).save(source)
    with pytest.raises(OpenNkiError, match="NCC_ENKI003"):
        opennki.compile(source, lnc=1).save(destination)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["two.nka"]


def test_seed_does_not_run_a_kernel_traced_for_more_cores_on_fewer() -> None:
    for artifact, lnc in ((traced(1), 1), (traced(2), 2)):
        executable = opennki.compile(artifact, lnc=lnc)
        assert executable.lnc == lnc
        assert [program.core for program in executable.calls[0].programs] == list(range(lnc))


# Common causes


def test_seed_common_cause_eager_path() -> None:
    assert eager_degree().value == 1
    facts = CallFacts(kernel="halve", num_funcs=2, target="trn2", eager=True)
    (found,) = check_calls([facts], eager_degree(), on("trn2"))
    assert (found.code, found.message) == ("NCC_ENKI003", HEADLINE)
    assert "the eager path, which always compiles for LNC=1" in " ".join(found.notes)


def test_seed_common_cause_tracing_at_2_compiling_at_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    artifact = traced()
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    found = refused(artifact)
    assert (found.code, found.message) == ("NCC_ENKI003", HEADLINE)
    assert found.data["graph_origin"] == "NEURON_LOGICAL_NC_CONFIG=1"


def test_seed_common_cause_reused_artifact(tmp_path: Path) -> None:
    path = traced(2).save(tmp_path / "cached.nka")
    found = refused(path, lnc=1)
    assert (found.code, found.message) == ("NCC_ENKI003", HEADLINE)
    assert found.data["kernel_origin"] == "the programs in the artifact"


# Resolution


def test_seed_resolution_offers_both_options() -> None:
    first, second = refused(traced(2), lnc=1).help
    assert "--lnc 1" in first
    assert "NEURON_LOGICAL_NC_CONFIG=1" in first
    assert first.startswith("trace the kernel for the graph's LNC=1")
    assert second.startswith("compile the graph for the kernel's LNC=2")
    assert "NEURON_LOGICAL_NC_CONFIG=2" in second


def test_seed_resolution_1_retrace_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    x = ramp()
    executable = opennki.compile(traced())
    assert executable.lnc == 1
    np.testing.assert_array_equal(executable(x), x * 0.5)


def test_seed_resolution_1_retrace_through_the_option() -> None:
    x = ramp()
    np.testing.assert_array_equal(opennki.compile(traced(1), lnc=1)(x), x * 0.5)


def test_seed_resolution_1_on_the_eager_path_is_a_single_core() -> None:
    facts = CallFacts(kernel="halve", num_funcs=1, target="trn2", eager=True)
    assert check_calls([facts], eager_degree(), on("trn2")) == []


def test_seed_resolution_2_compile_graph_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = traced(2)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    x = ramp()
    executable = opennki.compile(artifact)
    assert executable.lnc == 2
    np.testing.assert_array_equal(executable(x), x * 0.5)


def test_seed_resolution_2_compile_graph_through_the_option() -> None:
    x = ramp()
    np.testing.assert_array_equal(opennki.compile(traced(2), lnc=2)(x), x * 0.5)


@pytest.mark.parametrize("target", ["trn1", "inf2"])
def test_seed_instance_type_without_lnc2_offers_only_option_1(target: str) -> None:
    facts = CallFacts(kernel="halve", num_funcs=2, target=target)
    (found,) = check_calls([facts], graph_degree(1, on(target)), on(target))
    (only,) = found.help
    assert only.startswith("trace the kernel for the graph's LNC=1")
    assert "NCC_EARG001" in " ".join(found.notes)


@pytest.mark.parametrize("target", ["trn1", "inf2"])
def test_seed_instance_type_without_lnc2_refuses_the_larger_degree(target: str) -> None:
    assert refused(traced(1, target), lnc=2, target=target).code == "NCC_EARG001"


def test_seed_eager_path_offers_only_option_1() -> None:
    facts = CallFacts(kernel="halve", num_funcs=2, target="trn2", eager=True)
    (found,) = check_calls([facts], eager_degree(), on("trn2"))
    (only,) = found.help
    assert only.startswith("trace the kernel for the graph's LNC=1")


def test_seed_is_explained() -> None:
    page = explain("NCC_ENKI003")
    assert page.startswith("# NCC_ENKI003: ")
    assert "eager" in page
    assert "NCC_EARG001" in page

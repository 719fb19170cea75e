"""`opennki.check`: a report instead of an exception."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opennki
from opennki.diag import Severity
from tests.unit.kernels import first_half, halve, raises

SPEC = "float32[128,16]"


def codes(report: opennki.Report) -> list[str]:
    return [found.code for found in report.findings]


def test_a_clean_kernel() -> None:
    report = opennki.check(halve, SPEC, lnc=2, target="trn2")
    assert (report.ok, report.findings, str(report)) == (True, (), "no findings")
    assert json.loads(report.to_json()) == {"schema": 1, "findings": []}


def test_never_written_elements_are_an_error() -> None:
    report = opennki.check(first_half, SPEC, target="trn2")
    assert not report.ok
    (found,) = report.findings
    assert (found.code, found.severity) == ("ONKI401", Severity.error)
    assert found.message == "`out` has 64 of 128 rows never written: rows 64..127"
    assert found.message in str(report)
    assert json.loads(report.to_json())["findings"][0]["code"] == "ONKI401"


def test_the_bracket_is_the_degree_of_a_kernel() -> None:
    assert opennki.check(first_half[2], SPEC, target="trn2").ok


def test_a_bracket_and_an_option_that_differ() -> None:
    report = opennki.check(halve[2], SPEC, lnc=1, target="trn2")
    (found,) = report.findings
    assert found.code == "ONKI301"
    assert (found.data["bracket"], found.data["option"]) == (2, 1)


@pytest.mark.parametrize(
    ("lnc", "target", "code"),
    [(2, "trn1", "NCC_EARG001"), ("x", "trn2", "ONKI001"), (1, "trn9", "ONKI002")],
)
def test_settings_that_are_wrong_are_findings(lnc: object, target: str, code: str) -> None:
    assert codes(opennki.check(halve, SPEC, lnc=lnc, target=target)) == [code]


def test_arguments_that_do_not_fit_are_a_finding() -> None:
    assert codes(opennki.check(halve, target="trn2")) == ["ONKI006"]


def test_a_malformed_spec_is_a_finding() -> None:
    assert codes(opennki.check(halve, "float32[0,16]", target="trn2")) == ["ONKI003"]


def test_an_exception_of_the_kernels_own_is_a_finding_at_its_line() -> None:
    (found,) = opennki.check(raises, SPEC, target="trn2").findings
    assert found.code == "ONKI110"
    assert found.message == "kernel `raises` raised ValueError: rows must be a multiple of 256, got 128"
    assert found.location is not None
    assert found.location.text.strip().startswith("raise ValueError(")
    assert any("on core 0" in note for note in found.notes)


def test_a_graph_is_checked_for_baking_and_coverage(tmp_path: Path) -> None:
    artifact = opennki.trace(first_half, SPEC, lnc=1, target="trn2")
    path = artifact.save(tmp_path / "half.nka")
    for graph in (artifact, [artifact], path):
        assert codes(opennki.check(graph)) == ["NCC_EVRF066", "ONKI401"]
        assert codes(opennki.check(graph, lnc=1)) == ["ONKI401"]


def test_a_mistake_of_ours_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opennki.analyse.coverage.subjects", None)
    with pytest.raises(TypeError, match="NoneType"):
        opennki.check(halve, SPEC, target="trn2")

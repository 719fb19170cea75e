"""Every case file gives the value or the code that it expects, scenarios included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.diag import Diagnostic, OpenNkiError, OpenNkiWarning, Severity
from opennki.ir.types import Instruction
from tests.cases.loading import Case, load, numbers, run_file

VALUES = (7, 9, 21, 22, 25, 27, 31, 37, 46, 50, 53)
ERRORS = (3, 14, 19, 35, 38, 42, 47, 54)
OTHERS = (1, 2, 17, 59, 62, 70)
"""Case 2 is a direct call that environment and flags decide, case 17 a finding of `check`; 59 and 62 are the
cache's (`test_cases_cache.py`); 1 and 70 are graphs of a framework."""

NOT_YET = {
    6: (26, 29, 34, 41),
}
"""Issue → the case files that it brings; 6 stands for the issues after 5, not filed yet. It also brings the
second kernel of case 42, whose two live tiles overlap."""

OUR_CODES = {
    14: "ONKI207",
    17: "ONKI401",
    19: "ONKI208",
    35: "ONKI205",
    38: "ONKI209",
    42: "ONKI211",
    47: "ONKI202",
    54: "ONKI101",
}
"""The code of each case for which no public one exists."""


@pytest.fixture
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    """The case file of the test's parameter, its environment set."""
    loaded = load(request.param)
    for name, value in loaded.environment.items():
        monkeypatch.setenv(name, value)
    return loaded


def by_number(*cases: int) -> pytest.MarkDecorator:
    """Run a test with the fixture `case` once for each number."""
    return pytest.mark.parametrize("case", cases, indirect=True, ids=[f"{number:02}" for number in cases])


def refusal(call: Callable[[], object]) -> OpenNkiError:
    """Return the error that `call` raises."""
    with pytest.raises(OpenNkiError) as caught:
        call()
    return caught.value


def assert_says(text: str, words: list[str]) -> None:
    """Fail unless `text` holds every word, letter case aside."""
    assert [word for word in words if word.lower() not in text.lower()] == [], text


def assert_points_into(case: Case, finding: Diagnostic, *, containing: str) -> None:
    """Fail unless the finding's place is a line of the case file, and that line holds `containing`."""
    place = finding.location
    assert place is not None, finding.message
    assert place.file.endswith(case.path.name)
    line = case.path.read_text(encoding="utf-8").splitlines()[place.line - 1]
    assert place.text.strip() == line.strip()
    assert containing in line


def assert_same(actual: Any, expected: Any) -> None:
    """Fail unless both are the same array, or tuple of arrays: dtype, shape and every element."""
    if isinstance(expected, tuple):
        assert isinstance(actual, tuple)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other)
        return
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected, strict=True)


def test_every_case_file_runs_or_waits_for_an_issue() -> None:
    waiting = [number for cases in NOT_YET.values() for number in cases]
    assert sorted([*VALUES, *ERRORS, *OTHERS, *waiting]) == sorted(numbers())


@by_number(*VALUES)
@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")  # of 27 and 50: own tests
def test_value(case: Case) -> None:
    kernel = case.module.kernel[case.expected["lnc"]]
    expected = case.module.reference(*case.inputs())
    assert case.expected["expect"] in ("value", "warning-or-error")
    assert_same(nki.simulate(kernel)(*case.inputs()), expected)
    artifact = opennki.trace(kernel, *case.inputs())
    assert_same(opennki.compile(artifact, lnc=case.expected["lnc"])(*case.inputs()), expected)


WRONG_LINE = {
    3: "",  # the launch, in the test itself
    14: "nisa.core_barrier",
    19: "x[i * 128:(i + 1) * 128, :]",
    35: "nisa.dma_copy(dst=t, src=a)",
    38: ".reshape((c, 24))",
    42: "address=(0, 400000)",
    47: "nisa.nc_matmul",
    54: "nisa.register_move(i, 10)",
}
"""What the line that the message of a case points at contains."""


@by_number(*ERRORS)
def test_error(case: Case) -> None:
    kernel = case.module.kernel[case.expected["lnc"]]
    assert (case.expected["expect"], case.expected["when"]) == ("error", "trace")
    error = refusal(lambda: nki.simulate(kernel)(*case.inputs()))
    assert error.code == (case.expected["code"] or OUR_CODES[case.number])
    assert_says(str(error), case.expected["match"])
    choices = case.expected.get("match_any")
    assert choices is None or any(all(word in str(error) for word in words) for words in choices), str(error)
    if WRONG_LINE[case.number]:
        assert_points_into(case, error.diagnostics[0], containing=WRONG_LINE[case.number])
    assert refusal(lambda: opennki.trace(kernel, *case.inputs())).code == error.code


def compiled(function: Callable[..., Any], *flags: str) -> Any:
    """Return a function compiled by PyTorch for the degree that the flags of a graph give."""
    torch: Any = pytest.importorskip("torch")
    torch.compiler.reset()
    options = {name.removeprefix("--"): value for name, _, value in (flag.partition("=") for flag in flags)}
    return torch.compile(function, backend="opennki", fullgraph=True, options=options)


@by_number(1)
def test_case_01_an_unbracketed_kernel_in_a_graph_of_two(case: Case) -> None:
    torch: Any = pytest.importorskip("torch")
    (x,) = map(torch.from_numpy, case.inputs())
    graph = compiled(lambda x: case.module.add_one(x), *case.scenario["graph_flags"])
    error = refusal(lambda: graph(x))
    assert error.code == case.expected["code"] == "NCC_EVRF066"
    assert_says(str(error), [*case.expected["match"], "add_one[2](…)", "NEURON_LOGICAL_NC_CONFIG=2", "LNC=1"])
    control = compiled(lambda x: case.module.add_one(x), *case.scenario["control_flags"])
    assert_same(control(x).numpy(), case.module.reference(*case.inputs()))
    assert_same(compiled(lambda x: case.module.add_one[2](x), "--lnc=2")(x).numpy(), x.numpy() + 1)


@by_number(70)
def test_case_70_two_kernels_of_one_name_and_one_at_two_shapes(case: Case) -> None:
    torch: Any = pytest.importorskip("torch")
    (x,) = map(torch.from_numpy, case.inputs())
    add, multiply = case.module.f_add, case.module.f_mul
    y, z = compiled(lambda x: (add(x) + multiply(x), add(x[:16])), "--lnc=1")(x)
    assert_same(y.numpy(), (x.numpy() + 2) + (x.numpy() * 2))
    assert_same(z.numpy(), case.module.reference(x.numpy()[:16]))


@by_number(2)
def test_case_02_flags_override_the_environment(case: Case) -> None:
    error = refusal(lambda: case.module.row_half(*case.inputs()))
    assert error.code == case.expected["code"] == "NCC_ENKI003"
    assert_says(str(error), case.expected["match"])
    assert error.diagnostics[0].related == ("NCC_EVRF066",)


@by_number(2)
def test_case_02_agrees_without_the_flag(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEURON_CC_FLAGS")
    assert_same(case.module.row_half(*case.inputs()), case.module.reference(*case.inputs()))


@by_number(3)
def test_case_03_a_direct_call_at_2_on_trn1(case: Case) -> None:
    assert refusal(lambda: case.module.scale2[2](*case.inputs())).code == "NCC_EARG001"


@by_number(3)
def test_case_03_graph_flag_on_trn1_comes_before_the_trace(case: Case) -> None:
    traced = []
    kernel = nki.jit(lambda x: traced.append(x))
    assert refusal(lambda: kernel(*case.inputs())).code == "NCC_EARG001"
    assert traced == []


@by_number(3)
def test_case_03_eight_cores_exist_nowhere(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    (also,) = case.scenario["also"]
    monkeypatch.delenv("NEURON_CC_FLAGS")
    for target in (also["target"], "trn3", "trn1"):
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
        error = refusal(lambda: nki.simulate(case.module.scale2[8])(*case.inputs()))
        assert error.code == "NCC_EARG001"
        assert_says(str(error), [target, "8"])


@by_number(7)
def test_case_07_a_launch_without_brackets_in_a_graph_of_two(case: Case) -> None:
    error = refusal(lambda: case.module.grow(*case.inputs()))
    assert error.code == case.scenario["mismatch"]["code"]
    assert_same(case.module.grow[2](*case.inputs()), case.module.reference(*case.inputs()))


@by_number(9)
def test_case_09_the_environment_sets_the_degree_of_both(case: Case) -> None:
    expected = case.module.reference(*case.inputs())
    assert_same(case.module.probe(*case.inputs()), expected)
    assert_same(case.module.probe[2](*case.inputs()), expected)
    (wrong,) = case.scenario["errors"]
    assert_says(str(refusal(lambda: case.module.probe[1](*case.inputs()))), wrong["match"])


@by_number(14)
def test_case_14_fused_legal_kernels_bring_no_barrier(case: Case) -> None:
    first = load(1)
    (x,) = first.inputs()
    artifact = opennki.trace(first.module.add_one, x)
    executable = opennki.compile([artifact, artifact])
    assert_same(executable.calls[1](executable.calls[0](x)), x + 2)
    (program,) = artifact.programs
    run = [program.opcodes[item.opcode] for item in program.body if isinstance(item, Instruction)]
    assert run == ["dma_copy", "tensor_scalar", "dma_copy"]


@by_number(17)
def test_case_17_half_of_the_output_is_missing_on_one_core(case: Case) -> None:
    report = opennki.check(case.module.kernel, *case.inputs(), lnc=case.expected["lnc"])
    assert not report.ok
    (finding,) = (finding for finding in report.findings if finding.severity is Severity.error)
    assert finding.code == OUR_CODES[17]
    assert_points_into(case, finding, containing='name="out"')
    assert_says(str(report), [*case.expected["match"], "64..127", "num_programs"])


@by_number(17)
def test_case_17_two_cores_write_all_of_it(case: Case) -> None:
    kernel = case.module.fixed_shard[2]
    assert opennki.check(kernel, *case.inputs()).ok
    assert_same(nki.simulate(kernel)(*case.inputs()), case.module.reference(*case.inputs()))


@by_number(27)
def test_case_27_says_that_the_hardware_has_no_remainder(case: Case) -> None:
    with pytest.warns(OpenNkiWarning, match="ONKI407"):
        findings = opennki.trace(case.module.kernel, *case.inputs()).findings
    assert [(finding.code, finding.severity) for finding in findings] == [("ONKI407", Severity.warning)]
    assert_says(findings[0].message, case.expected["match"])
    assert_points_into(case, findings[0], containing="nl.mod(")


@by_number(31)
def test_case_31_without_skipping_names_partition_index_and_rows(case: Case, tmp_path: Path) -> None:
    strict = tmp_path / case.path.name
    text = case.path.read_text(encoding="utf-8").replace("oob_mode.skip", "oob_mode.error")
    strict.write_text(text, encoding="utf-8")
    module = run_file(strict, "case_31_strict")
    error = refusal(lambda: nki.simulate(module.kernel)(*case.inputs()))
    assert error.code == "ONKI704"
    assert_says(str(error), ["2147483647", "10", "partition 1"])


@by_number(35)
def test_case_35_two_inputs_two_outputs(case: Case) -> None:
    a = np.arange(128 * 512, dtype=np.float32).reshape(128, 512)
    b = a[::-1].copy()
    assert_same(nki.simulate(case.module.two_in_two_out)(a, b), (a + b, a - b))


@by_number(35)
def test_case_35_names_both_tensors(case: Case) -> None:
    error = refusal(lambda: nki.simulate(case.module.narrow_dst)(*case.inputs()))
    assert_says(str(error), ["`t`", "`a`", "128, 512", "128, 256"])


@by_number(42)
def test_case_42_the_limit_is_named(case: Case) -> None:
    error = refusal(lambda: nki.simulate(case.module.beyond)(*case.inputs()))
    assert_says(str(error), ["4000", "229376", "trn2"])  # 224 KiB in a partition of trn2's SBUF


@by_number(47)
@pytest.mark.parametrize(("target", "expect"), [("trn1", "error"), ("inf2", "error"), ("trn3", "value")])
def test_case_47_depends_on_the_target(
    case: Case, target: str, expect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {entry["target"]: entry["expect"] for entry in case.scenario["also"]}.get(
        target, "error"
    ) == expect
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    if expect == "error":
        error = refusal(lambda: nki.simulate(case.module.kernel)(*case.inputs()))
        assert error.code == OUR_CODES[47]
        assert_says(str(error), [*case.expected["match"], target])
    else:
        sums = np.full((16, 24), 32, ml_dtypes.bfloat16)  # 32 products of ones: exact in bfloat16
        assert_same(nki.simulate(case.module.kernel)(*case.inputs()), sums)


@by_number(50)
def test_case_50_says_that_the_documents_disagree(case: Case) -> None:
    with pytest.warns(OpenNkiWarning, match=r"(?s)ONKI403.*offset"):
        nki.simulate(case.module.kernel)(*case.inputs())
    with pytest.warns(OpenNkiWarning, match="ONKI403"):
        findings = opennki.trace(case.module.kernel, *case.inputs()).findings
    assert [(finding.code, finding.severity) for finding in findings] == [("ONKI403", Severity.warning)]
    assert_points_into(case, findings[0], containing=".ap(pattern=")

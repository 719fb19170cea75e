"""The command line: tracing, compiling, checking; exit statuses."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import opennki
from tests.unit.command_line import KERNELS, Run, trace_two
from tests.unit.kernels import ramp

HAS_TORCH = find_spec("torch") is not None

HEADLINE = (
    "error[NCC_ENKI003]: NKI kernel fold was traced for 2 NeuronCores but the graph is compiled for LNC=1; "
    "baking only core 0's function would silently produce a partial output."
)

# trace and compile


def test_trace_writes_an_artifact(run: Run) -> None:
    arguments = ("--arg", "a=float32[512,64]", "--lnc", "2", "--target", "trn2")
    assert run("trace", "k.py:fold", *arguments) == (0, "wrote fold.nka: fold, LNC=2, trn2\n", "")
    artifact = opennki.load("fold.nka")
    assert isinstance(artifact, opennki.KernelArtifact)
    assert (artifact.kernel, artifact.lnc, artifact.target) == ("fold", 2, "trn2")


def test_a_refused_compilation_leaves_no_file(run: Run) -> None:
    trace_two(run)
    status, out, err = run("compile", "two.nka", "--lnc", "1", "--target", "trn2", "-o", "f.nkx")
    assert (status, out) == (1, "")
    assert err.splitlines()[0] == HEADLINE
    assert "what would be lost: core 1 alone writes rows 256..511 of `out`, 50 % of it" in err
    assert not Path("f.nkx").exists()


def test_a_refused_compilation_keeps_an_older_file(run: Run) -> None:
    trace_two(run)
    Path("f.nkx").write_bytes(b"older")
    assert run("compile", "two.nka", "--lnc", "1", "-o", "f.nkx")[0] == 1
    assert Path("f.nkx").read_bytes() == b"older"


def test_compile_writes_an_executable(run: Run) -> None:
    trace_two(run)
    assert run("compile", "two.nka", "--lnc", "2") == (0, "wrote two.nkx: fold, LNC=2, trn2\n", "")
    loaded = opennki.load("two.nkx")
    assert isinstance(loaded, opennki.Executable)


@pytest.mark.parametrize(
    "flags",
    [
        ["--lnc", "2"],
        ["-lnc", "2"],
        ["-lnc=2"],
        ["--lnc=2"],
        ["--logical-nc-config=2"],
        ["--logical-nc-config", "2"],
        ["--lnc", "1", "--logical-nc-config", "2"],
        ["--logical-nc-config=1", "-lnc=1", "--lnc=2"],
    ],
    ids=" ".join,
)
def test_every_spelling_of_the_degree_and_the_right_most_wins(run: Run, flags: list[str]) -> None:
    trace_two(run)
    assert run("compile", "two.nka", *flags)[0] == 0


def test_the_origin_of_the_degree_is_named_as_typed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    trace_two(run)
    assert "the graph's LNC=1 comes from the option `--lnc 1`" in run("compile", "two.nka", "--lnc", "1")[2]
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=1")
    assert "the flag `--lnc=1` in NEURON_CC_FLAGS" in run("compile", "two.nka")[2]


def test_compile_traces_a_kernel_first(run: Run) -> None:
    arguments = ("--arg", "a=float32[128,8]", "--lnc", "1", "--target", "trn2")
    assert run("compile", "k.py:fold", *arguments) == (0, "wrote fold.nkx: fold, LNC=1, trn2\n", "")


def test_a_warning_of_baking_goes_to_standard_error(run: Run) -> None:
    status, out, err = run(
        "compile", "k.py:half", "--arg", "a=float32[128,8]", "--lnc", "1", "--target", "trn2"
    )
    assert (status, out) == (0, "wrote half.nkx: half, LNC=1, trn2\n")
    assert err.startswith("warning[ONKI401]: `out` has 64 of 128 rows never written: rows 64..127")


def test_values_reach_the_kernel(run: Run) -> None:
    arguments = ("--arg", "a=float32[4,4]", "--arg", "scale=3", "--arg", "name='result'")
    assert run("compile", "k.py:half", *arguments, "--lnc", "1", "--target", "trn2", "-o", "h.nkx")[0] == 0
    x = ramp(4, 4)
    np.save("x.npy", x)
    assert run("exec", "h.nkx", "--input", "x.npy")[0] == 0
    np.testing.assert_array_equal(np.load("result.npy")[:2], x[:2] * 3)


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (
            ["trace", "k.py:fold", "--arg", "a=float32[512,64]", "--lnc", "2", "--target", "trn1"],
            1,
            "NCC_EARG001",
        ),
        (["trace", "k.py:fold", "--arg", "a=float32[512,64]", "--lnc", "0"], 2, "ONKI001"),
        (["trace", "k.py:fold", "--arg", "a=float32[512,64]", "--target", "trn9"], 2, "ONKI002"),
        (["trace", "k.py:fold", "--arg", "a=float64[512,64]"], 2, "ONKI003"),
        (["trace", "k.py:fold", "--arg", "a=some text"], 2, "ONKI003"),
        (["trace", "k.py:other", "--arg", "a=float32[512,64]"], 2, "ONKI004"),
        (["trace", "k.py", "--arg", "a=float32[512,64]"], 2, "ONKI004"),
        (["trace", "missing.py:fold"], 2, "ONKI005"),
        (["trace", "k.py:fold", "--arg", "b=float32[512,64]"], 2, "ONKI006"),
        (["trace", "k.py:fold", "--arg", "a=1", "--arg", "a=2"], 2, "ONKI006"),
        (["trace", "k.py:half", "--arg", "a=float32[3,4]"], 1, "ONKI110"),
        (["trace", "k.py:fold", "--arg", "a=float32[128,4]", "-o", "no/such/folder.nka"], 1, "ONKI504"),
        (["compile", "k.py"], 2, "ONKI004"),
        (["compile", "k.pt2"], *((2, "ONKI005") if HAS_TORCH else (1, "ONKI604"))),
        (["compile", "k.nkx"], 1, "ONKI602"),
        (["compile", "k.nka"], 2, "ONKI005"),
        (["exec", "k.nkx"], 2, "ONKI005"),
        (["exec", "k.py"], 1, "ONKI501"),
        (["inspect", "k.py"], 1, "ONKI501"),
        (["explain", "NCC_EXYZ999"], 2, "ONKI007"),
        (["isa", "dma_cop"], 2, "ONKI006"),
        (["isa", "iota"], 1, "ONKI102"),
        (["run", "missing.py"], 2, "ONKI005"),
        (["compile"], 2, "ONKI006"),
        (["compile", "two.nka", "--degree", "2"], 2, "ONKI006"),
        (["translate"], 2, "ONKI006"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_refusals(run: Run, arguments: list[str], status: int, code: str) -> None:
    found, out, err = run(*arguments)
    assert (found, out) == (status, "")
    assert err.startswith(f"error[{code}]: ")
    assert "Traceback" not in err


def test_the_one_kernel_of_a_file_needs_no_name(run: Run) -> None:
    Path("single.py").write_text(KERNELS.split("@nki.jit\ndef half")[0])
    arguments = ("--arg", "float32[512,64]", "--target", "trn2")
    assert run("trace", "single.py", *arguments) == (0, "wrote fold.nka: fold, LNC=1, trn2\n", "")


def test_several_kernels_are_listed(run: Run) -> None:
    assert "name one of its kernels: `k.py:fold`, `k.py:half`" in run("trace", "k.py")[2]


def test_a_kernel_file_that_raises_names_its_line(run: Run) -> None:
    Path("bad.py").write_text("import nki\n\nx = 1 / 0\n")
    status, _, err = run("trace", "bad.py:k")
    assert status == 2
    assert err.splitlines()[:3] == [
        "error[ONKI009]: `bad.py` raised ZeroDivisionError: division by zero",
        "  bad.py:3:5",
        "      x = 1 / 0",
    ]


def test_a_kernel_file_that_is_no_python_names_its_line(run: Run) -> None:
    Path("bad.py").write_text("import nki\ndef k(:\n    pass\n")
    status, _, err = run("trace", "bad.py:k")
    assert status == 2
    assert err.startswith("error[ONKI009]: `bad.py` raised SyntaxError: ")
    assert "  bad.py:2:" in err


def test_a_kernel_in_a_package(run: Run) -> None:
    folder = Path("pack") / "inner"
    folder.mkdir(parents=True)
    for package in (Path("pack"), folder):
        (package / "__init__.py").write_text("")
    (folder / "sizes.py").write_text("FACTOR = 2\n")
    (folder / "kernels.py").write_text(KERNELS + "\nfrom .sizes import FACTOR\n")
    run("trace", "pack/inner/kernels.py:fold", "--arg", "a=float32[128,8]", "--target", "trn2", "-o", "p.nka")
    artifact = opennki.load("p.nka")
    assert isinstance(artifact, opennki.KernelArtifact)
    assert artifact.location.file == "pack/inner/kernels.py"


# check


def test_check_finds_never_written_elements(run: Run) -> None:
    status, out, err = run("check", "k.py:half", "--arg", "a=float32[128,8]", "--target", "trn2")
    assert (status, out) == (1, "")
    assert err.startswith("error[ONKI401]: `out` has 64 of 128 rows never written: rows 64..127")


def test_check_of_a_clean_kernel(run: Run) -> None:
    arguments = ("--arg", "a=float32[512,8]", "--lnc", "2", "--target", "trn2")
    assert run("check", "k.py:fold", *arguments) == (0, "no findings\n", "")


def test_check_of_wrong_use_has_status_2(run: Run) -> None:
    assert run("check", "k.py:fold", "--arg", "a=float32[512,8]", "--target", "trn9")[0] == 2


def test_check_of_an_artifact(run: Run) -> None:
    trace_two(run)
    assert run("check", "two.nka", "--lnc", "2") == (0, "no findings\n", "")
    assert run("check", "two.nka", "--lnc", "1")[2].startswith(HEADLINE)


# The rest


def test_no_command_is_help(run: Run) -> None:
    status, out, err = run()
    assert (status, out) == (2, "")
    assert err.startswith("Usage: opennki ")


def test_help_is_not_wrapped(run: Run) -> None:
    status, out, _ = run("trace", "--help")
    assert status == 0
    assert "The LNC degree: physical cores per logical core. The right-most one wins.\n" in out


def test_a_bug_of_ours_is_said_without_a_traceback(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("opennki.settings.describe_settings", None)
    status, out, err = run("doctor")
    assert (status, out) == (70, "")
    assert err.splitlines()[0] == "internal error: TypeError: 'NoneType' object is not callable"
    assert "Please report it" in err
    assert "Traceback" not in err
    (report,) = tmp_path.glob("opennki-bug-*.txt")
    assert "Traceback" in report.read_text()

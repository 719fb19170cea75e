"""`opennki inspect`, `explain`, `isa`, `doctor`, and the JSON of every command."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import opennki
from opennki.diag import CATALOGUE
from opennki.isa.table import TABLE
from tests.unit.command_line import Run, executable, trace_two
from tests.unit.kernels import ramp


def test_inspect(run: Run) -> None:
    trace_two(run)
    status, out, _ = run("inspect", "two.nka")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "two.nka: artifact, LNC=2, trn2"
    assert "kernel  fold, k.py:8" in lines
    assert "input   a: float32[512,64]" in lines
    assert "output  out: float32[512,64]" in lines
    assert "core 1  6 instructions: dma_copy 4, tensor_scalar 2" in lines
    assert lines.count("        by engine: dma 4, vector 2") == 2


def test_inspect_prints_the_programs(run: Run) -> None:
    trace_two(run)
    _, out, _ = run("inspect", "two.nka", "--ir")
    assert "\nkernel fold\n" in out
    assert out.count("dma_copy") >= 8


def test_inspect_does_not_mind_the_runtimes_degree(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(run)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    status, out, _ = run("inspect", "f.nkx")
    assert status == 0
    assert out.startswith("f.nkx: executable, LNC=2, trn2\n")


def test_explain(run: Run) -> None:
    status, out, _ = run("explain", "NCC_ENKI003")
    assert status == 0
    assert out.startswith("# NCC_ENKI003: traced for more cores than the graph has\n")
    listed = run("explain")[1].splitlines()
    assert [line.split()[0] for line in listed] == sorted(CATALOGUE)


@pytest.mark.parametrize("name", [row.name for row in TABLE if row.public])
def test_isa_shows_every_instruction(run: Run, name: str) -> None:
    status, out, _ = run("isa", name)
    assert status == 0
    assert out.startswith(f"{name}(")
    assert "\nengines  " in out
    assert "\ncost     " in out
    assert " on trn3 for " in out
    assert "<" not in out.splitlines()[0]
    assert run("isa", f"nki.isa.{name}")[1] == out


def test_isa_lists_every_instruction(run: Run) -> None:
    _, out, _ = run("isa")
    listed, _, later = out.partition("\n\n")
    assert [line.split()[0] for line in listed.splitlines()] == [row.name for row in TABLE if row.public]
    assert later.startswith("documented, not yet in OpenNKI: ")


def test_doctor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    status, out, err = run("doctor")
    assert (status, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["opennki", opennki.__version__] in lines
    assert ["numpy", np.__version__] in lines
    assert next(line for line in lines if line[:1] == ["target"])[:3] == [
        "target",
        "trn1",
        "NEURON_PLATFORM_TARGET_OVERRIDE=trn1",
    ]


def test_doctor_finds_a_variable_that_cannot_be_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "two")
    status, out, _ = run("doctor")
    assert status == 1
    assert "must be a positive integer, got `two`" in out


# JSON


def as_json(result: tuple[int, str, str]) -> dict[str, Any]:
    status, out, err = result
    assert err == ""
    found = json.loads(out)
    assert list(found)[:2] == ["schema", "findings"]
    assert found["schema"] == 1
    return {"status": status, **found}


def test_json_of_a_refusal(run: Run) -> None:
    trace_two(run)
    found = as_json(run("compile", "two.nka", "--lnc", "1", "--json"))
    assert found["status"] == 1
    (finding,) = found["findings"]
    assert finding["code"] == "NCC_ENKI003"
    assert finding["related"] == ["NCC_EVRF066"]
    assert finding["data"]["graph_origin"] == "the option `--lnc 1`"
    assert finding["location"]["file"] == "k.py"


def test_json_of_results(run: Run) -> None:
    traced = as_json(
        run("trace", "k.py:fold", "--arg", "a=float32[512,64]", "--lnc", "2", "--target", "trn2", "--json")
    )
    assert (traced["artifact"], traced["lnc"], traced["target"]) == ("fold.nka", 2, "trn2")
    compiled = as_json(run("compile", "fold.nka", "--json"))
    assert (compiled["executable"], compiled["calls"]) == ("fold.nkx", ["fold"])
    np.save("x.npy", ramp(512, 64))
    done = as_json(run("exec", "fold.nkx", "--input", "x.npy", "--json"))
    assert done["runtime"] == {"lnc": 2, "origin": "the executable, which was compiled for it"}
    assert done["outputs"] == [{"file": "out.npy", "dtype": "float32", "shape": [512, 64]}]
    shown = as_json(run("inspect", "fold.nkx", "--json"))
    assert shown["kernels"][0]["cores"][1]["rows"] == {"dma_copy": 4, "tensor_scalar": 2}
    checked = as_json(run("check", "k.py:half", "--arg", "a=float32[128,8]", "--target", "trn2", "--json"))
    assert (checked["status"], checked["ok"]) == (1, False)
    assert [finding["code"] for finding in checked["findings"]] == ["ONKI401"]


def test_json_of_warnings(run: Run) -> None:
    found = as_json(
        run("compile", "k.py:half", "--arg", "a=float32[128,8]", "--lnc", "1", "--target", "trn2", "--json")
    )
    assert found["status"] == 0
    assert [(one["code"], one["severity"]) for one in found["findings"]] == [("ONKI401", "warning")]


def test_json_of_reference(run: Run) -> None:
    assert as_json(run("explain", "ONKI001", "--json"))["page"].startswith("# ONKI001: ")
    assert {code["code"] for code in as_json(run("explain", "--json"))["codes"]} == set(CATALOGUE)
    assert as_json(run("isa", "dma_copy", "--json"))["instruction"]["engines"] == ["dma"]
    assert len(as_json(run("isa", "--json"))["instructions"]) == len([row for row in TABLE if row.public])
    rows = {row["name"]: row for row in as_json(run("doctor", "--json"))["settings"]}
    assert rows["graph's degree"]["value"] == "2"


def test_json_of_wrong_use(run: Run) -> None:
    found = as_json(run("compile", "--json"))
    assert found["status"] == 2
    assert [one["code"] for one in found["findings"]] == ["ONKI006"]

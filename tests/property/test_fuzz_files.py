"""A short run of `python -m tools.fuzz_files`, and that it would find something."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from opennki.diag import fail
from tools import fuzz_files
from tools.fuzz_seeds import sound_files

ROOT = Path(__file__).parents[2]


def test_damaged_files_end_in_a_value_or_a_catalogued_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz_files", "--cases", "800", "--jobs", "1", "--seed", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    ends = summary["ends"]
    assert sum(ends.values()) == 800
    assert summary["finds"] == []
    assert summary["peak_bytes"] < fuzz_files.MAX_MEMORY
    kinds = {end.split()[0] for end in ends}
    assert kinds == {damage.__name__ for _, damage in fuzz_files.DAMAGES}
    assert {end.split()[1] for end in ends} >= {"loaded", "ONKI501", "ONKI502", "ONKI503"}


def test_what_must_not_be_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter(["loaded", "wrong", "late", "other"])

    def reads(path: Path) -> str:
        end = next(ends)
        if end == "wrong":
            raise KeyError("bug")
        if end == "late":
            (path.parents[1] / "outside").write_text("x")
        return "ONKI504" if end == "other" else "loaded"

    monkeypatch.setattr(fuzz_files, "read_case", reads)
    found, finds, _ = fuzz_files.run_cases({"a.nka": sound_files()["loops.nka"]}, 1, range(4))
    assert found["find"] == 3
    assert [(number, what) for number, _, what in finds] == [
        (1, "KeyError: 'bug'"),
        (2, "wrote ['outside']"),
        (3, "wrote ['outside']"),
    ]


def test_a_case_can_be_run_again(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert fuzz_files.main(["--seed", "2", "--only", "5"]) == 0
    first = capsys.readouterr().out
    assert fuzz_files.main(["--seed", "2", "--only", "5"]) == 0
    assert capsys.readouterr().out == first
    assert first.startswith("case 5: ")

    def fails(path: Path) -> str:
        fail("ONKI506", kernel="k", reason="r")

    monkeypatch.setattr(fuzz_files, "load_unchecked", fails)
    assert fuzz_files.main(["--seed", "2", "--only", "5"]) == 0, "a catalogued error of another code is shown"
    assert "ONKI506" in capsys.readouterr().out

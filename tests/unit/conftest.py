"""The command line as a fixture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.unit.command_line import KERNELS, Run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in an empty folder with the kernels; gives status, standard output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "k.py").write_text(KERNELS)

    from opennki.cli import main

    def call(*arguments: str) -> tuple[int, str, str]:
        sys.modules.pop("k", None)
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call

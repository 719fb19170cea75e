"""The programs of docs/pytorch.md, one after another."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import opennki

torch: Any = pytest.importorskip("torch")
PAGE = Path(__file__).parents[2] / "docs" / "pytorch.md"


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opennki.install()
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    names: dict[str, Any] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        assert "assert" in block
        script = tmp_path / f"block_{number}.py"
        script.write_text(block, encoding="utf-8")
        exec(compile(block, str(script), "exec"), names)
    assert (tmp_path / "model.nkx").is_file()

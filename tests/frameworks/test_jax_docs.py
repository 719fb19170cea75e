"""The programs of docs/jax.md run as they stand."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import opennki

PAGE = (Path(__file__).parents[2] / "docs" / "jax.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (.+)\n(?:(?!^## )[\s\S])*?^```python\n([\s\S]*?)^```$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize(("title", "program"), SECTIONS, ids=[title for title, _ in SECTIONS])
def test_program(title: str, program: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    opennki.install()
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    assert "assert " in program
    runpy.run_path(str(path), run_name="__main__")


def test_the_page_has_its_programs() -> None:
    assert len(SECTIONS) == 3
    assert all(f"ONKI{number}" in PAGE for number in range(620, 627))

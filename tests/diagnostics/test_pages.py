"""Every page's failing program gives exactly its code, its message as golden text; the fixed program runs."""

from __future__ import annotations

import os
import re
import runpy
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

import opennki
from opennki.diag import CATALOGUE, Diagnostic, OpenNkiError, OpenNkiWarning, Severity
from opennki.diag.explain import page_path
from opennki.diag.render import render_text
from tests.golden_file import Golden

HEADINGS = ("What it means", "Why", "Failing program", "Fixed program", "See also")

PAGES = [pytest.param(path.stem, id=path.stem) for path in sorted(page_path("X").parent.glob("*.md"))]


class Page(NamedTuple):
    """A page taken apart: its title line and the text under each heading."""

    title: str
    sections: dict[str, str]

    def program(self, heading: str) -> str:
        """Return the one Python block under `heading`."""
        (block,) = re.findall(
            r"^```python\n(.*?)^```$", self.sections[heading], flags=re.DOTALL | re.MULTILINE
        )
        return str(block)


def read(code: str) -> Page:
    title, *parts = re.split(r"^## (.+)$", page_path(code).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return Page(title.strip(), dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True)))


def run(program: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run `program` as a script of its own in an empty folder and return its names."""
    for package in ("torch", "jax"):
        needs = rf"^(?:import|from) {package}\b" + (r"|\.pt2\b" if package == "torch" else "")
        if re.search(needs, program, flags=re.MULTILINE):
            pytest.importorskip(package)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("opennki.execute.limits.memory_limit", lambda: 12 << 30)  # of any machine
    monkeypatch.setenv("OPENNKI_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    opennki.install()
    path = folder / name
    path.write_text(program, encoding="utf-8")
    with patch.dict(os.environ):
        return runpy.run_path(str(path), run_name="__main__")


def found(names: dict[str, Any]) -> tuple[Diagnostic, ...]:
    """Return the findings that a program has put into `findings`."""
    findings: Iterable[Diagnostic] = names.get("findings", ())
    return tuple(findings)


@pytest.mark.parametrize("code", PAGES)
def test_form(code: str) -> None:
    page = read(code)
    assert page.title == f"# {code}: {CATALOGUE[code].title}"
    assert tuple(page.sections) == HEADINGS
    assert all(page.sections.values())
    prose = " ".join(page.sections[heading] for heading in HEADINGS if "program" not in heading)
    named = set(re.findall(r"\b(?:ONKI\d{3}|NCC_E[A-Z]{3}\d{3})\b", prose))
    assert named <= set(CATALOGUE), "every code that a page names has a page"
    for heading in ("Failing program", "Fixed program"):
        program = page.program(heading)
        compile(program, heading, "exec")
        assert max(map(len, program.splitlines())) <= 110


@pytest.mark.parametrize("code", PAGES)
def test_failing_program(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    program = read(code).program("Failing program")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpenNkiWarning)
        try:
            diagnostics = found(run(program, "failing.py", tmp_path, monkeypatch))
        except OpenNkiError as error:
            diagnostics = error.diagnostics
    severity = CATALOGUE[code].severity
    assert {d.code for d in diagnostics if d.severity is severity} == {code}
    assert [
        d.code for d in diagnostics if d.severity is Severity.error and severity is not Severity.error
    ] == []
    golden(re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", render_text(diagnostics)))  # one of a program's own bytes


@pytest.mark.parametrize("code", PAGES)
def test_fixed_program(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = read(code).program("Fixed program")
    assert re.search(r"^\s*assert ", program, flags=re.MULTILINE), "a fixed program asserts what it gives"
    with warnings.catch_warnings():
        warnings.simplefilter("error", OpenNkiWarning)
        names = run(program, "fixed.py", tmp_path, monkeypatch)
    assert found(names) == ()

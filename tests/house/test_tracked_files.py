"""What must not stand in a file of the project, and what every project file must have."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.house.sources import ROOT

# A character class of one letter keeps each pattern from finding itself.
MACHINE_PATH = re.compile(r"(?:^|[^\w.])/(?:w[o]rk|f[a]rm|r[o]ot|t[m]p)/[\w.-]+")
REGISTRY_HOST = re.compile(r"pypi[.]org|pythonh[o]sted|npm[j]s|deb[.]debian")
WORKPLACE = re.compile(r"sub[a]gent|helper s[e]ssion|f[a]rm-(?:bench|studio)|before-st[o]p", re.IGNORECASE)

DECISION_HEADINGS = ("Context", "Options", "Numbers", "Choice")
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


def _tracked() -> list[Path]:
    """Return the project's files: what git tracks or would add; without git, what is not hidden or built."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        names = listing.stdout.decode().split("\0")
        return [ROOT / name for name in names if name and (ROOT / name).is_file()]
    folders = ("src", "tests", "docs", "examples", "benchmarks", "tools", ".ci")
    return [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]


def _lines_with(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in _tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a picture, an artifact
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    return found


def test_patterns_find_what_they_are_for() -> None:
    slash, dot = "/", "."
    assert MACHINE_PATH.search(f"see {slash}tmp{slash}x.npy")
    assert not MACHINE_PATH.search("a/tmp/x and https://x.org/work/y")
    assert REGISTRY_HOST.search(f"https://pypi{dot}org/simple")
    assert not REGISTRY_HOST.search("installed from PyPI")
    assert WORKPLACE.search(f"a Sub{'agent'} wrote this")


@pytest.mark.parametrize(
    "pattern", [MACHINE_PATH, REGISTRY_HOST, WORKPLACE], ids=["path", "registry", "workplace"]
)
def test_no_word_of_one_machine_or_workplace(pattern: re.Pattern[str]) -> None:
    assert _lines_with(pattern) == []


def test_no_large_file_is_tracked() -> None:
    large = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in _tracked()}
    assert {name: size for name, size in large.items() if size > 1 << 20} == {}


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_decisions_have_their_headings(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.M)
    assert tuple(h for h in headings if h in DECISION_HEADINGS) == DECISION_HEADINGS
    assert len(text.splitlines()) <= 80, "a decision is one page"


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(path.stem[:3]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_decisions_that_the_text_refers_to_exist() -> None:
    named = {
        name
        for path in _tracked()
        if path.suffix in {".md", ".py", ".toml"}
        for name in re.findall(r"docs/decisions/(\d{3}[\w-]*)\.md", path.read_text(encoding="utf-8"))
    }
    assert named <= {path.stem for path in DECISIONS}

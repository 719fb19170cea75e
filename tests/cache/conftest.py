"""What the tests of the cache share: an empty cache, projects on disk, and a count of traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import opennki
from opennki.cache import CACHE, Bound
from opennki.cache.store import Store
from tests.cache.project import Project


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    """The store of an empty cache folder, which is the one in force; the process's memory is empty too."""
    opennki.install()
    monkeypatch.setenv("OPENNKI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    CACHE.forget()
    yield Store(tmp_path / "cache", 1 << 30)
    CACHE.forget()


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were traced, one item a trace."""
    done: list[str] = []
    trace = Bound.trace

    def counted(bound: Bound) -> object:
        done.append(bound.kernel.name)
        return trace(bound)

    monkeypatch.setattr(Bound, "trace", counted)
    return done


MakeProject = Callable[[Mapping[str, str]], Project]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[MakeProject]:
    """A function that writes a project into a folder of its own."""
    made: list[Project] = []

    def make(files: Mapping[str, str]) -> Project:
        made.append(Project(tmp_path / f"project{len(made)}", files))
        return made[-1]

    yield make
    for one in made:
        one.forget()

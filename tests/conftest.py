"""What every test gets: a clean environment, golden files, seeded numbers, a Hypothesis profile."""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator, Iterator

import hypothesis
import numpy as np
import pytest

from tests.golden_file import Golden, golden_path

OURS = ("NEURON_", "NKI_", "OPENNKI_")
"""The variables with these prefixes are settings of OpenNKI or of the stack that it stands in for."""

PASSED = pytest.StashKey[bool]()

hypothesis.settings.register_profile("local", print_blob=True, deadline=None, max_examples=50)
hypothesis.settings.register_profile(
    "ci", hypothesis.settings.get_profile("local"), derandomize=True, database=None
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("opennki")
    group.addoption("--update-golden", action="store_true", help="write the golden files anew")
    group.addoption("--seed", type=int, default=0, help="seed of the `rng` fixture (default: 0)")


def pytest_configure(config: pytest.Config) -> None:
    # A profile named on the command line (--hypothesis-profile) wins: its plugin loads it before this.
    if config.getoption("--hypothesis-profile", default=None) is None:
        hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed of `rng`: {config.getoption('--seed')} (--seed)"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Settings come from the test alone, never from the shell that runs it; the cache is its own."""
    for name in [name for name in os.environ if name.startswith(OURS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember for `golden` whether the test itself passed."""
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Iterator[Golden]:
    """The golden file of this test: call it with the text, or call its `contains_in_order`."""
    update = bool(request.config.getoption("--update-golden"))
    file = Golden(golden_path(request.path, request.node.name), update=update)
    yield file
    if request.node.stash.get(PASSED, False):
        assert file.was_used, "the test asks for `golden` and does not call it"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers of this test's own: they depend on its name and on --seed, not on the other tests."""
    seed = [request.config.getoption("--seed"), zlib.crc32(request.node.name.encode())]
    print(f"rng seed: {seed}")  # shown when the test fails
    return np.random.default_rng(seed)

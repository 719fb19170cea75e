"""The case files of the cache: a result is never that of another value, degree, target or flag."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opennki
from opennki.cache import CACHE
from opennki.cache.store import Store
from opennki.diag import OpenNkiError
from tests.cases.loading import load, numbers

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    """The store of a cache folder of this test's own, empty; this process keeps nothing either."""
    monkeypatch.setenv("OPENNKI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    CACHE.forget()
    return Store(tmp_path / "cache", 1 << 30)


def test_case_59_a_global_is_part_of_the_key(store: Store) -> None:
    case = load(59)
    (x,) = case.inputs()
    for gain in case.module.GAIN, 5.0, 2.0:
        case.module.GAIN = gain
        for _ in range(2):
            np.testing.assert_array_equal(case.module.gain(x), gain * x)
            np.testing.assert_array_equal(case.module.gain(x), case.module.reference(x))
    assert len(store.entries()) == 2


def test_case_59_in_a_new_process(store: Store) -> None:
    for gain in 2.0, 5.0:
        CACHE.forget()
        case = load(59)
        case.module.GAIN = gain
        (x,) = case.inputs()
        np.testing.assert_array_equal(case.module.gain(x), gain * x)


def test_case_62_degrees_do_not_collide(store: Store) -> None:
    case = load(62)
    (x,) = case.inputs()
    for _ in range(2):
        for degree in (1, 2, 1):
            np.testing.assert_array_equal(case.module.whoami[degree](x), np.array([[degree]], np.float32))
        CACHE.forget()
    assert len(store.entries()) == 2


def test_case_62_targets_do_not_collide(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    case = load(62)
    for _ in range(2):
        for target in ("trn2", "trn3"):
            monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
            artifact = opennki.trace(case.module.whoami[2], *case.inputs())
            assert (artifact.target, artifact.lnc) == (target, 2)
        CACHE.forget()
    assert len(store.entries()) == 2


def test_case_62_flags_in_a_new_process(tmp_path: Path) -> None:
    """The flag changes the graph's degree, never what is read from the cache."""
    script = (
        "import opennki; opennki.install()\n"
        "from tests.cases.loading import load\n"
        "case = load(62)\n"
        "print(case.module.whoami[2](*case.inputs()))\n"
    )

    def run(flags: str) -> tuple[int, str, str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "NEURON_CC_FLAGS": flags,
        }
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
        )
        return done.returncode, done.stdout.strip(), done.stderr

    assert run("--lnc=2") == (0, "[[2.]]", "")
    status, out, err = run("--lnc=1")
    assert (status, out) == (1, "")
    assert "NCC_ENKI003" in err
    assert run("--lnc=2") == (0, "[[2.]]", "")


def test_case_62_flags_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    case = load(62)
    (x,) = case.inputs()
    np.testing.assert_array_equal(case.module.whoami[2](x), np.array([[2]], np.float32))
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=1")
    with pytest.raises(OpenNkiError) as caught:
        case.module.whoami[2](x)
    assert caught.value.code == "NCC_ENKI003"


def test_both_case_files_are_there() -> None:
    assert {59, 62} <= set(numbers())

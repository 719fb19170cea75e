"""The settings of the cache: its folder, its limit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from opennki.diag import OpenNkiUsageError
from opennki.settings import VARIABLES, cache_folder, cache_limit, launch_variables, trace_switches


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path.replace("~", "/home/a"))
    monkeypatch.setattr(sys, "platform", "linux")


def test_the_folder_that_is_named_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.setenv("OPENNKI_CACHE_DIR", "here/cache")
    assert cache_folder() == Path("here/cache")
    monkeypatch.setenv("OPENNKI_CACHE_DIR", " ")
    assert cache_folder() == Path("/x/opennki")


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("linux", "/home/a/.cache/opennki"),
        ("darwin", "/home/a/Library/Caches/opennki"),
        ("win32", "/home/a/.cache/opennki"),
    ],
)
def test_the_folder_of_the_platform(platform: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == Path(expected)


def test_the_folder_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALAPPDATA", "/users/a/local")
    assert cache_folder() == Path("/home/a/.cache/opennki")
    monkeypatch.setattr(sys, "platform", "win32")
    assert cache_folder() == Path("/users/a/local/opennki")


def test_without_a_home_there_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache_folder() is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 1 << 30),
        ("0", 0),
        ("500", 500),
        ("7B", 7),
        ("1kb", 1 << 10),
        ("512MiB", 512 << 20),
        ("3 G", 3 << 30),
        ("1TiB", 1 << 40),
    ],
)
def test_the_limit(text: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", text)
    assert cache_limit() == expected


@pytest.mark.parametrize("text", ["much", "-1", "1.5G", "GiB", "1X", "1iB", "1" * 30])
def test_a_limit_that_is_no_size(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", text)
    with pytest.raises(OpenNkiUsageError) as caught:
        cache_limit()
    (found,) = caught.value.diagnostics
    assert found.code == "ONKI008"
    assert found.message == (
        f"cannot read OPENNKI_CACHE_LIMIT=`{text}`: expected a size such as `512MiB` or `2GiB`, or `0`"
    )


def test_what_an_artifact_and_a_call_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trace_switches() == {"NKI_PRECISE_FP": "1"}
    before = launch_variables()
    for name in (
        "NKI_PRECISE_FP",
        "NEURON_CC_FLAGS",
        "NEURON_LOGICAL_NC_CONFIG",
        "NKI_SIMULATOR",
        "OPENNKI_KERNEL_LNC",
    ):
        monkeypatch.setenv(name, "0")
        assert launch_variables() != before
        before = launch_variables()
    assert trace_switches() == {"NKI_PRECISE_FP": "0"}


def test_the_variables_are_listed() -> None:
    assert {"OPENNKI_CACHE_DIR", "OPENNKI_CACHE_LIMIT"} <= set(VARIABLES)

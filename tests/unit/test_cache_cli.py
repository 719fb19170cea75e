"""`opennki cache ls`, `why` and `clear`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opennki.cache import CACHE
from opennki.cache.store import Store
from tests.unit.command_line import Run

SPEC = ("--arg", "a=float32[256,64]")


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    """The store of an empty folder that is in force."""
    monkeypatch.setenv("OPENNKI_CACHE_DIR", str(tmp_path / "cache"))
    CACHE.forget()
    return Store(tmp_path / "cache", 1 << 30)


def trace(run: Run, *more: str) -> None:
    """Trace `fold` for one core of trn2."""
    assert run("trace", "k.py:fold", *SPEC, "--target", "trn2", *more, "-o", "t.nka")[0] == 0


def why(run: Run, *arguments: str) -> list[str]:
    """Return the lines that `cache why` prints."""
    status, out, err = run("cache", "why", "k.py:fold", *arguments)
    assert (status, err) == (0, "")
    return out.splitlines()


def test_ls_of_nothing(run: Run, store: Store) -> None:
    status, out, err = run("cache", "ls")
    assert (status, out, err) == (0, f"{store.folder}: no traces, 0 B of 1.0 GiB\n", "")


def test_ls(run: Run, store: Store) -> None:
    trace(run)
    trace(run, "--lnc", "2")
    status, out, err = run("cache", "ls")
    assert (status, err) == (0, "")
    first, second, summary = out.splitlines()
    assert first.split()[:3] == ["fold", "LNC=2", "trn2"]
    assert second.split()[:3] == ["fold", "LNC=1", "trn2"]
    assert {line.split()[-1] for line in (first, second)} == {entry.digest[:12] for entry in store.entries()}
    assert summary.startswith(f"{store.folder}: 2 traces, ")


def test_ls_names_damage(run: Run, store: Store) -> None:
    trace(run)
    (entry,) = store.entries()
    entry.path.write_bytes(b"PK")
    _, out, _ = run("cache", "ls")
    assert out.splitlines()[0].split()[:3] == ["fold", "LNC=?", "damaged"]


def test_ls_as_json(run: Run, store: Store) -> None:
    trace(run)
    found: dict[str, Any] = json.loads(run("cache", "ls", "--json")[1])
    (entry,) = store.entries()
    assert found["folder"] == str(store.folder)
    assert found["bytes"] == entry.bytes
    assert found["entries"] == [
        {
            "kernel": "fold",
            "lnc": 1,
            "target": "trn2",
            "key": entry.digest,
            "file": str(entry.path),
            "bytes": entry.bytes,
            "used": entry.used,
        }
    ]


def test_clear(run: Run, store: Store) -> None:
    trace(run)
    size = store.entries()[0].bytes
    status, out, err = run("cache", "clear")
    assert (status, err) == (0, "")
    assert out.startswith(f"{store.folder}: removed 1 trace, ")
    assert store.entries() == []
    CACHE.forget()  # as in a new process
    trace(run)
    assert json.loads(run("cache", "clear", "--json")[1])["bytes"] == size


def test_a_traced_kernel_is_in_the_cache(run: Run) -> None:
    assert why(run, *SPEC, "--target", "trn2") == ["the cache has no trace of `fold`"]
    trace(run)
    CACHE.forget()
    assert why(run, *SPEC, "--target", "trn2") == ["the cache has this trace of `fold`"]


ONE = "the cache has no such trace of `fold`; 1 part of the key differs from the nearest one:"


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (
            (*SPEC, "--target", "trn2", "--lnc", "2"),
            {},
            ["degree: 1 in the cache, 2 now", "launch grid: no axis in the cache, one axis now"],
        ),
        (
            (*SPEC, "--target", "trn2"),
            {"NEURON_LOGICAL_NC_CONFIG": "2"},
            ["degree: 1 in the cache, 2 now", "launch grid: no axis in the cache, one axis now"],
        ),
        ((*SPEC, "--target", "trn3"), {}, ["target: trn2 in the cache, trn3 now"]),
        (SPEC, {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn1"}, ["target: trn2 in the cache, trn1 now"]),
        (SPEC, {"NKI_NC_VERSION": "gen4"}, ["target: trn2 in the cache, trn3 now"]),
        (
            (*SPEC, "--target", "trn2"),
            {"NKI_PRECISE_FP": "0"},
            ["NKI_PRECISE_FP: 1 in the cache, 0 now"],
        ),
        (
            ("--arg", "a=bfloat16[256,64]", "--target", "trn2"),
            {},
            ["tensor `a`: float32[256,64] in the cache, bfloat16[256,64] now"],
        ),
    ],
)
def test_why_names_each_setting(
    run: Run,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace(run)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    headline, *lines = why(run, *arguments)
    assert lines == [f"  {line}" for line in expected]
    assert headline == ONE if len(expected) == 1 else headline.startswith("the cache has no such trace")


def test_why_names_the_toolchain(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from opennki.cache import key
    from opennki.cache.digest import Part

    trace(run)
    now = key.toolchain_part().shown
    monkeypatch.setattr(key, "toolchain_part", lambda: Part("0" * 32, "opennki 9"))
    assert why(run, *SPEC, "--target", "trn2") == [ONE, f"  toolchain: {now} in the cache, opennki 9 now"]


def test_why_names_an_edit(run: Run) -> None:
    trace(run)
    path = Path("k.py")
    path.write_text(path.read_text().replace("operand0=0.5", "operand0=0.25"))
    assert why(run, *SPEC, "--target", "trn2") == [ONE, "  function `fold` of k.py has changed"]
    path.write_text("# moved\n" + path.read_text().replace("operand0=0.25", "operand0=0.5"))
    assert why(run, *SPEC, "--target", "trn2") == [
        ONE,
        "  place of function `fold` of k.py: line 7 in the cache, line 8 now",
    ]


def test_why_names_a_value_and_takes_the_nearest_entry(run: Run) -> None:
    for scale in ("1.0", "2.0"):
        assert run("trace", "k.py:half", *SPEC, "--arg", f"scale={scale}", "--target", "trn2")[0] == 0
    assert run("trace", "k.py:half", *SPEC, "--target", "trn3")[0] == 0
    status, out, _ = run("cache", "why", "k.py:half", *SPEC, "--arg", "scale=3.0", "--target", "trn2")
    assert (status, out.splitlines()[1:]) == (0, ["  argument `scale`: 2.0 in the cache, 3.0 now"])


def test_why_says_what_cannot_be_digested(run: Run) -> None:
    path = Path("k.py")
    path.write_text(
        path.read_text() + "\n\n@nki.jit\ndef clock(a):\n    import time\n    return time.time()\n"
    )
    status, out, _ = run("cache", "why", "k.py:clock", *SPEC)
    assert (status, out) == (
        0,
        "kernel `clock` is traced at each call: "
        "function `clock` of k.py uses `time`, which no key can answer for\n",
    )


def test_why_as_json(run: Run, store: Store) -> None:
    trace(run)
    (entry,) = store.entries()
    found = json.loads(run("cache", "why", "k.py:fold", *SPEC, "--target", "trn3", "--json")[1])
    assert (found["kernel"], found["hit"], found["entry"]) == ("fold", False, entry.path.name)
    assert found["differences"] == [{"part": "target", "kept": "trn2", "asked": "trn3"}]
    found = json.loads(run("cache", "why", "k.py:fold", *SPEC, "--target", "trn2", "--json")[1])
    assert (found["hit"], found["key"], found["differences"]) == (True, entry.digest, [])


def test_a_folder_that_cannot_be_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENNKI_CACHE_DIR", "k.py")
    for command in (("ls",), ("clear",), ("why", "k.py:fold", *SPEC)):
        status, out, err = run("cache", *command)
        assert (status, out) == (2, "")
        assert err.startswith("error[ONKI005]: cannot read `")
        assert err.splitlines()[0].endswith("k.py/traces`: not a directory")

"""What a kernel's author gets wrong: the same code, line and numbers however the kernel is run."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.diag import Diagnostic, OpenNkiError
from tests.badinput.kernels import MISTAKES, Mistake, frozen, read_only

WAYS: dict[str, Callable[[Mistake], object]] = {
    "trace": lambda m: opennki.trace(nki.jit(m.kernel), *m.arrays, lnc=m.lnc),
    "compile": lambda m: opennki.compile(nki.jit(m.kernel)[m.lnc], *m.arrays, lnc=m.lnc),
    "simulate": lambda m: nki.simulate(nki.jit(m.kernel)[m.lnc])(*m.arrays),
    "call": lambda m: nki.jit(m.kernel)[m.lnc](*m.arrays),
}


def marked_line(kernel: Callable[..., object]) -> int:
    lines, first = inspect.getsourcelines(kernel)
    return first + next(i for i, line in enumerate(lines) if line.rstrip().endswith("# here"))


def refused(run: Callable[[], object]) -> Diagnostic:
    with pytest.raises(OpenNkiError) as caught:
        run()
    return caught.value.diagnostics[0]


@pytest.fixture(autouse=True)
def trn2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "mistake", MISTAKES, ids=lambda m: f"{m.kernel.__name__}-{np.asarray(m.arrays[0]).dtype}"
)
def test_a_mistake_has_its_code_and_line(
    mistake: Mistake, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if mistake.lnc == 2:
        monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    found = refused(lambda: WAYS[way](mistake))
    shown = "\n".join([found.message, *found.help, *found.notes, *(label.text for label in found.labels)])
    assert found.code == mistake.code, found
    assert found.location is not None
    assert found.location.line == marked_line(mistake.kernel), found
    assert os.path.basename(found.location.file) == "kernels.py"
    for part in mistake.says:
        assert part in shown, found
    assert found.help, "an error says what to do"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["simulate", "call"])
def test_a_read_only_input_is_refused_and_unchanged(way: str) -> None:
    array = frozen()
    found = refused(lambda: WAYS[way](Mistake(read_only, "", (), arrays=(array,))))
    assert (found.code, found.data["name"]) == ("ONKI703", "x")
    assert "x.copy()" in found.help[0]
    assert (array == 1).all()

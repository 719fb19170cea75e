"""The degree table from PyTorch: eager, compiled and exported, each cell against an oracle of a few lines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import opennki
from opennki.diag import OpenNkiError
from tests.unit.kernels import halve

torch: Any = pytest.importorskip("torch")
adapter: Any = pytest.importorskip("opennki.frameworks.torch")

ALLOWED = {"trn1": (1,), "trn2": (1, 2)}
EITHER = (None, 1, 2)
Cell = tuple[int | None, int | None, int | None, int | None, str]
"""Bracket, environment, flag, option of the graph, target."""


def oracle(way: str, cell: Cell) -> str:
    """Design §3, written down a second time."""
    bracket, env, flag, option, target = cell
    kernel = bracket or env or 1
    graph = 1 if way == "eager" else option or flag or env or max(ALLOWED[target])
    runtime = 1 if way == "eager" else env or graph
    if kernel not in ALLOWED[target] or graph not in ALLOWED[target]:
        return "NCC_EARG001"
    if kernel != graph:
        return "NCC_ENKI003" if kernel > graph else "NCC_EVRF066"
    if runtime not in ALLOWED[target]:
        return "NCC_EARG001"
    return "values" if runtime == graph else "ONKI304"


def cells(way: str) -> Iterator[Cell]:
    for bracket, env, flag, target in itertools.product(EITHER, EITHER, (None, 1), ALLOWED):
        for option in (None,) if way == "eager" else EITHER:
            yield bracket, env, flag, option, target


def ramp() -> Any:
    return torch.arange(4.0).reshape(2, 2)


def outcome(call: Callable[[], Any]) -> str:
    """Return the code that a call is refused with, or `values`."""
    try:
        found = call()
    except OpenNkiError as problem:
        return " ".join(one.code for one in problem.diagnostics)
    assert torch.equal(found, ramp() * 0.5)
    return "values"


def settings(cell: Cell, patch: pytest.MonkeyPatch) -> None:
    _, env, flag, _, target = cell
    for name, value in (
        ("NEURON_LOGICAL_NC_CONFIG", env),
        ("NEURON_CC_FLAGS", None if flag is None else f"-O1 --lnc={flag}"),
        ("NEURON_PLATFORM_TARGET_OVERRIDE", target),
    ):
        patch.delenv(name, raising=False)
        if value is not None:
            patch.setenv(name, str(value))


def eager(cell: Cell, folder: Path) -> Any:
    bracket = cell[0]
    return (halve if bracket is None else halve[bracket])(ramp())


def compiled(cell: Cell, folder: Path) -> Any:
    bracket, _, _, option, _ = cell
    kernel = halve if bracket is None else halve[bracket]
    torch.compiler.reset()
    options = {} if option is None else {"lnc": option}
    return torch.compile(lambda x: kernel(x), backend="opennki", fullgraph=True, options=options)(ramp())


class Model(torch.nn.Module):  # type: ignore[misc,unused-ignore]  # Any, without PyTorch too
    def __init__(self, bracket: int | None) -> None:
        super().__init__()
        self.kernel = halve if bracket is None else halve[bracket]

    def forward(self, x: Any) -> Any:
        return self.kernel(x)


def exported(cell: Cell, folder: Path) -> Any:
    """Export, save, compile the file and run it, all under the same settings."""
    bracket, _, _, option, _ = cell
    adapter.save(torch.export.export(Model(bracket), (ramp(),)), folder / "model.pt2")
    return opennki.compile(str(folder / "model.pt2"), lnc=option)(ramp())


@pytest.mark.slow
@pytest.mark.parametrize("way", [eager, compiled, exported], ids=["eager", "compiled", "exported file"])
def test_every_cell_of_the_table(way: Any, tmp_path: Path) -> None:
    seen = set()
    for cell in cells(way.__name__):
        with pytest.MonkeyPatch.context() as patch:
            settings(cell, patch)
            expected = oracle(way.__name__, cell)
            assert outcome(lambda cell=cell: way(cell, tmp_path)) == expected, cell  # type: ignore[misc]
            seen.add(expected)
    codes = {"NCC_ENKI003", "NCC_EARG001", "values"}
    assert seen == (codes if way is eager else codes | {"NCC_EVRF066", "ONKI304"})


def test_a_file_keeps_where_its_degree_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    adapter.save(torch.export.export(Model(None), (ramp(),)), tmp_path / "model.pt2")
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG")
    with pytest.raises(OpenNkiError) as caught:
        opennki.compile(str(tmp_path / "model.pt2"), lnc=1)
    (found,) = caught.value.diagnostics
    assert (found.code, found.data["kernel_origin"]) == ("NCC_ENKI003", "NEURON_LOGICAL_NC_CONFIG=2")
    assert found.location is not None
    assert found.location.text.strip() == "return self.kernel(x)"

"""The degree table from PyTorch: eager, compiled and exported, each cell against an oracle of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opennki
from opennki.diag import OpenNkiError
from tests.frameworks.degree_table import Cell, cells, expected, put_in_force
from tests.unit.kernels import halve

torch: Any = pytest.importorskip("torch")
adapter: Any = pytest.importorskip("opennki.frameworks.torch")


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


def eager(cell: Cell, folder: Path) -> Any:
    bracket = cell.bracket
    return (halve if bracket is None else halve[bracket])(ramp())


def compiled(cell: Cell, folder: Path) -> Any:
    kernel = halve if cell.bracket is None else halve[cell.bracket]
    torch.compiler.reset()
    options = {} if cell.option is None else {"lnc": cell.option}
    return torch.compile(lambda x: kernel(x), backend="opennki", fullgraph=True, options=options)(ramp())


class Model(torch.nn.Module):  # type: ignore[misc,unused-ignore]  # Any, without PyTorch too
    def __init__(self, bracket: int | None) -> None:
        super().__init__()
        self.kernel = halve if bracket is None else halve[bracket]

    def forward(self, x: Any) -> Any:
        return self.kernel(x)


def exported(cell: Cell, folder: Path) -> Any:
    """Export, save, compile the file and run it, all under the same settings."""
    adapter.save(torch.export.export(Model(cell.bracket), (ramp(),)), folder / "model.pt2")
    return opennki.compile(str(folder / "model.pt2"), lnc=cell.option)(ramp())


@pytest.mark.slow
@pytest.mark.parametrize("way", [eager, compiled, exported], ids=["eager", "compiled", "exported file"])
def test_every_cell_of_the_table(way: Any, tmp_path: Path) -> None:
    seen = set()
    for cell in cells(options=way is not eager):
        with pytest.MonkeyPatch.context() as patch:
            put_in_force(cell, patch)
            right = expected(cell, is_eager=way is eager)
            assert outcome(lambda cell=cell: way(cell, tmp_path)) == right, cell  # type: ignore[misc]
            seen.add(right)
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

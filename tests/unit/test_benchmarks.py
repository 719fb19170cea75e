"""The benchmarks themselves: each one runs in small and gives figures of the schema. No time is judged."""

from __future__ import annotations

import json
import platform
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import to_builtins

from benchmarks.__main__ import NAMES, NEEDS, main
from benchmarks.growth import Growth, Size, slope
from benchmarks.kernels import (
    FULL,
    OPERATIONS,
    SMALL,
    count_instructions,
    product_chained,
    product_sliced,
    product_whole,
    trace_product,
    trace_repeated,
)
from benchmarks.machine import Machine
from benchmarks.measure import (
    BUDGET_ITERATION_US,
    REFERENCE,
    Figure,
    figure,
    figures_of,
    result,
    slowness,
    slowness_now,
)
from benchmarks.table import renew_table, table_of
from opennki.execute.numpy import prepare

BUDGETS = {
    "imports": {60.0, 100.0},
    "tracing": {5.0, 1.0},
    "artifacts": {48.0},
    "execution": {10.0, 6.0},
    "growth": {0.05},
    "simulation": set(),
    "cache": {50.0, 5.0},
    "framework_calls": set(),
}


@pytest.mark.parametrize("name", NAMES)
def test_quick_run_gives_figures(name: str) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    found = import_module(f"benchmarks.{name}").run(True)
    figures = figures_of(json.loads(json.dumps(found)))
    names = [one.name for one in figures]
    assert len(set(names)) == len(names) > 0
    assert {one.budget for one in figures} - {None} == BUDGETS[name]
    for one in figures:
        assert (one.is_met is None) == (one.budget is None), one.name
        assert one.lowest <= one.value <= one.highest, one.name
        assert one.says, one.name


def test_artifact_is_small() -> None:
    found = import_module("benchmarks.artifacts").run(True)
    raw = next(one for one in figures_of(found) if one.name == "programs, raw")
    assert raw.value <= 48


@pytest.mark.parametrize("size", [FULL, SMALL], ids=["full", "small"])
def test_sizes_count_instructions(size: Any) -> None:
    counts = {
        count_instructions(trace_product(kernel, size, 1))
        for kernel in (product_sliced, product_whole, product_chained)
    }
    assert counts == {size.instructions}
    assert (size.repeats(100_000) - 1) * size.instructions < 100_000
    assert size.repeats(100_000) * size.instructions >= 100_000


@pytest.mark.parametrize("kernel", [product_sliced, product_whole, product_chained], ids=lambda k: k.name)
def test_products_are_products(kernel: Any, rng: np.random.Generator) -> None:
    a, b = (rng.integers(-8, 9, (64, 16)).astype(np.float32) for _ in range(2))
    (out,) = prepare(trace_product(kernel, SMALL, 2)).run([a, b])
    np.testing.assert_array_equal(out, 2 * (a.T @ b))  # small integers: exact in float32


@pytest.mark.parametrize("name", OPERATIONS)
def test_loops_repeat_their_instruction(name: str) -> None:
    program = trace_repeated(name, 3).programs[0]
    assert [program.opcodes[i.opcode] for i in program.body[3:6]] == [name] * 3  # type: ignore[union-attr]  # no loop
    assert len(program.body) == 7


def test_figure_is_a_median_judged_by_its_budget() -> None:
    assert figure("f", [3, 1, 2], "µs", "says", budget=2.0) == Figure(
        "f", 2.0, "µs", 1.0, 3.0, 3, "says", budget=2.0, is_met=True
    )
    assert figure("f", [3, 2.125, 2], "µs", "says", budget=2.0).is_met is False
    assert figure("f", [1.23456], "µs", "says").value == 1.235


def test_a_slow_round_is_judged_at_the_budgets_speed() -> None:
    one = figure("f", [3, 9, 4], "µs", "says", slowness=[1, 3, 2], budget=3.0)
    assert (one.value, one.scaled, one.is_met) == (4.0, 3.0, True)
    took = 100_000 * BUDGET_ITERATION_US / 1e6
    assert slowness({REFERENCE: [took, 2 * took]}) == pytest.approx([1.0, 2.0])
    assert slowness_now(100) > 0


def test_slope_of_a_line() -> None:
    counts = [10, 100, 1000]
    assert slope(counts, [2.0, 20.0, 200.0]) == 1.0
    assert slope(counts, [1.0, 100.0, 10_000.0]) == 2.0
    assert slope([10], [1.0]) == 1.0


def test_picture_is_drawn(tmp_path: Path) -> None:
    growth = import_module("benchmarks.growth")
    seconds = {stage: 0.001 * (i + 1) for i, stage in enumerate(growth.STAGES)}
    sizes = [Size(n, {stage: n * one for stage, one in seconds.items()}, 1000 * n) for n in (1_000, 10_000)]
    slopes = dict.fromkeys([*growth.STAGES, growth.MEMORY], 1.0)
    found = result("Growth", [], growth=Growth(sizes, slopes))
    assert growth.draw(found, tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_table_is_renewed_between_its_marks(tmp_path: Path) -> None:
    machine = Machine(
        "a chip", 2, "x86_64", "Linux", "CPython 3.11.7", "2.4", "0.5", "0.2", "0.1", "2026-12-01", None
    )
    head = {"machine": to_builtins(machine), "load": {"before": 0.5, "after": 1.25}, "is_quick": False}
    found = head | result(
        "Title", [figure("f", [3, 1, 2], "µs", "says", budget=1.0), figure("g", [4], "", "", slowness=[2])]
    )
    table = (
        "| figure | median | lowest to highest | at the budgets' speed | budget | |\n"
        "|---|---|---|---|---|---|\n"
        "| f | 2 µs | 1 to 3 |  | ≤ 1 | **missed** |\n| g | 4 |  | 2 |  |  |\n"
    )
    assert table_of(found) == table
    said = (
        "2026-12-01, a chip, 2 cores, load 0.5 before, 1.25 after; CPython 3.11.7, NumPy 2.4, commit unknown."
    )
    (tmp_path / "tracing.json").write_text(json.dumps(found))
    readme = tmp_path / "README.md"
    marks = "{0}<!-- {1}:begin -->\n{2}<!-- {1}:end -->\n"
    readme.write_text(marks.format("before\n", "tracing", "old\n") + marks.format("", "growth", "kept\n"))
    renew_table(tmp_path)
    assert readme.read_text() == marks.format("before\n", "tracing", f"{said}\n\n{table}") + marks.format(
        "", "growth", "kept\n"
    )


def test_command_writes_json_that_names_no_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["artifacts", "--quick", "--output", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "artifacts.json").read_text()
    found = json.loads(text)
    assert (found["schema"], found["name"], found["is_quick"]) == (1, "artifacts", True)
    assert found["command"] == "python -m benchmarks artifacts --quick"
    assert {"processor", "cores", "python", "numpy", "ml_dtypes", "msgspec", "date"} < set(found["machine"])
    assert set(found["load"]) == {"before", "after"}
    assert table_of(found) in capsys.readouterr().out
    assert platform.node() not in text.split('"')
    for folder in (tmp_path, Path(__file__).parents[2]):
        assert str(folder) not in text


def test_command_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["speed"])
    assert stopped.value.code == 2
    assert "`speed` is no benchmark; there are imports, tracing," in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["tracing", "--quick"])
    assert stopped.value.code == 2
    assert "quick figures are not for the record" in capsys.readouterr().err

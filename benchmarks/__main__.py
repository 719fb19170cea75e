"""`python -m benchmarks [NAME …] [--quick] [--output FOLDER]`: measure, say, and write JSON and pictures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import msgspec

from benchmarks.machine import describe_machine, load_average
from benchmarks.measure import Result
from benchmarks.table import renew_table, table_of

__all__ = ["NAMES", "main", "measure"]

NAMES = (
    "imports",
    "tracing",
    "artifacts",
    "execution",
    "growth",
    "simulation",
    "cache",
    "framework_calls",
)
NEEDS = {"framework_calls": ("torch", "jax")}
"""What a benchmark cannot do without; where it is not installed the benchmark runs only when it is named."""

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"
SCHEMA = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that are named, all by default. A budget that is missed is said, not punished."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure OpenNKI's figures.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes: try it out, believe no figure")
    parser.add_argument("--output", type=Path, default=None, help="folder of JSON and pictures")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in NAMES]
    if unknown:
        parser.error(f"`{unknown[0]}` is no benchmark; there are {', '.join(NAMES)}")
    if given.quick and given.output is None:
        parser.error("quick figures are not for the record: say where they go with --output")
    folder: Path = given.output or FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    able = [name for name in NAMES if all(find_spec(package) for package in NEEDS.get(name, ()))]
    for name in given.names or able:
        found = measure(name, given.quick)
        _write(name, found, folder)
        print(f"{found['title']}\n\n{table_of(found)}", flush=True)
    renew_table(folder)
    return 0


def measure(name: str, quick: bool) -> Result:
    """Run one benchmark and return its result with the machine, the command and the load around it."""
    run: Callable[[bool], Result] = import_module(f"benchmarks.{name}").run
    before = load_average()
    found = run(quick)
    command = f"python -m benchmarks {name}" + (" --quick" if quick else "")
    head: Result = {
        "schema": SCHEMA,
        "name": name,
        "command": command,
        "is_quick": quick,
        "machine": msgspec.to_builtins(describe_machine()),
        "load": {"before": before, "after": load_average()},
    }
    return head | found


def _write(name: str, found: Result, folder: Path) -> None:
    text = msgspec.json.format(msgspec.json.encode(found), indent=2)
    (folder / f"{name}.json").write_bytes(text + b"\n")
    draw = getattr(import_module(f"benchmarks.{name}"), "draw", None)
    if draw is not None:
        draw(found, folder / f"{name}.png")


if __name__ == "__main__":
    sys.exit(main())

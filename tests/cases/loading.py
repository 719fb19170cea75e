"""Case files: real user problems, each a small kernel with what is expected of it (`files/README.md`)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, NamedTuple

import opennki

FILES = Path(__file__).with_name("files")


class Case(NamedTuple):
    """A loaded case file. `expected` is its CASE, `scenario` its SCENARIO, empty if it has none."""

    number: int
    path: Path
    module: Any

    @property
    def expected(self) -> dict[str, Any]:
        expected: dict[str, Any] = self.module.CASE
        return expected

    @property
    def scenario(self) -> dict[str, Any]:
        scenario: dict[str, Any] = getattr(self.module, "SCENARIO", {})
        return scenario

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the case: its target, what the scenario sets, and the scenario's graph flags."""
        flags = self.scenario.get("graph_flags", [])
        return {
            "NEURON_PLATFORM_TARGET_OVERRIDE": self.expected["target"],
            **({"NEURON_CC_FLAGS": " ".join(flags)} if flags else {}),
            **self.scenario.get("env", {}),
        }

    def inputs(self) -> tuple[Any, ...]:
        """Return fresh input arrays."""
        inputs: tuple[Any, ...] = self.module.make_inputs()
        return inputs


def numbers() -> dict[int, Path]:
    """Return the case files by their number."""
    return {int(path.name.split("_")[0]): path for path in sorted(FILES.glob("*.py"))}


def run_file(path: Path, name: str) -> Any:
    """Return the module of a file, run from where it lies; `import nki` there gives ours."""
    opennki.install()
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load(number: int) -> Case:
    """Run a case file from where it lies, so that messages name its lines."""
    path = numbers()[number]
    return Case(number, path, run_file(path, f"case_{number:02}"))

"""Golden files: the text that a test expects, kept under `tests/golden/<path of the test module>/<test>.txt`.

A test has one golden file. `pytest --update-golden` (or `make golden`) writes what the tests produced; a
person then reads the difference before it is committed. A missing file fails; an orphan fails `tests/house`.
"""

from __future__ import annotations

import re
from difflib import unified_diff
from pathlib import Path

ROOT = Path(__file__).parent / "golden"


def golden_path(test_module: Path, test_name: str) -> Path:
    """Return where the golden file of a test lives: the module's path under `tests`, then the test's name."""
    folder = test_module.relative_to(ROOT.parent).with_suffix("")
    return ROOT / folder / f"{re.sub(r'[^A-Za-z0-9_.,=+-]+', '_', test_name).strip('_')}.txt"


class Golden:
    """The golden file of one test. It has state (`was_used`) so that a test which asks for it must use it."""

    def __init__(self, path: Path, *, update: bool) -> None:
        self.path = path
        self.update = update
        self.was_used = False

    def __call__(self, text: str) -> None:
        """Fail unless `text` equals the golden file, final newlines aside."""
        actual = text.rstrip("\n") + "\n"
        expected = self._expected(actual, rewrite=True)
        if actual != expected:
            difference = unified_diff(
                expected.splitlines(), actual.splitlines(), str(self._shown), "this run", lineterm=""
            )
            raise AssertionError("\n".join(["differs from the golden file", *difference, self._advice]))

    def contains_in_order(self, text: str) -> None:
        """Fail unless every line of the golden file occurs in `text`, each on a line after the one before.

        Such a file is written by hand and holds only what matters; renewing leaves it alone.
        """
        expected = self._expected(text.rstrip("\n") + "\n", rewrite=False)
        lines = iter(text.splitlines())
        for wanted in filter(None, (line.strip() for line in expected.splitlines())):
            if not any(wanted in line for line in lines):
                raise AssertionError(
                    f"{self._shown}: no line, after those before it, contains\n  {wanted}\nin\n{text}"
                )

    def _expected(self, actual: str, *, rewrite: bool) -> str:
        assert not self.was_used, "a test has one golden file: join its texts"
        self.was_used = True
        if self.update and (rewrite or not self.path.exists()):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(actual, encoding="utf-8")
        if not self.path.exists():
            raise AssertionError(f"no golden file {self._shown}; this run gave\n{actual}\n{self._advice}")
        return self.path.read_text(encoding="utf-8")

    @property
    def _shown(self) -> Path:
        return self.path.relative_to(ROOT.parents[1]) if self.path.is_relative_to(ROOT) else self.path

    @property
    def _advice(self) -> str:
        return "If this run is right: `make golden`, then read the diff."

"""The generated stubs are up to date, and a kernel file passes a strict type checker with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="the type checker belongs to the development environment")

ROOT = Path(__file__).parents[2]


def _run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def test_the_stubs_are_what_the_tool_writes() -> None:
    done = _run(str(ROOT / "tools" / "make_stubs.py"), "--check", cwd=ROOT)
    assert done.returncode == 0, "run `python tools/make_stubs.py`" + done.stderr


def test_a_kernel_file_passes_strict_checking(tmp_path: Path) -> None:
    file = ROOT / "tests" / "stubs" / "kernel_file.py"
    done = _run("-m", "mypy", "--strict", f"--cache-dir={tmp_path}", str(file), cwd=tmp_path)
    assert done.stdout.strip() == "Success: no issues found in 1 source file"


def test_a_wrong_call_is_found(tmp_path: Path) -> None:
    kernel = tmp_path / "wrong.py"
    kernel.write_text(
        "import nki.isa as nisa\nimport nki.language as nl\n\n\n"
        "def kernel(x: nl.NkiTensor) -> None:\n    nisa.memset(dst=x, valeu=0.0)\n"
    )
    done = _run("-m", "mypy", "--strict", f"--cache-dir={tmp_path / 'cache'}", str(kernel), cwd=tmp_path)
    assert 'wrong.py:6: error: Unexpected keyword argument "valeu"' in done.stdout

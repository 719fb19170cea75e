"""`opennki run`: a script of the user's in which `import nki` gives OpenNKI's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opennki.diag import OpenNkiWarning
from tests.unit.command_line import KERNELS, Run

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
import numpy as np
from k import fold

x = np.arange(512 * 4, dtype=np.float32).reshape(512, 4)
y = fold(x)
print(np.array_equal(y, x * 0.5), sys.argv[1:], __name__)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)


def test_a_script_runs(run: Run) -> None:
    assert run("run", "script.py") == (0, "True [] __main__\n", "")


def test_what_follows_the_script_is_its_own(run: Run) -> None:
    status, out, _ = run("run", "--target", "trn2", "script.py", "--lnc", "2", "-x", "--json")
    assert (status, out) == (0, "True ['--lnc', '2', '-x', '--json'] __main__\n")


def test_sys_argv_and_path_are_given_back(run: Run) -> None:
    before = list(sys.argv), list(sys.path)
    run("run", "script.py", "a")
    assert (sys.argv, sys.path) == before


def test_the_degree_of_direct_calls(run: Run) -> None:
    status, out, err = run("run", "--lnc", "2", "--target", "trn2", "script.py")
    assert (status, out) == (1, "")
    assert err.startswith("error[NCC_EVRF066]: NKI kernel 'fold' is configured with LNC=1")
    assert "script.py:7:5" in err
    assert "y = fold(x)" in err
    assert "the option `--lnc 2`" in err


def test_the_target_of_direct_calls(run: Run) -> None:
    Path("two.py").write_text(SCRIPT.replace("fold(x)", "fold[2](x)"))
    status, _, err = run("run", "--target", "trn1", "two.py")
    assert status == 1
    assert err.startswith("error[NCC_EARG001]: ")
    assert "the option `--target trn1`" in err


def test_options_end_with_the_script(run: Run) -> None:
    run("run", "--lnc", "2", "script.py")
    assert run("run", "script.py")[0] == 0


def test_a_refusal_names_the_line_of_the_script(run: Run) -> None:
    Path("wide.py").write_text("import numpy as np\nfrom k import fold\n\nfold(np.ones((4, 4)))\n")
    status, _, err = run("run", "wide.py")
    assert status == 1
    assert err.startswith("error[ONKI214]: argument `a` of kernel `fold` is float64")
    assert "  called from wide.py:4:1 in `<module>`\n" in err


def test_a_warning_points_at_the_script(run: Run) -> None:
    lines = [
        "import numpy as np",
        "from k import half",
        "for i in range(2):",
        "    half(np.ones((4, 4), np.float32))",
    ]
    Path("twice.py").write_text("\n".join(lines))
    with pytest.warns(OpenNkiWarning, match="`out` has 2 of 4 rows never written") as caught:
        assert run("run", "twice.py")[0] == 0
    assert {(Path(one.filename).name, one.lineno) for one in caught} == {("twice.py", 4)}


@pytest.mark.parametrize(
    ("code", "status", "err"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit('stopped')", 1, "stopped\n"),
        ("raise SystemExit(False)", 0, ""),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_the_status_is_the_scripts_own(run: Run, code: str, status: int, err: str) -> None:
    Path("leaves.py").write_text(code)
    assert run("run", "leaves.py") == (status, "", err)


def test_an_exception_of_the_scripts_own_has_its_own_traceback_only(run: Run) -> None:
    Path("fails.py").write_text("def f():\n    return {}['key']\n\nf()\n")
    status, _, err = run("run", "fails.py")
    assert status == 1
    assert err.splitlines()[0] == "Traceback (most recent call last):"
    assert err.splitlines()[-1] == "KeyError: 'key'"
    assert err.count('File "') == 2
    assert "runpy" not in err
    assert "opennki" not in err


def test_an_exception_of_a_kernels_own_shows_no_frame_of_ours(run: Run) -> None:
    Path("odd.py").write_text("import numpy as np\nfrom k import half\nhalf(np.ones((3, 4), np.float32))\n")
    status, _, err = run("run", "odd.py")
    assert status == 1
    assert "ValueError: rows must be even" in err
    assert "on core 0" in err
    assert "opennki" not in err


def test_from_the_shell_in_an_empty_folder(tmp_path: Path) -> None:
    """The scenario of the issue, in processes of their own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEURON_")}
    environment["PYTHONPATH"] = str(ROOT / "src")
    (tmp_path / "k.py").write_text(KERNELS)

    def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "opennki.cli", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    traced = shell(
        "trace", "k.py:fold", "--arg", "a=float32[512,64]", "--lnc", "2", "--target", "trn2", "-o", "two.nka"
    )
    assert (traced.returncode, traced.stderr) == (0, "")
    refused = shell("compile", "two.nka", "--lnc", "1", "--target", "trn2", "-o", "f.nkx")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error[NCC_ENKI003]: ")
    assert not (tmp_path / "f.nkx").exists()
    assert shell("compile", "two.nka", "--lnc", "2", "--target", "trn2", "-o", "f.nkx").returncode == 0
    (tmp_path / "k.py").unlink()
    (tmp_path / "two.nka").unlink()
    x = np.arange(512 * 64, dtype=np.float32).reshape(512, 64)
    np.save(tmp_path / "x.npy", x)
    done = shell("exec", "f.nkx", "--input", "x.npy", "--output-dir", "out")
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "out.npy"), x * 0.5)

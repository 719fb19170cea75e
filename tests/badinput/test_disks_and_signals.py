"""Folders that cannot be written, full disks, Ctrl-C: a clear error, nothing half-written, nothing lost."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

KERNELS = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs()
    start = nl.program_id(0) * rows
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[start : start + rows])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out[start : start + rows], src=tile)
    return out


@nki.jit
def slow_to_trace(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    print("tracing", flush=True)
    for _ in range(100_000_000):
        nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def slow_to_run(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs()
    start = nl.program_id(0) * rows
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[start : start + rows])

    def turn(i):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, 100_000_000, turn)
    nisa.dma_copy(dst=out[start : start + rows], src=tile)
    return out


@nki.jit
def waits(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    def turn(i):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, 1 + nl.program_id(0) * 100_000_000, turn)
    nisa.core_barrier(data=out, cores=(0, 1))
    nisa.dma_copy(dst=out, src=tile)
    return out
"""

MAIN = [sys.executable, "-c", "from opennki.cli import main; import sys; sys.exit(main())"]
ARGUMENT = ["--arg", "x=float32[128,64]", "--target", "trn2"]
X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k.py").write_text(KERNELS)
    np.save(tmp_path / "x.npy", X)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NEURON_", "NKI_", "OPENNKI_"))}
    paths = [str(Path(__file__).parents[2] / "src"), os.environ.get("PYTHONPATH", "")]
    return kept | {
        "OPENNKI_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def run(
    folder: Path, *arguments: str, before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MAIN, *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=before,
        timeout=120,
    )


def made(folder: Path) -> list[str]:
    """Return what lies in the folder beside what the test put there, and the cache's own files."""
    return sorted(p.name for p in folder.iterdir() if p.name not in ("k.py", "x.npy", "cache"))


def no_room() -> None:
    """Let the process write files of 100 bytes at most, as a full disk does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def compiled(folder: Path, kernel: str = "double", lnc: int = 1) -> None:
    done = run(folder, "trace", f"k.py:{kernel}", *ARGUMENT, "--lnc", str(lnc), "-o", "k.nka")
    assert done.returncode == 0, done.stderr
    done = run(folder, "compile", "k.nka", "--lnc", str(lnc), "--target", "trn2", "-o", "k.nkx")
    assert done.returncode == 0, done.stderr


# Disks


def test_a_full_disk_leaves_no_artifact(folder: Path) -> None:
    done = run(folder, "trace", "k.py:double", *ARGUMENT, "-o", "k.nka", before=no_room)
    assert done.returncode == 1
    assert "error[ONKI504]: cannot write `k.nka`: file too large" in done.stderr
    assert made(folder) == []


def test_a_full_disk_keeps_the_old_executable(folder: Path) -> None:
    compiled(folder)
    (folder / "old.nkx").write_bytes(b"old")
    done = run(folder, "compile", "k.nka", "--lnc", "1", "-o", "old.nkx", before=no_room)
    assert done.returncode == 1
    assert "error[ONKI504]: cannot write `old.nkx`" in done.stderr
    assert (folder / "old.nkx").read_bytes() == b"old"
    assert made(folder) == ["k.nka", "k.nkx", "old.nkx"]


def test_a_full_disk_leaves_no_output(folder: Path) -> None:
    compiled(folder)
    (folder / "out").mkdir()
    done = run(folder, "exec", "k.nkx", "--input", "x.npy", "--output-dir", "out", before=no_room)
    assert done.returncode == 1
    assert "error[ONKI504]" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((folder / "out").iterdir()) == []


def test_a_cache_without_room_costs_nothing_but_time(folder: Path) -> None:
    (folder / "script.py").write_text(
        "import numpy as np\nfrom k import double\n"
        "x = np.load('x.npy')\nassert np.array_equal(double(x), 2 * x)\nprint('right')\n"
    )
    done = run(folder, "run", "script.py", before=no_room)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    assert done.stderr.count("warning[ONKI508]") == 1, "said once"
    done = run(folder, "run", "script.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "right\n", "")


def test_an_unwritable_folder(folder: Path) -> None:
    """Nobody may make files in /sys, root neither; others are kept out by the folder's mode as well."""
    sealed = "/sys" if os.getuid() == 0 and Path("/sys/kernel").is_dir() else "sealed"
    if sealed == "sealed":
        (folder / sealed).mkdir(mode=0o555)
    done = run(folder, "trace", "k.py:double", *ARGUMENT, "-o", f"{sealed}/k.nka")
    assert done.returncode == 1
    reasons = "permission denied|operation not permitted|read-only file system"
    assert re.search(rf"error\[ONKI504\]: cannot write `{sealed}/k.nka`: ({reasons})", done.stderr), (
        done.stderr
    )
    assert not Path(folder, sealed, "k.nka").exists()


@pytest.mark.parametrize("command", ["trace", "exec"])
def test_a_folder_that_cannot_be_one(folder: Path, command: str) -> None:
    compiled(folder)
    place = "x.npy/inside"
    arguments = {
        "trace": ["trace", "k.py:double", *ARGUMENT, "-o", f"{place}.nka"],
        "exec": ["exec", "k.nkx", "--input", "x.npy", "--output-dir", place],
    }[command]
    done = run(folder, *arguments)
    assert done.returncode == 1
    assert "error[ONKI504]" in done.stderr
    assert "not a directory" in done.stderr
    assert made(folder) == ["k.nka", "k.nkx"]


@pytest.mark.parametrize("kind", ["nka", "nkx"])
@pytest.mark.parametrize("damage", ["cut", "foreign", "future", "empty"])
def test_a_file_that_is_not_sound_is_refused_by_every_command(folder: Path, kind: str, damage: str) -> None:
    compiled(folder)
    data = (folder / f"k.{kind}").read_bytes()
    bad = {
        "cut": data[: len(data) // 2],
        "foreign": b"\x7fELF" + data[4:],
        "future": future(folder, kind),
        "empty": b"",
    }[damage]
    (folder / f"bad.{kind}").write_bytes(bad)
    code = {"cut": "ONKI502", "foreign": "ONKI501", "future": "ONKI503", "empty": "ONKI501"}[damage]
    commands = {
        "nka": [["compile", "bad.nka", "--lnc", "1", "-o", "new.nkx"], ["inspect", "bad.nka"]],
        "nkx": [["exec", "bad.nkx", "--input", "x.npy", "--output-dir", "out"], ["inspect", "bad.nkx"]],
    }[kind]
    for command in commands:
        done = run(folder, *command)
        assert done.returncode == 1, done.stderr
        assert f"error[{code}]" in done.stderr
        assert f"bad.{kind}" in done.stderr
        assert not (folder / "new.nkx").exists()
        assert not (folder / "out").exists()


def future(folder: Path, kind: str) -> bytes:
    """Return the file with the format of a version to come."""
    import io
    import zipfile

    file = io.BytesIO()
    with zipfile.ZipFile(folder / f"k.{kind}") as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "manifest.json":
                data = json.dumps(json.loads(data) | {"format": 99}).encode()
            new.writestr(name, data)
    return file.getvalue()


# Ctrl-C


def interrupted(
    folder: Path, *arguments: str, ready: Callable[[subprocess.Popen[str]], None]
) -> tuple[int, str, float]:
    """Start a command, send SIGINT when ready; return its status, messages, and how long it took to end."""
    child = subprocess.Popen(
        [*MAIN, *arguments],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        ready(child)
        time.sleep(0.3)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
        return child.returncode, said, time.monotonic() - start
    finally:
        child.kill()


def says_tracing(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == "tracing\n"


def threads(count: int) -> Callable[[subprocess.Popen[str]], None]:
    """Wait until the process has so many threads and works."""

    def wait(child: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert child.poll() is None, child.communicate()
            status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
            found = re.search(r"^Threads:\s+(\d+)$", status, re.MULTILINE)
            if found is not None and int(found[1]) >= count:
                return
            time.sleep(0.02)
        raise AssertionError(f"never had {count} threads")

    return wait


def busy(seconds: float) -> Callable[[subprocess.Popen[str]], None]:
    """Wait until the process has used so much time of a processor."""

    def wait(child: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert child.poll() is None, child.communicate()
            fields = Path(f"/proc/{child.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            if (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > seconds:
                return
            time.sleep(0.02)
        raise AssertionError(f"never used {seconds} s")

    return wait


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.mark.parametrize(
    "command",
    [
        ["trace", "k.py:slow_to_trace", *ARGUMENT, "-o", "k.nka"],
        ["trace", "k.py:slow_to_trace", *ARGUMENT, "--lnc", "2", "-o", "k.nka"],
        ["check", "k.py:slow_to_trace", *ARGUMENT, "--lnc", "2"],
    ],
    ids=["trace", "trace at degree 2", "check"],
)
def test_ctrl_c_while_a_kernel_is_traced(folder: Path, command: list[str]) -> None:
    status, said, took = interrupted(folder, *command, ready=says_tracing)
    assert status == 130
    assert said == "", "Ctrl-C needs no message"
    assert took < 10
    assert made(folder) == []


@linux
@pytest.mark.parametrize("lnc", [1, 2])
def test_ctrl_c_while_an_executable_runs(folder: Path, lnc: int) -> None:
    compiled(folder, "slow_to_run", lnc)
    ready = threads(3) if lnc == 2 else busy(1.5)
    arguments = ["exec", "k.nkx", "--input", "x.npy", "--output-dir", "out"]
    status, said, took = interrupted(folder, *arguments, ready=ready)
    assert status == 130, said
    assert said == ""
    assert took < 10
    assert made(folder) == ["k.nka", "k.nkx"]


@linux
def test_ctrl_c_while_one_core_waits_for_the_other(folder: Path) -> None:
    compiled(folder, "waits", 2)
    arguments = ["exec", "k.nkx", "--input", "x.npy", "--output-dir", "out"]
    status, said, took = interrupted(folder, *arguments, ready=threads(3))
    assert (status, said) == (130, "")
    assert took < 10


@linux
@pytest.mark.parametrize("lnc", [1, 2])
def test_ctrl_c_in_a_script_that_simulates(folder: Path, lnc: int) -> None:
    (folder / "script.py").write_text(
        "import numpy as np, nki\nfrom k import slow_to_run\n"
        "try:\n"
        f"    nki.simulate(slow_to_run[{lnc}])(np.load('x.npy'))\n"
        "except KeyboardInterrupt:\n"
        "    print('seen by the script')\n"
        "    raise\n"
    )
    ready = threads(3) if lnc == 2 else busy(1.5)
    status, said, took = interrupted(folder, "run", "script.py", ready=ready)
    assert status == 130, said
    assert took < 10

"""The machine and the versions that figures were measured with. Neither its name nor its folders."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct

__all__ = ["Machine", "describe_machine", "load_average"]

_ROOT = Path(__file__).parents[1]


class Machine(Struct, frozen=True):
    """Processor, versions, day and commit. `commit` ends in `+` where the files differ from it."""

    processor: str
    cores: int
    architecture: str
    system: str
    python: str
    numpy: str
    ml_dtypes: str
    msgspec: str
    opennki: str
    date: str
    commit: str | None


def describe_machine() -> Machine:
    """Return the description of this machine."""
    from opennki import __version__

    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 0,
        architecture=platform.machine(),
        system=platform.system(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        numpy=version("numpy"),
        ml_dtypes=version("ml_dtypes"),
        msgspec=version("msgspec"),
        opennki=__version__,
        date=datetime.now(UTC).date().isoformat(),
        commit=_commit(),
    )


def load_average() -> float | None:
    """Return how many processes wanted a processor in the last minute, None where nobody counts them."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _processor() -> str:
    """Return the processor's model as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _commit() -> str | None:
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return None
    return f"{commit}+" if _git("status", "--porcelain", "--", "src", "benchmarks") else commit


def _git(*arguments: str) -> str | None:
    """Return what git says of the project's folder, None without git or outside of a checkout."""
    try:
        done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None

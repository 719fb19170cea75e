"""Loading what OpenNKI wrote: artifacts and executables."""

from __future__ import annotations

from pathlib import Path

from opennki.artifact import artifact_of, read_bounded
from opennki.build.container import executable_of
from opennki.build.executable import Executable
from opennki.diag import OpenNkiError
from opennki.ir.types import KernelArtifact

__all__ = ["load", "load_unchecked"]


def load(path: str | Path) -> KernelArtifact | Executable:
    """Return the artifact of a `.nka` file or the executable of a `.nkx` file.

    An executable is loaded for the runtime's degree: another one than it was compiled for is ONKI304.
    Errors: ONKI005, ONKI304, ONKI501 to ONKI503, NCC_EVRF065.
    """
    return _load(Path(path), to_run=True)


def load_unchecked(path: str | Path) -> KernelArtifact | Executable:
    """Return what `load` returns, whatever the runtime's degree: to look at, not to run."""
    return _load(Path(path), to_run=False)


def _load(path: Path, *, to_run: bool) -> KernelArtifact | Executable:
    """Take the suffix's word first; a file of the other kind under this name is loaded too."""
    data, file = read_bounded(path), str(path)
    is_executable = path.suffix.lower() == ".nkx"
    try:
        return _as(data, file, is_executable, to_run)
    except OpenNkiError as problem:
        if problem.code != "ONKI501":
            raise
        first = problem
    try:
        return _as(data, file, not is_executable, to_run)
    except OpenNkiError as second:
        raise (first if second.code == "ONKI501" else second) from None


def _as(data: bytes, file: str, is_executable: bool, to_run: bool) -> KernelArtifact | Executable:
    return executable_of(data, file, to_run=to_run) if is_executable else artifact_of(data, file)

"""The adapter to PyTorch: eager calls, graphs of `torch.compile` and `torch.export`, operators of kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opennki.build.executable import Executable
    from opennki.frontend.kernel import Kernel
    from opennki.graph import KernelCall
    from opennki.settings import Setting
    from opennki.targets import Target

__all__ = ["calls_of", "compile", "launch", "load", "load_graph", "read", "save"]


def launch(kernel: Kernel, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
    """Return what a kernel gives for tensors: at once for real ones, as nodes of a graph for others."""
    from opennki.frameworks.torch.calls import graph_call, is_in_graph
    from opennki.frameworks.torch.eager import eager_call

    if is_in_graph(args, kwargs):
        return graph_call(kernel, args, kwargs)
    return eager_call(kernel, args, kwargs)


def compile(
    graph: object,
    examples: Sequence[object],
    values: Mapping[str, object],
    degree: Setting[int],
    target: Setting[Target],
) -> Executable:
    """Return the executable of an exported program, a module or a function with examples."""
    from opennki.frameworks.torch.exported import compile_exported

    return compile_exported(graph, examples, values, degree, target)


def read(path: Path) -> object:
    """Return the exported program in a `.pt2` file, its artifacts registered."""
    from opennki.frameworks.torch.archive import read_exported

    return read_exported(path)


def calls_of(graph: object, degree: Setting[int], target: Setting[Target]) -> tuple[KernelCall, ...] | None:
    """Return the kernel calls that `compile` would bake of an exported program, None for anything else."""
    from torch.export import ExportedProgram

    from opennki.frameworks.torch.exported import kernel_calls

    return kernel_calls(graph, degree, target) if isinstance(graph, ExportedProgram) else None


def load_graph(files: Mapping[str, bytes], executable: Executable, file: str) -> Executable:
    """Return the executable of the exported program in a `.nkx` file."""
    from opennki.frameworks.torch.exported import executable_of

    return executable_of(files, executable, file)


def save(program: ExportedProgram, path: str | Path, *, embed: bool = True) -> Path:
    """Write an exported program as a `.pt2` file with the artifacts of its kernels, and return the path.

    `torch.export.load` reads it too. Without `embed` the artifacts are files of their own beside it, named by
    digest. Errors: ONKI504, NCC_EVRF059.
    """
    from opennki.frameworks.torch.archive import save_exported

    return save_exported(program, Path(path), embed=embed)


def load(path: str | Path) -> ExportedProgram:
    """Return the exported program of a `.pt2` file, the artifacts in it and beside it known to its kernels.

    Nothing in the file is run. Errors: ONKI005, ONKI614, NCC_EVRF059 (an artifact is missing), NCC_EVRF065
    (one is of an old format).
    """
    from opennki.frameworks.torch.archive import read_exported

    return read_exported(Path(path))

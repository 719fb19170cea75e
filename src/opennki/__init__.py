"""OpenNKI: trace, bake, check and run NKI kernels on any machine.

Everything public is imported on first use, so that `import opennki` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opennki.build.aliasing import install
    from opennki.build.executable import Executable
    from opennki.build.pipeline import compile
    from opennki.build.read import load
    from opennki.build.report import Report, check
    from opennki.build.tracing import trace
    from opennki.diag import OpenNkiError, OpenNkiUsageError, OpenNkiWarning
    from opennki.frontend.spec import Spec
    from opennki.ir.types import KernelArtifact

__version__ = "0.1.0"

__all__ = [
    "Executable",
    "KernelArtifact",
    "OpenNkiError",
    "OpenNkiUsageError",
    "OpenNkiWarning",
    "Report",
    "Spec",
    "__version__",
    "check",
    "compile",
    "install",
    "load",
    "trace",
]

_HOMES = {
    "Executable": "opennki.build.executable",
    "KernelArtifact": "opennki.ir.types",
    "OpenNkiError": "opennki.diag",
    "OpenNkiUsageError": "opennki.diag",
    "OpenNkiWarning": "opennki.diag",
    "Report": "opennki.build.report",
    "Spec": "opennki.frontend.spec",
    "check": "opennki.build.report",
    "compile": "opennki.build.pipeline",
    "install": "opennki.build.aliasing",
    "load": "opennki.build.read",
    "trace": "opennki.build.tracing",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'opennki' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

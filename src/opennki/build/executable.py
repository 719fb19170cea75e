"""The executable: artifacts baked for one degree and one target, callable on NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from msgspec import Struct

from opennki.build.values import nest
from opennki.diag import Diagnostic, InternalError, fail
from opennki.ir.types import KernelArtifact, Program, Signature
from opennki.lnc import check_runtime
from opennki.settings import precise_fp
from opennki.targets import Target

if TYPE_CHECKING:
    from opennki.execute.numpy import Prepared

__all__ = ["BakedCall", "Executable", "RunResult", "Runnable", "check_count"]

Array = np.ndarray[Any, Any]


class RunResult(Struct, frozen=True):
    """What one run gave: the outputs in the signature's order, and the value as the kernel returns it."""

    outputs: tuple[Array, ...]
    value: object


def check_count(called: str, signature: Signature, values: Sequence[object]) -> None:
    """Refuse more or fewer tensors than a signature has. Errors: ONKI006."""
    inputs = signature.inputs
    if len(values) != len(inputs):
        names = ", ".join(f"`{tensor.name}`" for tensor in inputs) or "none"
        fail(
            "ONKI006",
            problem=f"{called} takes {len(inputs)} arrays, got {len(values)}",
            help=[f"pass its tensors in order: {names}"],
        )


class Runnable(Protocol):
    """What runs on arrays: a kernel call, or the whole of a framework's graph."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def signature(self) -> Signature:
        """What it takes and gives."""

    def run(self, arrays: Sequence[Array]) -> RunResult:
        """Return the outputs and the value."""


class BakedCall:
    """A kernel call of an executable: core i's program runs on physical core i.

    It has state since its programs are prepared once, at the first run.
    """

    def __init__(self, artifact: KernelArtifact, lnc: int, target: Target) -> None:
        if len(artifact.programs) != lnc:
            raise InternalError(
                f"{len(artifact.programs)} programs of `{artifact.kernel}` are baked for LNC={lnc}"
            )
        self.artifact = artifact
        self.lnc = lnc
        self.target = target
        self._prepared: Prepared | None = None

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.artifact.kernel

    @property
    def signature(self) -> Signature:
        """What the kernel takes and gives."""
        return self.artifact.signature

    @property
    def programs(self) -> tuple[Program, ...]:
        """The program of each physical core, by core."""
        return self.artifact.programs

    def __call__(self, *arrays: Array) -> Any:
        """Return what the kernel returns, nested as it nests it; inputs that it writes are changed in place.

        `arrays` are the tensors of the signature, in order. Errors: ONKI006, ONKI304, ONKI702, ONKI703.
        """
        return self.run(arrays).value

    def run(self, arrays: Sequence[Array]) -> RunResult:
        """Return the outputs and the value. The runtime's degree is checked before any work."""
        check_runtime(self.lnc, self.target)
        return self.execute(arrays)

    def execute(self, arrays: Sequence[Array]) -> RunResult:
        """Return what `run` returns, on the eager path of a framework, which no setting gives a degree."""
        check_count(f"kernel `{self.name}`", self.signature, arrays)
        if self._prepared is None:
            from opennki.execute.numpy import prepare

            self._prepared = prepare(self.artifact, precise=precise_fp())
        outputs = tuple(self._prepared.run(arrays))
        return RunResult(outputs, nest(self.signature.returns, outputs))

    def __repr__(self) -> str:
        return f"<BakedCall {self.name} target={self.target.name} lnc={self.lnc}>"


class Executable:
    """A compiled graph. Call it on arrays if it has one kernel call, else call `exe.calls[i]`.

    It is a class since its calls keep their prepared programs. `findings` are those of the compilation; they
    are not saved.
    """

    def __init__(
        self,
        artifacts: Sequence[KernelArtifact],
        lnc: int,
        target: Target,
        findings: Sequence[Diagnostic] = (),
    ) -> None:
        self.calls = tuple(BakedCall(artifact, lnc, target) for artifact in artifacts)
        self.findings = tuple(findings)
        self._lnc = lnc
        self._target = target

    @property
    def whole(self) -> Runnable | None:
        """What runs the graph as a whole: its one call, a framework's graph; None for several calls."""
        return self.calls[0] if len(self.calls) == 1 else None

    @property
    def framework(self) -> str | None:
        """The adapter's name of the framework whose graph it is, None for kernel calls alone."""
        return None

    def framework_files(self) -> Mapping[str, bytes]:
        """Return what a `.nkx` file keeps of the framework's graph, for its adapter's `load_graph`."""
        return {}

    @property
    def lnc(self) -> int:
        """The degree that the graph was compiled for: physical cores per logical core."""
        return self._lnc

    @property
    def target(self) -> str:
        """The target that the graph was compiled for."""
        return self._target.name

    @property
    def signature(self) -> Signature:
        """What the one kernel call takes and gives. Errors: ONKI006 if there are several."""
        return self._only("signature").signature

    def __call__(self, *arrays: Any) -> Any:
        """Return what the one kernel call returns. Errors: its own; ONKI006 if there are several calls."""
        return self._only("call")(*arrays)

    def save(self, path: str | Path) -> Path:
        """Write the executable as a `.nkx` file and return the path. Errors: ONKI504."""
        from opennki.build.container import save_executable

        return save_executable(self, Path(path))

    def _only(self, use: str) -> BakedCall:
        if len(self.calls) == 1:
            return self.calls[0]
        names = ", ".join(f"`calls[{i}]` is `{call.name}`" for i, call in enumerate(self.calls))
        fail(
            "ONKI006",
            problem=f"the executable has {len(self.calls)} kernel calls, so it has no {use} of its own",
            help=[f"take one of its calls: {names}"],
        )

    def __repr__(self) -> str:
        names = ", ".join(call.name for call in self.calls)
        return f"<Executable {names} target={self.target} lnc={self.lnc}>"

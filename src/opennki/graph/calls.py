"""The records of a graph of kernel calls, and what the rules of baking need to know of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from opennki.diag import Location
from opennki.ir.types import KernelArtifact
from opennki.lnc import CallFacts
from opennki.settings import Setting

__all__ = ["Graph", "KernelCall", "facts_of"]


class KernelCall(Struct, frozen=True, kw_only=True):
    """One call of a kernel in a graph.

    `degree` is how the kernel got its degree, None where the artifact came from a file. `claimed` is the
    number of programs that the call's config states, None for nothing stated; the artifact decides, the claim
    is compared with it. `location` is the call itself. `is_eager`: a framework's eager path.
    """

    artifact: KernelArtifact
    degree: Setting[int] | None = None
    claimed: int | None = None
    location: Location | None = None
    is_eager: bool = False

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.artifact.kernel


class Graph(Struct, frozen=True, kw_only=True):
    """What is compiled for one degree and one target: kernel calls that share no values.

    Graphs whose calls feed each other come with the readers of HLO and of exported programs.
    """

    calls: tuple[KernelCall, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that the artifacts were traced for, in the order of the calls."""
        return tuple(call.artifact.target for call in self.calls)


def facts_of(call: KernelCall, lost: Callable[[int], Sequence[str]]) -> CallFacts:
    """Return what the rules of baking look at; programs are counted from the artifact itself.

    `lost` says what would be missing if only the first n programs were kept.
    """
    return CallFacts(
        kernel=call.name,
        num_funcs=len(call.artifact.programs),
        target=call.artifact.target,
        degree=call.degree,
        claimed=call.claimed,
        call_location=call.location,
        kernel_location=call.artifact.location,
        lost=lost,
        eager=call.is_eager,
    )

"""What an instruction needs of the trace that it is called in, and which trace that is."""

from __future__ import annotations

from contextvars import ContextVar
from types import FrameType
from typing import Any, Protocol

from msgspec import Struct

from opennki.diag import Diagnostic, Label, Location
from opennki.ir.types import AttrValue, Instruction
from opennki.targets import Target

__all__ = ["CURRENT", "NkiInstruction", "Recorder"]


class Recorder(Protocol):
    """The trace of one core: appends instructions to a program, or runs them at once."""

    core: int
    degree: int
    target: Target
    plans: list[dict[Any, tuple[int, int]]]
    locations: dict[tuple[int, int], int]  # by the id of a code object, which hashes slowly itself

    def append(self, instruction: Instruction, /) -> object:
        """Take the instruction: record it, or run it."""
        ...

    def locate(self, frame: FrameType) -> int:
        """Return the number of the user's place that led to `frame`, remembering it where that is safe."""
        ...

    def intern_attributes(self, values: tuple[AttrValue, ...]) -> int:
        """Return the number of `values` in the program's table."""
        ...

    def place(self, location: int) -> tuple[Location, tuple[Location, ...]]:
        """Return the user's place and the calls that led there, innermost first."""
        ...

    def allocation(self, tile: Any) -> tuple[str, Label | None]:
        """Return the name of a tile's tensor for messages, and where it was allocated."""
        ...

    def warn(self, finding: Diagnostic) -> None:
        """Note a finding that is no error."""
        ...

    def owns(self, tile: Any) -> bool:
        """True if the tile belongs to this trace."""
        ...

    def depend(self, instruction: Instruction, producer: Instruction) -> None:
        """Note that `instruction` runs after `producer`."""
        ...


CURRENT: ContextVar[Recorder | None] = ContextVar("opennki.recorder", default=None)


class NkiInstruction(Struct, eq=False, gc=False):
    """Handle of a traced instruction, returned by every function of `nki.isa`."""

    _instruction: Instruction
    _recorder: Recorder

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Make this instruction run after each of `producers`; returns itself, so calls chain.

        Source: nki/api/nki/isa/__init__.py:146.
        """
        for producer in producers:
            self._recorder.depend(self._instruction, producer._instruction)
        return self

    def __repr__(self) -> str:
        return f"<NkiInstruction {self._instruction.name or self._instruction.opcode}>"

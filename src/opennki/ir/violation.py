"""A broken invariant, and what the functions that look for one are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from opennki.ir.program import Facts, RowFacts, instructions, loops
from opennki.ir.types import Instruction, Loop, Program

__all__ = ["Invariant", "Subject", "Violation", "subject_of"]


class Violation(Struct, frozen=True):
    """One broken invariant.

    `core` is -1 where it concerns the artifact as a whole. `where` is an instruction's position, or the
    number of a table's entry where `says` names a table; -1 for neither.
    """

    invariant: str
    core: int
    where: int
    says: str


class Subject(Struct, frozen=True):
    """A program laid out for the checks: its instructions and loops in order, the row of each opcode."""

    program: Program
    code: list[Instruction]
    loops: tuple[Loop, ...]
    rows: tuple[RowFacts | None, ...]

    def violation(self, invariant: str, where: int, says: str) -> Violation:
        """Return a violation of this core."""
        return Violation(invariant, self.program.core, where, says)


Invariant = Callable[[Subject], Iterator[Violation]]
"""One invariant of a single program: yields what breaks it."""


def subject_of(program: Program, facts: Facts) -> Subject:
    """Return the subject of a program. An opcode without a row is kept as None."""
    rows = tuple(facts.get(name) for name in program.opcodes)
    return Subject(program, instructions(program), tuple(loops(program)), rows)

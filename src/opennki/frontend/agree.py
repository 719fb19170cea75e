"""Do the cores fit together? Outputs, shared tensors and barriers must agree at the end of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from opennki.diag import Diagnostic, Label, Location, diagnostic, error
from opennki.frontend.results import Results
from opennki.ir.types import Buffer, Instruction, Loop, Origin, Program, Space
from opennki.isa.table import BY_NAME

__all__ = ["check_agreement", "diverged"]


def check_agreement(
    kernel: str, where: Location, programs: Sequence[Program], results: Sequence[Results]
) -> None:
    """Compare every core with core 0 and raise all that differs in one go.

    Errors: ONKI305 (outputs), ONKI306 (shared tensors), ONKI307 (barriers and exchanges).
    """
    found: list[Diagnostic] = []
    for core in range(1, len(programs)):
        found += _outputs(kernel, where, core, results[0], results[core])
        found += _shared(programs[0], programs[core])
        found += _meetings(programs[0], programs[core])
    if found:
        raise error(*found)


def _outputs(kernel: str, where: Location, core: int, first: Results, other: Results) -> list[Diagnostic]:
    if first.returns != other.returns:
        says = (
            f"kernel `{kernel}` returns {len(first.outputs)} tensors on core 0 "
            f"and {len(other.outputs)} on core {core}"
            if len(first.outputs) != len(other.outputs)
            else f"kernel `{kernel}` nests its return value in another way on core {core} than on core 0"
        )
        return [diagnostic("ONKI305", at=Label(where, "this kernel"), core=core, says=says)]
    found = []
    for a, b, place_a, place_b in zip(first.outputs, other.outputs, first.places, other.places, strict=True):
        if (a.key, a.shape, a.dtype, a.offset, a.pattern) == (b.key, b.shape, b.dtype, b.offset, b.pattern):
            continue
        what = (
            f"`{a.name}` {a.dtype}{list(a.shape)} on core 0 "
            f"and `{b.name}` {b.dtype}{list(b.shape)} on core {core}"
            if (a.shape, a.dtype) != (b.shape, b.dtype)
            else f"`{a.name}` of line {_line(place_a)} on core 0 "
            f"and `{b.name}` of line {_line(place_b)} on core {core}"
        )
        found.append(
            diagnostic(
                "ONKI305",
                at=Label(where, "this kernel"),
                others=[
                    Label(place, f"core {n}'s output")
                    for n, place in ((0, place_a), (core, place_b))
                    if place is not None
                ],
                core=core,
                says=f"kernel `{kernel}` returns different tensors: {what}",
            )
        )
    return found


def _line(place: Location | None) -> str:
    return "an input" if place is None else f"{place.file}:{place.line}"


def _shared(first: Program, other: Program) -> list[Diagnostic]:
    known = {b.key: b for b in first.buffers if b.space is Space.shared_hbm}
    found = []
    for buffer in other.buffers:
        same = known.get(buffer.key)
        if same is None or buffer.space is not Space.shared_hbm or buffer.origin is not Origin.local:
            continue
        place_a, place_b = _place(first, same), _place(other, buffer)
        lines = (place_a.file, place_a.line) == (place_b.file, place_b.line)
        if (same.shape, same.dtype) == (buffer.shape, buffer.dtype) and lines:
            continue
        says = (
            f"shared tensor `{buffer.name or buffer.key}` is {_spelled(same)} on core {first.core} "
            f"and {_spelled(buffer)} on core {other.core}"
            if lines
            else f"shared tensor `{buffer.name}` is allocated on line {_line(place_a)} by core {first.core} "
            f"and on line {_line(place_b)} by core {other.core}"
        )
        found.append(
            diagnostic(
                "ONKI306",
                at=Label(place_b, f"core {other.core} allocates {_spelled(buffer)}"),
                others=[Label(place_a, f"core {first.core} allocates {_spelled(same)}")],
                core=other.core,
                says=says,
            )
        )
    return found


def _place(program: Program, buffer: Buffer) -> Location:
    return program.locations[buffer.location]


def _spelled(buffer: Buffer) -> str:
    return f"{buffer.dtype}{list(buffer.shape)}"


def _sequence(program: Program) -> list[tuple[str, Location]]:
    """The instructions of a program that meet other cores, as what must match and where it stands."""
    found: list[tuple[str, Location]] = []

    def walk(body: Sequence[Instruction | Loop]) -> None:
        for item in body:
            if isinstance(item, Loop):
                walk(item.body)
                continue
            row = BY_NAME[program.opcodes[item.opcode]]
            if row.sync is not None:
                attrs = row.decode(program.attrs[item.attrs])
                what = f"{row.name} {row.sync.channel(attrs)!r} of cores {row.sync.group(attrs)}"
                found.append((what, program.locations[item.location]))

    walk(program.body)
    return found


def _meetings(first: Program, other: Program) -> list[Diagnostic]:
    for a, b in zip_longest(_sequence(first), _sequence(other)):
        if a is None or b is None or a[0] != b[0]:
            return diverged({first.core: a, other.core: b})
    return []


def diverged(waiting: dict[int, tuple[str, Location] | None]) -> list[Diagnostic]:
    """Return one error for each core that waits, naming what the others do (None: they have finished)."""
    found = []
    for core, here in waiting.items():
        if here is None:
            continue
        others = [
            f"core {n} has finished"
            if there is None
            else f"core {n} waits at {there[1].file}:{there[1].line}"
            for n, there in waiting.items()
            if n != core
        ]
        found.append(
            diagnostic(
                "ONKI307",
                at=Label(here[1], f"core {core} waits here"),
                others=[
                    Label(there[1], f"core {n} waits here")
                    for n, there in waiting.items()
                    if n != core and there is not None
                ],
                core=core,
                related=["NCC_IXGM002"],
                says=f"core {core} waits at a barrier that is never completed: {', '.join(others)}",
            )
        )
    return found

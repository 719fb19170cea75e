"""Do the cores fit together? Outputs, shared tensors and barriers must agree at the end of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from opennki.diag import Diagnostic, Label, Location, diagnostic, error
from opennki.frontend.results import Results
from opennki.ir.program import trip_count
from opennki.ir.types import Buffer, Instruction, Loop, Origin, Program, Space
from opennki.isa.table import BY_NAME

__all__ = ["check_agreement", "check_loops", "check_trips", "diverged"]


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


def check_trips(programs: Sequence[Program]) -> list[Diagnostic]:
    """Return a warning for each loop whose trips, known while tracing, differ between cores.

    Errors: ONKI307 where the cores meet inside such a loop.
    """
    said: list[Diagnostic] = []
    for program in programs[1:]:
        _compare_trips(programs[0], program, programs[0].body, program.body, said)
    return said


def _compare_trips(
    first: Program,
    other: Program,
    body: Sequence[Instruction | Loop],
    its_body: Sequence[Instruction | Loop],
    said: list[Diagnostic],
) -> None:
    loops = [[item for item in items if isinstance(item, Loop)] for items in (body, its_body)]
    for a, b in zip(*loops, strict=False):
        trips, its_trips = trip_count(a), trip_count(b)
        if trips is not None and its_trips is not None and trips != its_trips:
            found = _differing_trips(first, other, (a, b), (trips, its_trips))
            if found.code == "ONKI307":
                raise error(found)
            said.append(found)
        _compare_trips(first, other, a.body, b.body, said)


def _differing_trips(
    first: Program, other: Program, loops: tuple[Loop, Loop], trips: tuple[int, int]
) -> Diagnostic:
    places = (first.locations[loops[0].location], other.locations[loops[1].location])
    meeting = _sequence(first, loops[0].body) or _sequence(other, loops[1].body)
    turns = [f"{count} times on core {p.core}" for count, p in zip(trips, (first, other), strict=True)]
    says = f"a dynamic loop turns {' and '.join(turns)}"
    return diagnostic(
        "ONKI307" if meeting else "ONKI311",
        at=Label(places[1], f"core {other.core} turns {trips[1]} times"),
        others=[
            Label(places[0], f"core {first.core} turns {trips[0]} times"),
            *[Label(place, "the cores meet here") for _, place in meeting[:1]],
        ],
        core=other.core,
        says=says + (", and the cores meet inside" if meeting else ""),
    )


def check_loops(trails: Sequence[Sequence[Location]]) -> None:
    """Check that every core opens the same outermost dynamic loops in the same order. Errors: ONKI307."""
    for core, trail in enumerate(trails[1:], start=1):
        for a, b in zip_longest(trails[0], trail):
            if a is None or b is None or (a.file, a.line) != (b.file, b.line):
                raise error(_other_loop({0: a, core: b}))


def _other_loop(loops: dict[int, Location | None]) -> Diagnostic:
    (core, here), *_ = [(n, place) for n, place in loops.items() if place is not None]
    ((other, there),) = [(n, place) for n, place in loops.items() if n != core]
    where = "runs none there" if there is None else f"runs the one of {there.file}:{there.line}"
    return diagnostic(
        "ONKI307",
        at=Label(here, f"core {core} runs this loop") if here is not None else None,
        others=[Label(there, f"core {other} runs this one")] if there is not None else [],
        core=core,
        related=["NCC_IXGM002"],
        says=f"the cores run different dynamic loops: core {core} this one, core {other} {where}",
    )


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


def _sequence(
    program: Program, part: Sequence[Instruction | Loop] | None = None
) -> list[tuple[str, Location]]:
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

    walk(program.body if part is None else part)
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
                says=f"core {core} waits at `{here[0].split()[0]}` and is never met: {', '.join(others)}",
            )
        )
    return found

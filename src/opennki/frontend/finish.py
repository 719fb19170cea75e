"""Closing a program: positions of dependencies, scopes of loops, the rows that are in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from opennki.diag import Label, Location, fail
from opennki.ir.types import Buffer, Instruction, Loop, Register, View

__all__ = ["close_body", "renumbered"]


class Closing(Protocol):
    """What of a recorder is needed here."""

    core: int
    body: list[Instruction | Loop]
    buffers: list[Buffer]
    edges: list[tuple[Instruction, Instruction]]

    def place(self, location: int) -> tuple[Location, tuple[Location, ...]]:
        """Return the user's place and the calls that led there."""
        ...


def _walk(
    body: Sequence[Instruction | Loop], path: tuple[int, ...] = ()
) -> Iterator[tuple[Instruction, tuple[int, ...]]]:
    """Every instruction in order, with the ids of the loops that it stands in."""
    for item in body:
        if isinstance(item, Loop):
            yield from _walk(item.body, (*path, item.id))
        else:
            yield item, path


def renumbered(body: Sequence[Instruction | Loop], names: tuple[str, ...]) -> tuple[str, ...]:
    """Number the instructions by the rows in use, in order of first use, and return those rows' names."""
    numbers: dict[int, int] = {}
    stack: list[Instruction | Loop] = list(reversed(body))
    while stack:
        item = stack.pop()
        if isinstance(item, Loop):
            stack.extend(reversed(item.body))
            continue
        old = item.opcode
        new = numbers.get(old)
        if new is None:
            new = numbers[old] = len(numbers)
        item.opcode = new
    return tuple(names[old] for old in numbers)


def close_body(recorder: Closing) -> None:
    """Settle dependencies and check that tensors of a loop's body end with it. Errors: ONKI113, ONKI116."""
    if recorder.edges:
        _settle(recorder)
    if any(buffer.loop >= 0 for buffer in recorder.buffers):
        for item, path in _walk(recorder.body):
            check_scope(recorder, item, path)


def _settle(recorder: Closing) -> None:
    positions: dict[int, tuple[int, tuple[int, ...]]] = {}
    for position, (item, path) in enumerate(_walk(recorder.body)):
        positions[id(item)] = (position, path)
    for consumer, producer in recorder.edges:
        (_, inside), (position, path) = positions[id(consumer)], positions[id(producer)]
        if inside[: len(path)] != path:
            location, callers = recorder.place(consumer.location)
            other, _ = recorder.place(producer.location)
            fail(
                "ONKI116",
                at=Label(location, "depends on"),
                others=[Label(other, "this one, inside a dynamic loop")],
                callers=callers,
                core=recorder.core,
                rule="GEN-39",
            )
        consumer.after = tuple(sorted({*consumer.after, position}))


def check_scope(recorder: Closing, item: Instruction, path: tuple[int, ...]) -> None:
    """Check that an instruction touches no tensor of a loop that it does not stand in. Errors: ONKI113."""
    for view in _views(item.operands):
        buffer = recorder.buffers[view.buffer]
        if buffer.loop >= 0 and buffer.loop not in path:
            location, callers = recorder.place(item.location)
            made, _ = recorder.place(buffer.location)
            fail(
                "ONKI113",
                at=Label(location, "used here, after the loop"),
                others=[Label(made, "allocated in the loop's body")],
                callers=callers,
                core=recorder.core,
                tensor=buffer.name or "a tensor",
            )


def _views(operands: Sequence[Any]) -> Iterator[View]:
    for operand in operands:
        if isinstance(operand, View):
            yield operand
            if operand.index is not None and not isinstance(operand.index.source, Register):
                yield operand.index.source

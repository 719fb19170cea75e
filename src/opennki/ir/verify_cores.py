"""The invariants across the cores of an artifact: numbers, shared buffers, signature, barriers, loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from opennki.ir.dtypes import DTYPES
from opennki.ir.program import MAX_RANK, buffers_by_key, size_bytes
from opennki.ir.types import (
    Buffer,
    Constant,
    Input,
    Instruction,
    KernelArtifact,
    Loop,
    Origin,
    Output,
    Space,
    Structure,
    View,
)
from opennki.ir.verify_views import output_is_inside
from opennki.ir.violation import Subject, Violation

__all__ = ["CORE_INVARIANTS"]

Subjects = Sequence[Subject]


def cores_numbered(artifact: KernelArtifact, subjects: Subjects) -> Iterator[Violation]:
    """There is one program for each core, in order, and at least one."""
    cores = [program.core for program in artifact.programs]
    if not cores or cores != list(range(len(cores))):
        yield Violation("cores_numbered", -1, -1, f"the programs are for the cores {cores}")


def shared_buffers_agree(artifact: KernelArtifact, subjects: Subjects) -> Iterator[Violation]:
    """Shared buffers of one key have one shape, dtype and origin on every core."""
    first: dict[str, tuple[int, Buffer]] = {}
    for subject in subjects:
        core = subject.program.core
        for i, buffer in enumerate(subject.program.buffers):
            if buffer.space is not Space.shared_hbm:
                continue
            other_core, other = first.setdefault(buffer.key, (core, buffer))
            if (other.shape, other.dtype, other.origin) != (buffer.shape, buffer.dtype, buffer.origin):
                says = (
                    f"the shared buffer `{buffer.name}` (key `{buffer.key}`) is {_described(buffer)} "
                    f"on core {core} and {_described(other)} on core {other_core}"
                )
                yield Violation("shared_buffers_agree", core, i, says)


def _described(buffer: Buffer) -> str:
    return f"{buffer.origin.value} {buffer.dtype}{list(buffer.shape)}"


def signature_holds(artifact: KernelArtifact, subjects: Subjects) -> Iterator[Violation]:
    """Inputs, constants and outputs are in each program as the signature says; the return value uses them."""
    for i, tensor in enumerate(artifact.signature.inputs):
        yield from _missing(subjects, tensor, i, Origin.input)
    for i, constant in enumerate(artifact.signature.constants):
        yield from _missing(subjects, constant, i, Origin.constant)
    for i, output in enumerate(artifact.signature.outputs):
        yield from _bad_output(artifact, subjects, output, i)
    if not _is_sound(artifact.signature.returns, len(artifact.signature.outputs)):
        yield Violation("signature_holds", -1, -1, "the return value is not made of the outputs")


def _missing(
    subjects: Subjects, tensor: Input | Constant, number: int, origin: Origin
) -> Iterator[Violation]:
    for subject in subjects:
        buffer = buffers_by_key(subject.program).get(tensor.key)
        if buffer is None or (buffer.origin, buffer.shape, buffer.dtype) != (
            origin,
            tensor.shape,
            tensor.dtype,
        ):
            says = (
                f"{origin.value} `{tensor.name}` {tensor.dtype}{list(tensor.shape)} is no buffer of this core"
            )
            yield subject.violation("signature_holds", number, says)


def _bad_output(
    artifact: KernelArtifact, subjects: Subjects, output: Output, number: int
) -> Iterator[Violation]:
    inputs = artifact.signature.inputs
    if not -1 <= output.alias < len(inputs) or (output.alias >= 0 and inputs[output.alias].key != output.key):
        yield Violation(
            "signature_holds", -1, number, f"output `{output.name}` is an alias of {output.alias}"
        )
    if output.dtype not in DTYPES or tuple(count for _, count in output.pattern) != output.shape:
        says = f"output `{output.name}` {output.dtype}{list(output.shape)} has the pattern {output.pattern}"
        yield Violation("signature_holds", -1, number, says)
        return
    for subject in subjects:
        buffer = buffers_by_key(subject.program).get(output.key)
        if buffer is None or buffer.space is not Space.shared_hbm or not output_is_inside(output, buffer):
            says = f"output `{output.name}` is no view of a shared buffer of this core"
            yield subject.violation("signature_holds", number, says)


def _is_sound(structure: Structure, outputs: int) -> bool:
    """True if leaves are outputs, containers alone hold items, and each item of a dictionary has its key."""
    waiting = [structure]
    while waiting:
        one = waiting.pop()
        is_leaf = one.kind == "leaf"
        keys = len(one.items) if one.kind == "dict" else 0
        if is_leaf != (one.index != -1) or len(one.keys) != keys or len(set(one.keys)) != keys:
            return False
        if (is_leaf and not 0 <= one.index < outputs) or (one.items and one.kind in ("leaf", "none")):
            return False
        waiting.extend(one.items)
    return True


def constants_hold(artifact: KernelArtifact, subjects: Subjects) -> Iterator[Violation]:
    """Each constant of the signature has as many bytes as its shape and dtype need."""
    constants = artifact.signature.constants
    if len(constants) != len(artifact.constants):
        says = f"the signature has {len(constants)} constants, {len(artifact.constants)} are there"
        yield Violation("constants_hold", -1, -1, says)
        return
    for i, (constant, data) in enumerate(zip(constants, artifact.constants, strict=True)):
        shape = constant.shape if len(constant.shape) <= MAX_RANK else (0,)
        if constant.dtype not in DTYPES or len(data) != size_bytes(shape, constant.dtype):
            says = f"constant `{constant.name}` {constant.dtype}{list(constant.shape)} has {len(data)} bytes"
            yield Violation("constants_hold", -1, i, says)


def skeletons_agree(artifact: KernelArtifact, subjects: Subjects) -> Iterator[Violation]:
    """Every core runs the same loops, and inside them meets the others in the same order.

    Barriers agree in attributes and in what they order; trip counts may differ.
    """
    first = _skeleton(subjects[0]) if subjects else []
    for subject in subjects[1:]:
        for mine, theirs in zip_longest(_skeleton(subject), first):
            if mine is None or theirs is None or mine[0] != theirs[0]:
                says = f"core {subject.program.core} {_says(mine)} where core 0 {_says(theirs)}"
                yield subject.violation("skeletons_agree", mine[1] if mine else -1, says)
                break


Step = tuple[str, int]


def _says(step: Step | None) -> str:
    return "ends" if step is None else step[0]


def _skeleton(subject: Subject) -> list[Step]:
    meets = {i for i, row in enumerate(subject.rows) if row is not None and row.sync is not None}
    steps: list[Step] = []
    position = 0

    def walk(body: tuple[Instruction | Loop, ...]) -> None:
        nonlocal position
        for item in body:
            if isinstance(item, Loop):
                steps.append((f"opens a `{item.kind.value}` loop", position))
                walk(item.body)
                steps.append((f"ends a `{item.kind.value}` loop", position))
                continue
            if item.opcode in meets:
                steps.append((_meeting(subject, item), position))
            position += 1

    walk(subject.program.body)
    return steps


def _meeting(subject: Subject, i: Instruction) -> str:
    row, name = subject.rows[i.opcode], subject.program.opcodes[i.opcode]
    if row is None or row.sync != "barrier":
        return f"runs `{name}`"
    tensors = [subject.program.buffers[o.buffer].key for o in i.operands if isinstance(o, View)]
    attributes = ", ".join(
        f"{attribute}={value}"
        for attribute, value in zip(row.attributes, subject.program.attrs[i.attrs], strict=False)
    )
    return f"runs `{name}({', '.join([*tensors, attributes])})`"


CORE_INVARIANTS: tuple[Callable[[KernelArtifact, Subjects], Iterator[Violation]], ...] = (
    cores_numbered,
    shared_buffers_agree,
    signature_holds,
    constants_hold,
    skeletons_agree,
)
"""These compare the programs with one another and with the signature."""

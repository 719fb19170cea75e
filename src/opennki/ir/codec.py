"""The canonical bytes of programs and artifacts: MessagePack, equal records give equal bytes.

Decoding is typed, bounded and takes canonical bytes only: all else is `MalformedBytes`, whatever it is. It
checks form, not meaning; `ir/verify.py` checks the invariants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import MsgspecError, Struct, msgpack
from msgspec.structs import replace

from opennki.diag import InternalError, Location
from opennki.ir.program import MAX_LOOP_DEPTH, first_use, loop_depth
from opennki.ir.types import AttrValue, Instruction, KernelArtifact, Loop, Program, Signature, Structure, View

__all__ = [
    "MAX_PROGRAMS",
    "MalformedBytes",
    "decode_artifact",
    "decode_program",
    "encode_artifact",
    "encode_attributes",
    "encode_program",
    "semantic_digest",
]

MAX_PROGRAMS = 64
"""How many programs an artifact holds at most; a Logical NeuronCore has one or two cores today."""

_HEADER = "artifact"
_ENCODER = msgpack.Encoder()
T = TypeVar("T")


class MalformedBytes(ValueError):
    """The bytes are no canonical record. The message says why, without naming a file."""


class _Header(Struct, frozen=True):
    """An artifact without its programs and constants."""

    kernel: str
    target: str
    location: Location
    signature: Signature
    programs: int


_PROGRAM: msgpack.Decoder[Program] = msgpack.Decoder(Program)
_ARTIFACT: msgpack.Decoder[_Header] = msgpack.Decoder(_Header)


def _encode(record: object) -> bytes:
    try:
        return _ENCODER.encode(record)
    except (OverflowError, UnicodeEncodeError) as problem:
        raise InternalError(f"a record holds what MessagePack cannot: {problem}") from problem


def _decode(decoder: msgpack.Decoder[T], data: bytes, what: str) -> T:
    try:
        record = decoder.decode(data)
        is_canonical = _ENCODER.encode(record) == data
    except (MsgspecError, ValueError, RecursionError, MemoryError) as problem:
        raise MalformedBytes(f"{what} is malformed: {problem or type(problem).__name__}") from None
    if not is_canonical:
        raise MalformedBytes(f"{what} is not in canonical form")
    return record


def encode_program(program: Program) -> bytes:
    """Return the canonical bytes of a program."""
    return _encode(program)


def encode_attributes(values: tuple[AttrValue, ...]) -> bytes:
    """Return the canonical bytes of an attribute tuple: a key that keeps type and sign of numbers apart."""
    return _encode(values)


def decode_program(data: bytes) -> Program:
    """Return the program whose canonical bytes are `data`. Raises `MalformedBytes`.

    `-0.0`, infinities and the payload of a NaN come back as they were.
    """
    program = _decode(_PROGRAM, data, "a program")
    if loop_depth(program) > MAX_LOOP_DEPTH:
        raise MalformedBytes(f"loops nest deeper than {MAX_LOOP_DEPTH}")
    return program


def encode_artifact(artifact: KernelArtifact) -> dict[str, bytes]:
    """Return the artifact as named parts: a header, one program each, each distinct constant once.

    Findings are not part of it.
    """
    parts = {_HEADER: _encode(_header(artifact))}
    for i, program in enumerate(artifact.programs):
        parts[f"programs/{i}"] = encode_program(program)
    for constant, data in zip(artifact.signature.constants, artifact.constants, strict=True):
        parts[f"constants/{constant.digest}"] = data
    return parts


def _header(artifact: KernelArtifact) -> _Header:
    return _Header(
        artifact.kernel, artifact.target, artifact.location, artifact.signature, len(artifact.programs)
    )


def decode_artifact(parts: Mapping[str, bytes]) -> KernelArtifact:
    """Return the artifact whose parts these are, no more and no fewer. Raises `MalformedBytes`."""
    header = _decode(_ARTIFACT, _part(parts, _HEADER), "the artifact's header")
    if not 1 <= header.programs <= MAX_PROGRAMS:
        raise MalformedBytes(f"an artifact has 1 to {MAX_PROGRAMS} programs, not {header.programs}")
    if _structure_depth(header.signature.returns) > MAX_LOOP_DEPTH:
        raise MalformedBytes(f"the return value nests deeper than {MAX_LOOP_DEPTH}")
    programs = [f"programs/{i}" for i in range(header.programs)]
    constants = [f"constants/{constant.digest}" for constant in header.signature.constants]
    strangers = sorted(set(parts) - {_HEADER, *programs, *constants})
    if strangers:
        raise MalformedBytes(f"`{strangers[0]}` belongs to no artifact")
    for constant, name in zip(header.signature.constants, constants, strict=True):
        if _sha256(_part(parts, name)) != constant.digest:
            raise MalformedBytes(f"the bytes of constant `{constant.name}` do not match their digest")
    return KernelArtifact(
        kernel=header.kernel,
        target=header.target,
        location=header.location,
        signature=header.signature,
        programs=tuple(decode_program(_part(parts, name)) for name in programs),
        constants=tuple(parts[name] for name in constants),
    )


def _part(parts: Mapping[str, bytes], name: str) -> bytes:
    if name not in parts:
        raise MalformedBytes(f"`{name}` is missing")
    return parts[name]


def _structure_depth(structure: Structure) -> int:
    depth = 0
    level: list[Structure] = [structure]
    while level:
        depth += 1
        level = [item for parent in level for item in parent.items]
    return depth


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def semantic_digest(artifact: KernelArtifact) -> str:
    """Return the SHA-256 (hex) of what the artifact computes: kernel, target, signature, programs, constants.

    Locations and findings are left out, also where a buffer's key is made of its allocation line: moving a
    kernel within its file, or the file to another folder, keeps the digest. So do rows, layouts and
    attributes that a table holds and no instruction uses.
    """
    import hashlib

    numbers: dict[str, str] = {}

    def number(key: str) -> str:
        return numbers.setdefault(key, str(len(numbers)))

    programs = [_without_locations(program, number) for program in artifact.programs]
    records: list[object] = [
        artifact.kernel,
        artifact.target,
        [replace(tensor, key=number(tensor.key)) for tensor in artifact.signature.inputs],
        [replace(tensor, key=number(tensor.key)) for tensor in artifact.signature.constants],
        [replace(tensor, key=number(tensor.key)) for tensor in artifact.signature.outputs],
        artifact.signature.returns,
        programs,
    ]
    return hashlib.sha256(_encode(records)).hexdigest()


def _without_locations(program: Program, number: Callable[[str], str]) -> Program:
    """Return the program without its places, its tables reduced to what is used, in that order."""
    opcodes, layouts, attrs = first_use(program)
    numbers = _Numbers(*({old: new for new, old in enumerate(used)} for used in (opcodes, layouts, attrs)))
    return Program(
        core=program.core,
        opcodes=tuple(program.opcodes[i] for i in opcodes),
        buffers=tuple(replace(b, key=number(b.key), location=0) for b in program.buffers),
        layouts=tuple(program.layouts[i] for i in layouts),
        attrs=tuple(program.attrs[i] for i in attrs),
        locations=(),
        body=_renumbered(program.body, numbers),
    )


class _Numbers(Struct, frozen=True):
    opcodes: dict[int, int]
    layouts: dict[int, int]
    attrs: dict[int, int]


def _renumbered(body: tuple[Instruction | Loop, ...], to: _Numbers) -> tuple[Instruction | Loop, ...]:
    return tuple(
        [
            replace(item, body=_renumbered(item.body, to), location=0)
            if isinstance(item, Loop)
            else Instruction(
                to.opcodes[item.opcode],
                tuple([_moved(o, to.layouts) if type(o) is View else o for o in item.operands]),
                to.attrs[item.attrs],
                item.engine,
                0,
                item.after,
                item.name,
            )
            for item in body
        ]
    )


def _moved(view: View, layouts: dict[int, int]) -> View:
    index = view.index
    if index is not None and isinstance(index.source, View):
        index = replace(index, source=_moved(index.source, layouts))
    return View(view.buffer, view.offset, layouts[view.layout], index)

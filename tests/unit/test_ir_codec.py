"""Canonical bytes: what goes in comes out, bit for bit, and nothing else is taken."""

from __future__ import annotations

import math
import struct

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from opennki.diag import InternalError, Location, diagnostic
from opennki.ir.codec import (
    MalformedBytes,
    decode_artifact,
    decode_program,
    encode_artifact,
    encode_program,
    semantic_digest,
)
from opennki.ir.types import (
    Buffer,
    Instruction,
    KernelArtifact,
    Layout,
    Loop,
    LoopKind,
    Origin,
    Program,
    Register,
    Space,
    Structure,
    View,
)
from tests.unit.ir_records import DIGEST, ZEROS, artifact, program


def bits(value: object) -> bytes:
    assert isinstance(value, float)
    return struct.pack(">d", value)


def test_a_program_comes_back_equal() -> None:
    before = program(1)
    after = decode_program(encode_program(before))
    assert after == before
    assert encode_program(after) == encode_program(before)


def test_an_artifact_comes_back_equal_without_its_findings() -> None:
    before = replace(artifact(), findings=(diagnostic("ONKI504", file="f", reason="r"),))
    parts = encode_artifact(before)
    assert sorted(parts) == ["artifact", f"constants/{DIGEST}", "programs/0", "programs/1"]
    assert decode_artifact(parts) == artifact()


def test_a_constant_of_two_names_is_held_once() -> None:
    one = artifact()
    twin = replace(one.signature.constants[0], name="twin", key="twin")
    signature = replace(one.signature, constants=(*one.signature.constants, twin))
    both = replace(one, signature=signature, constants=(ZEROS, ZEROS))
    assert sorted(encode_artifact(both)) == ["artifact", f"constants/{DIGEST}", "programs/0", "programs/1"]
    assert decode_artifact(encode_artifact(both)).constants == (ZEROS, ZEROS)


@pytest.mark.parametrize(
    "pattern",
    [0x0000000000000000, 0x8000000000000000, 0x7FF0000000000000, 0x7FF8000000000123, 0xFFF8000000000001, 1],
    ids=["0.0", "-0.0", "inf", "nan with payload", "negative nan", "smallest subnormal"],
)
def test_floats_keep_their_bits(pattern: int) -> None:
    (value,) = struct.unpack(">d", pattern.to_bytes(8, "big"))
    one = program(0)
    body = (Instruction(1, (one.body[0].operands[0], value), 0, 5, 0),)  # type: ignore[union-attr]  # no loop
    after = decode_program(encode_program(replace(one, body=body, attrs=((value, (value,)),))))
    instruction = after.body[0]
    assert isinstance(instruction, Instruction)
    nested = after.attrs[0][1]
    assert isinstance(nested, tuple)
    assert [bits(v) for v in (instruction.operands[1], after.attrs[0][0], nested[0])] == [
        pattern.to_bytes(8, "big")
    ] * 3


def test_numbers_keep_their_type() -> None:
    values = (True, 1, 1.0, False, 0, 0.0, -0.0, None, "1", (), (1, (True, (1.0,))))
    after = decode_program(encode_program(replace(program(0), attrs=(values,)))).attrs[0]
    assert [(type(v), repr(v)) for v in after] == [(type(v), repr(v)) for v in values]


def test_bytes_cut_anywhere_are_malformed() -> None:
    data = encode_program(program(0))
    for end in range(len(data)):
        with pytest.raises(MalformedBytes):
            decode_program(data[:end])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data + b"\xc0", "malformed"),
        (lambda data: b"", "malformed"),
        (lambda data: b"\xdd\xff\xff\xff\xff" + data, "malformed"),
        (lambda data: data.replace(b"\xa4core\x00", b"\xa4core\xcc\x00"), "not in canonical form"),
        (lambda data: data.replace(b"\xa4core\x00", b"\xa4core\xc3"), "malformed"),
        (lambda data: b"\x88" + data[1:] + b"\xa1x\x00", "not in canonical form"),
        (lambda data: data.replace(b"float32", b"\xff\xff\xff\xff\xff\xff\xff"), "malformed"),
    ],
    ids=["behind", "empty", "huge array", "long integer", "bool for int", "unknown field", "no UTF-8"],
)
def test_other_bytes_are_refused(change: object, says: str) -> None:
    assert callable(change)
    with pytest.raises(MalformedBytes, match=says):
        decode_program(change(encode_program(program(0))))


def nested_loops(depth: int) -> Program:
    body: tuple[Instruction | Loop, ...] = ()
    for i in range(depth):
        body = (Loop(i, LoopKind.counted, Register(i, "int32"), 0, 1, 1, body, 0),)
    return replace(program(0), body=body)


def test_loops_nest_up_to_the_limit() -> None:
    assert decode_program(encode_program(nested_loops(64))) == nested_loops(64)
    with pytest.raises(MalformedBytes, match="loops nest deeper than 64"):
        decode_program(encode_program(nested_loops(65)))


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_no_depth_breaks_the_decoder(depth: int) -> None:
    head = encode_program(replace(program(0), body=()))[:-1]  # without the empty body
    opened = b"\x91\x99\x05\x00\xa3for\x93\x01\x00\xa5int32\x00\x01\x01"
    with pytest.raises(MalformedBytes):
        decode_program(head + opened * depth + b"\x90" + b"\x00" * depth)


def test_a_return_value_nests_up_to_the_limit() -> None:
    def returning(depth: int) -> KernelArtifact:
        structure = Structure("none")
        for _ in range(depth - 1):
            structure = Structure("list", items=(structure,))
        return replace(artifact(), signature=replace(artifact().signature, returns=structure))

    assert decode_artifact(encode_artifact(returning(64))) == returning(64)
    with pytest.raises(MalformedBytes, match="nests deeper than 64"):
        decode_artifact(encode_artifact(returning(65)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"programs/1": None}, "`programs/1` is missing"),
        ({"artifact": None}, "`artifact` is missing"),
        ({"programs/2": b""}, "`programs/2` belongs to no artifact"),
        ({f"constants/{DIGEST}": b"\x01" * 16}, "the bytes of constant `weights` do not match their digest"),
        ({"programs/0": b"\x80"}, "a program is malformed"),
    ],
)
def test_parts_must_fit_together(changes: dict[str, bytes | None], says: str) -> None:
    parts = {**encode_artifact(artifact()), **changes}
    with pytest.raises(MalformedBytes, match=says):
        decode_artifact({name: data for name, data in parts.items() if data is not None})


@pytest.mark.parametrize("count", [0, 65, -1])
def test_the_number_of_programs_is_bounded(count: int) -> None:
    parts = encode_artifact(artifact())
    header = msgpack.decode(parts["artifact"])
    header["programs"] = count
    with pytest.raises(MalformedBytes, match=f"1 to 64 programs, not {count}"):
        decode_artifact({**parts, "artifact": msgpack.encode(header)})


def test_what_cannot_be_encoded_is_our_mistake() -> None:
    with pytest.raises(InternalError, match="MessagePack"):
        encode_program(replace(program(0), attrs=((1 << 70,),)))
    with pytest.raises(InternalError, match="MessagePack"):
        encode_program(replace(program(0), opcodes=("\ud800",)))


# The digest of what an artifact computes


def moved(one: KernelArtifact) -> KernelArtifact:
    """Return the artifact as if its file had been renamed and got a line more at its top."""

    def down(location: Location) -> Location:
        return replace(location, file="other.py", line=location.line + 1, text="")

    programs = tuple(
        replace(
            p,
            locations=(Location("other.py", 1, 1, 0, 1, "f", ""), *map(down, p.locations)),
            buffers=tuple(
                replace(b, key=b.key.replace("k.py:", "other.py:1"), location=b.location + 1)
                for b in p.buffers
            ),
            body=tuple(replace(item, location=item.location + 1) for item in p.body),
        )
        for p in one.programs
    )
    return replace(one, location=down(one.location), programs=programs)


def test_the_digest_leaves_locations_and_findings_out() -> None:
    one = artifact()
    other = replace(moved(one), findings=(diagnostic("ONKI504", file="f", reason="r"),))
    assert encode_artifact(other) != encode_artifact(one)
    assert semantic_digest(other) == semantic_digest(one)
    assert len(semantic_digest(one)) == 64


def test_the_digest_leaves_out_what_is_not_used() -> None:
    one = artifact()
    first = one.programs[0]
    layouts = (first.layouts[1], Layout(Space.psum, "float32", ()), first.layouts[0], *first.layouts[2:])
    to = {0: 2, 1: 0, **{i: i + 1 for i in range(2, 6)}}

    def moved_view(view: View) -> View:
        index = view.index
        if index is not None and isinstance(index.source, View):
            index = replace(index, source=moved_view(index.source))
        return replace(view, layout=to[view.layout], index=index)

    def moved_item(item: Instruction | Loop) -> Instruction | Loop:
        if isinstance(item, Loop):
            return replace(item, body=tuple(map(moved_item, item.body)))
        operands = tuple(moved_view(o) if isinstance(o, View) else o for o in item.operands)
        return replace(item, operands=operands, opcode=item.opcode + 1)

    body = tuple(map(moved_item, first.body))
    other = replace(first, opcodes=("unused", *first.opcodes), layouts=layouts, body=body)
    assert semantic_digest(replace(one, programs=(other, one.programs[1]))) == semantic_digest(one)


def change_offset(one: KernelArtifact) -> KernelArtifact:
    first = one.programs[0].body[0]
    assert isinstance(first, Instruction)
    changed = replace(first, operands=(first.operands[0], View(0, 64, 1)))
    body = (changed, *one.programs[0].body[1:])
    return replace(one, programs=(replace(one.programs[0], body=body), one.programs[1]))


def change_key(one: KernelArtifact) -> KernelArtifact:
    buffers = one.programs[0].buffers
    changed = replace(one.programs[0], buffers=(*buffers[:-1], replace(buffers[-1], key="k.py:6#0")))
    return replace(one, programs=(changed, one.programs[1]))


@pytest.mark.parametrize(
    "change",
    [
        change_offset,
        change_key,
        lambda one: replace(one, kernel="other"),
        lambda one: replace(one, target="trn3"),
        lambda one: replace(one, programs=one.programs[:1]),
        lambda one: replace(one, signature=replace(one.signature, returns=Structure("none"))),
    ],
    ids=["offset", "one core's key", "kernel", "target", "degree", "return value"],
)
def test_the_digest_sees_everything_else(change: object) -> None:
    assert callable(change)
    assert semantic_digest(change(artifact())) != semantic_digest(artifact())


# Size


def tiled_matmul(count: int) -> Program:
    """Return a program of `count` matrix products, each operand sliced at the call."""
    sbuf = [
        Buffer(i, f"t{i}", f"k.py:3#{i}", Space.sbuf, (128, 32768), "bfloat16", Origin.local, None, -1, 0)
        for i in range(64)
    ]
    psum = [
        Buffer(64 + i, f"p{i}", f"k.py:4#{i}", Space.psum, (128, 512), "float32", Origin.local, None, -1, 0)
        for i in range(8)
    ]
    layouts = (
        Layout(Space.psum, "float32", ((512, 128), (1, 512))),
        Layout(Space.sbuf, "bfloat16", ((32768, 128), (1, 128))),
        Layout(Space.sbuf, "bfloat16", ((32768, 128), (1, 512))),
    )
    body = tuple(
        Instruction(
            0,
            (
                View(64 + i % 8, 0, 0),
                View(i % 64, i // 64 * 128 % 32768, 1),
                View(i * 7 % 64, i * 512 % 32768, 2),
            ),
            0,
            1,
            i % 7,
        )
        for i in range(count)
    )
    places = tuple(Location("k.py", 9 + i, 9 + i, 4, 60, "mm", "product(dst=p, …)") for i in range(7))
    return Program(0, ("product",), (*sbuf, *psum), layouts, ((None, False, 0),), places, body)


def test_an_instruction_takes_few_bytes() -> None:
    count = 100_000
    size = len(encode_program(tiled_matmul(count))) / count
    assert math.floor(size) == 30  # the budget is 48

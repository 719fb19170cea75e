"""Changed bytes and changed text end in a value or in a catalogued error, never in anything else."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from opennki.artifact import artifact_bytes, artifact_of, pack
from opennki.diag import OpenNkiError
from opennki.ir.codec import MalformedBytes, decode_program, encode_artifact, encode_program
from opennki.ir.text import parse_artifact, print_artifact
from opennki.ir.types import KernelArtifact, Program
from tests.unit.ir_records import FACTS, artifact, program

SOUND = artifact_bytes(artifact())
PROGRAM = encode_program(program(1))
PARTS = encode_artifact(artifact())
TEXT = print_artifact(artifact(), FACTS)


def changed(data: bytes, source: random.Random) -> bytes:
    """Return `data` with bits flipped, or cut, longer, or with a piece moved, doubled or overwritten."""
    mutable = bytearray(data)
    at, length = source.randrange(len(data)), source.randint(1, 40)
    kind = source.randrange(6)
    if kind == 0:
        for _ in range(source.randint(1, 4)):
            mutable[source.randrange(len(data))] ^= 1 << source.randrange(8)
    elif kind == 1:
        del mutable[at:]
    elif kind == 2:
        mutable += source.randbytes(length)
    elif kind == 3:
        del mutable[at : at + length]
    elif kind == 4:
        mutable[at:at] = mutable[at : at + length]
    else:
        mutable[at : at + length] = source.randbytes(length)
    return bytes(mutable)


def loaded(data: bytes) -> KernelArtifact | None:
    """Return the artifact that `data` holds, None where it ends in one of the errors for that."""
    code = ""
    try:
        return artifact_of(data, "a.nka", FACTS)
    except OpenNkiError as error:
        code = error.code
    assert code in ("ONKI501", "ONKI502", "ONKI503", "NCC_EVRF065")
    return None


@given(st.integers(0, 1 << 32))
@settings(max_examples=200)
def test_a_changed_file_is_an_error_or_the_same_artifact(seed: int) -> None:
    found = loaded(changed(SOUND, random.Random(seed)))
    assert found is None or found == artifact()


@given(st.integers(0, 1 << 32), st.sampled_from(sorted(PARTS)))
@settings(max_examples=200)
def test_changed_parts_with_digests_that_match_are_an_error_or_sound(seed: int, name: str) -> None:
    parts = {**PARTS, name: changed(PARTS[name], random.Random(seed))}
    said = {"kernel": "fold", "lnc": 2, "target": "trn2"}
    found = loaded(pack("nka", said, parts))
    assert found is None or artifact_bytes(found) == pack("nka", said, parts)


@given(st.integers(0, 1 << 32))
@settings(max_examples=200)
def test_changed_bytes_of_a_program_are_malformed_or_canonical(seed: int) -> None:
    data = changed(PROGRAM, random.Random(seed))
    try:
        found: Program | None = decode_program(data)
    except MalformedBytes:
        found = None
    assert found is None or encode_program(found) == data


@given(st.integers(0, 1 << 32))
@settings(max_examples=200)
def test_a_changed_text_is_an_error_or_reads_back(seed: int) -> None:
    text = changed(TEXT.encode(), random.Random(seed)).decode("utf-8", "replace")
    found, code = None, ""
    try:
        found = parse_artifact(text, FACTS)
    except OpenNkiError as error:
        code = error.code
    assert (found is None) == (code == "ONKI505")
    if found is not None:
        again = parse_artifact(print_artifact(found, FACTS), FACTS)
        assert encode_artifact(again) == encode_artifact(found)


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_are_no_artifact(data: bytes) -> None:
    assert loaded(data) is None
    assert loaded(b"PK\x03\x04" + data) is None

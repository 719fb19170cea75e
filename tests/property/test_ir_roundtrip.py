"""Whatever a program holds, its bytes and its text give it back bit for bit."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from opennki.ir.codec import decode_artifact, decode_program, encode_artifact, encode_program, semantic_digest
from opennki.ir.notation import pattern_of, slices_of
from opennki.ir.text import parse_artifact, parse_program, print_artifact, print_program
from opennki.ir.types import KernelArtifact, Program
from opennki.ir.verify import verify
from tests.property.ir_strategies import FACTS, artifacts, programs


@given(programs())
@settings(max_examples=80)
def test_bytes_and_text_give_the_program_back(program: Program) -> None:
    data = encode_program(program)
    # Bytes, not records, are compared: NaN differs from itself and 0.0 equals -0.0.
    assert encode_program(decode_program(data)) == data
    assert encode_program(parse_program(print_program(program, FACTS), FACTS)) == data
    assert encode_program(parse_program(print_program(program, {}), {})) == data


@given(artifacts())
@settings(max_examples=40)
def test_bytes_and_text_give_the_artifact_back(artifact: KernelArtifact) -> None:
    parts = encode_artifact(artifact)
    decoded = decode_artifact(parts)
    assert encode_artifact(decoded) == parts
    assert semantic_digest(decoded) == semantic_digest(artifact)
    text = print_artifact(artifact, FACTS)
    parsed = parse_artifact(text, FACTS)
    assert encode_artifact(parsed) == parts
    assert print_artifact(parsed, FACTS) == text
    # The verifier takes whatever decodes, sound or not.
    assert {violation.core for violation in verify(artifact, FACTS)} <= {-1, 0, 1}
    unknown = [v for v in verify(artifact, {}) if v.invariant == "rows_known"]
    assert len(unknown) == sum(len(program.opcodes) for program in artifact.programs)


@given(
    st.lists(st.integers(1, 5), max_size=4).map(tuple),
    st.integers(0, 700),
    st.lists(st.tuples(st.integers(-8, 130), st.integers(1, 5)), max_size=4).map(tuple),
)
@settings(max_examples=150)
def test_slices_mean_exactly_their_pattern(
    shape: tuple[int, ...], offset: int, pattern: tuple[tuple[int, int], ...]
) -> None:
    slices = slices_of(shape, offset, pattern)
    if slices is not None:
        assert pattern_of(shape, slices) == (offset, pattern)


@given(st.data(), st.lists(st.integers(1, 6), max_size=4).map(tuple))
@settings(max_examples=150)
def test_whatever_slices_give_is_written_as_slices(data: st.DataObject, shape: tuple[int, ...]) -> None:
    def axis(size: int) -> st.SearchStrategy[int | tuple[int, int, int]]:
        ranges = st.tuples(st.integers(0, size - 1), st.integers(1, size), st.integers(1, size))
        return st.integers(0, size - 1) | ranges.filter(lambda r: r[0] < r[1])

    found = pattern_of(shape, tuple(data.draw(axis(size)) for size in shape))
    assert found is not None
    offset, pattern = found
    # A position along an axis of length 1 and a range over it can be told apart by no pattern, so some
    # patterns have several readings; one of them is found unless a range of one element hides its axis.
    if all(count > 1 for _, count in pattern):
        slices = slices_of(shape, offset, pattern)
        assert slices is not None
        assert pattern_of(shape, slices) == found

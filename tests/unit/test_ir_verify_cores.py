"""The invariants across cores, broken on purpose."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from opennki.diag import Location
from opennki.ir.types import (
    KernelArtifact,
    LoopKind,
    Output,
    Structure,
    View,
)
from opennki.ir.verify import Violation, verify
from tests.unit.ir_records import (
    FACTS,
    LOCATIONS,
    Change,
    artifact,
    item,
    table,
    with_program,
)


def signature(**fields: object) -> KernelArtifact:
    return replace(artifact(), signature=replace(artifact().signature, **fields))


OUTPUT = artifact().signature.outputs[0]
INPUT = artifact().signature.inputs[0]


@pytest.mark.parametrize(
    ("broken", "violation"),
    [
        (
            replace(artifact(), programs=artifact().programs[::-1]),
            Violation("cores_numbered", -1, -1, "the programs are for the cores [1, 0]"),
        ),
        (
            replace(artifact(), programs=()),
            Violation("cores_numbered", -1, -1, "the programs are for the cores []"),
        ),
        (
            with_program(table("buffers", 2, shape=(512, 64))),
            Violation(
                "shared_buffers_agree",
                1,
                2,
                "the shared buffer `out` (key `out`) is local float32[512, 64] on core 1 "
                "and local float32[256, 64] on core 0",
            ),
        ),
        (
            with_program(table("buffers", 0, key="b")),
            Violation("signature_holds", 1, 0, "input `a` float32[256, 64] is no buffer of this core"),
        ),
        (
            signature(inputs=(replace(INPUT, dtype="int32"),)),
            Violation("signature_holds", 0, 0, "input `a` int32[256, 64] is no buffer of this core"),
        ),
        (
            signature(constants=(replace(artifact().signature.constants[0], key="a"),)),
            Violation("signature_holds", 0, 0, "constant `weights` float32[4] is no buffer of this core"),
        ),
        (
            signature(outputs=(replace(OUTPUT, key="k.py:3#0"),)),
            Violation("signature_holds", 0, 0, "output `out` is no view of a shared buffer of this core"),
        ),
        (
            signature(outputs=(replace(OUTPUT, offset=1),)),
            Violation("signature_holds", 0, 0, "output `out` is no view of a shared buffer of this core"),
        ),
        (
            signature(outputs=(replace(OUTPUT, alias=1),)),
            Violation("signature_holds", -1, 0, "output `out` is an alias of 1"),
        ),
        (
            signature(outputs=(replace(OUTPUT, alias=0),)),
            Violation("signature_holds", -1, 0, "output `out` is an alias of 0"),
        ),
        (
            signature(outputs=(replace(OUTPUT, shape=(256, 32)),)),
            Violation(
                "signature_holds", -1, 0, "output `out` float32[256, 32] has the pattern ((64, 256), (1, 64))"
            ),
        ),
        (
            replace(artifact(), constants=()),
            Violation("constants_hold", -1, -1, "the signature has 1 constants, 0 are there"),
        ),
        (
            replace(artifact(), constants=(b"short",)),
            Violation("constants_hold", -1, 0, "constant `weights` float32[4] has 5 bytes"),
        ),
    ],
)
def test_an_invariant_across_cores(broken: KernelArtifact, violation: Violation) -> None:
    found = [one for one in verify(broken, FACTS) if one.invariant == violation.invariant]
    assert found[0] == violation


@pytest.mark.parametrize(
    "returns",
    [
        Structure("leaf", 1),
        Structure("leaf", -1),
        Structure("none", 0),
        Structure("tuple", items=(Structure("leaf", 3),)),
        Structure("leaf", 0, items=(Structure("none"),)),
        Structure("none", items=(Structure("none"),)),
        Structure("tuple", keys=("a",), items=(Structure("none"),)),
        Structure("dict", keys=("a", "a"), items=(Structure("none"), Structure("none"))),
        Structure("dict", keys=(), items=(Structure("none"),)),
    ],
)
def test_a_return_value_is_made_of_outputs(returns: Structure) -> None:
    says = "the return value is not made of the outputs"
    assert verify(signature(returns=returns), FACTS) == [Violation("signature_holds", -1, -1, says)]


def test_an_output_may_be_an_input() -> None:
    alias = Output("a", "a", (64,), "float32", 64, ((1, 64),), 0)
    assert verify(signature(outputs=(alias,)), FACTS) == []


MEETS = "runs `meet(out, cores=(0, 1))`"


@pytest.mark.parametrize(
    ("change", "where", "says"),
    [
        (lambda p: replace(p, body=p.body[:-1]), -1, f"core 1 ends where core 0 {MEETS}"),
        (lambda p: replace(p, body=(*p.body, p.body[-1])), 6, f"core 1 {MEETS} where core 0 ends"),
        (item(4, operands=(View(0, 0, 5),)), 5, f"core 1 runs `meet(a, cores=(0, 1))` where core 0 {MEETS}"),
        (
            lambda p: replace(item(4, attrs=5)(p), attrs=(*p.attrs, ((0,),))),
            5,
            f"core 1 runs `meet(out, cores=(0,))` where core 0 {MEETS}",
        ),
        (
            item(1, kind=LoopKind.conditional),
            1,
            "core 1 opens a `while` loop where core 0 opens a `for` loop",
        ),
        (
            lambda p: replace(p, body=(*p.body[:1], p.body[4], *p.body[1:4])),
            1,
            f"core 1 {MEETS} where core 0 opens a `for` loop",
        ),
    ],
    ids=["one less", "one more", "another tensor", "other cores", "another loop", "another order"],
)
def test_barriers_and_loops_agree(change: Change, where: int, says: str) -> None:
    found = verify(with_program(change), FACTS)
    assert found == [Violation("skeletons_agree", 1, where, says)]


@pytest.mark.parametrize(
    "change",
    [
        item(1, upper=9),
        lambda p: replace(p, body=(*p.body[:2], *p.body[3:])),
        lambda p: replace(p, body=(p.body[0], *p.body)),
        lambda p: replace(p, locations=(*LOCATIONS, Location("other.py", 1, 1, 0, 1, "f", "x"))),
    ],
    ids=["trip count", "one instruction less", "one more", "places"],
)
def test_the_rest_may_differ_between_cores(change: Change) -> None:
    assert verify(with_program(change), FACTS) == []

"""Every sample of every row at every target: sound records, three runs with equal bytes, a sensible cost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import isfinite, prod
from typing import Any

import pytest
from msgspec.structs import replace

import opennki
from opennki import nki
from opennki.ir.codec import decode_artifact, encode_artifact
from opennki.ir.dtypes import DTYPES
from opennki.ir.text import parse_artifact, print_artifact
from opennki.ir.types import KernelArtifact, Space
from opennki.ir.verify import verify
from opennki.isa.cost import Cost
from opennki.isa.define import Access, Call, Row
from opennki.isa.emit import check_call
from opennki.isa.samples import Sampler, TileSpec
from opennki.isa.table import ROW_FACTS, TABLE
from opennki.targets import TARGETS, Target
from tests.golden_file import Golden
from tests.rows.build_calls import Arguments, BuiltCall, build, call_of, flat, raw

ROWS = [pytest.param(row, id=row.name) for row in TABLE]
CHIPS = [pytest.param(target, id=name) for name, target in TARGETS.items()]
GENERATIONS = [pytest.param(TARGETS[name], id=name) for name in ("trn1", "trn2", "trn3")]


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call traces: a cache would answer for it."""
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "0")


def samples(row: Row, target: Target) -> Iterator[tuple[BuiltCall, int]]:
    """Yield the kernels of a row's samples with their degree; rows that meet other cores at all degrees."""
    for number, arguments in enumerate(row.rules["samples"](Sampler(target))):
        call = build(row, arguments, name=f"{row.name}_{number}")
        for degree in target.lnc_allowed if row.sync is not None else (1,):
            if legal_call(row, arguments, target, degree) is not None:
                yield call, degree
        if accumulates(row, arguments, target):
            yield build(row, arguments, name=f"{row.name}_{number}_fresh", fresh=True), 1


def accumulates(row: Row, arguments: Arguments, target: Target) -> bool:
    """True for a call that adds to what was written before and overwrites elsewhere."""
    attrs = call_of(row, arguments, target).attrs
    return any(role.access(attrs) is Access.ACCUMULATE for role in row.roles)


def decoded(artifact: KernelArtifact) -> KernelArtifact:
    """Return the artifact from its own bytes."""
    parts = encode_artifact(artifact)
    again = decode_artifact(parts)
    assert encode_artifact(again) == parts
    return again


@pytest.mark.parametrize("target", GENERATIONS)
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")
def test_samples_run_alike(row: Row, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target.name)
    for call, degree in samples(row, target):
        artifact = opennki.trace(call.kernel, *call.inputs, lnc=degree)
        assert verify(artifact, ROW_FACTS) == [], call.source
        plain = replace(artifact, findings=())
        again = decoded(artifact)
        assert again == plain
        text = print_artifact(artifact, ROW_FACTS)
        assert parse_artifact(text, ROW_FACTS) == plain, text
        simulated = raw(flat(nki.simulate(call.kernel[degree])(*copies(call))))
        compiled = opennki.compile(artifact, lnc=degree)
        assert raw(flat(compiled(*copies(call)))) == simulated, call.source
        assert raw(flat(compiled(*copies(call)))) == simulated, "the second run of one executable"
        assert raw(flat(opennki.compile(again, lnc=degree)(*copies(call)))) == simulated, call.source


def copies(call: BuiltCall) -> list[Any]:
    """Return copies of a call's inputs."""
    return [array.copy() for array in call.inputs]


@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_samples(row: Row, target: Target) -> None:
    found = list(row.rules["samples"](Sampler(target)))
    assert bool(found) == (target.generation >= row.since)


@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("row", ROWS)
def test_cost_is_positive_and_does_not_shrink(row: Row, target: Target) -> None:
    grown = 0
    largest = 0
    for arguments in row.rules["samples"](Sampler(target)):
        largest = max(
            [largest, *[prod(spec.shape) for spec in arguments.values() if isinstance(spec, TileSpec)]]
        )
        call = legal_call(row, arguments, target, target.lnc_allowed[-1])
        assert call is not None
        before = amount(row, call)
        assert before > 0, arguments
        for larger in doubled(row, arguments, target):
            grown += 1
            assert amount(row, larger) >= before, arguments
    assert grown > 0 or largest <= 1, "rows of single elements have nothing to grow"


def amount(row: Row, call: Call) -> float:
    """Return the cycles or the nanoseconds of a call: exactly one of the two is not 0."""
    cost: Cost = row.rules["cost"](call)
    assert isfinite(cost.cycles)
    assert isfinite(cost.nanoseconds)
    assert (cost.cycles > 0) != (cost.nanoseconds > 0)
    assert cost.basis in ("published", "inferred", "assumed")
    return cost.cycles + cost.nanoseconds


def legal_call(row: Row, arguments: Arguments, target: Target, degree: int) -> Call | None:
    """Return the facts of a call with its engine chosen, None if a rule forbids it."""
    call = call_of(row, arguments, target, degree)
    broken: list[str] = []

    def violated(check: Any, numbers: Any) -> None:
        if not check.warning:
            broken.append(check.rule)

    check_call(call, violated)
    return None if broken else call


def doubled(row: Row, arguments: Arguments, target: Target) -> Iterator[Call]:
    """Yield the legal calls in which some of the tiles have their first or their last axis twice as long."""
    tiles = {name: value for name, value in arguments.items() if isinstance(value, TileSpec | list) and value}
    for axes in product((None, 0, -1), repeat=len(tiles)):
        chosen = {name: axis for name, axis in zip(tiles, axes, strict=True) if axis is not None}
        longer = {name: all_twice(tiles[name], axis, target) for name, axis in chosen.items()}
        if longer and all(longer.values()):
            call = legal_call(row, {**arguments, **longer}, target, target.lnc_allowed[-1])
            if call is not None:
                yield call


def all_twice(value: Any, axis: int, target: Target) -> Any:
    """Return a tile, or each tile of a list, twice as long; None if one of them cannot be."""
    if not isinstance(value, list):
        return twice(value, axis, target)
    found = [twice(spec, axis, target) if isinstance(spec, TileSpec) else None for spec in value]
    return found if all(found) else None


def twice(spec: TileSpec, axis: int, target: Target) -> TileSpec | None:
    """Return a tile with twice as many elements on an axis, None if its memory is too small for it."""
    shape = list(spec.shape)
    shape[axis] *= 2
    size = DTYPES[spec.dtype].bytes * prod(shape[1:])
    limits = {Space.psum: target.psum_bytes_per_partition, Space.sbuf: target.sbuf_bytes_per_partition}
    if size > limits.get(spec.space, size):
        return None
    window = None
    if spec.window is not None:
        parts = list(spec.window)
        start, end, step = parts[axis]
        parts[axis] = (2 * start, 2 * end, step)
        window = tuple(parts)
    return TileSpec(spec.space, tuple(shape), spec.dtype, window)


# ------------------------------------------------------------------------------------------- golden text


@pytest.mark.parametrize("row", ROWS)
def test_ir_text(row: Row, golden: Golden) -> None:
    """The text of the first sample's program on trn2; rows that meet the other core at degree 2."""
    target = TARGETS["trn2"]
    arguments = next(iter(row.rules["samples"](Sampler(target))))
    call = build(row, arguments, name=row.name)
    degree = 1 if row.sync is None else 2
    golden(print_artifact(opennki.trace(call.kernel[degree], *call.inputs, target="trn2"), ROW_FACTS))

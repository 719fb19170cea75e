"""`.indirect()`: what is refused, when and why; its records and its effects."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from msgspec.structs import replace

import opennki
from opennki import nki
from opennki.analyse.effects import effects
from opennki.diag import OpenNkiError
from opennki.ir.types import IndexKind, Instruction, KernelArtifact, View
from opennki.ir.verify import verify
from opennki.isa.define import Access
from opennki.isa.table import ROW_FACTS
from tests.rows.columns_kernels import (
    BF16,
    both,
    gather,
    picks,
    psum,
    refused,
    returned,
    sbuf,
    values,
)

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@pytest.fixture(autouse=True)
def on_trn3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")


@pytest.mark.parametrize("lnc", [1, 2])
def test_an_offset_outside_is_named_when_it_runs(lnc: int) -> None:
    data, index = values(32, 12), picks(32, 2, 12)
    index[19, 1] = 11  # the last legal one
    both(gather(32), data, index, lnc=lnc)
    index[19, 1] = 12
    artifact = opennki.trace(nki.jit(gather(32))[lnc], data, index)
    for run in (nki.simulate(nki.jit(gather(32))[lnc]), opennki.compile(artifact, lnc=lnc)):
        with pytest.raises(OpenNkiError) as caught:
            run(data, index)
        found = caught.value.diagnostics[0]
        assert found.code == "ONKI704"
        assert "run-time index 12 of `tensor_copy` leaves an axis of 12, legal are 0 to 11" in found.message
        assert found.notes == ("the index is the one in partition 19 and column 1 of its tile",)
        assert found.help == ("keep the offsets between 0 and 11",)
    both(gather(19), data, index)  # offset 19 of the group is not used


@pytest.mark.parametrize("target", ["trn1", "inf2", "trn2"])
def test_older_targets_do_not_have_it(target: str) -> None:
    found = refused(gather(16), values(16, 4), picks(16, 1, 4), target=target)
    assert (found.code, found.rule) == ("ONKI207", "GEN-19")
    assert target in found.message


@pytest.mark.parametrize(
    ("partitions", "width", "count", "held"),
    [(16, 2, 33, 32), (128, 4, 65, 64), (20, 4, 5, 4), (1, 3, 2, 1), (15, 1, 16, 15), (32, 1, 17, 16)],
)
def test_more_columns_than_offsets(partitions: int, width: int, count: int, held: int) -> None:
    data, index = values(partitions, 4), picks(partitions, width, 4)
    assert both(gather(held), data, index).shape == (partitions, held)
    found = refused(gather(count), data, index)
    assert (found.code, found.rule) == ("ONKI210", "GEN-OFFSETS")
    assert f"`num_elem={held}`" in found.help[0]


def test_more_columns_than_the_tensor_engine_finds_offsets() -> None:
    def kernel(data: Any, index: Any) -> Any:
        product = psum(16, 17)
        view = nl.load(data).indirect(nl.load(index), 17)  # 16 partitions: 17 of 32 with two columns
        nisa.nc_matmul(dst=product, stationary=nl.load(data)[:, 0:16], moving=view)
        return returned(nl.load(data))

    found = refused(kernel, values(16, 20).astype(BF16), picks(16, 2, 20))
    assert (found.code, found.rule) == ("ONKI210", "GEN-OFFSETS")
    assert "holds 16 offsets for every 32 partitions of the tensor engine" in found.message


SHAPES: list[tuple[Callable[[Any], Any], str, str | None, str]] = [
    (lambda t: t.indirect(sbuf(16, 1, dtype="uint32")), "ONKI210", "GEN-OFFSETS", "are uint16"),
    (lambda t: t.indirect(sbuf(16, 1)), "ONKI210", "GEN-OFFSETS", "a tile of integers, got float32"),
    (lambda t: t.indirect([0, 1]), "ONKI210", "GEN-OFFSETS", "got list"),
    (lambda t: t.indirect(psum(16, 1, dtype="uint16")), "ONKI210", "GEN-OFFSETS", "from SBUF"),
    (lambda t: t.indirect(sbuf(8, 1, dtype="uint16")), "ONKI210", "GEN-OFFSETS", "16, got 8"),
    (lambda t: t.indirect(sbuf(32, 1, dtype="uint16")), "ONKI210", "GEN-OFFSETS", "16, got 32"),
    (lambda t: t.indirect(offsets_tile(), 0), "ONKI210", "GEN-OFFSETS", "got 0"),
    (lambda t: t.indirect(offsets_tile(), -1), "ONKI210", "GEN-OFFSETS", "got -1"),
    (lambda t: t.indirect(offsets_tile(), 17), "ONKI210", "GEN-OFFSETS", "1 to 16"),
    (lambda t: t.indirect(offsets_tile(), 2.0), "ONKI210", None, "must be an int"),
    (lambda t: t.indirect(offsets_tile()).indirect(offsets_tile()), "ONKI210", "GEN-30", "takes one"),
    (lambda t: t.indirect(offsets_tile())[:, 0:4], "ONKI210", "GEN-33", "picked at run time"),
    (lambda t: t.indirect(offsets_tile()).reshape((16, 4, 4)), "ONKI210", "GEN-33", "reshaped"),
    (lambda t: t.indirect(offsets_tile()).view("int32"), "ONKI210", None, "dtype"),
    (lambda t: t.reshape((16, 2, 10)).permute((0, 2, 1)).indirect(offsets_tile()), "ONKI209", None, "[20]"),
]


def offsets_tile() -> Any:
    return sbuf(16, 1, dtype="uint16")


@pytest.mark.parametrize(("make", "code", "rule", "says"), SHAPES)
def test_views_that_cannot_be(make: Callable[[Any], Any], code: str, rule: str | None, says: str) -> None:
    found = refused(lambda: make(sbuf(16, 20)))
    assert (found.code, found.rule) == (code, rule)
    assert says in found.message, found.message


def test_a_tensor_in_hbm_has_no_columns_to_pick() -> None:
    found = refused(lambda data: data.indirect(offsets_tile()), values(16, 20))
    assert found.code == "ONKI210"
    assert "is in shared_hbm" in found.message


def picked(rows: int = 16, columns: int = 20, dtype: str = "float32", space: str = "sbuf") -> Any:
    tile = nl.ndarray((rows, columns), dtype=dtype, buffer=getattr(nl, space))
    return tile.indirect(sbuf(rows, 1, dtype="uint16"), 4)


def placed(start: int, address: int, *, data: int | None = None, columns: int = 20) -> Any:
    """Picked columns of a tile on partition `data`, by offsets on partition `start`."""
    at = {} if data is None else {"address": (data, 0)}
    index = sbuf(16, 1, dtype="uint16", address=(start, address))
    return sbuf(16, columns, **at).indirect(index, 4)


def tile4(rows: int = 16, **more: Any) -> Any:
    return sbuf(rows, 4, **more)


REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "TENSOR_TENSOR-08": (
        "ONKI210",
        lambda: nisa.tensor_tensor(dst=tile4(), data1=tile4(), data2=picked(), op=nl.add),
    ),
    "TENSOR_SCALAR-10": (
        "ONKI206",
        lambda: nisa.tensor_scalar(
            dst=tile4(dtype="int32"), data=picked(dtype="int32"), op0=nl.add, operand0=1
        ),
    ),
    "TENSOR_COPY_PREDICATED-05": (
        "ONKI210",
        lambda: nisa.tensor_copy_predicated(dst=tile4(), src=picked(), predicate=tile4(dtype="uint8")),
    ),
    "TENSOR_COPY-05": (
        "ONKI206",
        lambda: nisa.tensor_copy(dst=tile4(), src=picked(), engine=nisa.engine.gpsimd),
    ),
    "GEN-COLUMNS": ("ONKI210", lambda: nisa.reciprocal(dst=tile4(), data=picked())),
    "GEN-20": ("ONKI203", lambda: nisa.tensor_copy(dst=tile4(), src=placed(16, 64))),
    "GEN-21": ("ONKI203", lambda: nisa.tensor_copy(dst=tile4(), src=placed(64, 64, data=32))),
    "GEN-22": ("ONKI203", lambda: nisa.tensor_copy(dst=placed(64, 64), src=tile4(address=(32, 0)))),
    "GEN-23": (
        "ONKI201",
        lambda: nisa.activation(dst=picked(space="psum"), op=nl.exp, data=tile4()),
    ),
    "NC_MATMUL-29": (
        "ONKI206",
        lambda: nisa.nc_matmul(
            dst=psum(16, 4, dtype="bfloat16"),
            stationary=sbuf(16, 16, dtype="bfloat16"),
            moving=picked(dtype="bfloat16"),
            is_transpose=True,
        ),
    ),
    "NC_MATMUL-30": (
        "ONKI206",
        lambda: nisa.nc_matmul(
            dst=psum(8, 4),
            stationary=sbuf(16, 8, dtype="bfloat16"),
            moving=picked(dtype="bfloat16"),
            tile_position=(32, 0),
            tile_size=(32, 128),
        ),
    ),
    "NC_MATMUL-31": (
        "ONKI202",
        lambda: nisa.nc_matmul(dst=psum(8, 4), stationary=sbuf(16, 8), moving=picked()),
    ),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_what_the_rules_refuse(rule: str) -> None:
    code, call = REFUSED[rule]
    found = refused(lambda: call())
    assert (found.code, found.rule) == (code, rule), found
    assert found.help


@pytest.mark.parametrize(
    "call",
    [
        lambda: nisa.tensor_scalar(dst=tile4(), data=tile4(), op0=nl.add, operand0=picked()[:, :]),
        lambda: nisa.activation(dst=tile4(), op=nl.exp, data=tile4(), bias=picked()),
        lambda: nisa.memset(dst=picked(), value=0.0),
        lambda: nisa.nc_transpose(dst=sbuf(4, 16), data=picked(), engine=nisa.engine.vector),
        lambda: nl.store(nl.ndarray((16, 4), dtype="float32", buffer=nl.shared_hbm), picked()),
    ],
)
def test_operands_that_take_none(call: Callable[[], Any]) -> None:
    found = refused(lambda: call())
    assert found.code == "ONKI210"
    assert "takes no `.indirect()` view as" in found.message


def test_legal_places() -> None:
    def kernel() -> Any:
        nisa.tensor_copy(dst=tile4(), src=placed(32, 64, data=32))
        nisa.tensor_copy(dst=placed(32, 64), src=tile4(address=(32, 0)))
        nisa.tensor_copy(dst=placed(64, 64), src=psum(16, 4))  # no rule for a plain source in PSUM
        return returned(tile4())

    assert opennki.trace(nki.jit(kernel)).target == "trn3"


# ---------------------------------------------------------------------------------- records and analyses


def test_an_indirect_write_may_touch_the_whole_row() -> None:
    def kernel(value: Any, index: Any) -> Any:
        tile = sbuf(16, 20)
        nisa.tensor_copy(dst=tile.indirect(nl.load(index), 4), src=nl.load(value))
        return returned(tile)

    artifact = opennki.trace(nki.jit(kernel), values(16, 4), picks(16, 1, 20))
    program, copy = scatter_of(artifact)
    found = list(effects(program, copy))
    assert [(e.access, e.exact) for e in found] == [
        (Access.READ, True),  # the offsets
        (Access.WRITE, False),
        (Access.READ, True),
    ]
    assert found[1].region is not None
    assert found[1].region.pattern == ((20, 16), (1, 20))


def scatter_of(artifact: KernelArtifact) -> tuple[Any, Instruction]:
    """Return the program and its instruction with picked columns."""
    program = artifact.programs[0]
    for item in program.body:
        assert isinstance(item, Instruction)
        if any(isinstance(o, View) and o.index is not None for o in item.operands):
            return program, item
    raise AssertionError("no picked columns")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"axis": 0}, "picked columns beside other free axes"),
        ({"extent": 21}, "leaves its"),
        ({"extent": 0}, "extent 0"),
        ({"step": 2}, "leaves its"),
        ({"source": View(0, 0, 0)}, "no uint16 tile in SBUF"),
        ({"kind": IndexKind.vector}, "another kind"),
    ],
)
def test_records_that_cannot_be(change: dict[str, Any], says: str) -> None:
    artifact = opennki.trace(nki.jit(gather(4)), values(16, 20), picks(16, 1, 20))
    program, copy = scatter_of(artifact)
    operands = tuple(
        replace(o, index=replace(o.index, **change)) if isinstance(o, View) and o.index is not None else o
        for o in copy.operands
    )
    body = tuple(replace(i, operands=operands) if i is copy else i for i in program.body)
    broken = replace(artifact, programs=(replace(program, body=body),))
    found = [v.says for v in verify(broken, ROW_FACTS) if v.invariant == "views_inside"]
    assert any(says in one for one in found), found

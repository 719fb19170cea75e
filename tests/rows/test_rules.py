"""Every rule of facts/constraints.csv that concerns the rows is held, or stands here with a reason."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import opennki
from opennki.diag import CATALOGUE, OpenNkiError
from opennki.ir.types import Engine
from opennki.isa.define import Check
from opennki.isa.machine_rules import GENERAL_CHECKS
from opennki.isa.samples import Sampler
from opennki.isa.table import TABLE
from opennki.targets import TARGETS
from tests.rows.test_indirect_refused import REFUSED
from tests.rows.test_rejects import LIMITS, output, psum, sbuf

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

SOURCE = Path(opennki.__file__).parent
NAMES = {row.name for row in TABLE} | {"*"}


def facts() -> dict[str, str]:
    """Return the rules that concern the rows of the table, or every instruction, by id."""
    text = (files("opennki") / "facts" / "constraints.csv").read_text(encoding="utf-8")
    return {
        row["rule_id"]: row["rule"]
        for row in csv.DictReader(text.splitlines())
        if row["instruction"] in NAMES
    }


def all_checks() -> Iterator[Check]:
    """Yield every check object of the table."""
    yield from GENERAL_CHECKS
    for row in TABLE:
        yield from row.checks


def checks() -> set[str]:
    """Return the rule of every check object, and of every row that came with a later generation."""
    return {check.rule for check in all_checks()} | {row.since_rule for row in TABLE if row.since_rule}


def implemented() -> set[str]:
    """Return every id that stands in the source as a string of its own: checks, view and allocation rules."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py")))
    return checks() | set(re.findall(r'"([A-Z_]+-\d+)"', code))


EFFECTS = "depends on what ran before: an analysis over effects"

NOT_CHECKED = {
    "GEN-11": "cannot be broken: a layout has one free pattern for all partitions",
    "GEN-16": "performance only: two engines take turns",
    "GEN-17": "performance only: two engines take turns",
    "GEN-18": "performance only: the compiler places the tiles in banks",
    "GEN-26": "depends on values: the function is defined everywhere, the hardware's result is not",
    "GEN-38": "concerns dma_transpose, which is not in the table yet",
    "GEN-40": "memory capacity by liveness: an analysis over effects",
    "DMA_COPY-12": "skips nothing without a run-time index, and the documents do not forbid it",
    "DMA_COMPUTE-09": "cannot be broken: the instruction has no dge_mode",
    "TENSOR_COPY-06": "the semantics: unequal dtypes convert through float32 (test_rows_against_oracle)",
    "NC_MATMUL-24": "the semantics: on gen2 the flag changes nothing (test_rows_against_oracle)",
    "NC_MATMUL-25": EFFECTS,
    "NC_MATMUL-26": EFFECTS,
    "NC_MATMUL-27": "performance only: the result does not depend on the flags",
    "NC_MATMUL-28": "held by GEN-21 and GEN-22, which look at every instruction",
    "ACTIVATION-09": "cannot be broken: the signature has one tensor, the others are checked to be columns",
    "CORE_BARRIER-04": "documents contradict each other: accepted at both degrees, as the later one says",
}
"""Rules without a check, and why that is right (or when it will change)."""

NOT_EXERCISED = {
    "GEN-00": "every row that came later has a rule of its own",
    "GEN-01": "a tile of 129 partitions cannot be allocated (GEN-02)",
}
"""Checks that no kernel can reach today."""


def test_every_rule_is_implemented_or_explained() -> None:
    held = implemented() | set(PROOFS) | {"TENSOR_TENSOR-06"}
    assert sorted(set(facts()) - held - set(NOT_CHECKED)) == []
    assert sorted(set(NOT_CHECKED) & held) == []
    assert sorted(set(NOT_CHECKED) - set(facts())) == []


def test_every_check_has_its_rule_in_the_facts() -> None:
    assert sorted(checks() - set(facts())) == []


def test_every_check_has_a_code_that_takes_its_sentence() -> None:
    taking = {code for code, entry in CATALOGUE.items() if entry.template == "{says}"}
    assert sorted({check.code for check in all_checks()} - taking - {"ONKI101"}) == []


def test_every_check_is_exercised() -> None:
    rejected = {
        rule
        for row in TABLE
        for target in TARGETS.values()
        for rule, _ in row.rules["rejects"](Sampler(target))
    }
    exercised = rejected | {limit[0] for limit in LIMITS} | set(PROOFS) | PICKED | {"TENSOR_TENSOR-06"}
    assert sorted(checks() - exercised - set(NOT_EXERCISED)) == []


# ----------------------------------------------------------------------------------------------- proofs


class Proof(NamedTuple):
    """A kernel that breaks a rule, the code that it gets, and the target and degree that it is traced for."""

    code: str
    kernel: Callable[[], Any]
    target: str = "trn2"
    lnc: int = 1


def too_many_partitions() -> Any:
    sbuf(129, 4)


def across_banks() -> Any:
    nisa.nc_matmul(dst=psum(8, 1024)[:, 256:768], stationary=sbuf(16, 8), moving=sbuf(16, 512))


def wide_stationary() -> Any:
    nisa.nc_matmul(dst=psum(128, 4), stationary=sbuf(16, 129), moving=sbuf(16, 4))


def stepped_partitions() -> Any:
    sbuf(128, 4)[0:128:2, :]


def unequal_partitions() -> Any:
    nisa.tensor_copy(dst=sbuf(64, 4), src=sbuf(32, 4))


def bits_of_floats() -> Any:
    nisa.tensor_tensor(dst=sbuf(4, 4), data1=sbuf(4, 4), data2=sbuf(4, 4), op=nl.bitwise_and)


def skipped_partitions() -> Any:
    sbuf(128, 4).ap([[8, 64], [1, 4]])


def reshaped_to_more() -> Any:
    sbuf(128, 4).reshape((128, 5))


def private_output() -> Any:
    return nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.hbm)


def output_on_chip() -> Any:
    return sbuf(4, 4)


def unaligned_psum() -> Any:
    nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.psum, address=(0, 2))


def written_several_times() -> Any:
    nisa.memset(dst=sbuf(4, 1).broadcast(1, 4), value=0.0)


def dma_from_psum() -> Any:
    nisa.dma_copy(dst=sbuf(4, 4), src=psum(4, 4))


def copied_into_hbm() -> Any:
    nisa.tensor_copy(dst=output(), src=sbuf(1, 1))


def copied_by_tensor_engine() -> Any:
    nisa.tensor_copy(dst=sbuf(4, 4), src=sbuf(4, 4), engine=nisa.engine.tensor)


def filled_by_scalar_engine() -> Any:
    nisa.memset(dst=sbuf(4, 4), value=0.0, engine=nisa.engine.scalar)


def filled_with_a_tile() -> Any:
    nisa.memset(dst=sbuf(4, 4), value=sbuf(4, 1))


def product_into_sbuf() -> Any:
    nisa.nc_matmul(dst=sbuf(8, 4), stationary=sbuf(16, 8), moving=sbuf(16, 4))


def deeper_than_its_tile() -> Any:
    tile = {"tile_position": (0, 0), "tile_size": (64, 128)}
    nisa.nc_matmul(dst=psum(8, 4), stationary=sbuf(65, 8), moving=sbuf(65, 4), **tile)


def tiles_of_32() -> Any:
    tile = {"tile_position": (0, 0), "tile_size": (32, 32)}
    nisa.nc_matmul(dst=psum(8, 4), stationary=sbuf(16, 8), moving=sbuf(16, 4), **tile)


def column_tiles() -> Any:
    tile = {"tile_position": (0, 64), "tile_size": (128, 64)}
    nisa.nc_matmul(dst=psum(8, 4), stationary=sbuf(16, 8), moving=sbuf(16, 4), **tile)
    return output()


def transposed_by_scalar_engine() -> Any:
    nisa.nc_transpose(dst=psum(4, 4), data=sbuf(4, 4), engine=nisa.engine.scalar)


def transposed_floats() -> Any:
    nisa.nc_transpose(dst=psum(4, 4), data=sbuf(4, 4))
    return output()


def transposed_fp8() -> Any:
    nisa.nc_transpose(dst=psum(4, 4, dtype="float8_e4m3"), data=sbuf(4, 4, dtype="float8_e4m3"))
    return output()


def added_by_scalar_engine() -> Any:
    operands = {"data1": sbuf(4, 4), "data2": sbuf(4, 4)}
    nisa.tensor_tensor(dst=sbuf(4, 4), **operands, op=nl.add, engine=nisa.engine.scalar)


def reduced_from_hbm() -> Any:
    nisa.tensor_reduce(dst=sbuf(1, 1), op=nl.add, data=output(), axis=1)


def activation_of_hbm() -> Any:
    nisa.activation(dst=sbuf(1, 1), op=nl.exp, data=output())


def lonely_barrier() -> Any:
    nisa.core_barrier(data=output(), cores=(0,))


def barrier_on_chip() -> Any:
    nisa.core_barrier(data=sbuf(1, 1), cores=(0, 1))


def wide_integers() -> Any:
    nisa.tensor_copy(dst=sbuf(4, 4, dtype="int64"), src=sbuf(4, 4, dtype="int64"))


def rows_of(*shape: int) -> Any:
    """A table in HBM."""
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)


def indices(count: int) -> Any:
    """One row number for each partition."""
    return sbuf(count, 1, dtype="int32")


def picked() -> Any:
    """Four rows of eight, picked at run time."""
    return rows_of(8, 16).ap([[16, 4], [1, 16]], vector_offset=indices(4))


def two_offsets() -> Any:
    rows_of(8, 16).ap([[16, 4], [1, 16]], vector_offset=indices(4), scalar_offset=nisa.register_alloc(0))


def selected_twice() -> Any:
    rows_of(8, 16).select(0, nisa.register_alloc(0)).select(0, nisa.register_alloc(1))


def selected_partition() -> Any:
    sbuf(8, 16).select(0, nisa.register_alloc(0))


def picked_from_sbuf() -> Any:
    sbuf(8, 16).ap([[16, 4], [1, 16]], vector_offset=indices(4))


def picked_columns() -> Any:
    rows_of(8, 16).ap([[16, 4], [1, 16]], vector_offset=indices(4), indirect_dim=1)


def picked_again() -> Any:
    picked()[0:2]


def two_indices_a_row() -> Any:
    rows_of(8, 16).ap([[16, 4], [1, 16]], vector_offset=sbuf(4, 2, dtype="int32"))


def four_scalars() -> Any:
    rows_of(8, 16).ap([[16, 4], [1, 16]], scalar_offset=indices(4))


def gathered_by(mode: str) -> Callable[[], Any]:
    def kernel() -> None:
        nisa.dma_copy(dst=sbuf(4, 16), src=picked(), dge_mode=nisa.dge_mode[mode])

    return kernel


def moved_by_a_register() -> Any:
    window = rows_of(8, 16).ap([[16, 4], [1, 16]], scalar_offset=nisa.register_alloc(1))
    nisa.dma_copy(dst=sbuf(4, 16), src=window, dge_mode=nisa.dge_mode.none)


def summed_at_a_register() -> Any:
    window = rows_of(8, 16).ap([[16, 4], [1, 16]], scalar_offset=nisa.register_alloc(1))
    nisa.dma_compute(dst=sbuf(4, 16), srcs=[window, sbuf(4, 16)], reduce_op=nl.add)


def three_sources_of_a_gather() -> Any:
    nisa.dma_compute(dst=sbuf(4, 16), srcs=[picked(), sbuf(4, 16), sbuf(4, 16)], reduce_op=nl.add)


def gathered_twice() -> Any:
    nisa.dma_compute(dst=sbuf(4, 16), srcs=[picked(), picked()], reduce_op=nl.add)


def dependency_out_of_a_loop() -> Any:
    inside = []

    def body(i: Any) -> None:
        inside.append(nisa.memset(dst=sbuf(4, 4), value=0.0))

    nl.fori_loop(0, 4, body)
    nisa.memset(dst=sbuf(4, 4), value=1.0).depends_on(*inside)
    return output()


def offset_of_a_view() -> Any:
    sbuf(4, 8)[:, 4:8].ap([[8, 4], [1, 2]], offset=2)
    return output()


PICKED = {*REFUSED, "GEN-19", "GEN-OFFSETS"}
"""Rules on `.indirect()` views, each broken in test_indirect_refused."""

PROOFS: dict[str, Proof] = {
    "GEN-02": Proof("ONKI212", too_many_partitions),
    "GEN-03": Proof("ONKI204", across_banks),
    "GEN-04": Proof("ONKI204", wide_stationary),
    "GEN-05": Proof("ONKI210", stepped_partitions),
    "GEN-12": Proof("ONKI205", unequal_partitions),
    "GEN-14": Proof("ONKI201", product_into_sbuf),
    "GEN-24": Proof("ONKI202", bits_of_floats),
    "GEN-28": Proof("ONKI210", skipped_partitions),
    "GEN-29": Proof("ONKI210", two_offsets),
    "GEN-30": Proof("ONKI210", selected_partition),
    "GEN-31": Proof("ONKI210", picked_from_sbuf),
    "GEN-32": Proof("ONKI210", picked_columns),
    "GEN-33": Proof("ONKI210", picked_again),
    "GEN-34": Proof("ONKI213", reshaped_to_more),
    "GEN-35": Proof("ONKI105", private_output),
    "GEN-36": Proof("ONKI105", output_on_chip),
    "GEN-37": Proof("ONKI211", unaligned_psum),
    "GEN-39": Proof("ONKI116", dependency_out_of_a_loop),
    "GEN-ENGINE": Proof("ONKI206", copied_by_tensor_engine),
    "GEN-WIDE": Proof("ONKI214", wide_integers),
    "GEN-WRITE": Proof("ONKI210", written_several_times),
    "DMA_COPY-02": Proof("ONKI201", dma_from_psum),
    "DMA_COPY-03": Proof("ONKI210", two_indices_a_row),
    "DMA_COPY-04": Proof("ONKI210", four_scalars),
    "DMA_COPY-08": Proof("ONKI206", gathered_by("none")),
    "DMA_COPY-09": Proof("ONKI206", gathered_by("hwdge")),
    "DMA_COPY-10": Proof("ONKI207", gathered_by("swdge"), "trn1"),
    "DMA_COPY-11": Proof("ONKI206", moved_by_a_register),
    "DMA_COMPUTE-06": Proof("ONKI206", summed_at_a_register),
    "DMA_COMPUTE-07": Proof("ONKI206", three_sources_of_a_gather),
    "DMA_COMPUTE-10": Proof("ONKI206", gathered_twice),
    "TENSOR_COPY-02": Proof("ONKI201", copied_into_hbm),
    "TENSOR_COPY-03": Proof("ONKI206", copied_by_tensor_engine),
    "MEMSET-01": Proof("ONKI206", filled_by_scalar_engine),
    "MEMSET-02": Proof("ONKI101", filled_with_a_tile),
    "NC_MATMUL-01": Proof("ONKI201", product_into_sbuf),
    "NC_MATMUL-21": Proof("ONKI203", deeper_than_its_tile),
    "NC_MATMUL-22": Proof("ONKI206", tiles_of_32, "trn1"),
    "NC_MATMUL-23": Proof("ONKI404", column_tiles),
    "NC_TRANSPOSE-04": Proof("ONKI206", transposed_by_scalar_engine),
    "NC_TRANSPOSE-05": Proof("ONKI404", transposed_floats, "trn1"),
    "NC_TRANSPOSE-06": Proof("ONKI404", transposed_fp8),
    "TENSOR_TENSOR-05": Proof("ONKI206", added_by_scalar_engine),
    "TENSOR_REDUCE-06": Proof("ONKI201", reduced_from_hbm),
    "ACTIVATION-01": Proof("ONKI201", activation_of_hbm),
    "CORE_BARRIER-02": Proof("ONKI206", lonely_barrier, lnc=2),
    "CORE_BARRIER-03": Proof("ONKI201", barrier_on_chip),
    "AP-90": Proof("ONKI403", offset_of_a_view),
}
"""Rules that no reject of a row shows under their own id: a kernel that breaks each."""


@pytest.mark.parametrize("rule", [pytest.param(name, id=name) for name in PROOFS])
@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")
def test_breaking_a_rule_gives_its_code(rule: str) -> None:
    proof = PROOFS[rule]
    is_warning = proof.code.startswith("ONKI4")
    try:
        artifact = opennki.trace(proof.kernel, lnc=proof.lnc, target=proof.target)
    except OpenNkiError as error:
        found = error.diagnostics
        assert not is_warning
    else:
        found = artifact.findings
        assert is_warning
        assert [d.rule for d in found] == [rule]
    assert [d.code for d in found] == [proof.code]


@pytest.mark.parametrize(
    ("dtype", "space", "expected"),
    [
        ("int32", "sbuf", Engine.gpsimd),
        ("uint32", "sbuf", Engine.gpsimd),
        ("int32", "psum", Engine.vector),
        ("int16", "sbuf", Engine.vector),
        ("float32", "sbuf", Engine.vector),
    ],
)
def test_tensor_tensor_06_engine_of_32_bit_integers(dtype: str, space: str, expected: Engine) -> None:
    def kernel() -> Any:
        first = (psum if space == "psum" else sbuf)(4, 4, dtype=dtype)
        nisa.tensor_tensor(dst=sbuf(4, 4, dtype=dtype), data1=first, data2=sbuf(4, 4, dtype=dtype), op=nl.add)
        return output()

    (instruction,) = opennki.trace(kernel, target="trn2").programs[0].body
    assert Engine(instruction.engine) is expected  # type: ignore[union-attr]  # the body has no loop

"""The code agrees with the facts that the package carries: targets, engines, generations, published codes."""

from __future__ import annotations

import csv
import tomllib
from typing import Any

import pytest

from opennki.diag import CATALOGUE
from opennki.isa.table import TABLE
from opennki.targets import TARGETS, Target
from tests.house.sources import PACKAGE

FACTS = PACKAGE / "facts"
HARDWARE: dict[str, Any] = tomllib.loads((FACTS / "hardware.toml").read_text(encoding="utf-8"))


def _numbers(target: Target) -> dict[str, object]:
    """Return the facts of a target under the names of `hardware.toml`."""
    fp16 = target.scalar_elements_per_cycle_16bit
    same = (
        "physical_cores_per_chip",
        "sbuf_bytes",
        "sbuf_bytes_per_partition",
        "sbuf_usable_bytes_per_partition",
    )
    return {name: getattr(target, name) for name in same} | {
        "nc_version": target.generation,
        "lnc_allowed": list(target.lnc_allowed),
        "lnc_default_compiler": target.lnc_default,
        "hbm_bytes_per_chip": target.hbm.bytes_per_chip,
        "hbm_stacks": target.hbm.stacks,
        "hbm_gbps_chip": target.hbm.gbps_per_chip,
        "dma_gbps_engine_peak": target.dma.engine_peak_gbps,
        "dma_gbps_engine_effective": target.dma.engine_effective_gbps,
        "dma_gbps_core_effective": target.dma.core_effective_gbps,
        "dma_engines_per_chip": target.dma.engines_per_chip,
        "hwdge": target.dma.has_hwdge,
        "pe_row_tiles": list(target.tensor_row_tiles),
        "matmul_dst_dtypes": list(target.matmul_dst_dtypes),
        "native_transpose": target.has_native_transpose,
        "double_row_fp8": target.has_double_row_fp8,
        "clock_ghz.tensor": target.clock_ghz.tensor,
        "clock_ghz.vector": target.clock_ghz.vector,
        "clock_ghz.scalar": target.clock_ghz.scalar,
        "clock_ghz.gpsimd": target.clock_ghz.gpsimd,
        "peak_tflops_core.bf16": target.peak_tflops.bf16,
        "peak_tflops_core.fp8": target.peak_tflops.fp8,
        "peak_tflops_core.fp32": target.peak_tflops.fp32,
        "scalar_elems_per_cycle": target.scalar_elements_per_cycle
        if fp16 == target.scalar_elements_per_cycle
        else {"fp16_bf16_fp8": fp16, "other": target.scalar_elements_per_cycle},
    }


def _fact(facts: dict[str, Any], path: str) -> Any:
    for key in path.split("."):
        facts = facts[key]
    return facts


@pytest.mark.parametrize("name", sorted(HARDWARE["targets"]))
def test_targets(name: str) -> None:
    facts = HARDWARE["targets"][name]
    numbers = _numbers(TARGETS[name])
    assert numbers == {path: _fact(facts, path) for path in numbers}


def test_what_all_targets_share() -> None:
    general = HARDWARE["general"]
    names = {
        "partitions": "partitions",
        "psum_banks": "psum_banks",
        "psum_bytes": "psum_bytes",
        "psum_bank_bytes_per_partition": "psum_bank_bytes_per_partition",
        "psum_bytes_per_partition": "psum_bytes_per_partition",
        "psum_alignment_bytes": "psum_min_align_bytes",
        "sbuf_alignment_bytes": "sbuf_min_align_bytes",
        "gemm_stationary_fmax": "gemm_stationary_fmax",
        "bn_stats_fmax": "bn_stats_fmax",
        "access_pattern_dimensions": "ap_max_free_dims",
        "registers_per_engine": "registers_per_engine_sequencer",
        "gpsimd_cores": "gpsimd_cores",
    }
    for target in TARGETS.values():
        assert {ours: getattr(target, ours) for ours in names} == {
            ours: general[theirs] for ours, theirs in names.items()
        }


def test_rows_run_on_the_documented_engines() -> None:
    documented = HARDWARE["instruction_engines"]
    rows = {row.name: sorted(engine.name for engine in row.engines) for row in TABLE}
    assert rows == {name: sorted(documented.get(name, rows[name])) for name in rows}


def test_rows_exist_since_the_documented_generation() -> None:
    documented = HARDWARE["instruction_min_gen"]
    rows = {row.name: row.since for row in TABLE}
    assert rows == {name: documented.get(name, documented["*"]) for name in rows}


def test_published_codes_are_published() -> None:
    with (FACTS / "ncc_codes.csv").open(encoding="utf-8", newline="") as file:
        published = {row["code"] for row in csv.DictReader(file)}
    ours = {code for code in CATALOGUE if code.startswith("NCC_")}
    related = {code for entry in CATALOGUE.values() for code in entry.related if code.startswith("NCC_")}
    assert ours | related <= published
    assert {"NCC_ENKI003", "NCC_EVRF066", "NCC_EARG001"} <= ours

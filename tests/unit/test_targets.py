"""The targets: their numbers, their names, which of them share hardware."""

from __future__ import annotations

import itertools

import pytest

from opennki.diag import OpenNkiUsageError
from opennki.targets import GEN2, GEN3, GEN4, TARGET_NAMES, TARGETS, find_target, same_hardware


def test_the_targets_in_order() -> None:
    assert list(TARGETS) == ["trn1", "inf2", "trn2", "trn3"]
    assert [target.name for target in TARGETS.values()] == ["trn1", "inf2", "trn2", "trn3"]
    assert TARGET_NAMES == ("trn1", "inf2", "trn2", "trn3", "gen2", "gen3", "gen4")
    assert (GEN2, GEN3, GEN4) == (2, 3, 4)


@pytest.mark.parametrize(
    ("name", "generation", "allowed", "default", "sbuf", "usable", "cores"),
    [
        ("trn1", GEN2, (1,), 1, 192 * 1024, 176 * 1024, 2),
        ("inf2", GEN2, (1,), 1, 192 * 1024, 176 * 1024, 2),
        ("trn2", GEN3, (1, 2), 2, 224 * 1024, 208 * 1024 - 8, 8),
        ("trn3", GEN4, (1, 2), 2, 256 * 1024, 240 * 1024 - 8, 8),
    ],
)
def test_degrees_and_memory(
    name: str, generation: int, allowed: tuple[int, ...], default: int, sbuf: int, usable: int, cores: int
) -> None:
    target = TARGETS[name]
    assert target.generation == generation
    assert (target.lnc_allowed, target.lnc_default) == (allowed, default)
    assert (target.sbuf_bytes_per_partition, target.sbuf_usable_bytes_per_partition) == (sbuf, usable)
    assert target.sbuf_bytes == 128 * sbuf
    assert target.physical_cores_per_chip == cores
    assert (target.partitions, target.psum_banks) == (128, 8)
    assert (target.psum_bytes_per_partition, target.psum_bank_bytes_per_partition) == (16384, 2048)
    assert target.psum_bytes == 2 * 1024 * 1024


def test_figures_that_follow_from_others() -> None:
    for target in TARGETS.values():
        # 2 operations x 128 x 128 cells x the clock, to the precision published.
        assert target.peak_tflops.bf16 == pytest.approx(
            2 * 128 * 128 * target.clock_ghz.tensor / 1e3, rel=1e-3
        )
        assert target.peak_tflops.fp32 == pytest.approx(target.peak_tflops.bf16 / 4, rel=1e-3)
        assert target.dma.core_effective_gbps == 16 * target.dma.engine_effective_gbps
        assert target.dma.engines_per_chip == 16 * target.physical_cores_per_chip
        assert target.hbm.gbps_per_stack * target.hbm.stacks == target.hbm.gbps_per_chip
        assert target.hbm.stacks * target.hbm.cores_per_stack == target.physical_cores_per_chip
        assert target.psum_banks * target.psum_bank_bytes_per_partition == target.psum_bytes_per_partition
        assert target.sbuf_usable_bytes_per_partition < target.sbuf_bytes_per_partition
        assert target.lnc_default in target.lnc_allowed


def test_what_differs_by_generation() -> None:
    trn1, trn2, trn3 = TARGETS["trn1"], TARGETS["trn2"], TARGETS["trn3"]
    assert [t.clock_ghz.vector for t in (trn1, trn2, trn3)] == [1.12, 0.96, 1.2]
    assert [t.dma.engine_peak_gbps for t in (trn1, trn2, trn3)] == [27.2, 27.2, 38.4]
    assert [t.dma.has_hwdge for t in (trn1, trn2, trn3)] == [False, True, True]
    assert [t.matmul_dst_dtypes for t in (trn1, trn2, trn3)] == [
        ("float32",),
        ("float32",),
        ("float32", "bfloat16"),
    ]
    assert [dict(t.gemm_moving_fmax)["float32"] for t in (trn1, trn2, trn3)] == [512, 512, 4096]
    assert [t.tensor_row_tiles for t in (trn1, trn2, trn3)] == [(128, 64), (128, 64, 32), (128, 64, 32)]
    assert [t.peak_tflops.mx for t in (trn1, trn2, trn3)] == [None, None, 314.6]
    assert [t.has_tensor_indirection for t in (trn1, trn2, trn3)] == [False, False, True]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("trn1", "trn1"),
        ("inf2", "inf2"),
        ("trn2", "trn2"),
        ("trn3", "trn3"),
        ("gen2", "trn1"),
        ("gen3", "trn2"),
        ("gen4", "trn3"),
        ("TRN2", "trn2"),
        ("Gen4", "trn3"),
        (" inf2 ", "inf2"),
    ],
)
def test_find_target(name: str, found: str) -> None:
    assert find_target(name, "anywhere") is TARGETS[found]


@pytest.mark.parametrize("name", ["", "trn", "trn4", "gen1", "gen5", "trn1n", "v2", "trn2,trn3", "ｔｒｎ２"])
def test_unknown_target(name: str) -> None:
    with pytest.raises(OpenNkiUsageError) as raised:
        find_target(name, "NEURON_PLATFORM_TARGET_OVERRIDE=x")
    (found,) = raised.value.diagnostics
    assert found.code == "ONKI002"
    assert found.message == f"unknown target `{name}` from NEURON_PLATFORM_TARGET_OVERRIDE=x"
    assert found.data == {"value": name, "origin": "NEURON_PLATFORM_TARGET_OVERRIDE=x"}
    assert found.help == ("use one of trn1, inf2, trn2, trn3, gen2, gen3, gen4",)


def test_a_target_that_is_no_text_or_very_long() -> None:
    for name, shown in ((3, "3"), (None, "None"), ("x" * 100, "x" * 60 + "…")):
        with pytest.raises(OpenNkiUsageError) as raised:
            find_target(name, "a file")
        assert raised.value.diagnostics[0].message == f"unknown target `{shown}` from a file"


def test_same_hardware_is_the_generation() -> None:
    pairs = {
        (a.name, b.name) for a, b in itertools.product(TARGETS.values(), repeat=2) if same_hardware(a, b)
    }
    assert pairs == {(name, name) for name in TARGETS} | {("trn1", "inf2"), ("inf2", "trn1")}


def test_inf2_is_trn1_by_another_name() -> None:
    trn1, inf2 = TARGETS["trn1"], TARGETS["inf2"]
    assert trn1 != inf2
    assert {field for field in trn1.__struct_fields__ if getattr(trn1, field) != getattr(inf2, field)} == {
        "name"
    }


def test_targets_are_keys_and_read_well() -> None:
    assert {TARGETS["trn2"]: 1}[find_target("gen3", "")] == 1
    assert len({hash(target) for target in TARGETS.values()}) == 4
    assert repr(TARGETS["inf2"]) == "<Target inf2>"

"""The targets: what each chip has, every number with its source.

Sources, by short name. `arch`: the NKI architecture guide of the generation (trainium_inferentia2_arch,
trainium2_arch, trainium3_arch) in aws-neuron-sdk 2.32. `chip`: its chip pages trainium2.rst, trainium3.rst.
`dma`: nki-dma-overview.rst and nki-dma-bandwidth-guide.rst. `lnc`: logical-neuroncore-config.rst. `klr`:
KLR/Trace.lean of the open KLR repository. `profile`: read off a published trn2 profile. `derived`: worked out
from the others. `assumed`: not published for this chip.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from opennki.diag import fail

__all__ = [
    "GEN2",
    "GEN3",
    "GEN4",
    "TARGETS",
    "TARGET_NAMES",
    "Clocks",
    "Dma",
    "Hbm",
    "Peak",
    "Target",
    "find_target",
    "same_hardware",
]

GEN2 = 2
GEN3 = 3
GEN4 = 4


class Clocks(Struct, frozen=True):
    """Engine clocks in GHz. Source: arch."""

    tensor: float
    vector: float
    scalar: float
    gpsimd: float


class Peak(Struct, frozen=True):
    """Peak TFLOPS of one physical core: 2 x 128 x 128 x clock x passes. `None`: the core lacks the mode.

    Chip totals published for trn2 and trn3 lie 6 % above eight times these; the figures of a core are kept.
    """

    bf16: float
    fp16: float
    tf32: float
    fp8: float
    fp32: float
    mx: float | None = None
    sparse: float | None = None


class Hbm(Struct, frozen=True):
    """Device memory of a chip. Bandwidth in GB/s (1e9 bytes)."""

    bytes_per_chip: int
    stacks: int
    cores_per_stack: int
    gbps_per_chip: float
    gbps_per_stack: float


class Dma(Struct, frozen=True):
    """DMA engines. Bandwidth in GB/s (1e9 bytes), times in ns."""

    engines_per_chip: int
    engine_peak_gbps: float
    engine_effective_gbps: float
    core_effective_gbps: float
    has_hwdge: bool
    hwdge_instances_per_core: int = 0
    hwdge_instruction_ns: float | None = None
    priority_classes: int = 1
    engines_per_core: int = 16  # arch
    queues_per_engine: int = 16  # dma: nki-dma-overview.rst:29, rings of one engine
    partitions_per_engine: int = 8  # derived: 128 partitions over 16 engines
    fixed_ns: float = 1300.0  # dma: one transfer between engines
    trigger_to_first_byte_ns: float = 750.0  # profile; assumed for trn1 and trn3
    done_to_consumer_ns: float = 320.0  # profile; assumed for trn1 and trn3
    hinge_row_bytes: int = 2450  # derived: shorter rows take as long as one of this size (nki-dma-intro-1)
    target_row_bytes: int = 4096  # dma: 96 % of the plateau


class Target(Struct, frozen=True):
    """One target: what its chip has and which LNC degrees it supports.

    `lnc_default` is the degree of a graph for which nothing is set. `generation` is GEN2, GEN3 or GEN4.
    """

    name: str
    generation: int
    physical_cores_per_chip: int
    lnc_allowed: tuple[int, ...]
    lnc_default: int
    sbuf_bytes_per_partition: int
    sbuf_usable_bytes_per_partition: int
    clock_ghz: Clocks
    peak_tflops: Peak
    hbm: Hbm
    dma: Dma
    vector_elements_per_cycle: int
    vector_elements_per_cycle_16bit: int
    scalar_elements_per_cycle: int
    scalar_elements_per_cycle_16bit: int
    gemm_moving_fmax: tuple[tuple[str, int], ...]
    tensor_row_tiles: tuple[int, ...]
    has_vector_perf_modes: bool = False
    has_double_row_fp8: bool = False
    has_native_transpose: bool = False
    has_tensor_indirection: bool = False
    throttle_start_fraction: float | None = None
    throttle_ramp_ns: float | None = None
    partitions: int = 128  # arch
    sbuf_alignment_bytes: int = 1  # klr:49
    psum_bytes_per_partition: int = 16384  # arch: 2 MiB over 128 partitions
    psum_banks: int = 8  # arch
    psum_bank_bytes_per_partition: int = 2048  # arch
    psum_alignment_bytes: int = 4  # klr:48
    gemm_stationary_fmax: int = 128  # tiling-overview.rst:98
    bn_stats_fmax: int = 512  # nki/api/nki/isa/__init__.py:1961
    access_pattern_dimensions: int = 4  # arch: free dimensions of one access pattern
    registers_per_engine: int = 64  # nki/api/nki/isa/__init__.py:3053, 32-bit each
    gpsimd_cores: int = 8  # arch
    gpsimd_partitions_per_core: int = 16  # arch
    gpsimd_local_bytes_per_core: int = 65536  # arch
    matmul_minimum_cycles: int = 64  # nki/api/nki/isa/__init__.py of 2.26, cost of nc_matmul

    @property
    def sbuf_bytes(self) -> int:
        """SBUF of one physical core."""
        return self.sbuf_bytes_per_partition * self.partitions

    @property
    def psum_bytes(self) -> int:
        """PSUM of one physical core."""
        return self.psum_bytes_per_partition * self.partitions

    @property
    def matmul_dst_dtypes(self) -> tuple[str, ...]:
        """The dtypes that the tensor engine accumulates into."""
        return tuple(dtype for dtype, _ in self.gemm_moving_fmax)

    def __repr__(self) -> str:
        return f"<Target {self.name}>"


_TRN1 = Target(
    name="trn1",
    generation=GEN2,
    physical_cores_per_chip=2,  # arch: trainium_inferentia2_arch.rst:20
    lnc_allowed=(1,),  # compiler/error-codes/EARG001.rst:21
    lnc_default=1,  # lnc:14
    sbuf_bytes_per_partition=196608,  # arch: 24 MiB over 128 partitions
    sbuf_usable_bytes_per_partition=180224,  # klr:52, 192 KiB less 16 KiB
    clock_ghz=Clocks(tensor=2.8, vector=1.12, scalar=1.4, gpsimd=1.4),  # arch
    peak_tflops=Peak(bf16=91.75, fp16=91.75, tf32=91.75, fp8=91.75, fp32=22.94),  # derived; arch: 92 and 23
    hbm=Hbm(
        bytes_per_chip=34359738368,  # arch: 32 GiB
        stacks=2,  # arch
        cores_per_stack=1,  # derived
        gbps_per_chip=820.0,  # arch
        gbps_per_stack=410.0,  # derived; the profiler's ratio 223.78 is 91.75e12 / 410e9
    ),
    dma=Dma(
        engines_per_chip=32,  # arch
        engine_peak_gbps=27.2,  # dma: nki-dma-overview.rst:18
        engine_effective_gbps=17.0,  # dma: nki-dma-bandwidth-guide.rst:58
        core_effective_gbps=272.0,  # derived: 16 engines
        has_hwdge=False,  # nki-dge.rst
    ),
    vector_elements_per_cycle=128,  # arch
    vector_elements_per_cycle_16bit=128,  # arch: no performance modes
    scalar_elements_per_cycle=128,  # arch
    scalar_elements_per_cycle_16bit=128,  # arch
    gemm_moving_fmax=(("float32", 512),),  # nki/api/nki/isa/__init__.py:612
    tensor_row_tiles=(128, 64),  # arch
)

_TRN2 = Target(
    name="trn2",
    generation=GEN3,
    physical_cores_per_chip=8,  # arch: trainium2_arch.rst:15
    lnc_allowed=(1, 2),  # lnc:14
    lnc_default=2,  # lnc:14
    sbuf_bytes_per_partition=229376,  # arch: 28 MiB over 128 partitions
    sbuf_usable_bytes_per_partition=212984,  # klr:53, 224 KiB less 16 KiB less 8
    clock_ghz=Clocks(tensor=2.4, vector=0.96, scalar=1.2, gpsimd=1.2),  # arch
    peak_tflops=Peak(
        bf16=78.64, fp16=78.64, tf32=78.64, fp8=157.3, fp32=19.66, sparse=314.6
    ),  # derived; arch: 79, 158, 20, 316
    hbm=Hbm(
        bytes_per_chip=103079215104,  # arch: 96 GiB
        stacks=4,  # arch
        cores_per_stack=2,  # derived; device-memory.rst:72
        gbps_per_chip=2900.0,  # chip; the NKI guide rounds to 3 TB/s
        gbps_per_stack=725.0,  # derived
    ),
    dma=Dma(
        engines_per_chip=128,  # arch
        engine_peak_gbps=27.2,  # dma: nki-dma-overview.rst:18
        engine_effective_gbps=23.0,  # dma: nki-dma-bandwidth-guide.rst:61
        core_effective_gbps=368.0,  # derived: 16 engines
        has_hwdge=True,  # nki-dge.rst
        hwdge_instances_per_core=2,  # arch: driven by sync and scalar
        hwdge_instruction_ns=600.0,  # arch, approximate
    ),
    vector_elements_per_cycle=256,  # arch
    vector_elements_per_cycle_16bit=512,  # arch
    scalar_elements_per_cycle=128,  # arch
    scalar_elements_per_cycle_16bit=128,  # arch
    gemm_moving_fmax=(("float32", 512),),  # nki/api/nki/isa/__init__.py:612
    tensor_row_tiles=(128, 64, 32),  # arch
    has_vector_perf_modes=True,  # arch
    has_double_row_fp8=True,  # arch
    has_native_transpose=True,  # arch
    throttle_start_fraction=0.5,  # glossary.rst:203
    throttle_ramp_ns=3000.0,  # glossary.rst:203, approximate
)

_TRN3 = Target(
    name="trn3",
    generation=GEN4,
    physical_cores_per_chip=8,  # arch: trainium3_arch.rst:15
    lnc_allowed=(1, 2),  # lnc:14
    lnc_default=2,  # lnc:14
    sbuf_bytes_per_partition=262144,  # arch: 32 MiB over 128 partitions
    sbuf_usable_bytes_per_partition=245752,  # klr:54, 256 KiB less 16 KiB less 8
    clock_ghz=Clocks(tensor=2.4, vector=1.2, scalar=1.2, gpsimd=1.2),  # arch
    peak_tflops=Peak(
        bf16=78.64, fp16=78.64, tf32=78.64, fp8=157.3, fp32=19.66, mx=314.6
    ),  # derived; arch: 79, -, 20, 315
    hbm=Hbm(
        bytes_per_chip=154618822656,  # arch: 144 GiB
        stacks=4,  # arch
        cores_per_stack=2,  # assumed, by analogy with trn2
        gbps_per_chip=4900.0,  # chip; the NKI guide says 4.7 TB/s
        gbps_per_stack=1225.0,  # derived
    ),
    dma=Dma(
        engines_per_chip=128,  # arch
        engine_peak_gbps=38.4,  # dma: nki-dma-overview.rst:18
        engine_effective_gbps=33.0,  # dma: nki-dma-bandwidth-guide.rst:64
        core_effective_gbps=528.0,  # derived: 16 engines
        has_hwdge=True,  # nki-dge.rst
        hwdge_instances_per_core=2,  # arch
        hwdge_instruction_ns=600.0,  # assumed, as on trn2
        priority_classes=4,  # dma: priorities 0 to 3
    ),
    vector_elements_per_cycle=256,  # arch
    vector_elements_per_cycle_16bit=512,  # arch, 8-bit floats too
    scalar_elements_per_cycle=128,  # arch
    scalar_elements_per_cycle_16bit=256,  # arch, 8-bit floats too
    gemm_moving_fmax=(("float32", 4096), ("bfloat16", 8192)),  # nki/api/nki/isa/__init__.py:614
    tensor_row_tiles=(128, 64, 32),  # arch
    has_vector_perf_modes=True,  # arch
    has_double_row_fp8=True,  # arch
    has_native_transpose=True,  # arch
    has_tensor_indirection=True,  # arch
    throttle_start_fraction=0.5,  # glossary.rst:203
    throttle_ramp_ns=3000.0,  # glossary.rst:203, approximate
)

TARGETS: dict[str, Target] = {
    "trn1": _TRN1,
    "inf2": replace(_TRN1, name="inf2"),  # arch: the same NeuronCore-v2 and chip memory
    "trn2": _TRN2,
    "trn3": _TRN3,
}

_GENERATIONS = {"gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}

TARGET_NAMES: tuple[str, ...] = (*TARGETS, *_GENERATIONS)


def find_target(name: object, origin: str) -> Target:
    """Return the target called `name`: trn1, inf2, trn2, trn3, or gen2, gen3, gen4 for trn1, trn2, trn3.

    Case and surrounding blanks do not matter. `origin` says in messages where the name came from.
    Errors: ONKI002 for any other name.

    >>> find_target("gen3", "the option `target=gen3`")
    <Target trn2>
    """
    if isinstance(name, str):
        key = name.strip().lower()
        target = TARGETS.get(_GENERATIONS.get(key, key))
        if target is not None:
            return target
    shown = name if isinstance(name, str) else repr(name)
    fail("ONKI002", value=shown if len(shown) <= 60 else f"{shown[:60]}…", origin=origin)


def same_hardware(first: Target, second: Target) -> bool:
    """True if an artifact traced for one target serves the other: inf2 has the facts of trn1."""
    return first.generation == second.generation

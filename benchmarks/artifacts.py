"""How large an artifact is, and what encoding, decoding, verifying, saving and loading it cost."""

from __future__ import annotations

import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.kernels import FULL, count_instructions, product_sliced, trace_product
from benchmarks.measure import (
    Figure,
    Result,
    figure,
    per_instruction,
    result,
    slowness,
    take_turns,
)
from opennki.artifact import load_artifact, save_artifact
from opennki.ir.codec import decode_program, encode_program
from opennki.ir.types import KernelArtifact
from opennki.ir.verify import verify
from opennki.isa.table import ROW_FACTS

__all__ = ["run"]

BUDGET_BYTES = 48.0  # issue: artifact bytes per instruction, raw

STAGES = {
    "encoding": "`encode_program`: records to canonical MessagePack",
    "decoding": "`decode_program`: typed, bounded, canonical bytes only",
    "verifying": "`verify`: every invariant of the records",
    "saving": "`artifact.save`: encoding, deflating, writing; without the waiting for the disk",
    "loading": "`opennki.load`: reading, inflating, decoding, verifying, the rows' checks",
}


def run(quick: bool) -> Result:
    """Measure the artifact of a tiled matrix product of at least 100,000 instructions."""
    artifact = trace_product(product_sliced, FULL, FULL.repeats(1_000 if quick else 100_000))
    with TemporaryDirectory() as folder:
        return _measured(artifact, Path(folder) / "product.nka", rounds=2 if quick else 7)


def _measured(artifact: KernelArtifact, path: Path, rounds: int) -> Result:
    count = count_instructions(artifact)
    programs = [encode_program(program) for program in artifact.programs]
    save_artifact(artifact, path)
    seconds = take_turns(
        {
            "encoding": lambda: [encode_program(program) for program in artifact.programs],
            "decoding": lambda: [decode_program(data) for data in programs],
            "verifying": lambda: verify(artifact, ROW_FACTS),
            "saving": lambda: save_artifact(artifact, path),
            "loading": lambda: load_artifact(path),
        },
        rounds,
    )
    times = [
        figure(
            name,
            per_instruction(seconds[name], count),
            "µs/instruction",
            says,
            slowness=slowness(seconds),
        )
        for name, says in STAGES.items()
    ]
    return result(
        "Artifacts",
        [*_sizes(programs, path, count), *times],
        instructions=count,
    )


def _sizes(programs: list[bytes], path: Path, count: int) -> list[Figure]:
    raw = sum(len(data) for data in programs)
    deflated = sum(len(zlib.compress(data, 6)) for data in programs)
    return [
        figure(
            "programs, raw",
            [raw / count],
            "bytes/instruction",
            "MessagePack of the programs with their tables",
            budget=BUDGET_BYTES,
        ),
        figure(
            "programs, deflated",
            [deflated / count],
            "bytes/instruction",
            "the same bytes deflated at level 6; a regular kernel compresses well",
        ),
        figure(
            "file",
            [path.stat().st_size / count],
            "bytes/instruction",
            "the whole `.nka` file",
        ),
    ]

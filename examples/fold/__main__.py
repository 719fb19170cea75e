"""The demo: one kernel for two cores, one refusal, two ways out, and pictures of it all under `out/`.

Variables that choose a degree or a target are put aside, so that everybody sees the same.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import opennki
from examples.fold.drawing import save_pictures
from examples.fold.scene import Picture, draw_scene, expected
from opennki.analyse.coverage import coverage

TARGET = "trn2"
TOLERANCE = 1.2e-6
"""How far float32 may be from float64: some ten roundings of values up to 2, at most 2**-23 each."""


def main(folder: Path) -> dict[str, Any]:
    """Run the demo, leave its files in `folder`, and return its figures."""
    began = time.perf_counter()
    for name in [name for name in os.environ if name.startswith(("NEURON_", "NKI_", "OPENNKI_KERNEL"))]:
        del os.environ[name]
    opennki.install(force=True)
    from examples.fold.kernel import fold

    folder.mkdir(parents=True, exist_ok=True)
    picture = draw_scene()
    height, width = picture.shape
    spec = opennki.Spec("float32", picture.shape)
    say(f"1. A picture of {height} × {width}, and the kernel `fold`, which splits its rows over the cores.")

    two = opennki.trace(fold, spec, lnc=2, target=TARGET)
    saved = two.save(folder / "fold.nka")
    say(f"2. Traced for LNC=2 on {TARGET}: {len(two.programs)} programs, one for each core, in {saved}.")

    say("3. Compiled for LNC=1, where only core 0's program would find a place:", "")
    refusal = refused(saved, folder / "fold-lnc1.nkx")
    is_file_left = (folder / "fold-lnc1.nkx").exists()
    say(str(refusal), "")
    say(f"   {refusal.code}, and no file. Two ways out, both checked against NumPy in float64:")

    both = run(saved, 2, picture, folder / "fold-lnc2.nkx")
    say(f"4. The artifact compiled for LNC=2: both cores run, largest error {both.error:.1e}.")
    one = run(opennki.trace(fold, spec, lnc=1, target=TARGET), 1, picture, folder / "fold-lnc1.nkx")
    say(f"5. The kernel traced and compiled for LNC=1: one core runs, largest error {one.error:.1e}.")

    core_0 = coverage(two)["out"].written(0)
    pictures = save_pictures(folder, two, picture, both.result, core_0)
    say("6. Pictures:", *(f"   {path}: {what}" for path, what in pictures.items()), "")
    return {
        "refused": refusal.code,
        "lost": refusal.diagnostics[0].data["lost"],
        "file_left_by_refusal": is_file_left,
        "largest_error": {"LNC=2": both.error, "LNC=1": one.error},
        "tolerance": TOLERANCE,
        "pictures": [str(path) for path in pictures],
        "seconds": round(time.perf_counter() - began, 2),
    }


class Run(NamedTuple):
    """What one way out gave: the result and its largest error."""

    result: Picture
    error: float


def refused(artifact: Path, file: Path) -> opennki.OpenNkiError:
    """Compile for one core an artifact of two programs; return the error, and see that no file is left."""
    file.unlink(missing_ok=True)
    try:
        opennki.compile(artifact, lnc=1, target=TARGET).save(file)
    except opennki.OpenNkiError as error:
        if error.code != "NCC_ENKI003" or file.exists():
            raise
        return error
    raise SystemExit("two programs were compiled for LNC=1: half of the result would be lost")


def run(graph: Any, lnc: int, picture: Picture, file: Path) -> Run:
    """Compile, save, load again, run; the result must be the expected one."""
    executable = opennki.load(opennki.compile(graph, lnc=lnc, target=TARGET).save(file))
    assert isinstance(executable, opennki.Executable)
    result = executable(picture)
    error = float(np.abs(result - expected(picture)).max())
    if not error <= TOLERANCE:
        raise SystemExit(f"the result for LNC={lnc} is off by {error:.1e}, more than {TOLERANCE:.0e}")
    return Run(result, error)


def say(*lines: str) -> None:
    """Print a step of the story."""
    print(*lines, sep="\n")


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))))

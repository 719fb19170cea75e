"""The pictures of the demo: what goes in, what comes out, and what a silent compiler would have left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from examples.fold.scene import Picture
from opennki.analyse.picture import draw_coverage
from opennki.ir.types import KernelArtifact

ALARM = "#D55E00"


def save_pictures(
    folder: Path, artifact: KernelArtifact, picture: Picture, result: Picture, core_0: npt.NDArray[np.bool_]
) -> dict[Path, str]:
    """Save all pictures in `folder`, return what each shows. `core_0` is what core 0 writes of the result."""
    from matplotlib.image import imsave

    half = np.where(core_0, result, np.nan)
    imsave(folder / "input.png", picture, cmap="gray", vmin=0, vmax=1)
    imsave(folder / "result.png", result, cmap="gray", vmin=0, vmax=1)
    imsave(folder / "half_lost.png", half, cmap=_gray(), vmin=0, vmax=1)
    _save_story(folder / "story.png", picture, result, half)
    return {
        draw_coverage(artifact, folder / "who_wrote_what.png"): "which core writes which rows",
        draw_coverage(
            artifact, folder / "what_is_lost.png", kept=1
        ): "what is lost with core 0's program alone",
        folder / "input.png": "the picture",
        folder / "result.png": "the result of both ways out",
        folder / "half_lost.png": "a mock-up: the rows that core 0 writes, the others never written",
        folder / "story.png": "the last three side by side",
    }


def _gray() -> Any:
    """Return the grey scale, with a colour of its own for what was never written."""
    from matplotlib import colormaps

    return colormaps["gray"].with_extremes(bad="#FBE3D2")


def _save_story(path: Path, picture: Picture, result: Picture, half: npt.NDArray[np.float64]) -> None:
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(15, 4.2), dpi=110, layout="constrained")
    figure.suptitle("NCC_ENKI003: why two programs are not baked into a graph for one core", fontsize=14)
    panels = figure.subplots(1, 3)
    titles = (
        "the picture",
        "the kernel's result\n(compiled for LNC=2, or traced again for LNC=1)",
        "mock-up: compiled for LNC=1 in silence,\ncore 1's program dropped",
    )
    for panel, image, title in zip(panels, (picture, result, half), titles, strict=True):
        panel.imshow(image, cmap=_gray(), vmin=0, vmax=1)
        panel.set_title(title, fontsize=12)
        panel.set_axis_off()
    rows = np.flatnonzero(np.isnan(half).all(axis=1))
    top, bottom, width = int(rows[0]), int(rows[-1]), half.shape[1]
    panels[2].add_patch(
        Rectangle((0, top), width, bottom - top + 1, fill=False, hatch="//", edgecolor=ALARM, linewidth=1.5)
    )
    panels[2].text(
        width / 2,
        (top + bottom) / 2,
        f"rows {top}..{bottom} never written:\nwhatever the memory held before",
        ha="center",
        va="center",
        fontsize=12,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "boxstyle": "round,pad=0.5"},
    )
    figure.savefig(path, metadata={"Software": "OpenNKI"})

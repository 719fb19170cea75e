"""The picture of the demo: how alike the sentences are, by kernels on two cores, and how far from plain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["draw"]

Embeddings = npt.NDArray[np.float32]

_PAIRS = 11


def draw(sentences: list[str], plain: Embeddings, kernels: Embeddings, path: Path) -> Path:
    """Draw the cosines of all pairs, the closest pairs in words, and the differences from the plain model."""
    from matplotlib.figure import Figure

    alike = _cosines(kernels)
    figure = Figure(figsize=(13, 5.6), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    others = np.where(np.eye(len(alike), dtype=bool), np.nan, alike)  # each is like itself
    image = left.imshow(others, cmap="magma", vmin=0)
    left.set_title(f"how alike {len(sentences)} sentences are: kernels on two cores")
    left.set_xlabel("sentence")
    left.set_ylabel("sentence")
    figure.colorbar(image, ax=left, label="cosine", shrink=0.8)

    right.axis("off")
    right.set_title("the most alike", loc="left")
    lines = []
    for first, second in _closest(alike):
        lines += [
            f"{alike[first, second]:.2f}   {_short(sentences[first])}",
            f"          {_short(sentences[second])}",
        ]
    right.text(0, 0.97, "\n".join(lines), va="top", family="DejaVu Sans", fontsize=10, linespacing=1.35)
    off = np.abs(alike - _cosines(plain)).max()
    right.text(
        0,
        0.02,
        f"largest difference of a cosine from the plain model: {off:.1e}",
        va="bottom",
        fontsize=11,
        weight="bold",
    )
    figure.savefig(path, metadata={"Software": "OpenNKI"})
    return path


def _cosines(embeddings: Embeddings) -> npt.NDArray[np.float64]:
    wide = embeddings.astype(np.float64)
    unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    found: npt.NDArray[np.float64] = unit @ unit.T
    return found


def _closest(alike: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the pairs of sentences that are most alike, each sentence once."""
    rows, columns = np.triu_indices(len(alike), 1)
    used: set[int] = set()
    found = []
    for place in np.argsort(-alike[rows, columns]):
        pair = int(rows[place]), int(columns[place])
        if used.isdisjoint(pair):
            used.update(pair)
            found.append(pair)
    return found[:_PAIRS]


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= 78 else f"{sentence[:77]}…"

"""The picture of coverage: its colours stand where they must, and its parts are worked out right."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from opennki.analyse.coverage import coverage
from opennki.analyse.picture import _boxes, _classes, _coarser, _legend, draw_coverage
from opennki.diag import OpenNkiUsageError
from opennki.ir.types import Index, IndexKind, KernelArtifact, Register, Space
from tests.unit.build_programs import ProgramBuilder, artifact, split, whole

BLUE, ORANGE, PURPLE, PALE_ALARM = "#56B4E9", "#E69F00", "#CC79A7", "#FBE3D2"
S = slice


def share_of(image: np.ndarray[Any, Any], color: str) -> float:
    """Return how much of an image has a colour, in percent."""
    return 100 * float(np.all(np.abs(image[..., :3] - to_rgb(color)) < 0.01, axis=-1).mean())


def rows_of(image: np.ndarray[Any, Any], color: str) -> tuple[int, int]:
    """Return the first and the last row with a long run of a colour: the map, not the legend."""
    counts = np.all(np.abs(image[..., :3] - to_rgb(color)) < 0.01, axis=-1).sum(axis=1)
    rows = np.flatnonzero(counts > 200)
    return int(rows[0]), int(rows[-1])


def test_two_halves(tmp_path: Path) -> None:
    path = draw_coverage(split(), tmp_path / "new" / "map.png")
    assert path == tmp_path / "new" / "map.png"
    image = imread(path)
    assert share_of(image, BLUE) == pytest.approx(share_of(image, ORANGE), rel=0.02)
    assert share_of(image, BLUE) > 20
    blue, orange = rows_of(image, BLUE), rows_of(image, ORANGE)
    assert blue[1] < orange[0] <= blue[1] + 4, "core 0's rows stand above core 1's, a border between them"
    assert share_of(image, PALE_ALARM) == 0
    again = draw_coverage(split(), tmp_path / "again.png")
    assert again.read_bytes() == path.read_bytes(), "the same file every time"


def test_the_lost_half(tmp_path: Path) -> None:
    image = imread(draw_coverage(split(), tmp_path / "lost.png", kept=1))
    assert share_of(image, ORANGE) < 0.5, "but the hatch"
    assert share_of(image, PALE_ALARM) > 10
    assert rows_of(image, BLUE)[1] < rows_of(image, PALE_ALARM)[0]


def several_outputs() -> KernelArtifact:
    """Return an artifact of two outputs: `a` by both cores, overlapping; `b` where a register says."""
    builders = []
    for core in (0, 1):
        builder = ProgramBuilder(core)
        a, b = builder.tensor("a", (8, 64)), builder.tensor("b", (4, 6, 8))
        tile = builder.view(builder.tensor("tile", (8, 64), space=Space.sbuf))
        builder.add("dma_copy", builder.view(a, S(0, 8), (S(0, 40), S(24, 60))[core]), tile)
        index = Index(IndexKind.scalar, Register(0, "int32"), 48, 2) if core else None
        builder.add("dma_copy", builder.view(b, S(core, core + 1), index=index), tile)
        builders.append(builder)
    return artifact(*builders, outputs=[whole(buffer) for buffer in builders[0].buffers[:2]])


@pytest.mark.parametrize(
    ("kept", "a", "b"),
    [
        (
            None,
            [
                "written by core 0: columns 0..23 (37.5 %)",
                "written by core 1: columns 40..59 (31.2 %)",
                "written by several cores: columns 24..39 (25 %)",
                "written by no core: columns 60..63 (6.2 %)",
            ],
            [
                "written by core 0: elements [0, :, :] (25 %)",
                "may be written: an index or a predicate decides: elements [1..2, :, :] (50 %)",
                "written by no core: elements [3, :, :] (25 %)",
            ],
        ),
        (
            1,
            [
                "written by core 0: columns 0..23 (37.5 %)",
                "written by several cores: columns 24..39 (25 %)",
                "written by no core: columns 60..63 (6.2 %)",
                "LOST: written by core 1 alone: columns 40..59 (31.2 %)",
            ],
            [
                "written by core 0: elements [0, :, :] (25 %)",
                "written by no core: elements [3, :, :] (25 %)",
                "LOST: core 1 alone may write it: elements [1..2, :, :] (50 %)",
            ],
        ),
    ],
)
def test_the_words_of_the_legend(kept: int | None, a: list[str], b: list[str]) -> None:
    found = coverage(several_outputs())
    for name, words in (("a", a), ("b", b)):
        assert [_legend(entry, found[name]) for entry in _classes(found[name], kept)] == words


def test_several_outputs_have_a_panel_each(tmp_path: Path) -> None:
    image = imread(draw_coverage(several_outputs(), tmp_path / "x.png"))
    assert image.shape[1] > 2 * 7 * 110, "two panels of more than seven inches, 110 dots each"
    assert share_of(image, PURPLE) > 1


def test_every_class_that_occurs_covers_the_map_once() -> None:
    for kept in (None, 1):
        for tensor in coverage(several_outputs()).tensors:
            masks = [entry.mask for entry in _classes(tensor, kept)]
            assert np.array_equal(np.sum(masks, axis=0), np.ones_like(masks[0], int))


def test_rectangles_make_up_the_map(rng: np.random.Generator) -> None:
    numbers = rng.integers(0, 3, (9, 7)).astype(np.uint8)
    numbers[4:7] = numbers[3]
    again = np.full_like(numbers, 99)
    for box in _boxes(numbers):
        assert (again[box.top : box.bottom, box.left : box.right] == 99).all()
        again[box.top : box.bottom, box.left : box.right] = box.number
    assert np.array_equal(again, numbers)


def test_a_coarser_map_keeps_what_is_alarming() -> None:
    numbers = np.zeros((5000, 3), np.uint8)
    numbers[4321, 1] = 2
    coarse = _coarser(numbers)
    assert coarse.shape == (1024, 3)
    assert coarse.max() == 2
    assert (coarse == 2).sum() == 1


def test_without_matplotlib(tmp_path: Path) -> None:
    with (
        patch.dict(sys.modules, {"matplotlib.figure": None}),
        pytest.raises(OpenNkiUsageError) as caught,
    ):
        draw_coverage(split(), tmp_path / "x.png")
    (found,) = caught.value.diagnostics
    assert found.code == "ONKI010"
    assert found.message == (
        "drawing a picture needs `matplotlib` of the extra `pictures`, which is not installed"
    )
    assert found.help == ("install it: `pip install 'opennki[pictures]'`",)

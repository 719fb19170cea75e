"""The demo: fifty sentences embedded on one core and on two, compared with the plain model; what is refused.

Variables that choose a degree or a target are put aside, so that everybody sees the same.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import opennki
from examples.minilm.compiled import TARGET, CompiledKernel, compiled_kernels
from examples.minilm.model import embed, load_model
from examples.minilm.reference import load_plain_model
from examples.minilm.text import BATCH_TOKENS, LENGTHS, SENTENCES, batches, read_sentences, tokenize
from examples.minilm.weights import load_config

DEGREES = (1, 2)
SMALLEST_COSINE = 0.9999

Embeddings = npt.NDArray[np.float32]


def main(folder: Path) -> dict[str, Any]:
    """Run the demo, leave its files in `folder`, and return its figures."""
    began = time.perf_counter()
    for name in [name for name in os.environ if name.startswith(("NEURON_", "NKI_", "OPENNKI_KERNEL"))]:
        del os.environ[name]
    torch.set_num_threads(1)  # the measure of `seconds_a_sentence`: a thread for PyTorch, one for each core
    folder.mkdir(parents=True, exist_ok=True)

    sentences = read_sentences(SENTENCES)
    rounds = len(list(batches(tokenize(sentences))))
    plain = load_plain_model()
    embed(sentences[:1], plain)
    started = time.perf_counter()
    wanted = embed(sentences, plain)
    seconds = {"plain": time.perf_counter() - started}
    say(
        f"1. {len(sentences)} sentences, {rounds} batches of {BATCH_TOKENS} tokens: the plain model, float32."
    )

    cosine_min, calls = 1.0, 0
    for step, lnc in enumerate(DEGREES, 2):
        kernels = compiled_kernels(lnc)
        model = load_model(kernels)
        embed(sentences, model)  # traced and compiled here
        before = count(kernels)
        started = time.perf_counter()
        got = embed(sentences, model)
        seconds[f"LNC={lnc}"] = time.perf_counter() - started
        calls = (count(kernels) - before) // rounds
        cosine = smallest_cosine(wanted, got)
        if not cosine >= SMALLEST_COSINE:
            raise SystemExit(f"with LNC={lnc} a cosine is {cosine}, less than {SMALLEST_COSINE}")
        cosine_min = min(cosine_min, cosine)
        np.save(folder / f"minilm-lnc{lnc}.npy", got)
        say(f"{step}. The same with kernels, LNC={lnc}: {calls} calls a batch, smallest cosine {cosine:.9f}.")

    say("4. What is refused, since core 1's share would be lost:", "")
    refusals = [compiled_for_less(), kept_artifact(folder / "attention.nka")]
    say(*(str(refusal).partition("\n")[0] for refusal in refusals))
    return {
        "cosine_min": cosine_min,
        "lnc": list(DEGREES),
        "kernel_calls": calls,
        "refused": len(refusals),
        "codes": sorted({str(refusal.code) for refusal in refusals}),
        "sentences": len(sentences),
        "seconds_a_sentence": {key: round(value / len(sentences), 4) for key, value in seconds.items()},
        "seconds": round(time.perf_counter() - began, 2),
    }


def count(kernels: tuple[Any, ...]) -> int:
    """Return how often the kernels have been called."""
    return sum(kernel.calls for kernel in kernels if isinstance(kernel, CompiledKernel))


def smallest_cosine(a: Embeddings, b: Embeddings) -> float:
    """Return the smallest cosine of two embeddings of one sentence, in float64."""
    lengths = np.linalg.norm(a.astype(np.float64), axis=1) * np.linalg.norm(b.astype(np.float64), axis=1)
    return float(((a.astype(np.float64) * b).sum(axis=1) / lengths).min())


def compiled_for_less() -> opennki.OpenNkiError:
    """Trace a kernel for two cores and compile the graph around it for one."""
    from examples.minilm.kernels import gelu_mlp

    width, hidden = load_config().width, load_config().hidden
    shapes = ((BATCH_TOKENS, width), (width, hidden), (hidden,), (hidden, width), (width,))
    specs = [opennki.Spec("float32", shape) for shape in shapes]
    return refused(opennki.trace(gelu_mlp, *specs, lnc=2, target=TARGET))


def kept_artifact(file: Path) -> opennki.OpenNkiError:
    """Take an artifact from a file that a former build has left, traced for two cores."""
    from examples.minilm.kernels import attention

    width, length = load_config().width, LENGTHS[0]
    sentences = BATCH_TOKENS // length
    shapes = (
        (BATCH_TOKENS, width),
        (sentences, length),
        (width, 3 * width),
        (3 * width,),
        (width, width),
        (width,),
    )
    specs = [opennki.Spec("float32", shape) for shape in shapes]
    return refused(opennki.trace(attention, *specs, lnc=2, target=TARGET).save(file))


def refused(graph: Any) -> opennki.OpenNkiError:
    """Compile for one core what was traced for two; return the error."""
    try:
        opennki.compile(graph, lnc=1, target=TARGET)
    except opennki.OpenNkiError as error:
        if error.code != "NCC_ENKI003":
            raise
        return error
    raise SystemExit("two programs were compiled for LNC=1: half of the result would be lost")


def say(*lines: str) -> None:
    """Print a step of the story."""
    print(*lines, sep="\n")


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))))

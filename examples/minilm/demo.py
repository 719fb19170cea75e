"""The demo: fifty sentences on one core and on two, by two ways, against the plain model; what is refused.

Variables that choose a degree or a target are put aside, so that everybody sees the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import opennki
from examples.minilm.compiled import TARGET, called_kernels
from examples.minilm.model import embed, load_model
from examples.minilm.reference import load_plain_model
from examples.minilm.text import BATCH_TOKENS, SENTENCES, Batch, batches, read_sentences, tokenize
from examples.minilm.weights import load_config

DEGREES = (1, 2)
SMALLEST_COSINE = 0.9999
SAVED_LENGTH = 128
"""Tokens that sentences are padded to in the saved model, which has one shape."""

Embeddings = npt.NDArray[np.float32]


def main(folder: Path) -> dict[str, Any]:
    """Run the demo, leave its files in `folder`, and return its figures."""
    began = time.perf_counter()
    for name in [name for name in os.environ if name.startswith(("NEURON_", "NKI_", "OPENNKI_KERNEL"))]:
        del os.environ[name]
    torch.set_num_threads(1)  # the measure of `seconds_a_sentence`: a thread for PyTorch, one for each core
    folder.mkdir(parents=True, exist_ok=True)

    sentences = read_sentences(SENTENCES)
    first = next(batches(tokenize(sentences), (SAVED_LENGTH,)))
    wanted, seconds = timed(sentences, load_plain_model())
    figures = {"plain": seconds}
    say(f"1. {len(sentences)} sentences by the plain model, PyTorch's own operators in float32.")

    cosines, calls = [], []
    for step, lnc in enumerate(DEGREES, 2):
        got, figures[f"LNC={lnc}"] = timed(sentences, compiled(lnc, lnc))
        executable = exported(lnc, first)
        calls.append(len(executable.calls))
        saved = executable.save(folder / f"minilm-lnc{lnc}.nkx")
        apart = in_new_process(saved, folder / f"minilm-lnc{lnc}.npy")
        cosines += [smallest_cosine(wanted, got), smallest_cosine(wanted, apart)]
        say(
            f"{step}. LNC={lnc}, {calls[-1]} kernel calls. Smallest cosine with the plain model:",
            f'   {cosines[-2]:.9f} by torch.compile(backend="opennki")',
            f"   {cosines[-1]:.9f} exported, compiled, saved as {saved}, run in a new process",
        )
    if not min(cosines) >= SMALLEST_COSINE:
        raise SystemExit(f"a cosine is {min(cosines)}, less than {SMALLEST_COSINE}")

    say("4. What is refused, since core 1's share would be lost:", "")
    ids, mask = torch.from_numpy(first.ids), torch.from_numpy(first.mask)
    causes: dict[str, Callable[[], object]] = {
        "run eagerly": lambda: load_model(called_kernels(2))(ids, mask),
        "traced for two, compiled for one": lambda: compiled(2, 1)(ids, mask),
        "a kept artifact of two programs": lambda: compile_kept_artifact(folder / "gelu_mlp.nka"),
    }
    for cause, run in causes.items():
        say(f"   {cause}: {refused(run)}".partition("\n")[0])
    return {
        "cosine_min": min(cosines),
        "lnc": list(DEGREES),
        "kernel_calls": min(calls),
        "refused": len(causes),
        "sentences": len(sentences),
        "seconds_a_sentence": {key: round(value / len(sentences), 4) for key, value in figures.items()},
        "seconds": round(time.perf_counter() - began, 2),
    }


def compiled(kernels_lnc: int, graph_lnc: int) -> Callable[..., torch.Tensor]:
    """Return the model, its kernels for so many cores, compiled as a graph for as many, or others."""
    torch.compiler.reset()
    model = load_model(called_kernels(kernels_lnc))
    options: dict[str, Any] = {"lnc": graph_lnc, "target": TARGET}
    whole: Callable[..., torch.Tensor] = torch.compile(
        model, backend="opennki", options=options, fullgraph=True, dynamic=False
    )
    return whole


def exported(lnc: int, batch: Batch) -> opennki.Executable:
    """Return the model exported for the shapes of a batch, and compiled for `lnc` cores."""
    examples = (torch.from_numpy(batch.ids), torch.from_numpy(batch.mask))
    program = torch.export.export(load_model(called_kernels(lnc)), examples)
    return opennki.compile(program, lnc=lnc, target=TARGET)


def in_new_process(executable: Path, output: Path) -> Embeddings:
    """Embed the sentences by a saved model, in a process that has neither traced nor compiled a kernel."""
    command = [sys.executable, "-m", "examples.minilm", "--executable", str(executable)]
    command += ["--output", str(output)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    embeddings: Embeddings = np.load(output)
    return embeddings


def timed(sentences: list[str], model: Callable[..., torch.Tensor]) -> tuple[Embeddings, float]:
    """Return the embeddings and the seconds that they take when everything has been compiled."""
    embed(sentences, model)
    started = time.perf_counter()
    return embed(sentences, model), time.perf_counter() - started


def smallest_cosine(a: Embeddings, b: Embeddings) -> float:
    """Return the smallest cosine of two embeddings of one sentence, in float64."""
    lengths = np.linalg.norm(a.astype(np.float64), axis=1) * np.linalg.norm(b.astype(np.float64), axis=1)
    return float(((a.astype(np.float64) * b).sum(axis=1) / lengths).min())


def compile_kept_artifact(file: Path) -> object:
    """Compile for one core an artifact that a former build has left, traced for two."""
    from examples.minilm.kernels import gelu_mlp

    width, hidden = load_config().width, load_config().hidden
    shapes = ((BATCH_TOKENS, width), (width, hidden), (hidden,), (hidden, width), (width,))
    specs = [opennki.Spec("float32", shape) for shape in shapes]
    return opennki.compile(
        opennki.trace(gelu_mlp, *specs, lnc=2, target=TARGET).save(file), lnc=1, target=TARGET
    )


def refused(run: Callable[[], object]) -> opennki.OpenNkiError:
    """Run what must be refused; return the error."""
    try:
        with torch.no_grad():
            run()
    except opennki.OpenNkiError as error:
        if error.code != "NCC_ENKI003":
            raise
        return error
    raise SystemExit("two programs were compiled for LNC=1: half of the result would be lost")


def say(*lines: str) -> None:
    """Print a step of the story."""
    print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))))

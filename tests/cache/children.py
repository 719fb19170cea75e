"""Many processes on one cache, run as a script: a process that has imported everything forks the others.

    python -m tests.cache.children fill FOLDER PROCESSES AT_ONCE
    python -m tests.cache.children kill FOLDER TIMES

Both print JSON. A forked child is a process of its own with an empty memory; only the imports are shared.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import opennki
from opennki.cache import CACHE, Bound
from tests.unit.kernels import halve, ramp

KEYS = 12
"""How many different traces there are."""


def fill(folder: Path, processes: int, at_once: int) -> dict[str, object]:
    """Let processes trace and run the same kernels in orders of their own; count traces and wrong results."""
    log = folder / "log"
    children: set[int] = set()
    failed = 0
    for number in range(processes):
        if len(children) == at_once:
            failed += _wait_for_one(children)
        children.add(_fork(lambda seed=number: _fill(log, seed)))
    while children:
        failed += _wait_for_one(children)
    words = log.read_text().split()
    return {"failed": failed, "traces": words.count("trace"), "wrong": words.count("wrong"), "keys": KEYS}


def _fork(work: object) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        assert callable(work)
        work()
        status = 0
    finally:
        os._exit(status)


def _wait_for_one(children: set[int]) -> int:
    child, status = os.wait()
    children.discard(child)
    return int(status != 0)


def _fill(log: Path, seed: int) -> None:
    """Make every call once, in an order of this process's own; note each trace."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    trace = Bound.trace

    def noted(bound: Bound) -> object:
        os.write(descriptor, b"trace ")
        time.sleep(0.005)  # a trace that takes its time, so that others come meanwhile
        return trace(bound)

    Bound.trace = noted  # type: ignore[method-assign,assignment]  # counted
    order = list(range(KEYS))
    random.Random(seed).shuffle(order)
    for key in order:
        x = ramp(128, 16 + key // 2) + seed
        if not np.array_equal(halve[1 + key % 2](x), x / 2):
            os.write(descriptor, b"wrong ")


def kill(times: int) -> dict[str, object]:
    """Kill processes that write entries, at random moments; more where few entries come about."""
    chance = random.Random(0)
    folder = Path(os.environ["OPENNKI_CACHE_DIR"])
    killed = 0
    while killed < times or (killed < 10 * times and len(list(folder.glob("*.nka"))) <= 50):
        child = _fork(lambda seed=killed: _write(seed))
        time.sleep(chance.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        killed += 1
    return {"killed": killed}


def _write(seed: int) -> None:
    """Trace one kernel after the other until the end comes."""
    for i in range(100_000):
        opennki.trace(halve, f"float32[128,{1 + (seed * 7 + i) % 400}]", lnc=1 + i % 2)


def main() -> None:
    """Run one of the two, in the cache of FOLDER."""
    mode, folder, *numbers = sys.argv[1:]
    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn2"
    with TemporaryDirectory() as elsewhere:
        os.environ["OPENNKI_CACHE_DIR"] = elsewhere
        for _ in range(2):  # everything is imported
            CACHE.forget()
            halve(ramp())
    CACHE.forget()
    os.environ["OPENNKI_CACHE_DIR"] = folder
    counts = [int(number) for number in numbers]
    print(json.dumps(fill(Path(folder), *counts) if mode == "fill" else kill(*counts)))


if __name__ == "__main__":
    main()

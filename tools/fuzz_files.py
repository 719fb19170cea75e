"""Damage `.nka` and `.nkx` files and read them: what comes must be a value or a catalogued error.

    python -m tools.fuzz_files --cases 100000 --jobs 2     # prints a summary as JSON; status 1 on a find
    python -m tools.fuzz_files --seed 7 --only 1234        # one case again, with its traceback

A case is made of the seed and its number alone. Bytes are flipped, cut, moved and overwritten; parts are
changed and packed again with digests that match; manifests lie; zips hold bombs, zips, names that lead
elsewhere. What loads is gone through further: as text and back, and by the analysis of coverage. Each case
may take two seconds, each process 1 GiB.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from opennki.analyse.coverage import findings
from opennki.artifact import pack, unpack
from opennki.build.executable import Executable
from opennki.build.read import load_unchecked
from opennki.diag import OpenNkiError
from opennki.ir.text import parse_artifact, print_artifact
from opennki.ir.types import KernelArtifact
from opennki.isa.table import ROW_FACTS
from tools.fuzz_seeds import sound_files

__all__ = ["MAX_MEMORY", "MAX_SECONDS", "Find", "main", "mutation", "read_case", "run_cases"]

MAX_SECONDS = 2.0
MAX_MEMORY = 1 << 30
EXPECTED = {"ONKI501", "ONKI502", "ONKI503", "NCC_EVRF065"}

Find = tuple[int, str, str]
"""A case that is none of a value and a catalogued error: its number, its kind of damage, what happened."""

Files = Mapping[str, bytes]
Damage = Callable[[bytes, str, random.Random], bytes]


# ------------------------------------------------------------------------------------------------- damage


def flipped(data: bytes, _: str, source: random.Random) -> bytes:
    """Flip one to eight bits."""
    changed = bytearray(data)
    for _i in range(source.randint(1, 8)):
        changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
    return bytes(changed)


def cut(data: bytes, _: str, source: random.Random) -> bytes:
    """Cut the file short, at its end or in its middle, or begin late."""
    start, end = sorted(source.randrange(len(data) + 1) for _i in range(2))
    return source.choice([data[:start], data[end:], data[:start] + data[end:]])


def grown(data: bytes, _: str, source: random.Random) -> bytes:
    """Put bytes in or behind: random ones, or a piece of the file again."""
    at, length = source.randrange(len(data) + 1), source.choice([1, 2, 4, 30, 1000])
    start = source.randrange(len(data))
    piece = source.choice([source.randbytes(length), data[start : start + length], bytes(length)])
    return data[:at] + piece + data[at:]


def overwritten(data: bytes, _: str, source: random.Random) -> bytes:
    """Overwrite a number of two, four or eight bytes: with 0, the largest, a power of two, anything."""
    size = source.choice([2, 4, 8])
    at = _number_place(data, size, source)
    top = (1 << 8 * size) - 1
    value = source.choice([0, 1, top, top >> 1, 1 << source.randrange(8 * size), source.randint(0, top)])
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def _number_place(data: bytes, size: int, source: random.Random) -> int:
    """Return a place: mostly in one of the records of the zip, which hold its lengths."""
    marks = [at for sign in (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06") for at in _all(data, sign)]
    if marks and source.random() < 0.8:
        return min(source.choice(marks) + source.randrange(4, 46), max(0, len(data) - size))
    return source.randrange(max(1, len(data) - size))


def _all(data: bytes, sign: bytes) -> Iterator[int]:
    at = data.find(sign)
    while at >= 0:
        yield at
        at = data.find(sign, at + 1)


def lying_manifest(data: bytes, kind: str, source: random.Random) -> bytes:
    """Change the manifest's JSON: digests, sizes, formats, kinds, types, depth; the entries stay."""
    entries = _entries(data)
    manifest = json.loads(entries["manifest.json"])
    choice = source.randrange(8)
    if choice == 0:
        manifest["format"] = source.choice([0, 2, 99, -1, 2**63, 2**70, "1", None, 1.5, True])
    elif choice == 1:
        name = source.choice(list(manifest["entries"]))
        manifest["entries"][name]["sha256"] = source.choice(
            [sha256(b"x").hexdigest(), "", "0" * 63, "G" * 64, 5]
        )
    elif choice == 2:
        name = source.choice(list(manifest["entries"]))
        manifest["entries"][name]["bytes"] = source.choice([0, -1, 2**40, 2**64, 1e300, "7", None])
    elif choice == 3:
        manifest = changed_tree(manifest, source)
    elif choice == 4:
        entries["manifest.json"] = _deep_json(source)
        return _zipped(entries)
    elif choice == 5:
        manifest[source.choice(["kind", "container", "lnc", "target", "calls", "kernel"])] = _value(source)
    elif choice == 6:
        manifest.pop(source.choice(list(manifest)))
    else:
        manifest["entries"][source.choice(["../x", "/etc/passwd", "a//b", ".x", "C:\\x", "a" * 300])] = {
            "bytes": 1,
            "sha256": sha256(b"x").hexdigest(),
        }
    entries["manifest.json"] = json.dumps(manifest, default=repr).encode("utf-8", "surrogatepass")
    return _zipped(entries)


def _deep_json(source: random.Random) -> bytes:
    depth = source.choice([50, 1_000, 100_000])
    return source.choice([b"[" * depth, b'{"a":' * depth, b"[" * depth + b"]" * depth, b"1" * depth])


def changed_part(data: bytes, kind: str, source: random.Random) -> bytes:
    """Change the bytes of a part and pack it again, with digests that match."""
    return _repacked(
        data, kind, source, lambda part: source.choice([flipped, cut, grown])(part, kind, source)
    )


def changed_record(data: bytes, kind: str, source: random.Random) -> bytes:
    """Change a value in the MessagePack of a part and pack it again: canonical, typed or not, it matches."""

    def change(part: bytes) -> bytes:
        try:
            tree = msgspec.msgpack.decode(part)
        except msgspec.DecodeError:
            return part[: source.randrange(len(part) + 1)]
        for _i in range(source.choice([1, 1, 1, 2, 5])):
            tree = changed_tree(tree, source)
        return msgspec.msgpack.encode(tree)

    return _repacked(data, kind, source, change)


def deep_record(data: bytes, kind: str, source: random.Random) -> bytes:
    """Put a part in whose MessagePack nests deeply or declares a huge length."""
    depth = source.choice([100, 10_000, 1_000_000])
    head = source.choice([b"\x91", b"\x81\xa1a", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"])
    huge = source.choice([b"\xdd", b"\xdf", b"\xdb", b"\xc6"]) + b"\xff\xff\xff\xf0" + bytes(64)
    return _repacked(data, kind, source, lambda _part: source.choice([head * depth, huge]))


def strange_zip(data: bytes, kind: str, source: random.Random) -> bytes:
    """Write the entries by other means: bombs, zips, names that lead elsewhere, twice, very many."""
    entries = _entries(data)
    name = source.choice(list(entries))
    choice = source.randrange(7)
    if choice == 0:
        entries[name] = bytes(source.choice([1 << 20, 1 << 24, 1 << 26]))
    elif choice == 1:
        entries[name] = _zipped({name: data, "inner.zip": _zipped({"x": bytes(1 << 20)})})
    elif choice == 2:
        bad = ["../../x", "/x", "a/../b", "\\x", "x\0y", "COM1:", "a" * 60_000, "ü", ".git/config", "x/"]
        entries[source.choice(bad)] = b"x"
    elif choice == 3:
        entries |= {f"e{i}": b"" for i in range(source.choice([100, 10_001, 20_000]))}
    elif choice == 4:
        return _zipped(entries, twice=name)
    elif choice == 5:
        return _zipped(entries, source.choice([zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED]))
    else:
        return source.choice(
            [b"", b"PK", b"PK\x03\x04", bytes(100), b"\x93NUMPY\x01\x00", data * 2, data[::-1]]
        )
    return _zipped(entries)


DAMAGES: tuple[tuple[int, Damage], ...] = (
    (15, flipped),
    (10, cut),
    (5, grown),
    (20, overwritten),
    (15, lying_manifest),
    (10, changed_part),
    (20, changed_record),
    (2, deep_record),
    (3, strange_zip),
)
"""The kinds of damage, and how many of a hundred cases each gets."""


_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 3, 2**62, -(2**40), 0.0, -0.0, 1e308, float("nan"), float("inf")),
    *("", "x", "trn2", "../x", "\0", "é" * 200, b"", bytes(9), [], [[]], [1, 2, 3], {}, {"a": 1}),
)


def changed_tree(tree: Any, source: random.Random) -> Any:
    """Return JSON or MessagePack with one value replaced, doubled, left out or moved, anywhere in it."""
    if isinstance(tree, list) and tree and source.random() < 0.9:
        i = source.randrange(len(tree))
        kind = source.random()
        if kind < 0.75:
            return [*tree[:i], changed_tree(tree[i], source), *tree[i + 1 :]]
        return source.choice(
            [tree[:i] + tree[i + 1 :], [*tree, tree[i]], tree[::-1], [*tree, _value(source)]]
        )
    if isinstance(tree, dict) and tree and source.random() < 0.9:
        key = source.choice(list(tree))
        return {**tree, key: changed_tree(tree[key], source)}
    if isinstance(tree, bool) or tree is None:
        return _value(source)
    if isinstance(tree, int) and source.random() < 0.8:
        near = [tree + 1, tree - 1, -tree, tree * 2, tree ^ 1, 0, 2**31, 2**63 - 1, -(2**63)]
        return max(-(2**63), min(source.choice(near), 2**64 - 1))
    return _value(source)


def _value(source: random.Random) -> Any:
    return source.choice(_VALUES)


def _entries(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(entries: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED, twice: str = "") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name in sorted(entries):
            archive.writestr(zipfile.ZipInfo(name), entries[name], method)
        if twice:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the name is a duplicate
                archive.writestr(zipfile.ZipInfo(twice), entries[twice], method)
    return file.getvalue()


def _repacked(data: bytes, kind: str, source: random.Random, change: Callable[[bytes], bytes]) -> bytes:
    """Change one part of a container, or of an artifact inside an executable; digests match again."""
    manifest, entries = unpack(data, kind, "sound")
    said = {
        k: v for k, v in manifest.items() if k not in ("container", "kind", "format", "toolchain", "entries")
    }
    name = source.choice(list(entries))
    inner = name.endswith(".nka") and source.random() < 0.9
    new = _repacked(entries[name], "nka", source, change) if inner else change(entries[name])
    if kind != "nkx":
        return pack(kind, said, {**entries, name: new})
    old, digest = name.removeprefix("artifacts/").removesuffix(".nka"), sha256(new).hexdigest()
    text = json.dumps(said).replace(old, digest)
    parts = {n: d for n, d in entries.items() if n != name} | {f"artifacts/{digest}.nka": new}
    return pack(kind, json.loads(text), parts)


# ------------------------------------------------------------------------------------------------ reading


def mutation(files: Files, seed: int, number: int) -> tuple[str, str, bytes]:
    """Return the kind of damage, the name of the file, and its damaged bytes."""
    source = random.Random(f"{seed}:{number}")
    name = source.choice(list(files))
    (damage,) = source.choices([d for _, d in DAMAGES], [share for share, _ in DAMAGES])
    return damage.__name__, name, damage(files[name], name.rpartition(".")[2], source)


def read_case(path: Path) -> str:
    """Read a file as the commands do and look at all of it. Return the code of its error, or `loaded`."""
    try:
        found = load_unchecked(path)
    except OpenNkiError as problem:
        return problem.code
    artifacts = [call.artifact for call in found.calls] if isinstance(found, Executable) else [found]
    for artifact in artifacts:
        _look_at(artifact)
    return "loaded"


def _look_at(artifact: KernelArtifact) -> None:
    text = print_artifact(artifact, ROW_FACTS)
    if print_artifact(parse_artifact(text, ROW_FACTS), ROW_FACTS) != text:
        raise AssertionError("the text form does not read back")
    findings(artifact)


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_cases(files: Files, seed: int, numbers: Sequence[int]) -> tuple[Counter[str], list[Find], float]:
    """Return how often each end came, what must not be, and the slowest case's seconds."""
    ends: Counter[str] = Counter()
    finds: list[Find] = []
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            kind, name, data = mutation(files, seed, number)
            path = Path(folder) / "inside" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            start = time.perf_counter()
            try:
                with _limit(10 * MAX_SECONDS):
                    end = read_case(path)
            except Exception as problem:
                end = f"{type(problem).__name__}: {problem}"
            took = time.perf_counter() - start
            slowest = max(slowest, took)
            path.unlink()
            left = [entry.name for entry in Path(folder).rglob("*") if entry.name != "inside"]
            if left:
                end = f"wrote {left}"
            if took > MAX_SECONDS:
                end = f"took {took:.1f} s, then {end}"
            ends[f"{kind} {end}" if end == "loaded" or end in EXPECTED else "find"] += 1
            if end != "loaded" and end not in EXPECTED:
                finds.append((number, kind, end))
    return ends, finds, slowest


def _share(job: tuple[int, range]) -> tuple[Counter[str], list[Find], float, int]:
    seed, numbers = job
    found = run_cases(sound_files(), seed, numbers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return (*found, peak)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, print a summary as JSON; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, default=None, help="one case, with its traceback")
    given = parser.parse_args(arguments)
    if given.only is not None:
        return _once(given.seed, given.only)
    start = time.perf_counter()
    jobs = [(given.seed, range(i, given.cases, given.jobs)) for i in range(given.jobs)]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        shares = pool.map(_share, jobs)
    ends = sum((ends for ends, _, _, _ in shares), Counter[str]())
    finds = sorted(find for _, found, _, _ in shares for find in found)
    peak = max(peak for _, _, _, peak in shares)
    summary = {
        "cases": given.cases,
        "seed": given.seed,
        "seconds": round(time.perf_counter() - start, 1),
        "slowest_seconds": round(max(slowest for _, _, slowest, _ in shares), 3),
        "peak_bytes": peak,
        "finds": finds[:20],
        "ends": dict(sorted(ends.items())),
    }
    print(json.dumps(summary, indent=1))
    return 1 if finds or peak > MAX_MEMORY else 0


def _once(seed: int, number: int) -> int:
    kind, name, data = mutation(sound_files(), seed, number)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        print(f"case {number}: {kind} of {name}, {len(data)} bytes")
        try:
            print(read_case(path))
        except Exception:
            traceback.print_exc()
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The key of a trace: everything that its artifact depends on, as named parts."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from opennki.artifact.container import toolchain
from opennki.cache.digest import Digest, Part
from opennki.cache.encoding import hashed, record
from opennki.frontend.kernel import Kernel
from opennki.frontend.trace import Argument
from opennki.settings import trace_switches
from opennki.targets import Target

__all__ = ["Key", "key_of"]

FORMAT = 1
"""Of the key itself: a change of how things are digested is a change of this number."""

_TRACING = ("artifact", "cache", "diag", "frontend", "ir", "isa", "targets.py")
"""The parts of OpenNKI that an artifact depends on."""


class Key(Struct, frozen=True):
    """The key of a trace: its digest, and the parts that the digest is made of."""

    kernel: str
    digest: str
    parts: dict[str, Part]


def key_of(
    kernel: Kernel,
    function: Digest,
    values: Digest,
    arguments: Sequence[Argument],
    names: Sequence[str],
    degree: int,
    target: Target,
) -> Key:
    """Return the key of one trace of `kernel`, whose function and values have these digests.

    `names` are those of keyword arguments, whose order a kernel can see.
    """
    has_grid = kernel.degree is not None or degree > 1
    said = {
        "degree": str(degree),
        "launch grid": "one axis" if has_grid else "no axis",
        "target": target.name,
        **trace_switches(),
        **({"names of arguments": ", ".join(names)} if names else {}),
        **{f"tensor `{argument.name}`": str(argument.spec) for argument in arguments},
    }
    parts = {name: Part(hashed(text.encode()), text) for name, text in said.items()}
    parts["toolchain"] = toolchain_part()
    digests = [record(name.encode(), part.digest.encode()) for name, part in parts.items()]
    heads = (kernel.name, function.value, values.value)
    digest = hashed(record(b"key", *[head.encode() for head in heads], *digests))
    for name, part in values.parts.items():  # what an argument leads to may also be reached otherwise
        parts[name if name.startswith("argument ") else f"{name}, by an argument"] = part
    return Key(kernel.name, digest, parts | function.parts)


@lru_cache(maxsize=1)
def toolchain_part() -> Part:
    """Return what stands for OpenNKI and Python: their versions, and a digest of the sources that trace.

    The version alone would not do: between two releases a row may change and the version does not.
    """
    python = f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"
    shown = f"{toolchain()}, {python}"
    content = [b"%d" % FORMAT, shown.encode(), *_sources(Path(__file__).parents[1])]
    return Part(hashed(record(b"toolchain", *content)), shown)


def _sources(package: Path) -> list[bytes]:
    """Return name and content of every source file that an artifact depends on."""
    content = []
    for name in _TRACING:
        path = os.path.join(package, name)
        files = [path] if os.path.isfile(path) else sorted(_python_files(path))
        for file in files:
            with open(file, "rb") as source:
                content += [os.path.relpath(file, package).replace(os.sep, "/").encode(), source.read()]
    return content


def _python_files(folder: str) -> list[str]:
    found = []
    for entry in os.scandir(folder):
        if entry.is_dir():
            found += _python_files(entry.path)
        elif entry.name.endswith(".py"):
            found.append(entry.path)
    return found

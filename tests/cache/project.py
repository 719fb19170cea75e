"""Small projects on disk for the tests of the cache: written, imported anew after each edit, copied."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType
from typing import Any

HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl
"""

BODY = """
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float({factor}))
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def kernel(factor: str, before: str = "", parameters: str = "x") -> str:
    """Return a module with a kernel that multiplies by `factor`, an expression of it."""
    body = BODY.format(factor=factor)
    return f"{HEAD}\n{before.strip()}\n\n\n@nki.jit\ndef kernel({parameters}):{body}"


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a project."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class Project:
    """A folder of modules. State: it is on `sys.path`, and imported, from `load` to `forget`."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.folder = folder
        write(folder, files)

    def load(self, name: str = "k") -> ModuleType:
        """Import a module of the project, and all that it needs, as a new process does."""
        self.forget()
        invalidate_caches()
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        sys.path.insert(0, str(self.folder))
        try:
            return import_module(name)
        finally:
            sys.dont_write_bytecode = before

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that occurs once in a file."""
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, (old, text)
        path.write_text(text.replace(old, new), encoding="utf-8")

    def forget(self) -> None:
        """Take the modules of this project, and of others beside it, out of the interpreter."""
        beside = str(self.folder.parent)
        own = {path.stem for path in self.folder.iterdir()}
        for name, module in list(sys.modules.items()):
            file = str(getattr(module, "__file__", None) or "")
            if file.startswith(beside) or name.partition(".")[0] in own:
                del sys.modules[name]
        sys.path[:] = [folder for folder in sys.path if not folder.startswith(beside)]

    def kernel(self) -> Any:
        """Return the kernel of `k.py`, newly imported."""
        return self.load().kernel

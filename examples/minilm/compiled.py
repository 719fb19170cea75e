"""Two ways to the kernels: as they are, in a model that is compiled as a whole, or each compiled on its own.

On its own means an executable for each shape, and nothing but arrays between framework and kernel.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

import opennki
from examples.minilm.model import Kernels

TARGET = "trn2"


class CompiledKernel:
    """A kernel on tensors. State: an executable for each combination of shapes and numbers seen."""

    def __init__(self, kernel: Any, lnc: int) -> None:
        self.kernel = kernel
        self.lnc = lnc
        self.calls = 0
        self.executables: dict[tuple[Any, ...], opennki.Executable] = {}

    def __call__(self, *args: Tensor | float) -> Tensor:
        """Return what the kernel makes of tensors and, after them, of plain numbers."""
        arrays = [arg.contiguous().numpy() for arg in args if isinstance(arg, Tensor)]
        numbers = tuple(arg for arg in args if not isinstance(arg, Tensor))
        key = (*(array.shape for array in arrays), *numbers)
        if key not in self.executables:
            artifact = opennki.trace(self.kernel, *arrays, *numbers, lnc=self.lnc, target=TARGET)
            self.executables[key] = opennki.compile(artifact, lnc=self.lnc, target=TARGET)
        self.calls += 1
        return torch.from_numpy(self.executables[key](*arrays))


def called_kernels(lnc: int) -> Kernels:
    """Return the model's kernels as they are, for `lnc` cores: called on tensors, in a compiled model."""
    opennki.install()
    from examples.minilm import kernels

    return Kernels(*(getattr(kernels, name)[lnc] for name in Kernels._fields))


@cache
def compiled_kernels(lnc: int) -> Kernels:
    """Return the model's kernels, each compiled for `lnc` cores when it is first called with a shape."""
    opennki.install()
    from examples.minilm import kernels

    return Kernels(*(CompiledKernel(getattr(kernels, name), lnc) for name in Kernels._fields))

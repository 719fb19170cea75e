"""The module that `nki_op` and `wrap_nki` come from in torch-neuronx."""

from __future__ import annotations

from opennki.frameworks.torch.kernel_ops import nki_op, wrap_nki

__all__ = ["nki_op", "wrap_nki"]

"""The module that `wrap_nki` comes from in the lite library."""

from __future__ import annotations

from opennki.frameworks.torch.kernel_ops import wrap_nki

__all__ = ["wrap_nki"]

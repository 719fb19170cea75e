"""The module that `nki_op` comes from in the lite library."""

from __future__ import annotations

from opennki.frameworks.torch.kernel_ops import nki_op

__all__ = ["nki_op"]

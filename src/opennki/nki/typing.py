"""`nki.typing`: what kernels write as annotations of their tensor arguments."""

from __future__ import annotations

from opennki.frontend.tensor import NkiTensor

__all__ = ["mutable_tensor", "tensor"]

tensor = NkiTensor
mutable_tensor = NkiTensor
"""A tensor that the kernel writes; which ones it writes is seen from what it does."""

"""What `import torch_neuronx` gives where the real package is absent: operators around kernels, no device."""

from __future__ import annotations

from opennki.frameworks.torch.kernel_ops import nki_op, wrap_nki

__all__ = ["nki_op", "wrap_nki"]

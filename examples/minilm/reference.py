"""The plain model: PyTorch's own operations in float32, and no kernel. What the kernels are compared with."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from examples.minilm.weights import Config, Tensors, load_config, load_tensors


class PlainMiniLm:
    """The sentence encoder. Its tensors are the package's, under their names."""

    def __init__(self, tensors: Tensors, config: Config) -> None:
        self.tensors = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
        self.config = config

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return embeddings of length 1, `[sentences, width]`, of `ids` and `mask`, `[sentences, length]`."""
        x = self._table("word")[ids] + self._table("position")[: ids.shape[1]] + self._table("token_type")[0]
        x = self._norm("embeddings.LayerNorm", x)
        for i in range(self.config.layers):
            x = self._layer(f"encoder.layer.{i}", x, mask)
        kept = mask[:, :, None]
        mean = (x * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
        return functional.normalize(mean, dim=1)

    def _table(self, name: str) -> Tensor:
        return self.tensors[f"embeddings.{name}_embeddings.weight"]

    def _layer(self, name: str, x: Tensor, mask: Tensor) -> Tensor:
        by_head = (*x.shape[:2], self.config.heads, -1)
        query, key, value = (
            self._linear(f"{name}.attention.self.{part}", x).reshape(by_head).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(2, 3) / query.shape[3] ** 0.5
        least = torch.finfo(torch.float32).min
        weights = scores.masked_fill(mask[:, None, None, :] == 0, least).softmax(dim=3)
        attended = (weights @ value).transpose(1, 2).flatten(2)
        attended = self._linear(f"{name}.attention.output.dense", attended)
        x = self._norm(f"{name}.attention.output.LayerNorm", x + attended)
        hidden = functional.gelu(self._linear(f"{name}.intermediate.dense", x))
        return self._norm(f"{name}.output.LayerNorm", x + self._linear(f"{name}.output.dense", hidden))

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def _norm(self, name: str, x: Tensor) -> Tensor:
        scale, shift = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return functional.layer_norm(x, scale.shape, scale, shift, self.config.epsilon)


def load_plain_model() -> PlainMiniLm:
    """Return the plain model with the installed package's weights."""
    return PlainMiniLm(load_tensors(), load_config())

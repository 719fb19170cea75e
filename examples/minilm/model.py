"""The model in PyTorch, its layers made of kernels; lookup and pooling are the framework's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from examples.minilm.text import LENGTHS, batches, tokenize
from examples.minilm.weights import Config, Tensors, load_config, load_tensors

Call = Callable[..., Tensor]
Embed = Callable[[Tensor, Tensor], Tensor]
"""From token numbers and mask, `[sentences, length]`, to embeddings `[sentences, width]`."""


class Kernels(NamedTuple):
    """How the model calls its three kernels: on tensors, which they take and return."""

    add_norm: Call
    attention: Call
    gelu_mlp: Call


class Layer(torch.nn.Module):
    """A layer of the encoder: four kernel calls. Its matrices are `[in, out]`."""

    def __init__(self, tensors: Tensors, prefix: str, config: Config, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels
        self.head_features = config.width // config.heads
        self.epsilon = config.epsilon

        def put(name: str, *sources: str) -> None:
            parts = [torch.from_numpy(tensors[f"{prefix}.{source}"]) for source in sources]
            joined = torch.cat([part.T if part.ndim == 2 else part for part in parts], dim=-1)
            self.register_buffer(name, joined.contiguous())

        attention = [f"attention.self.{name}" for name in ("query", "key", "value")]
        put("w_qkv", *(f"{name}.weight" for name in attention))
        put("b_qkv", *(f"{name}.bias" for name in attention))
        for name, source in (
            ("attended", "attention.output.dense"),
            ("in", "intermediate.dense"),
            ("out", "output.dense"),
        ):
            put(f"w_{name}", f"{source}.weight")
            put(f"b_{name}", f"{source}.bias")
        for name, source in (("attended", "attention.output.LayerNorm"), ("out", "output.LayerNorm")):
            put(f"scale_{name}", f"{source}.weight")
            put(f"shift_{name}", f"{source}.bias")

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return `[tokens, width]` of `x`, the same, and `mask`, `[sentences, length]`."""
        add_norm, attention, gelu_mlp = self.kernels
        attended = attention(
            x, mask, self.w_qkv, self.b_qkv, self.w_attended, self.b_attended, self.head_features
        )
        x = add_norm(x, attended, self.scale_attended, self.shift_attended, self.epsilon)
        fed = gelu_mlp(x, self.w_in, self.b_in, self.w_out, self.b_out)
        return add_norm(x, fed, self.scale_out, self.shift_out, self.epsilon)


class MiniLm(torch.nn.Module):
    """The sentence encoder. `kernels` says how its kernels are called, on how many cores among it."""

    words: Tensor
    positions: Tensor

    def __init__(self, tensors: Tensors, config: Config, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels
        self.width = config.width
        self.epsilon = config.epsilon
        words, positions, types, scale, shift = (
            torch.from_numpy(tensors[f"embeddings.{name}"])
            for name in (
                "word_embeddings.weight",
                "position_embeddings.weight",
                "token_type_embeddings.weight",
                "LayerNorm.weight",
                "LayerNorm.bias",
            )
        )
        self.register_buffer("words", words)
        self.register_buffer("positions", positions + types[0])  # sentences come alone: all is of type 0
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)
        self.layers = torch.nn.ModuleList(
            Layer(tensors, f"encoder.layer.{i}", config, kernels) for i in range(config.layers)
        )

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return embeddings of length 1, `[sentences, width]`, of `ids` (int64) and `mask` (float32).

        Both are `[sentences, length]`, the mask 1.0 for a token and 0.0 for padding; a sentence of padding
        alone gives zeros.
        """
        sentences, length = ids.shape
        words = self.words[ids].reshape(-1, self.width)
        positions = self.positions[:length].repeat(sentences, 1)
        x = self.kernels.add_norm(words, positions, self.scale, self.shift, self.epsilon)
        for layer in self.layers:
            x = layer(x, mask)
        summed = (x.reshape(sentences, length, self.width) * mask[:, :, None]).sum(dim=1)
        return torch.nn.functional.normalize(summed / mask.sum(dim=1, keepdim=True).clamp(min=1.0), dim=1)


def load_model(kernels: Kernels) -> MiniLm:
    """Return the model with the installed package's weights, for inference."""
    model = MiniLm(load_tensors(), load_config(), kernels)
    model.eval()
    return model


def embed(
    sentences: Sequence[str], model: Embed, lengths: Sequence[int] = LENGTHS
) -> npt.NDArray[np.float32]:
    """Return the embedding of each sentence, `[sentences, width]`, in the order given.

    Batches are as long as one of `lengths`; a sentence longer than all of them is cut.
    """
    result = np.zeros((len(sentences), load_config().width), np.float32)
    with torch.no_grad():
        for batch in batches(tokenize(sentences, lengths[-1]), lengths):
            output = model(torch.from_numpy(batch.ids), torch.from_numpy(batch.mask))
            result[batch.rows] = output[: len(batch.rows)].numpy()
    return result

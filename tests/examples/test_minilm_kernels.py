"""The encoder's kernels, one by one, against NumPy in float64, on one core and on two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import opennki
from examples.minilm import kernels
from opennki.ir.types import Instruction

Array = npt.NDArray[np.float64]

WIDTH = 384
HEADS = 12
ROUNDING = 2.0**-24
"""Half of the distance of float32 numbers at 1: the relative error of one rounding."""


def _run(kernel: Any, lnc: int, *args: Any) -> npt.NDArray[np.float32]:
    """Trace a kernel for `lnc` cores, compile it for as many, run it; every element must be written."""
    artifact = opennki.trace(kernel, *args, lnc=lnc, target="trn2")
    assert len(artifact.programs) == lnc
    result = opennki.compile(artifact, lnc=lnc)(*(arg for arg in args if isinstance(arg, np.ndarray)))
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    assert np.isfinite(result).all()
    return result


def _float32(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> npt.NDArray[np.float32]:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


# add_norm -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("tokens", [1, 2, 3, 128, 255, 257])
def test_add_norm(rng: np.random.Generator, lnc: int, tokens: int) -> None:
    x, y = _float32(rng, tokens, WIDTH), _float32(rng, tokens, WIDTH, scale=3.0)
    scale, shift = _float32(rng, WIDTH), _float32(rng, WIDTH)
    result = _run(kernels.add_norm, lnc, x, y, scale, shift)
    total = x.astype(np.float64) + y
    centred = total - total.mean(axis=1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True)) * scale + shift
    # About ten roundings, of numbers up to the largest of the result and its two last steps.
    np.testing.assert_allclose(result, wanted, rtol=0, atol=10 * ROUNDING * np.abs(wanted).max())


@pytest.mark.parametrize("lnc", [1, 2])
def test_add_norm_far_from_zero(rng: np.random.Generator, lnc: int) -> None:
    """A mean a thousand times the deviation: squares are summed after it is off."""
    x = _float32(rng, 4, WIDTH) + np.float32(1000.0)
    y = np.zeros_like(x)
    result = _run(kernels.add_norm, lnc, x, y, np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32))
    exact = x.astype(np.float64)
    wanted = (exact - exact.mean(axis=1, keepdims=True)) / exact.std(axis=1, keepdims=True)
    # The mean's own error: a few roundings at 1000, nine times the deviation's at most.
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-3)


@pytest.mark.parametrize("lnc", [1, 2])
def test_add_norm_of_equal_features_is_the_shift(lnc: int) -> None:
    same = np.full((5, WIDTH), 0.5, np.float32)
    shift = np.arange(WIDTH, dtype=np.float32)
    result = _run(kernels.add_norm, lnc, same, same, np.ones(WIDTH, np.float32), shift)
    np.testing.assert_array_equal(result, np.tile(shift, (5, 1)))


# gelu_mlp -------------------------------------------------------------------------------------------------

_erf = np.vectorize(math.erf, otypes=[np.float64])


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("tokens", [1, 96, 130, 515])
def test_gelu_mlp(rng: np.random.Generator, lnc: int, tokens: int) -> None:
    hidden = 512
    x = _float32(rng, tokens, WIDTH)
    w_in, b_in = _float32(rng, WIDTH, hidden, scale=0.08), _float32(rng, hidden)
    w_out, b_out = _float32(rng, hidden, WIDTH, scale=0.08), _float32(rng, WIDTH)
    result = _run(kernels.gelu_mlp, lnc, x, w_in, b_in, w_out, b_out)
    z = x.astype(np.float64) @ w_in + b_in
    wanted = (0.5 * z * (1.0 + _erf(z / math.sqrt(2.0)))) @ w_out + b_out
    # Sums of 384 and of 512 products, whose errors are random: some sqrt(n) roundings of their magnitudes.
    np.testing.assert_allclose(result, wanted, rtol=0, atol=100 * ROUNDING)


# attention ------------------------------------------------------------------------------------------------


def _attention(x: Array, mask: Array, w_qkv: Array, b_qkv: Array, w_out: Array, b_out: Array) -> Array:
    """Self-attention, sentence after sentence and head after head, over the tokens that the mask keeps."""
    sentences, length = mask.shape
    size = WIDTH // HEADS
    result = np.empty((sentences, length, WIDTH))
    for i, tokens in enumerate(x.reshape(sentences, length, WIDTH).astype(np.float64)):
        kept = mask[i] > 0
        q, k, v = (tokens @ w_qkv.astype(np.float64) + b_qkv).reshape(length, 3, HEADS, size).swapaxes(0, 1)
        heads = []
        for head in range(HEADS):
            scores = q[:, head] @ k[kept, head].T / math.sqrt(size)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            heads.append(weights @ v[kept, head] / weights.sum(axis=1, keepdims=True))
        result[i] = np.concatenate(heads, axis=1) @ w_out + b_out
    return result


def _arguments(rng: np.random.Generator, lengths: Sequence[int], length: int, spread: float = 1.0) -> Any:
    """Arguments of `attention` for sentences of so many tokens, padded to `length` with other numbers."""
    mask = (np.arange(length) < np.array(lengths)[:, None]).astype(np.float32)
    return (
        _float32(rng, len(lengths) * length, WIDTH),
        mask,
        _float32(rng, WIDTH, 3 * WIDTH, scale=0.05 * spread),
        _float32(rng, 3 * WIDTH, scale=0.1),
        _float32(rng, WIDTH, WIDTH, scale=0.05),
        _float32(rng, WIDTH, scale=0.1),
    )


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize(
    ("lengths", "length"),
    [
        ((1,), 1),  # one token
        ((1, 32, 7), 32),  # one block of three sentences
        ((5, 32, 1, 31, 9), 32),  # two blocks, the second of one sentence
        ((3, 7, 1, 7), 7),  # a length that divides nothing
        ((40, 64, 1), 64),
        ((96, 2), 96),  # a block with idle partitions
        ((1, 160), 160),  # keys beyond one tile, the second one ragged
        ((256, 130), 256),
        ((2, 300), 300),  # one sentence a span
    ],
)
def test_attention(rng: np.random.Generator, lnc: int, lengths: Sequence[int], length: int) -> None:
    arguments = _arguments(rng, lengths, length)
    result = _run(kernels.attention, lnc, *arguments).reshape(len(lengths), length, WIDTH)
    wanted = _attention(*arguments)
    kept = arguments[1] > 0
    np.testing.assert_allclose(result[kept], wanted[kept], rtol=0, atol=30 * ROUNDING)


@pytest.mark.parametrize("lnc", [1, 2])
def test_attention_does_not_see_padding_and_neighbours(rng: np.random.Generator, lnc: int) -> None:
    """Other numbers in padding and in the other sentences of a block: the same bits."""
    x, mask, *weights = _arguments(rng, (9, 32, 5), 32)
    first = _run(kernels.attention, lnc, x, mask, *weights)
    other = x.reshape(3, 32, WIDTH).copy()
    other[0, 9:] = 7.0
    other[1:] *= -3.0
    second = _run(kernels.attention, lnc, other.reshape(-1, WIDTH), mask, *weights)
    assert first[:9].tobytes() == second[:9].tobytes()


@pytest.mark.parametrize("lnc", [1, 2])
def test_attention_beside_sentences_of_padding_alone(rng: np.random.Generator, lnc: int) -> None:
    """`_run` sees to it that what padding gives is finite."""
    x, mask, *weights = _arguments(rng, (0, 3, 0, 0, 0), 32)
    result = _run(kernels.attention, lnc, x, mask, *weights)
    wanted = _attention(x[32:64], mask[1:2], *weights)[0]
    np.testing.assert_allclose(result[32:35], wanted[:3], rtol=0, atol=30 * ROUNDING)


@pytest.mark.parametrize("lnc", [1, 2])
def test_attention_with_scores_beyond_the_range_of_exp(rng: np.random.Generator, lnc: int) -> None:
    arguments = _arguments(rng, (30, 32), 32, spread=8.0)
    x, _, w_qkv = (value.astype(np.float64) for value in arguments[:3])
    q, k = (x @ w_qkv)[:, :32], (x @ w_qkv)[:, WIDTH : WIDTH + 32]
    assert np.abs(q @ k.T / math.sqrt(32)).max() > 89, "e to the power of 89 is infinite in float32"
    result = _run(kernels.attention, lnc, *arguments).reshape(2, 32, WIDTH)
    wanted = _attention(*arguments)
    kept = arguments[1] > 0
    # A score of some hundreds has an absolute error of some 1e-5 times its products' number; so have weights.
    np.testing.assert_allclose(result[kept], wanted[kept], rtol=0, atol=5e-3)


# Both cores -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["add_norm", "gelu_mlp", "attention"])
def test_a_kernel_for_two_cores_is_refused_for_one(rng: np.random.Generator, name: str) -> None:
    arguments = {
        "add_norm": (_float32(rng, 64, WIDTH),) * 2 + (_float32(rng, WIDTH),) * 2,
        "gelu_mlp": (
            _float32(rng, 64, WIDTH),
            _float32(rng, WIDTH, 256),
            _float32(rng, 256),
            _float32(rng, 256, WIDTH),
            _float32(rng, WIDTH),
        ),
        "attention": _arguments(rng, (32, 32), 32),
    }[name]
    artifact = opennki.trace(getattr(kernels, name), *arguments, lnc=2, target="trn2")
    with pytest.raises(opennki.OpenNkiError) as caught:
        opennki.compile(artifact, lnc=1)
    assert caught.value.code == "NCC_ENKI003"
    lost = {
        "add_norm": ["core 1 alone writes rows 32..63 of `out`, 50 % of it"],
        "gelu_mlp": ["core 1 alone writes columns 192..383 of `out`, 50 % of it"],
        "attention": ["core 1 alone writes rows 32..63 of `out`, 50 % of it"],
    }[name]
    assert caught.value.diagnostics[0].data["lost"] == lost


@pytest.mark.parametrize("name", ["gelu_mlp", "attention"])
def test_partial_sums_meet(rng: np.random.Generator, name: str) -> None:
    """Both cores have work of the same size, and pass each other what they have summed."""
    if name == "attention":
        arguments, meeting = _arguments(rng, (32, 32, 32, 32), 32), "core_barrier"
    else:
        w_in, w_out = _float32(rng, WIDTH, 256), _float32(rng, 256, WIDTH)
        arguments = (_float32(rng, 128, WIDTH), w_in, w_in[0], w_out, w_out[0])
        meeting = "sendrecv"
    artifact = opennki.trace(getattr(kernels, name), *arguments, lnc=2, target="trn2")
    names = [
        [program.opcodes[item.opcode] for item in program.body if isinstance(item, Instruction)]
        for program in artifact.programs
    ]
    assert [len(body) for body in names] == [len(names[0])] * 2
    assert [body.count(meeting) for body in names] == [1, 1]

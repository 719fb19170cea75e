"""The kernels of the encoder: attention, the GELU MLP, and the residual with its layer norm, all in float32.

Activations are `[tokens, width]`, the tokens of all sentences one after the other. Each kernel is the same
source for one core and for two, and shares its work in its own way: `add_norm` by tokens; `attention` by
heads, the cores' partial sums meeting in shared memory behind a barrier; `gelu_mlp` by hidden features, the
partial sums going straight to the other core with `sendrecv`.

`width` and the number of hidden features of a core are multiples of 128, a head divides 128.
"""
# mypy: allow-untyped-decorators

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl

MASKED = -1e9
"""Added to the scores of what must not be attended to: e to its power is 0, and a row of nothing else stays
finite, as all its scores are the same."""


@nki.jit
def add_norm(x: Any, y: Any, scale: Any, shift: Any, epsilon: float = 1e-12) -> Any:
    """Return the layer norm of `x + y`, `[tokens, width]`; `scale` and `shift` are `[width]`."""
    tokens, width = x.shape
    out = nl.ndarray((tokens, width), dtype=nl.float32, buffer=nl.shared_hbm)
    scales = _on_all_partitions(scale)
    shifts = _on_all_partitions(shift)
    start, end = _share(tokens)
    for first, rows in _tiles(start, end):
        data = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
        other = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=data, src=x[first : first + rows, :])
        nisa.dma_copy(dst=other, src=y[first : first + rows, :])
        nisa.tensor_tensor(dst=data, data1=data, data2=other, op=nl.add)

        # The mean is taken off before squaring: a variance from sums of squares would cancel.
        mean = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=mean, op=nl.add, data=data, axis=1)
        nisa.tensor_scalar(dst=mean, data=mean, op0=nl.multiply, operand0=1.0 / width)
        nisa.tensor_scalar(dst=data, data=data, op0=nl.subtract, operand0=mean)
        squares = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=other, op=nl.square, data=data, reduce_op=nl.add, reduce_res=squares)
        factor = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=factor, op=nl.rsqrt, data=squares, scale=1.0 / width, bias=epsilon)

        nisa.tensor_scalar(dst=data, data=data, op0=nl.multiply, operand0=factor)
        nisa.tensor_tensor(dst=data, data1=data, data2=scales[:rows, :], op=nl.multiply)
        nisa.tensor_tensor(dst=data, data1=data, data2=shifts[:rows, :], op=nl.add)
        nisa.dma_copy(dst=out[first : first + rows, :], src=data)
    return out


@nki.jit
def gelu_mlp(x: Any, w_in: Any, b_in: Any, w_out: Any, b_out: Any) -> Any:
    """Return `gelu(x @ w_in + b_in) @ w_out + b_out`, `[tokens, width]`, with the exact GELU.

    `w_in` is `[width, hidden]`, `w_out` `[hidden, width]`, `b_in` `[hidden]`, `b_out` `[width]`. Each core
    has its share of the hidden features, and so a partial sum of every output; then the cores swap halves of
    them, by columns, and each finishes its own.
    """
    tokens, width = x.shape
    pmax = nl.tile_size.pmax
    cores, core = nl.num_programs(0), nl.program_id(0)
    first_hidden, end_hidden = _share(w_in.shape[1])
    chunks = (end_hidden - first_hidden) // pmax
    out = nl.ndarray((tokens, width), dtype=nl.float32, buffer=nl.shared_hbm)

    first_weights = _rows_in_chunks(w_in[:, first_hidden:end_hidden])
    second_weights = _rows_in_chunks(w_out[first_hidden:end_hidden, :])
    biases = nl.ndarray((pmax, chunks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=biases, src=b_in[first_hidden:end_hidden].reshape((chunks, pmax)).permute((1, 0)))
    columns = width // cores
    mine = slice(core * columns, (core + 1) * columns)
    last_biases = _on_all_partitions(b_out[mine])

    for span, count in _tiles(0, tokens, nl.tile_size.gemm_moving_fmax):
        turned = _transposed(x[span : span + count, :])
        # Hidden features on the partitions: the bias is a column, and the second product needs no transpose.
        hidden = nl.ndarray((pmax, chunks, count), dtype=nl.float32, buffer=nl.sbuf)
        for chunk in range(chunks):
            weights = first_weights[:, :, chunk * pmax : (chunk + 1) * pmax]
            nisa.activation(
                dst=hidden[:, chunk, :],
                op=nl.gelu,
                data=_product(weights, turned),
                bias=biases[:, chunk : chunk + 1],
            )
        for first, rows in _tiles(0, count):
            total = _product(hidden[:, :, first : first + rows], second_weights)
            if cores == 2:
                partial = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
                received = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_copy(dst=partial, src=total)
                theirs = slice((1 - core) * columns, (2 - core) * columns)
                nisa.sendrecv(
                    src=partial[:, theirs],
                    dst=received,
                    send_to_rank=1 - core,
                    recv_from_rank=1 - core,
                    pipe_id=0,
                )
                total = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_tensor(dst=total, data1=partial[:, mine], data2=received, op=nl.add)
            result = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=result, data1=total, data2=last_biases[:rows, :], op=nl.add)
            nisa.dma_copy(dst=out[span + first : span + first + rows, mine], src=result)
    return out


@nki.jit
def attention(
    x: Any, mask: Any, w_qkv: Any, b_qkv: Any, w_out: Any, b_out: Any, head_features: int = 32
) -> Any:
    """Return the self-attention of each sentence, projected: `[tokens, width]`.

    `x` is `[sentences * length, width]`, `mask` `[sentences, length]`, 1.0 for a token and 0.0 for padding,
    the length at most 512. `w_qkv` is `[width, 3 * width]`, the columns of queries, keys and values, each
    head after head; `w_out` is `[width, width]`, the biases are `[3 * width]` and `[width]`. Each core has
    its share of the heads, and so a partial sum of every output. What padding gives is finite and of no use.
    """
    sentences, length = mask.shape
    tokens, width = x.shape
    cores, core = nl.num_programs(0), nl.program_id(0)
    start, end = (head * head_features for head in _share(width // head_features))
    partials = nl.ndarray((cores, tokens, width), dtype=nl.float32, buffer=nl.shared_hbm)
    out = nl.ndarray((tokens, width), dtype=nl.float32, buffer=nl.shared_hbm)

    # Heads are taken as many at a time as there is room for on the partitions.
    groups = _tiles(start, end)
    query, key, value = (part * width for part in range(3))
    query_weights = _rows_in_chunks(w_qkv[:, query + start : query + end])
    key_weights = _rows_in_chunks(w_qkv[:, key + start : key + end])
    value_weights = _rows_in_chunks(w_qkv[:, value + start : value + end])
    value_biases = _on_all_partitions(b_qkv[value + start : value + end])
    query_biases = [_column(b_qkv[query + at : query + at + size]) for at, size in groups]
    key_biases = [_column(b_qkv[key + at : key + at + size]) for at, size in groups]
    out_weights = [_loaded(w_out[at : at + size, :]) for at, size in groups]

    # A span is as many whole sentences as one product can move, a block as many as there are partitions:
    # short sentences share a block, and the mask keeps them apart.
    per_block = max(1, nl.tile_size.pmax // length)
    for first, spanned in _tiles(0, sentences, max(1, nl.tile_size.gemm_moving_fmax // length)):
        offset, count = first * length, spanned * length
        turned = _transposed(x[offset : offset + count, :])
        blocks = []
        for place, number in _tiles(0, spanned, per_block):
            begin = place * length
            masks = _block_masks(mask, first + place, number)
            here = turned[:, :, begin : begin + number * length]
            blocks.append((begin, masks, _values(here, value_weights, value_biases)))
        contexts = []
        for group, (at, size) in enumerate(groups):
            columns = slice(at - start, at - start + size)
            factor = head_features**-0.5
            queries = _affine(query_weights[:, :, columns], turned, query_biases[group], factor)
            keys = _affine(key_weights[:, :, columns], turned, key_biases[group])
            context = nl.ndarray((size, count), dtype=nl.float32, buffer=nl.sbuf)
            for begin, masks, values in blocks:
                heads_values = [tile[:, columns] for tile in values]
                _attend(context, queries, keys, begin, masks, heads_values, head_features)
            contexts.append(context)
        _write_sums(partials[core, offset : offset + count, :], contexts, out_weights)

    nisa.core_barrier(data=partials, cores=(0, 1))
    _add_partials(out, partials, b_out)
    return out


def _attend(
    context: Any,
    queries: Any,
    keys: Any,
    begin: int,
    masks: Sequence[Any],
    values: Sequence[Any],
    head_features: int,
) -> None:
    """Write to `context` what the heads of a group get from the block of tokens that begins at `begin`.

    `context`, `queries` and `keys` are `[features of the group, tokens]`. `masks` has a tile
    `[rows, tokens of the block]` for each 128 rows of queries, `values` one `[rows, features of the group]`
    for each 128 rows of keys.
    """
    features = queries.shape[0]
    heads = features // head_features
    attended = masks[0].shape[1]
    pitch = _bank_share(attended)
    row = begin
    for mask in masks:
        rows = mask.shape[0]
        scores = nl.ndarray((rows, heads, pitch), dtype=nl.float32, buffer=nl.psum)
        for head in range(heads):
            here = slice(head * head_features, (head + 1) * head_features)
            nisa.nc_matmul(
                dst=scores[:, head, :attended],
                stationary=queries[here, row : row + rows],
                moving=keys[here, begin : begin + attended],
            )
        # Softmax over the keys but for the division, which is left to the end, where there is less to divide.
        weights = nl.ndarray((rows, heads, attended), dtype=nl.float32, buffer=nl.sbuf)
        largest = nl.ndarray((rows, heads, 1), dtype=nl.float32, buffer=nl.sbuf)
        sums = nl.ndarray((rows, heads, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(
            dst=weights,
            data1=scores[:, :, :attended],
            data2=mask.expand_dim(1).broadcast(1, heads),
            op=nl.add,
        )
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=weights, axis=2)
        nisa.tensor_tensor(dst=weights, data1=weights, data2=largest.broadcast(2, attended), op=nl.subtract)
        nisa.activation(dst=weights, op=nl.exp, data=weights)
        nisa.tensor_reduce(dst=sums, op=nl.add, data=weights, axis=2)
        nisa.reciprocal(dst=sums, data=sums)

        product = nl.ndarray((rows, heads, head_features), dtype=nl.float32, buffer=nl.psum)
        for number, tile in enumerate(values):
            first, size = number * nl.tile_size.pmax, tile.shape[0]
            turned = nl.ndarray((size, heads, rows), dtype=nl.float32, buffer=nl.psum)
            for head in range(heads):
                nisa.nc_transpose(dst=turned[:, head, :], data=weights[:, head, first : first + size])
            stationary = nl.ndarray((size, heads, rows), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=stationary, src=turned)
            for head in range(heads):
                moving = tile[:, head * head_features : (head + 1) * head_features]
                nisa.nc_matmul(dst=product[:, head, :], stationary=stationary[:, head, :], moving=moving)
        divided = nl.ndarray((rows, heads, head_features), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=divided, data1=product, data2=sums.broadcast(2, head_features), op=nl.multiply)
        back = nl.ndarray((features, rows), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=back, data=divided.reshape((rows, features)))
        nisa.tensor_copy(dst=context[:, row : row + rows], src=back)
        row += rows


def _values(turned: Any, weights: Any, biases: Any) -> list[Any]:
    """Return the values of a block of tokens, a tile `[rows, features]` for each 128 of them.

    `turned` is `[128, chunks, tokens]`, `weights` `[128, chunks, features]`, `biases` `[128, features]`.
    """
    tiles = []
    for first, rows in _tiles(0, turned.shape[2]):
        tile = nl.ndarray((rows, biases.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        product = _product(turned[:, :, first : first + rows], weights)
        nisa.tensor_tensor(dst=tile, data1=product, data2=biases[:rows, :], op=nl.add)
        tiles.append(tile)
    return tiles


def _affine(weights: Any, turned: Any, bias: Any, factor: float = 1.0) -> Any:
    """Return `(weights.T @ turned + bias) * factor` in SBUF, features on the partitions, `bias` a column."""
    product = _product(weights, turned)
    tile = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=tile, data=product, op0=nl.add, operand0=bias, op1=nl.multiply, operand1=factor)
    return tile


def _write_sums(partial: Any, contexts: Sequence[Any], weights: Sequence[Any]) -> None:
    """Write this core's partial sums of the output, `[tokens, width]` in HBM: a product for each group.

    `contexts` are `[features of the group, tokens]`, `weights` `[features of the group, width]`.
    """
    tokens, width = partial.shape
    for first, rows in _tiles(0, tokens):
        total = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.psum)
        for context, moving in zip(contexts, weights, strict=True):
            nisa.nc_matmul(dst=total, stationary=context[:, first : first + rows], moving=moving)
        tile = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=total)
        nisa.dma_copy(dst=partial[first : first + rows, :], src=tile)


def _block_masks(mask: Any, first: int, number: int) -> list[Any]:
    """Return what is added to the scores of a block of `number` sentences, a tile for each 128 rows.

    A tile is `[rows, number * length]`: 0 where query and key are of one sentence and the key is a token,
    elsewhere `MASKED`.
    """
    length = mask.shape[1]
    size = number * length
    tiles = []
    for _, rows in _tiles(0, size):
        tile = nl.ndarray((rows, size), dtype=nl.float32, buffer=nl.sbuf)
        if number > 1:
            nisa.memset(dst=tile, value=0.0)
        for i in range(number):
            own = tile if number == 1 else tile[i * length : (i + 1) * length, i * length : (i + 1) * length]
            nisa.dma_copy(dst=own, src=mask[first + i : first + i + 1, :].broadcast(0, own.shape[0]))
        nisa.tensor_scalar(
            dst=tile, data=tile, op0=nl.subtract, operand0=1.0, op1=nl.multiply, operand1=-MASKED
        )
        tiles.append(tile)
    return tiles


def _add_partials(out: Any, partials: Any, bias: Any) -> None:
    """Write to `out` the sum of the cores' partial sums and the bias; each core has a share of the tokens."""
    cores, tokens, width = partials.shape
    biases = _on_all_partitions(bias)
    for first, rows in _tiles(*_share(tokens)):
        total = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=total, src=partials[0, first : first + rows, :])
        for other in range(1, cores):
            partial = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=partial, src=partials[other, first : first + rows, :])
            nisa.tensor_tensor(dst=total, data1=total, data2=partial, op=nl.add)
        nisa.tensor_tensor(dst=total, data1=total, data2=biases[:rows, :], op=nl.add)
        nisa.dma_copy(dst=out[first : first + rows, :], src=total)


def _product(stationary: Any, moving: Any) -> Any:
    """Return `stationary.T @ moving`, `[M, N]` in PSUM, of `[128, chunks, M]` and `[128, chunks, N]`."""
    product = nl.ndarray((stationary.shape[2], moving.shape[2]), dtype=nl.float32, buffer=nl.psum)
    for chunk in range(stationary.shape[1]):
        nisa.nc_matmul(dst=product, stationary=stationary[:, chunk, :], moving=moving[:, chunk, :])
    return product


def _transposed(data: Any) -> Any:
    """Return `data`, `[tokens, width]` in HBM, transposed in SBUF: `[128, width / 128, tokens]`."""
    tokens, width = data.shape
    pmax = nl.tile_size.pmax
    chunks = width // pmax
    out = nl.ndarray((pmax, chunks, tokens), dtype=nl.float32, buffer=nl.sbuf)
    for first, rows in _tiles(0, tokens):
        tile = _loaded(data[first : first + rows, :])
        turned = nl.ndarray((pmax, chunks, rows), dtype=nl.float32, buffer=nl.psum)
        for chunk in range(chunks):
            nisa.nc_transpose(dst=turned[:, chunk, :], data=tile[:, chunk * pmax : (chunk + 1) * pmax])
        nisa.tensor_copy(dst=out[:, :, first : first + rows], src=turned)
    return out


def _rows_in_chunks(matrix: Any) -> Any:
    """Return `matrix`, `[rows, columns]` in HBM, in SBUF as `[128, rows / 128, columns]`."""
    rows, columns = matrix.shape
    pmax = nl.tile_size.pmax
    tile = nl.ndarray((pmax, rows // pmax, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=matrix.reshape_dim(0, (rows // pmax, pmax)).permute((1, 0, 2)))
    return tile


def _loaded(matrix: Any) -> Any:
    """Return `matrix`, `[rows<=128, columns]` in HBM, in SBUF."""
    tile = nl.ndarray(matrix.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=matrix)
    return tile


def _column(vector: Any) -> Any:
    """Return `vector`, `[size<=128]` in HBM, in SBUF as `[size, 1]`: a number for each partition."""
    return _loaded(vector.expand_dim(1))


def _on_all_partitions(vector: Any) -> Any:
    """Return `vector`, `[size]` in HBM, in SBUF as `[128, size]`, the same on each partition."""
    return _loaded(vector.expand_dim(0).broadcast(0, nl.tile_size.pmax))


def _share(size: int) -> tuple[int, int]:
    """Return start and end of this core's share of `size` things."""
    core, cores = nl.program_id(0), nl.num_programs(0)
    return core * size // cores, (core + 1) * size // cores


def _tiles(start: int, end: int, size: int | None = None) -> list[tuple[int, int]]:
    """Return start and size of each tile of at most `size` (128) things from `start` to `end`."""
    size = nl.tile_size.pmax if size is None else size
    return [(first, min(size, end - first)) for first in range(start, end, size)]


def _bank_share(elements: int) -> int:
    """Return the smallest part of a PSUM bank that holds `elements` float32 and divides the bank."""
    share: int = nl.tile_size.psum_fmax
    while share % 2 == 0 and share // 2 >= elements:
        share //= 2
    return share

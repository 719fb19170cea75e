"""Documented instructions that OpenNKI does not have yet: their names and signatures, nothing more.

Calling one raises ONKI102 at the user's line. An instruction leaves this module when its row lands.
Source of names and signatures: nki/api/nki/isa/__init__.py (SDK 2.32), nki-0.7 for the scalar instructions.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from opennki.diag import fail
from opennki.ir.types import Engine
from opennki.isa.enums import DgeMode, OobMode, ReduceCmd
from opennki.isa.operators import OPERATORS
from opennki.isa.recorder import CURRENT, NkiInstruction

P = ParamSpec("P")
R = TypeVar("R")

PENDING: list[str] = []


def _not_yet(function: Callable[P, R]) -> Callable[P, R]:
    """Make `function` raise ONKI102, pointing at the caller."""
    name = function.__name__
    PENDING.append(name)

    @functools.wraps(function)
    def refuse(*args: P.args, **kwargs: P.kwargs) -> R:
        recorder = CURRENT.get()
        if recorder is None:
            fail("ONKI103", name=name)
        location, callers = recorder.place(recorder.locate(sys._getframe(1)))
        fail(
            "ONKI102",
            at=location,
            label="called here",
            callers=callers,
            core=recorder.core,
            name=f"nki.isa.{name}",
        )

    return refuse


@_not_yet
def nc_matmul_mx(
    dst: Any,
    stationary: Any,
    moving: Any,
    stationary_scale: Any,
    moving_scale: Any,
    tile_position: Any = None,
    tile_size: Any = None,
    accumulate: Any = None,
    name: Any = None,
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def dma_transpose(
    dst: Any,
    src: Any,
    axes: Any = None,
    priority: Any = None,
    dge_mode: Any = DgeMode.unknown,
    oob_mode: Any = OobMode.error,
    name: Any = None,
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def tensor_partition_reduce(dst: Any, op: Any, data: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def tensor_scalar_cumulative(
    dst: Any,
    src: Any,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: Any = ReduceCmd.reset_reduce,
    name: Any = None,
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def activate2(
    dst: Any,
    op: Any,
    data: Any,
    imm0: Any,
    imm1: Any,
    op0: Any,
    op1: Any,
    relu_param: Any = 0.0,
    reverse0: Any = False,
    reverse1: Any = False,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = ReduceCmd.idle,
    name: Any = None,
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def iota(
    dst: Any, pattern: Any, offset: Any = 0, channel_multiplier: Any = 0, name: Any = None
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def affine_select(
    dst: Any,
    pattern: Any,
    channel_multiplier: Any,
    on_true_tile: Any,
    on_false_value: Any,
    cmp_op: Any = OPERATORS["equal"],
    offset: Any = 0,
    name: Any = None,
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def local_gather(
    dst: Any,
    src_buffer: Any,
    index: Any,
    num_elem_per_idx: Any = 1,
    num_valid_indices: Any = None,
    name: Any = None,
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def nc_n_gather(dst: Any, data: Any, indices: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def bn_stats(dst: Any, data: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def bn_aggr(dst: Any, data: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def tensor_tensor_scan(
    dst: Any,
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: Any = False,
    reverse1: Any = False,
    name: Any = None,
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def nc_stream_shuffle(dst: Any, src: Any, shuffle_mask: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def rng(dst: Any, engine: Any = Engine.vector, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def dropout(dst: Any, data: Any, prob: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def set_rng_seed(src_seeds: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def rand_set_state(src_seeds: Any, engine: Any = Engine.gpsimd, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def rand_get_state(dst: Any, engine: Any = Engine.gpsimd, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def rand2(dst: Any, min: Any, max: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def exponential(
    dst: Any,
    src: Any,
    max_value: Any = 0.0,
    reduce_res: Any = None,
    reduce_cmd: Any = ReduceCmd.idle,
    reduce_init: Any = 0.0,
    name: Any = None,
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def max8(dst: Any, src: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def sequence_bounds(dst: Any, segment_ids: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def scalar_tensor_tensor(
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: Any = False,
    reverse1: Any = False,
    name: Any = None,
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def tensor_scalar_reduce(
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any = None,
    reverse0: Any = False,
    reduce_cmd: Any = ReduceCmd.reset_reduce,
    reduce_init: Any = None,
    reduce_res_negate: Any = False,
    name: Any = None,
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def quantize_mx(dst: Any, src: Any, dst_scale: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def range_select(
    dst: Any,
    on_true_tile: Any,
    comp_op0: Any,
    comp_op1: Any,
    bound0: Any,
    bound1: Any,
    reduce_cmd: Any = ReduceCmd.reset_reduce,
    reduce_res: Any = None,
    reduce_op: Any = OPERATORS["maximum"],
    range_start: Any = 0,
    on_false_value: Any = -3.4028234663852886e38,
    name: Any = None,
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def nc_find_index8(dst: Any, data: Any, vals: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def nc_match_replace8(
    dst: Any, data: Any, vals: Any, imm: Any, dst_idx: Any = None, name: Any = None
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def nonzero_with_count(
    dst: Any, src: Any, index_offset: Any = 0, padding_val: Any = -1, name: Any = None
) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError


@_not_yet
def topk(val_dst: Any, idx_dst: Any, src: Any, n: Any, name: Any = None) -> NkiInstruction:
    """Not yet."""
    raise NotImplementedError

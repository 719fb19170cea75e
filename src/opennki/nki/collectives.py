"""`nki.collectives`: documented by name; each one raises ONKI102 until collectives land.

Source of names and signatures: nki/api/nki/collectives/__init__.py (SDK 2.32); those that end in `_prepare`
and `_trigger`: NKI 0.7.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, ParamSpec, TypeVar

from opennki.diag import fail
from opennki.isa.operators import Operator
from opennki.isa.recorder import CURRENT, NkiInstruction

__all__ = [
    "ReplicaGroup",
    "all_gather",
    "all_gather_v",
    "all_gather_v_prepare",
    "all_gather_v_trigger",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "all_to_all_v_prepare",
    "all_to_all_v_trigger",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
]

P = ParamSpec("P")
R = TypeVar("R")


def _refuse(name: str, depth: int) -> NoReturn:
    """Raise ONKI102 at the caller's line, `depth` frames up; outside of a kernel without a place."""
    name = f"nki.collectives.{name}"
    recorder = CURRENT.get()
    if recorder is None:
        fail("ONKI102", name=name)
    location, callers = recorder.place(recorder.locate(sys._getframe(depth + 1)))
    fail("ONKI102", at=location, label="called here", callers=callers, core=recorder.core, name=name)


def _not_yet(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def refuse(*args: P.args, **kwargs: P.kwargs) -> R:
        _refuse(function.__name__, 1)

    return refuse


class ReplicaGroup:
    """The groups of ranks that take part in a collective. Not yet: making one raises ONKI102."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        _refuse("ReplicaGroup", 1)


@_not_yet
def all_reduce(
    srcs: Sequence[object],
    dsts: Sequence[object],
    replica_group: ReplicaGroup,
    op: Operator,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Reduce tensors over the ranks of a group, the result on each. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def all_gather(
    srcs: Sequence[object],
    dsts: Sequence[object],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Concatenate the tensors of all ranks of a group, on each. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def all_gather_v(
    srcs: Sequence[object],
    dsts: Sequence[object],
    replica_group: ReplicaGroup,
    metadata_tensor: object,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Gather parts of differing length, flat. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def all_gather_v_prepare(
    srcs: Sequence[object],
    dsts: Sequence[object],
    replica_group: ReplicaGroup,
    metadata_tensor: object,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Read the metadata of an `all_gather_v`; the data moves at the trigger. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def all_gather_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Start the prepared `all_gather_v`. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def reduce_scatter(
    srcs: Sequence[object],
    dsts: Sequence[object],
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Operator,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Reduce tensors over the ranks of a group, a part of the result on each. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def all_to_all(
    srcs: Sequence[object],
    dsts: Sequence[object],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send each rank of a group its part. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def all_to_all_v(
    srcs: Sequence[object],
    dsts: Sequence[object],
    replica_group: ReplicaGroup,
    metadata_tensor: object,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Send each rank of a group its part, of differing length. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def all_to_all_v_prepare(
    srcs: Sequence[object],
    dsts: Sequence[object],
    replica_group: ReplicaGroup,
    metadata_tensor: object,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Read the metadata of an `all_to_all_v`; the data moves at the trigger. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def all_to_all_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Start the prepared `all_to_all_v`. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def collective_permute(
    srcs: Sequence[object],
    dsts: Sequence[object],
    source_target_pairs: Sequence[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send tensors from rank to rank along given pairs. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def collective_permute_implicit(
    srcs_by_channel: Sequence[Sequence[object]],
    dsts_by_channel: Sequence[Sequence[object]],
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = [0],
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send tensors to the next rank of a ring, by channel. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def collective_permute_implicit_reduce(
    srcs0_by_channel: Sequence[Sequence[object]],
    srcs1_by_channel: Sequence[Sequence[object]],
    dsts_by_channel: Sequence[Sequence[object]],
    replica_group: ReplicaGroup,
    op: Operator,
    channel_ids: Sequence[int] = [0],
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Reduce two tensors and send the result on along a ring, by channel. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int, replica_group: ReplicaGroup, channel_id: int = 0, name: str | None = None
) -> Any:
    """Return the rank whose data a turn of an implicit ring works on. Not yet: raises ONKI102."""
    raise NotImplementedError


@_not_yet
def rank_id(name: str | None = None) -> Any:
    """Return the rank that the program runs on. Not yet: raises ONKI102."""
    raise NotImplementedError

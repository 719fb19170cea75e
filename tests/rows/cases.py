"""Test calls of the rows: records, and all generators together.

A `Case` is a few buffers with their contents and one or more calls on views of them. It says nothing of what
comes out; that is the oracles' affair (oracle_calls.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from tests.rows.conversions import PACKED, Array, storage
from tests.rows.edge_values import fill, moderate

Space = Literal["sbuf", "psum", "hbm"]
View = tuple[slice, ...]
Attributes = dict[str, Any]
Fill = Callable[[str, tuple[int, ...], int], Array]


@dataclass(frozen=True)
class TileSpec:
    """An operand: a view over a buffer of that shape and element type.

    `view` slices the buffer, `moves` are tensor methods applied after it, by name (`permute`, `view`, …).
    Operands with the same `buffer` name share one allocation; an empty name stands for the role's.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    space: Space = "sbuf"
    view: View | None = None
    moves: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    buffer: str = ""

    @property
    def element(self) -> str:
        """The element type of the view: the buffer's, or that of its last `view` move."""
        return next((given[0] for move, given in reversed(self.moves) if move == "view"), self.dtype)


@dataclass(frozen=True)
class Call:
    """One instruction: tile operands, numbers and attributes, by the documented parameter names."""

    instruction: str
    operands: Mapping[str, TileSpec]
    numbers: Mapping[str, float | int] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    engine: str | None = None

    def buffer(self, role: str) -> str:
        """Return the name of the buffer behind an operand."""
        return self.operands[role].buffer or role


@dataclass(frozen=True)
class Case:
    """Calls in order on one set of buffers, for one target. A buffer without `data` is fresh."""

    name: str
    calls: tuple[Call, ...]
    data: Mapping[str, Array]
    target: str = "trn2"

    def buffers(self) -> dict[str, TileSpec]:
        """Return the buffers by name, in order of first use, as whole tiles."""
        found: dict[str, TileSpec] = {}
        for call in self.calls:
            for role, spec in call.operands.items():
                whole = replace(spec, view=None, moves=(), buffer=call.buffer(role))
                known = found.setdefault(call.buffer(role), whole)
                assert known == whole, (self.name, known, whole)
        return found

    @property
    def id(self) -> str:
        """A name for the test's report."""
        return f"{self.calls[0].instruction}-{self.name}-{self.target}"


@dataclass(frozen=True)
class Illegal:
    """A case that breaks a rule of facts/constraints.csv; `rules` are the ids that a message may name."""

    case: Case
    rules: tuple[str, ...]


def tile(shape: tuple[int, ...], dtype: str = "float32", space: Space = "sbuf", **options: Any) -> TileSpec:
    """Return an operand; short for `TileSpec`."""
    return TileSpec(shape, dtype, space, **options)


def contents(name: str, spec: TileSpec, seed: int, how: Fill) -> Array:
    """Return what a buffer holds at first."""
    if spec.dtype in PACKED:
        generator = np.random.default_rng(seed)
        kind = storage(spec.dtype)
        raw = generator.integers(0, 2 ** (kind.itemsize * 8), spec.shape, dtype=f"uint{kind.itemsize * 8}")
        return raw.view(kind)
    return how(spec.dtype, spec.shape, seed + len(name))


def case(
    name: str,
    *calls: Call,
    target: str = "trn2",
    data: Mapping[str, Array] | None = None,
    how: Fill = fill,
    fresh: Iterable[str] = (),
    seed: int = 0,
) -> Case:
    """Return a case whose buffers are filled by `how`, but for those in `data` and the `fresh` ones."""
    bare = Case(name, calls, {}, target)
    given = dict(data or {})
    for number, (buffer, spec) in enumerate(bare.buffers().items()):
        if buffer not in given and buffer not in fresh:
            given[buffer] = contents(buffer, spec, seed + 17 * number, how)
    return replace(bare, data=given)


def one(
    instruction: str,
    name: str,
    operands: Mapping[str, TileSpec],
    *,
    numbers: Mapping[str, float | int] | None = None,
    engine: str | None = None,
    target: str = "trn2",
    data: Mapping[str, Array] | None = None,
    how: Fill = fill,
    fresh: Iterable[str] = (),
    seed: int = 0,
    **attributes: Any,
) -> Case:
    """Return the case of a single call."""
    call = Call(instruction, operands, numbers or {}, attributes, engine)
    return case(name, call, target=target, data=data, how=how, fresh=fresh, seed=seed)


def ordinary(dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    """Return finite contents of ordinary size."""
    return moderate(dtype, shape, seed)


def permuted(*dims: int) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Return the moves of a view with its axes in another order."""
    return (("permute", (dims,)),)


def seen_as(dtype: str) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Return the moves of a view whose bytes are read as another element type."""
    return (("view", (dtype,)),)


S = slice
"""Short for building views: `(S(0, 32), S(1, 9, 2))`."""

PARTITION_WINDOWS: tuple[tuple[str, int, slice], ...] = (
    ("one-partition", 1, S(0, 1)),
    ("all-partitions", 128, S(0, 128)),
    ("start-32", 128, S(32, 64)),
    ("start-64", 128, S(64, 128)),
    ("start-96", 128, S(96, 127)),
    ("odd-partitions", 77, S(0, 77)),
)
"""Legal partition windows: (name, partitions of the buffer, slice). Source: constraints GEN-06 to GEN-08."""


def legal_cases() -> Iterator[Case]:
    """Yield every legal case."""
    from tests.rows import cases_arithmetic, cases_moves, cases_reduce, cases_tensor

    for module in (cases_moves, cases_arithmetic, cases_reduce, cases_tensor):
        yield from module.cases()


def illegal_calls() -> Iterator[Illegal]:
    """Yield cases that break one rule each."""
    from tests.rows import cases_illegal

    yield from cases_illegal.cases()

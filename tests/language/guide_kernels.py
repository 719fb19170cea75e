"""Kernels for what the language guide documents, one feature a kernel; most assert while they are traced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl


def stored(tile: Any) -> Any:
    """Return an output that holds a tile."""
    out = nl.ndarray(dtype=tile.dtype, shape=tile.shape, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def loaded(source: Any) -> Any:
    """Return a tile that holds what an input does."""
    tile = nl.ndarray(shape=source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


@nki.jit
def prints_while_tracing(a: Any) -> Any:
    """A kernel checks shapes and says what it does when it is specialised, not when it runs."""
    assert a.shape[0] <= nl.tile_size.pmax
    print(f"doubling {a.dtype} of shape {a.shape}")
    tile = loaded(a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    return stored(tile)


@nki.jit
def unrolled(a: Any) -> Any:
    """Loops over numbers, lists and tuples are unrolled, branches resolved, calls inlined."""
    tile = loaded(a)
    for i in range(4):
        if i % 2 == 0:
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(i))
    for factor in [2.0, 3.0]:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    for op, number in ((nl.subtract, 1.0), (nl.maximum, 0.0)):
        nisa.tensor_scalar(dst=tile, data=tile, op0=op, operand0=number)
    turn = 0
    while turn < 3:
        turn += 1
        if turn == 2:
            continue
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return stored(tile)


@nki.jit
def containers(a: Any) -> Any:
    """Numbers, strings, None, and the methods of lists and dictionaries."""
    values: list[Any] = [1, 2, 3]
    values.append(4.1)
    values.extend(("Hello", None))
    assert (len(values), values[2], values.index(2), values.pop(), values.pop()) == (6, 3, 1, None, "Hello")
    values.remove(1)
    values.reverse()
    assert values == [4.1, 3, 2]
    table: dict[Any, Any] = {}
    table["a"] = 1
    assert (list(table.keys()), list(table.items()), table.pop("a")) == (["a"], [("a", 1)], 1)
    assert table.setdefault("a", 2) == table["a"] == 2
    table[3] = a  # from 0.7 on a key may be anything
    return stored(loaded(table[3]))


@nki.jit
def anatomy(a: Any) -> Any:
    """What is known of a tensor while tracing, and where the element of an index lies."""
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf, name="weights")
    assert (t.shape, t.strides, t.offset, t.ndim, t.size, t.name) == (
        (128, 64),
        (64, 1),
        0,
        2,
        8192,
        "weights",
    )
    assert t.dtype == nl.float32
    assert t.buffer == nl.sbuf
    assert t.is_contiguous()
    assert not t[:, ::2].is_contiguous()
    assert not t.is_indirect()
    assert a.select(0, nisa.register_alloc(1)).is_indirect()
    assert t[:, 3:].offset == 3
    return a


@nki.jit
def shares_storage(a: Any) -> Any:
    """What is written through one view is read through another."""
    tile = loaded(a)
    nisa.memset(dst=tile.reshape((4, 2, 4))[:, 1, :], value=-1.0)
    return stored(tile)


@nki.jit
def indexing(a: Any) -> Any:
    """Integers, slices, steps and `...`: on chip the partition axis and two axes stay, in HBM they go."""
    t = nl.ndarray((64, 64, 64), dtype=nl.float32, buffer=nl.sbuf)
    shapes: list[tuple[Any, tuple[int, ...]]] = [
        (t[0, 0, 10], (1, 1)),
        (t[:, 0], (64, 64)),
        (t[:, 0, 10], (64, 1)),
        (t[0:64, 0, 0:64], (64, 64)),
        (t[:, :, ::2], (64, 64, 32)),
        (t[...], (64, 64, 64)),
        (t[0, ..., :], (1, 64, 64)),
        (t[:, -1, -4:], (64, 4)),
    ]
    assert [view.shape for view, _ in shapes] == [shape for _, shape in shapes]
    assert t[0, ...][:, 0:32, :].shape == (1, 32, 64)
    h = nl.ndarray((4, 128, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    assert (h[0, :, :].shape, h[:, 0].shape, h[1, 2].shape) == ((128, 32), (4, 32), (32,))
    u = nl.ndarray((128, 4, 16), dtype=nl.float32, buffer=nl.sbuf)
    assert u[0:64, :, :].permute((0, 2, 1))[:, 0, :].shape == (64, 4)
    return a


@nki.jit
def patterns(a: Any) -> Any:
    """`ap`: tuples or lists, from a pattern that `get_pattern` gave, every other element."""
    tile = loaded(a)
    pattern = tile.get_pattern()
    assert pattern == [[8, 4], [1, 8]]
    pattern[0][1] = 2
    assert tile.ap(pattern=pattern).shape == (2, 8)
    assert tile.ap(pattern=[(8, 4), (2, 4)]).get_pattern() == [[8, 4], [2, 4]]
    result = nl.ndarray((4, 4), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=tile.ap(pattern=[(8, 4), (2, 4)]))
    return stored(result)


class Counter(nl.NKIObject):
    """A class without an initializer: its fields are those that it annotates."""

    x: int
    y: bool = False

    def toggle(self) -> None:
        """Turn y round."""
        self.y = not self.y


class Named(Counter):
    """A class below another one; `__post_init__` runs once the fields are there."""

    label: str = "none"
    shown: str

    def __post_init__(self) -> None:
        self.shown = f"{self.label} {self.x}"


@dataclass
class Scaling(nl.NKIObject):
    """The same as a dataclass."""

    factor: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        self.total = self.factor + self.offset


class Kind(Enum):
    """An enumeration."""

    first = 1
    second = 2


@nki.jit
def classes(a: Any, given: Scaling, kind: Kind = Kind.second) -> Any:
    """Classes declared for kernels, made inside and passed in; enumerations."""
    c = Counter(1)
    c.toggle()
    assert (c.x, c.y, Counter(2, y=True).y, Counter(x=3).x) == (1, True, True, 3)
    assert (Named(4, label="n").shown, Named(5).y) == ("n 4", False)
    assert (given.total, Scaling(1.0).total) == (given.factor + given.offset, 1.0)
    assert kind == Kind.second
    assert kind.name == "second"
    tile = loaded(a)
    nisa.tensor_scalar(
        dst=tile, data=tile, op0=nl.multiply, operand0=given.factor, op1=nl.add, operand1=given.offset
    )
    return stored(tile)


def by_tiles(source: Any, out: Any, function: Callable[..., None]) -> None:
    """Apply a function to each pair of rows."""
    for i in range(source.shape[0] // 2):
        tile, result = loaded(source[2 * i : 2 * i + 2, :]), nl.ndarray((2, 8), nl.float32, nl.sbuf)
        function(dst=result, src=tile)
        nisa.dma_copy(dst=out[2 * i : 2 * i + 2, :], src=result)


def halved(dst: Any, src: Any) -> None:
    """Write half of it."""
    nisa.tensor_scalar(dst=dst, data=src, op0=nl.multiply, operand0=0.5)


def rectified(dst: Any, src: Any) -> None:
    """Write what is above 0."""
    nisa.activation(dst=dst, op=nl.relu, data=src)


def function_for(name: str) -> Callable[..., None]:
    """Choose a function by its name."""
    return {"half": halved, "relu": rectified}[name]


@nki.jit
def composed(a: Any, name: str) -> Any:
    """Functions are arguments and values, and return functions; which one is settled while tracing."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    by_tiles(a, out, function_for(name))
    return out

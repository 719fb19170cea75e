"""Chains of view operations: the same chain on a NumPy array gives the same elements, or both refuse.

The model is NumPy's own: a view is legal where NumPy makes it without a copy, and where the memory allows it
(on chip the partition axis stays first, whole and unstepped; an element's bytes lie on its own width).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opennki
from opennki import nki
from opennki.diag import OpenNkiError
from opennki.ir.verify import verify
from opennki.isa.table import ROW_FACTS

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

Array = np.ndarray[Any, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

REFUSALS = {"ONKI208", "ONKI209", "ONKI210", "ONKI213"}
DTYPES = ("uint8", "int16", "float32", "int32")
MAX_RANK = 4


class Refused(Exception):
    """The model says that no such view exists."""


class Step(NamedTuple):
    """One view operation with its arguments; `getitem` is indexing."""

    method: str
    arguments: tuple[Any, ...]

    def on_tensor(self, tensor: Any) -> Any:
        """Apply the operation to a tensor of a kernel."""
        if self.method == "getitem":
            return tensor[tuple(nl.ds(*item) if isinstance(item, tuple) else item for item in self.arguments)]
        return getattr(tensor, self.method)(*self.arguments)


class Model(NamedTuple):
    """A view in NumPy: the array, the array that owns its memory, and whether it is on the chip."""

    array: Array
    base: Array
    on_chip: bool

    @property
    def offset_bytes(self) -> int:
        """Bytes from the first element of the memory to that of the view."""
        start = self.array.__array_interface__["data"][0] - self.base.__array_interface__["data"][0]
        return int(start)

    def same_memory(self, array: Array) -> Model:
        """Return the model of a result, refused if NumPy had to copy for it."""
        if not np.may_share_memory(array, self.base):
            raise Refused("only a copy has this shape")
        return self._replace(array=array)


# --------------------------------------------------------------------------------------------- the model


def getitem(model: Model, items: tuple[Any, ...]) -> Model:
    key = [slice(item[0], sum(item)) if isinstance(item, tuple) else item for item in items]
    shape = model.array.shape
    rest = len(shape) - sum(item is not Ellipsis for item in key)
    if Ellipsis in key:
        at = key.index(Ellipsis)
        key[at : at + 1] = [slice(None)] * rest
    else:
        key += [slice(None)] * rest
    for axis, (item, count) in enumerate(zip(key, shape, strict=True)):
        if isinstance(item, slice):
            key[axis] = within(item, count, stepped=not (model.on_chip and axis == 0))
        elif not -count <= item < count:
            raise Refused("index")
        elif model.on_chip and axis == 0:
            key[axis] = slice(item % count, item % count + 1)
    found = model.array[(*key, ...)]  # the dots: a view even where no axis is left
    least = 2 if model.on_chip else 1
    return model._replace(array=found.reshape(found.shape + (1,) * (least - found.ndim)))


def within(item: slice, count: int, *, stepped: bool) -> slice:
    """Return a slice with its ends counted from the start; it may not leave the axis."""
    low, high = item.start or 0, count if item.stop is None else item.stop
    low, high = low + count * (low < 0), high + count * (high < 0)
    step = item.step or 1
    if not 0 <= low < high <= count or (not stepped and high - low > step > 1):
        raise Refused("slice")
    return slice(low, high, step)


def permute(model: Model, dims: tuple[int, ...]) -> Model:
    if model.on_chip and dims[0] != 0:
        raise Refused("partition axis")
    return model.same_memory(model.array.transpose(dims))


def broadcast(model: Model, dim: int, size: int) -> Model:
    shape = list(model.array.shape)
    if shape[dim] != 1 or (model.on_chip and dim == 0):
        raise Refused("broadcast")
    shape[dim] = size
    return model.same_memory(np.broadcast_to(model.array, shape))


def expand_dim(model: Model, dim: int) -> Model:
    if model.on_chip and dim == 0:
        raise Refused("partition axis")
    return model.same_memory(np.expand_dims(model.array, dim))


def squeeze_dim(model: Model, dim: int) -> Model:
    if model.array.shape[dim] != 1 or (model.on_chip and dim == 0):
        raise Refused("squeeze")
    return model.same_memory(model.array.squeeze(dim))


def reshape(model: Model, shape: tuple[int, ...]) -> Model:
    if prod(shape) != model.array.size or (model.on_chip and shape[0] != model.array.shape[0]):
        raise Refused("element count")
    return model.same_memory(model.array.reshape(shape))


def reshape_dim(model: Model, dim: int, sizes: tuple[int, ...]) -> Model:
    shape = model.array.shape
    if prod(sizes) != shape[dim] or (model.on_chip and dim == 0):
        raise Refused("split")
    return model.same_memory(model.array.reshape((*shape[:dim], *sizes, *shape[dim + 1 :])))


def flatten_dims(model: Model, first: int, last: int) -> Model:
    shape = model.array.shape
    if last < first or (model.on_chip and first == 0 < last):
        raise Refused("merge")
    merged = prod(shape[first : last + 1])
    return model.same_memory(model.array.reshape((*shape[:first], merged, *shape[last + 1 :])))


def rearrange(model: Model, source: Any, wanted: Any, sizes: dict[str, int]) -> Model:
    """Split, transpose, merge: three steps, none of which may copy."""
    names = [name for group in source for name in group]
    split = model.same_memory(model.array.reshape([sizes[name] for name in names]))
    order = [names.index(name) for group in wanted for name in group]
    moved = split.same_memory(split.array.transpose(order))
    return moved.same_memory(moved.array.reshape([prod(sizes[n] for n in group) for group in wanted]))


def view(model: Model, dtype: str) -> Model:
    width = np.dtype(dtype).itemsize
    try:
        array = model.array.view(dtype)
    except ValueError:
        raise Refused("dtype") from None
    steps = [step for step, count in zip(array.strides, array.shape, strict=True) if count > 1]
    pitch = model.base.nbytes // model.base.shape[0] if model.on_chip else 0
    if any(part % width for part in (model.offset_bytes, pitch, *steps)):
        raise Refused("not on its own width")
    return model.same_memory(array)


def ap(model: Model, pattern: list[list[int]], offset: int | None, *unused: object) -> Model:
    """Steps and counts over the whole memory, in elements of the dtype that comes last."""
    kind = np.dtype(model.array.dtype if unused[-1] is None else str(unused[-1]))
    width, row = kind.itemsize, model.base.nbytes // model.base.shape[0] if model.on_chip else 0
    if row % width or (offset is None and model.offset_bytes % width):
        raise Refused("not on its own width")
    start = model.offset_bytes // width if offset is None else offset
    memory = model.base.reshape(-1).view(np.uint8)[: model.base.nbytes // width * width].view(kind)
    reach = start + sum(step * (count - 1) for step, count in pattern)
    if reach >= memory.size:
        raise Refused("leaves the memory")
    if model.on_chip:
        pitch = row // width
        inner = start % pitch + sum(step * (count - 1) for step, count in pattern[1:])
        if (pattern[0][1] > 1 and pattern[0][0] != pitch) or inner >= pitch:
            raise Refused("leaves its partitions")
    found = np.lib.stride_tricks.as_strided(
        memory[start:], [count for _, count in pattern], [step * width for step, _ in pattern]
    )
    return model._replace(array=found)


MODEL: dict[str, Callable[..., Model]] = {
    "slice": lambda model, dim, *ends: getitem(model, (*[slice(None)] * dim, slice(*ends))),
    "select": lambda model, dim, index: getitem(model, (*[slice(None)] * dim, index)),
    "getitem": lambda model, *items: getitem(model, items),
    "permute": permute,
    "broadcast": broadcast,
    "expand_dim": expand_dim,
    "squeeze_dim": squeeze_dim,
    "reshape": reshape,
    "reshape_dim": reshape_dim,
    "flatten_dims": flatten_dims,
    "rearrange": rearrange,
    "view": view,
    "ap": ap,
}


# ----------------------------------------------------------------------------------------- drawing chains


def one_of(draw: Draw, *values: Any) -> Any:
    return draw(st.sampled_from(values))


def a_slice(draw: Draw, count: int) -> slice:
    """A slice that mostly stays on its axis."""
    low = draw(st.integers(0, count - 1))
    high = draw(st.integers(low + 1, count + (draw(st.integers(0, 9)) == 0)))
    step = one_of(draw, None, None, 1, 2, 3)
    found: slice = one_of(
        draw, slice(low, high, step), slice(low - count, high, step), slice(low, None, step)
    )
    return found


def an_item(draw: Draw, count: int) -> Any:
    """An index item of an axis: a slice, `ds` as a pair, or an integer."""
    low = draw(st.integers(0, count - 1))
    pair = (low, draw(st.integers(1, count - low)))
    return one_of(draw, a_slice(draw, count), pair, draw(st.integers(-count, count)), slice(None))


def factors(draw: Draw, count: int) -> tuple[int, ...]:
    """Two or three sizes whose product is, nearly always, `count`."""
    first = one_of(draw, *[n for n in range(1, count + 1) if count % n == 0])
    rest = count // first
    if draw(st.booleans()):
        return (first, rest + (draw(st.integers(0, 9)) == 0))
    second = one_of(draw, *[n for n in range(1, rest + 1) if rest % n == 0])
    return (first, second, rest // second)


def names_of(draw: Draw, shape: tuple[int, ...], on_chip: bool) -> tuple[Any, ...]:
    """Arguments of `rearrange`: one axis split in two, all moved, two neighbours perhaps merged."""
    axis = draw(st.integers(1 if on_chip else 0, len(shape) - 1))
    outer = one_of(draw, *[n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0])
    sizes = {f"d{i}": count for i, count in enumerate(shape)} | {"o": outer, "i": shape[axis] // outer}
    source = [(f"d{i}",) if i != axis else ("o", "i") for i in range(len(shape))]
    names = [name for group in source for name in group]
    kept = 1 if on_chip else 0
    order = names[:kept] + list(draw(st.permutations(names[kept:])))
    wanted = [(name,) for name in order]
    if len(wanted) - kept > 1 and draw(st.booleans()):
        at = draw(st.integers(kept, len(wanted) - 2))
        wanted[at : at + 2] = [wanted[at] + wanted[at + 1]]
    del sizes[f"d{axis}"]
    return (source, wanted, sizes)


def a_pattern(draw: Draw, model: Model) -> tuple[Any, ...]:
    """Arguments of `ap`: mostly rows of the right size, now and then another dtype."""
    kind = one_of(draw, None, None, None, *DTYPES)
    width = np.dtype(kind or model.array.dtype).itemsize
    free = [[one_of(draw, 0, 1, 2, 5), draw(st.integers(1, 4))] for _ in range(draw(st.integers(1, 2)))]
    pitch = model.base.nbytes // model.base.shape[0] // width + (draw(st.integers(0, 9)) == 0)
    rows = [pitch, draw(st.integers(1, model.base.shape[0]))]
    offset = one_of(draw, None, draw(st.integers(0, 8))) if kind is None or not model.offset_bytes else None
    return ([rows, *free], offset, None, None, 0, kind)


def a_step(draw: Draw, model: Model) -> Step:
    shape = model.array.shape
    rank = len(shape)
    axis = draw(st.integers(0, rank - 1))
    ones = [i for i in range(rank) if shape[i] == 1] or [axis]
    longer = {"expand_dim", "reshape_dim", "reshape", "rearrange"} if rank >= MAX_RANK else set()
    shorter = {"squeeze_dim", "rearrange"} if rank == (2 if model.on_chip else 1) else set()
    methods = sorted(set(MODEL) - longer - (shorter - {"rearrange"} if rank > 1 else shorter))
    method = draw(st.sampled_from(methods))
    ends = a_slice(draw, shape[axis])
    dots = [an_item(draw, count) for count in shape[: draw(st.integers(1, rank))]]
    if draw(st.booleans()):
        dots = [*dots[:1], Ellipsis, *[an_item(draw, count) for count in shape[1:][len(shape[1:]) - 1 :]]][
            : rank + 1
        ]
    arguments: dict[str, Callable[[], tuple[Any, ...]]] = {
        "getitem": lambda: tuple(dots) if len(dots) - (Ellipsis in dots) <= rank else (...,),
        "slice": lambda: (axis, ends.start % shape[axis], ends.stop or shape[axis], ends.step or 1),
        "select": lambda: (axis, draw(st.integers(-shape[axis], shape[axis]))),
        "permute": lambda: (tuple(draw(st.permutations(range(rank)))),),
        "broadcast": lambda: (one_of(draw, *ones), draw(st.integers(1, 3))),
        "expand_dim": lambda: (draw(st.integers(0, rank)),),
        "squeeze_dim": lambda: (one_of(draw, *ones),),
        "reshape": lambda: (
            (shape[0], *factors(draw, prod(shape[1:]))) if rank > 1 else factors(draw, shape[0]),
        ),
        "reshape_dim": lambda: (axis, factors(draw, shape[axis])),
        "flatten_dims": lambda: (min(axis, 1), draw(st.integers(0, rank - 1))),
        "rearrange": lambda: names_of(draw, shape, model.on_chip),
        "view": lambda: (one_of(draw, *DTYPES),),
        "ap": lambda: a_pattern(draw, model),
    }
    return Step(method, arguments[method]())


@st.composite
def chains(draw: Draw, on_chip: bool, whole: bool) -> tuple[Array, list[Step], Model | None]:
    """An array, a chain of operations, and the view that it ends in; None where its last step is refused.

    `whole`: every view starts on partition 0, as an engine can.
    """
    rank = draw(st.integers(2, 3))
    shape = tuple(draw(st.sampled_from((1, 2, 3, 4, 6, 8))) for _ in range(rank))
    dtype = one_of(draw, *DTYPES)
    base = (np.arange(prod(shape)) % 251).astype(dtype).reshape(shape)
    model = Model(base, base, on_chip)
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 5))):
        step = a_step(draw, model)
        try:
            after = MODEL[step.method](model, *step.arguments)
        except Refused:
            return base, [*steps, step], None
        if not whole or after.offset_bytes < base.nbytes // shape[0]:
            model = after
            steps.append(step)
    return base, steps, model


# ---------------------------------------------------------------------------------------------- the test


def through_hbm(x: Any, steps: list[Step]) -> Any:
    """Return the view of an input as an output."""
    seen = followed(x, steps)
    out = nl.ndarray(seen.shape, dtype=seen.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=seen)
    return out


def through_sbuf(x: Any, steps: list[Step]) -> Any:
    """The same by way of a tile in SBUF."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return through_hbm(tile, steps)


def through_psum(x: Any, steps: list[Step]) -> Any:
    """The same by way of a tile in PSUM, which the Vector Engine reads."""
    row = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.psum)
    nisa.dma_copy(dst=row, src=x)
    nisa.tensor_copy(dst=tile, src=row)
    seen = followed(tile, steps)
    copy = nl.ndarray(seen.shape, dtype=seen.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=seen)
    return through_hbm(copy, [])


def followed(tensor: Any, steps: list[Step]) -> Any:
    for step in steps:
        tensor = step.on_tensor(tensor)
    return tensor


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call traces: a cache would answer for it."""
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "0")


def outcome(run: Callable[[], Any]) -> Any:
    """Return what `run` returns, or the code of what it raises."""
    try:
        return run()
    except OpenNkiError as error:
        return error.code


@pytest.mark.parametrize("kernel", [through_hbm, through_sbuf, through_psum])
@given(data=st.data())
@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")
def test_a_chain_of_views_is_what_numpy_makes_of_it(kernel: Callable[..., Any], data: st.DataObject) -> None:
    base, steps, model = data.draw(chains(kernel is not through_hbm, kernel is through_psum))
    result = outcome(lambda: nki.simulate(kernel)(base, steps))
    if model is None:
        assert result in REFUSALS
        assert outcome(lambda: opennki.trace(kernel, base, steps)) == result
        return
    assert isinstance(result, np.ndarray), result
    assert (result.shape, result.dtype) == (model.array.shape, model.array.dtype)
    assert result.tobytes() == model.array.tobytes()
    artifact = opennki.trace(kernel, base, steps)
    assert verify(artifact, ROW_FACTS) == []
    assert opennki.compile(artifact, lnc=1)(base).tobytes() == result.tobytes()

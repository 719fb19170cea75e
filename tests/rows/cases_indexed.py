"""Cases of accesses whose place is read at run time: gather, scatter, dynamic windows, and `dma_compute`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tests.rows.cases import S, TileSpec, View, contents, tile
from tests.rows.conversions import ARITHMETIC_DTYPES, INTEGERS, Array, storage
from tests.rows.edge_values import fill, moderate
from tests.rows.oracle_indexed import Access, IndexedCase, IndexSource, Instruction, Transfer

Pattern = tuple[tuple[int, int], ...]

MAX32 = 2**31 - 1
OUTSIDE: dict[str, tuple[int, ...]] = {
    "int32": (10, 11, MAX32, -1, -10, -(2**31)),
    "uint32": (10, 11, MAX32, 2**31, 2**32 - 1),
}
"""Indices that no axis of 10 elements has: the limit first; all ones is the usual sentinel."""

SCALARS: tuple[tuple[str, str], ...] = (
    ("tile", "int32"),
    ("tile", "uint32"),
    ("register", "int32"),
    ("scalar", "int32"),
    ("scalar", "int64"),
)
"""How a scalar index reaches the view, and its element type. Source: nki-aps.rst; NKI 0.7 for scalars."""


@dataclass(frozen=True)
class Fault:
    """A case in which one index is outside of its axis under `oob_mode.error`."""

    case: IndexedCase
    index: int

    @property
    def id(self) -> str:
        """A name for the test's report."""
        return self.case.id


def cases() -> Iterator[IndexedCase]:
    """Yield all legal cases of this module."""
    yield from gather_dtypes()
    yield from gather_layouts()
    yield from gather_skips()
    yield from scatters()
    yield from scalar_sources()
    yield from scalar_layouts()
    yield from scalar_skips()
    yield from on_chip()
    yield from sums()
    yield from indexed_sums()


def faults() -> Iterator[Fault]:
    """Yield the cases that are errors at run time."""
    yield from vector_faults()
    yield from scalar_faults()


# Building -------------------------------------------------------------------------------------------------


def built(
    name: str,
    buffers: Mapping[str, TileSpec],
    *transfers: Transfer,
    data: Mapping[str, Array] | None = None,
    target: str = "trn2",
    finite: bool = False,
) -> IndexedCase:
    """Return a case whose buffers hold edge values (or finite ones), but for those in `data`."""
    how = moderate if finite else fill
    given = dict(data or {})
    held = {
        buffer: given[buffer] if buffer in given else contents(name, spec, 31 * number, how)
        for number, (buffer, spec) in enumerate(buffers.items())
    }
    return IndexedCase(name, buffers, held, transfers, target)


def column(values: Sequence[int], dtype: str) -> Array:
    """Return indices as a (P, 1) array."""
    return np.array(values, storage(dtype)).reshape(-1, 1)


def rows_of(table: TileSpec) -> Pattern:
    """Return the pattern of one whole row of a table, without the leading pair."""
    strides = [prod(table.shape[axis + 1 :]) for axis in range(1, len(table.shape))]
    return tuple(zip(strides, table.shape[1:], strict=True))


def by_vector(method: str, table: TileSpec, count: int, index: IndexSource) -> Access:
    """Return the access of `count` rows of `table`, by `ap` or by `vector_select`."""
    if method == "vector_select":
        return Access("table", vector=index)
    return Access("table", pattern=((prod(table.shape[1:]), count), *rows_of(table)), vector=index)


def moved(
    name: str, method: str, table: TileSpec, indices: Sequence[int], index_dtype: str = "int32", *,
    scatter: bool = False, other: str | None = None, space: str = "sbuf", skip: bool = False,
    target: str = "trn2", **attributes: Any,
) -> IndexedCase:  # fmt: skip
    """Return the gather from (or scatter to) a table at `indices`; the other side is one tile."""
    count = len(indices)
    spec = TileSpec((count, *table.shape[1:]), other or table.dtype, "hbm" if space == "hbm" else "sbuf")
    buffers = {"table": table, "index": tile((count, 1), index_dtype), "tile": spec}
    indexed, plain = by_vector(method, table, count, IndexSource("index")), Access("tile")
    dst, src = (indexed, plain) if scatter else (plain, indexed)
    transfer = Transfer("dma_copy", dst, (src,), skip, attributes)
    kind = "scatter" if scatter else "gather"
    full = f"{kind}-{method}-{name}"
    return built(full, buffers, transfer, data={"index": column(indices, index_dtype)}, target=target)


def hbm(*shape: int, dtype: str = "float32") -> TileSpec:
    return tile(shape, dtype, "hbm")


# Vector indices -------------------------------------------------------------------------------------------


def gather_dtypes() -> Iterator[IndexedCase]:
    for number, dtype in enumerate((*ARITHMETIC_DTYPES, "int64", "float8_e5m2_x4")):
        index_dtype = ("int32", "uint32")[number % 2]
        yield moved(dtype, "ap", hbm(10, 24, dtype=dtype), (3, 0, 9, 3, 5), index_dtype)
    # "first casting from src.dtype to float32, then from float32 to dst.dtype"
    for source, target in (("float32", "bfloat16"), ("int32", "float32"), ("bfloat16", "int8")):
        table = hbm(10, 40, dtype=source)
        yield moved(f"{source}-to-{target}", "ap", table, (9, 1, 0), other=target)
        yield moved(f"{source}-to-{target}", "ap", table, (9, 1, 0), other=target, scatter=True)


def gather_layouts() -> Iterator[IndexedCase]:
    generator = np.random.default_rng(7)
    for method, index_dtype in product(("ap", "vector_select"), INTEGERS_OF_INDICES):
        for count, height in ((1, 1), (1, 10), (77, 300), (128, 128)):
            indices = generator.integers(0, height, count).tolist()
            name = f"{index_dtype}-{count}-of-{height}"
            yield moved(name, method, hbm(height, 5), indices, index_dtype)
        yield moved(f"{index_dtype}-limits", method, hbm(10, 4), (0, 9), index_dtype)
        yield moved(f"{index_dtype}-cube", method, hbm(6, 3, 4), (5, 2, 2, 0), index_dtype)
    yield moved("to-hbm", "ap", hbm(10, 4), (4, 4, 8), space="hbm")
    for target in ("trn2", "trn3"):
        yield moved("swdge", "ap", hbm(10, 4), (4, 0, 8), target=target, dge_mode="swdge")
    yield from windows()


INTEGERS_OF_INDICES = ("int32", "uint32")


def windows() -> Iterator[IndexedCase]:
    """Yield gathers of parts of rows, and index tiles that are views themselves."""
    table, picks = hbm(6, 4, 5), (5, 0, 3)
    source, last = IndexSource("index"), IndexSource("index", (S(1, 3), S(0, 1)))
    for name, access, shape in (
        ("every-other", Access("table", pattern=((20, 3), (10, 2), (2, 3)), vector=source), (3, 2, 3)),
        ("offset", Access("table", pattern=((20, 3), (5, 2)), offset=7, vector=source), (3, 2)),
        # "the stride specified in the leading dimension of the pattern in the .ap() is currently ignored"
        ("leading-step", Access("table", pattern=((1, 3), (1, 20)), vector=source), (3, 20)),
        ("two-rows", Access("table", pattern=((20, 2), (1, 40)), vector=last), (2, 40)),
        ("sliced", Access("table", vector=source, after=(S(0, 3), S(1, 4, 2), S(2, 5))), (3, 2, 3)),
        ("inherited", Access("table", (S(0, 6), S(1, 2), S(2, 5)), ((20, 3), (1, 3)), vector=source), (3, 3)),
    ):  # fmt: skip
        buffers = {"table": table, "index": tile((3, 1), "int32"), "tile": tile(shape)}
        transfer = Transfer("dma_copy", Access("tile"), (access,))
        chosen = (5, 0, 3) if name != "two-rows" else (5, 0, 4)
        yield built(f"gather-{name}", buffers, transfer, data={"index": column(chosen, "int32")})
    grid = np.full((64, 3), 1000, np.int32)
    grid[32:35, 1] = picks
    buffers = {"table": table, "index": tile((64, 3), "int32"), "tile": tile((64, 20))}
    window = IndexSource("index", (S(32, 35), S(1, 2)))
    inside = Access("table", pattern=((20, 3), (1, 20)), vector=window)
    transfer = Transfer("dma_copy", Access("tile", (S(32, 35), S(0, 20))), (inside,))
    yield built("gather-index-window", buffers, transfer, data={"index": grid})
    split = Transfer("dma_copy", Access("tile", (S(0, 3), S(0, 20))), (inside,))
    yield built("gather-other-partitions", buffers, split, data={"index": grid})


def gather_skips() -> Iterator[IndexedCase]:
    for method, index_dtype in product(("ap", "vector_select"), INTEGERS_OF_INDICES):
        indices = [3, *OUTSIDE[index_dtype], 9, 0]
        for scatter in (False, True):
            name = f"skip-{index_dtype}"
            yield moved(name, method, hbm(10, 4), indices, index_dtype, scatter=scatter, skip=True)
        yield moved(f"skip-all-{index_dtype}", method, hbm(10, 4), [10, 11], index_dtype, skip=True)
    for dtype in ("bfloat16", "int8", "int32"):
        yield moved(f"skip-keeps-{dtype}", "ap", hbm(10, 12, dtype=dtype), [10, 2, -1], skip=True)
    # the window of the last legal index ends with the table: "exceed the dimensions of the target array"
    buffers = {"table": hbm(6, 4), "index": tile((3, 1), "int32"), "tile": tile((3, 8))}
    wide = Access("table", pattern=((4, 3), (1, 8)), vector=IndexSource("index"))
    transfer = Transfer("dma_copy", Access("tile"), (wide,), skip=True)
    yield built("gather-skip-window", buffers, transfer, data={"index": column((4, 5, 0), "int32")})


def scatters() -> Iterator[IndexedCase]:
    for number, dtype in enumerate(("float32", "bfloat16", "int32", "uint8", "float8_e4m3", "int64")):
        index_dtype = INTEGERS_OF_INDICES[number % 2]
        yield moved(dtype, "ap", hbm(10, 24, dtype=dtype), (3, 0, 9, 5), index_dtype, scatter=True)
    order = np.random.default_rng(3).permutation(200)[:128].tolist()
    for method in ("ap", "vector_select"):
        yield moved("128-of-200", method, hbm(200, 3), order, scatter=True)
        yield moved("cube", method, hbm(6, 3, 4), (5, 2, 0), scatter=True)
    yield moved("from-hbm", "ap", hbm(10, 4), (4, 1, 8), scatter=True, space="hbm")
    buffers = {"table": hbm(10, 8), "index": tile((3, 1), "int32"), "tile": tile((3, 2))}
    part = Access("table", pattern=((8, 3), (3, 2)), offset=2, vector=IndexSource("index"))
    transfer = Transfer("dma_copy", part, (Access("tile"),))
    yield built("scatter-columns", buffers, transfer, data={"index": column((9, 0, 4), "int32")})
    both = {
        "table": hbm(10, 4),
        "index": tile((4, 1), "int32"),
        "out": hbm(7, 4),
        "place": tile((4, 1), "int32"),
    }
    source = by_vector("ap", both["table"], 4, IndexSource("index"))
    target = Access("out", pattern=((4, 4), (1, 4)), vector=IndexSource("place"))
    data = {"index": column((9, 9, 10, 0), "int32"), "place": column((6, 7, 1, 0), "int32")}
    yield built("gather-scatter", both, Transfer("dma_copy", target, (source,), skip=True), data=data)


# Scalar indices -------------------------------------------------------------------------------------------


def at(
    name: str, access: Access, table: TileSpec, shape: tuple[int, ...], index: int, dtype: str = "int32", *,
    store: bool = False, skip: bool = False, target: str = "trn2",
    instruction: Instruction = "dma_copy", **attributes: Any,
) -> IndexedCase:  # fmt: skip
    """Return the copy from (or to) a table at one index; the other side is one tile of `shape`."""
    buffers = {"table": table, "index": tile((1, 1), dtype), "tile": tile(shape, table.dtype)}
    dst, src = (access, Access("tile")) if store else (Access("tile"), access)
    transfer = Transfer(instruction, dst, (src,), skip, attributes)
    data = {"index": column((index,), dtype)}
    return built(f"{'store' if store else 'load'}-{name}", buffers, transfer, data=data, target=target)


def scalar_sources() -> Iterator[IndexedCase]:
    for (by, dtype), store in product(SCALARS, (False, True)):
        source = IndexSource("index", by=by)  # type: ignore[arg-type]  # the table's strings are its literals
        table, name = hbm(10, 4), f"{by}-{dtype}"
        window = Access("table", pattern=((4, 3), (1, 4)), scalar=source)
        for index in (0, 7):
            yield at(f"ap-{name}-{index}", window, table, (3, 4), index, dtype, store=store)
        batches, chosen = hbm(5, 3, 4), Access("table", scalar=source)
        for index in (0, 4):
            yield at(f"select-{name}-{index}", chosen, batches, (3, 4), index, dtype, store=store)


def scalar_layouts() -> Iterator[IndexedCase]:
    source = IndexSource("index")
    cube = hbm(4, 6, 5)
    for name, access, shape, index in (
        ("dim-1", Access("table", pattern=((30, 4), (5, 2), (1, 5)), scalar=source, dim=1), (4, 2, 5), 4),
        ("dim-2", Access("table", pattern=((30, 4), (5, 6), (1, 2)), scalar=source, dim=2), (4, 6, 2), 3),
        ("one", Access("table", pattern=((1, 1), (1, 1)), scalar=source, dim=2), (1, 1), 4),
        ("offset", Access("table", pattern=((5, 3), (2, 2)), offset=32, scalar=source), (3, 2), 2),
        ("backwards", Access("table", pattern=((-5, 6), (1, 5)), offset=25, scalar=source), (6, 5), 3),
        ("select-1", Access("table", scalar=source, dim=1), (4, 5), 5),
        ("select-2", Access("table", scalar=source, dim=2), (4, 6), 0),
        ("select-of-slice", Access("table", (S(1, 4), S(0, 6, 2), S(1, 5)), scalar=source, dim=1), (3, 4), 2),
        ("slice-of-select", Access("table", scalar=source, after=(S(1, 5, 2), S(0, 3))), (2, 3), 3),
    ):  # fmt: skip
        for store in (False, True):
            yield at(name, access, cube, shape, index, store=store)
    for dtype in ("bfloat16", "uint8", "int64", "float8_e4m3fn"):
        access = Access("table", pattern=((24, 3), (1, 24)), scalar=source)
        yield at(dtype, access, hbm(10, 24, dtype=dtype), (3, 24), 7)
    for target in ("trn1", "trn3"):
        access = Access("table", pattern=((4, 3), (1, 4)), scalar=source)
        yield at("target", access, hbm(10, 4), (3, 4), 6, target=target)
    # two scalar indices in one copy
    buffers = {"table": hbm(10, 4), "out": hbm(5, 4), "index": tile((1, 2), "int32")}
    first, second = IndexSource("index", (S(0, 1), S(0, 1))), IndexSource("index", (S(0, 1), S(1, 2)))
    from_table = Access("table", pattern=((4, 2), (1, 4)), scalar=first)
    to_out = Access("out", pattern=((4, 2), (1, 4)), scalar=second)
    pair = {"index": np.array([[8, 3]], np.int32)}
    yield built("both-sides", buffers, Transfer("dma_copy", to_out, (from_table,)), data=pair)


def scalar_skips() -> Iterator[IndexedCase]:
    for (by, dtype), store in product(SCALARS[:3], (False, True)):
        source = IndexSource("index", by=by)  # type: ignore[arg-type]  # the table's strings are its literals
        window = Access("table", pattern=((4, 3), (1, 4)), scalar=source)
        for index in (7, 8, *OUTSIDE[dtype]):
            if by == "tile" or index in (8, -1):
                name = f"skip-{by}-{dtype}-{index}"
                yield at(name, window, hbm(10, 4), (3, 4), index, dtype, store=store, skip=True)
    for index in (4, 5, -1):
        chosen = Access("table", scalar=IndexSource("index"))
        yield at(f"skip-select-{index}", chosen, hbm(5, 3, 4), (3, 4), index, skip=True)


def on_chip() -> Iterator[IndexedCase]:
    """Yield copies from and to SBUF and PSUM tiles at an index of a free axis."""
    for by, (instruction, space) in product(
        ("tile", "register", "scalar"),
        (("dma_copy", "sbuf"), ("tensor_copy", "sbuf"), ("tensor_copy", "psum")),
    ):
        source = IndexSource("index", by=by)  # type: ignore[arg-type]  # the tuple's strings are its literals
        table = tile((8, 6, 4), "float32", "psum" if space == "psum" else "sbuf")
        for (name, access, shape, index), store in product(
            (
                ("columns", Access("table", pattern=((24, 8), (1, 5)), scalar=source, dim=2), (8, 5), 2),
                ("rows", Access("table", pattern=((24, 8), (1, 8)), scalar=source, dim=1), (8, 8), 4),
                ("select", Access("table", scalar=source, dim=1), (8, 4), 5),
            ),
            (False, True),
        ):
            yield at(
                f"{space}-{by}-{name}", access, table, shape, index, store=store,
                instruction="dma_copy" if instruction == "dma_copy" else "tensor_copy",
            )  # fmt: skip


# Errors ---------------------------------------------------------------------------------------------------


def vector_faults() -> Iterator[Fault]:
    for method, index_dtype in product(("ap", "vector_select"), INTEGERS_OF_INDICES):
        for index, scatter in product(OUTSIDE[index_dtype], (False, True)):
            if method == "ap" or index == 10:
                name = f"error-{index_dtype}-{index}"
                picks = [3, 0, index, 9]
                yield Fault(moved(name, method, hbm(10, 4), picks, index_dtype, scatter=scatter), index)
    wide = Access("table", pattern=((4, 2), (1, 8)), vector=IndexSource("index"))
    buffers = {"table": hbm(6, 4), "index": tile((2, 1), "int32"), "tile": tile((2, 8))}
    transfer, data = Transfer("dma_copy", Access("tile"), (wide,)), {"index": column((4, 5), "int32")}
    yield Fault(built("gather-error-window", buffers, transfer, data=data), 5)
    for gather in (True, False):
        yield Fault(accumulated("error", gather, (4, 10, 2), skip=False), 10)


def scalar_faults() -> Iterator[Fault]:
    for by, dtype in SCALARS[:4]:
        source = IndexSource("index", by=by)  # type: ignore[arg-type]  # the table's strings are its literals
        window = Access("table", pattern=((4, 3), (1, 4)), scalar=source)
        for index, store in product((8, *OUTSIDE[dtype]), (False, True)):
            if by == "tile" or (index in (8, -1) and not store):
                name = f"error-{by}-{dtype}-{index}"
                yield Fault(at(name, window, hbm(10, 4), (3, 4), index, dtype, store=store), index)
    for index in (5, -1):
        chosen = Access("table", scalar=IndexSource("index"))
        yield Fault(at(f"error-select-{index}", chosen, hbm(5, 3, 4), (3, 4), index), index)
        on_free_axis = Access("table", scalar=IndexSource("index"), dim=1)
        yield Fault(at(f"error-sbuf-{index}", on_free_axis, tile((8, 5, 4)), (8, 4), index), index)


# dma_compute ----------------------------------------------------------------------------------------------


def summed(
    name: str, dst: TileSpec, sources: Sequence[TileSpec], *, finite: bool = True,
    views: Sequence[View | None] = (), **attributes: Any,
) -> IndexedCase:  # fmt: skip
    """Return the sum of several buffers; `views` window them, the destination first."""
    buffers = {"dst": dst, **{f"src{i}": spec for i, spec in enumerate(sources)}}
    windows = [*views, *[None] * (1 + len(sources) - len(views))]
    srcs = tuple(Access(f"src{i}", windows[i + 1]) for i in range(len(sources)))
    transfer = Transfer("dma_compute", Access("dst", windows[0]), srcs, attributes=attributes)
    return built(f"sum-{name}", buffers, transfer, finite=finite)


def sums() -> Iterator[IndexedCase]:
    for count in (1, 2, 3, 16):
        yield summed(f"{count}-sources", tile((8, 6)), [tile((8, 6))] * count)
    for dtype in ("bfloat16", "float16", "int32", "int8", "uint16", "float8_e4m3"):
        yield summed(f"{dtype}-edges", tile((16, 25), dtype), [tile((16, 25), dtype)] * 2, finite=False)
        yield summed(f"{dtype}-to-float32", tile((8, 6)), [tile((8, 6), dtype)] * 3)
    yield summed("float32-edges", tile((16, 25)), [tile((16, 25))] * 2, finite=False)
    mixed = [hbm(8, 6), tile((8, 6), "bfloat16"), tile((8, 6), "int32")]
    yield summed("mixed", hbm(8, 6, dtype="float16"), mixed)
    for name, scales in (("list", [1.0, 1.0]), ("tuple", (1.0, 1.0))):
        yield summed(f"scales-{name}", tile((8, 6)), [hbm(8, 6), tile((8, 6))], scales=scales)
    strided = (S(0, 8), S(1, 9, 2))
    yield summed("strided", tile((8, 9)), [hbm(8, 9), tile((8, 4))], views=(strided, strided), finite=False)
    buffers = {"dst": hbm(8, 6), "src": tile((8, 6))}
    transfer = Transfer("dma_compute", Access("dst"), (Access("dst"), Access("src")))
    yield built("sum-in-place", buffers, transfer)


def accumulated(
    name: str, gather: bool, indices: Sequence[int], *, skip: bool = False, dtype: str = "float32",
    index_dtype: str = "int32", first: bool = False, target: str = "trn2", **attributes: Any,
) -> IndexedCase:  # fmt: skip
    """Return the read-modify-write of documented form; `first`: the source that equals `dst` comes first."""
    table, count = hbm(10, 24, dtype=dtype), len(indices)
    buffers = {"table": table, "index": tile((count, 1), index_dtype), "tile": tile((count, 24), dtype)}
    indexed, plain = by_vector("ap", table, count, IndexSource("index")), Access("tile")
    dst, other = (plain, indexed) if gather else (indexed, plain)
    srcs = (dst, other) if first else (other, dst)
    transfer = Transfer("dma_compute", dst, srcs, skip, attributes)
    full = f"{'gather' if gather else 'scatter'}-add-{name}"
    return built(full, buffers, transfer, data={"index": column(indices, index_dtype)}, target=target)


def indexed_sums() -> Iterator[IndexedCase]:
    for gather, first in product((True, False), (True, False)):
        order = "dst-first" if first else "dst-last"
        yield accumulated(order, gather, (9, 0, 4), first=first)
        yield accumulated(f"{order}-skip", gather, (9, 10, 4, -1, 0, MAX32), first=first, skip=True)
    for gather, dtype in product((True, False), ("bfloat16", "int32", "float16", "uint8")):
        yield accumulated(dtype, gather, (9, 0, 4, 7), dtype=dtype, index_dtype="uint32")
    yield accumulated("unique", False, (1, 2), unique_indices=True, scales=[1.0, 1.0])
    yield accumulated("trn3", False, (1, 2), target="trn3")
    # a gather may read a row twice; only a scatter's destinations must be unique
    yield accumulated("same-row", True, (5, 5, 5))
    chain = accumulated("chain", False, (9, 0, 4))
    yield replace(chain, transfers=chain.transfers * 3)


assert set(INTEGERS) >= set(INTEGERS_OF_INDICES)

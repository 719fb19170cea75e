"""Cases of the instructions that move: dma_copy, tensor_copy, memset, nc_transpose."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.rows.cases import PARTITION_WINDOWS, Case, S, TileSpec, one, ordinary, permuted, seen_as, tile
from tests.rows.conversions import ARITHMETIC_DTYPES, INTEGERS, PACKED
from tests.rows.edge_values import fill

SHAPE = (16, 25)
"""Room for every edge value of the widest type."""

SOURCES = ("float32", "tfloat32", "bfloat16", "float8_e4m3", "int32", "int16", "uint8", "bool")
"""The element types that conversions start from; all are ends of one."""

INF, NAN = float("inf"), float("nan")
TARGETS = ("trn1", "trn2", "trn3")


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from dma_dtypes()
    yield from cubes()
    yield from dma_layouts()
    yield from dma_options()
    yield from copy_dtypes()
    yield from copy_layouts()
    yield from memset_values()
    yield from memset_layouts()
    yield from transposes()


def dma_dtypes() -> Iterator[Case]:
    for source, target in product(SOURCES, ARITHMETIC_DTYPES):
        operands = {"dst": tile(SHAPE, target), "src": tile(SHAPE, source, "hbm")}
        yield one("dma_copy", f"{source}-to-{target}", operands)
    for dtype in ("int64", *PACKED):
        operands = {"dst": tile((4, 9), dtype, "hbm"), "src": tile((4, 9), dtype, "hbm")}
        yield one("dma_copy", f"{dtype}-bits", operands)


def cubes() -> Iterator[Case]:
    """Yield strided three-dimensional views of every element type."""
    window = (S(0, 4), S(1, 7, 2), S(0, 9, 3))
    for dtype in (*ARITHMETIC_DTYPES, *PACKED):
        dst = tile((4, 8, 9), dtype, view=window)
        source = tile((4, 7, 9), dtype, "hbm", view=window)
        yield one("dma_copy", f"cube-{dtype}", {"dst": dst, "src": source}, target="trn3")
    for dtype in ARITHMETIC_DTYPES:
        dst = tile((4, 8, 9), dtype, view=window)
        source = tile((4, 7, 9), dtype, view=window)
        yield one("tensor_copy", f"cube-{dtype}", {"dst": dst, "src": source}, target="trn1")


def dma_layouts() -> Iterator[Case]:
    for name, (dst, src) in _dma_shapes().items():
        yield one("dma_copy", name, {"dst": dst, "src": src})
    for name, partitions, window in PARTITION_WINDOWS:
        count = window.stop - window.start
        operands = {
            "dst": tile((partitions, 4), view=(window, S(0, 4))),
            "src": tile((count, 4), space="hbm"),
        }
        yield one("dma_copy", name, operands, target="trn1")


def _dma_shapes() -> dict[str, tuple[TileSpec, TileSpec]]:
    return {
        "rows-regrouped": (tile((8, 15)), tile((4, 6, 5), space="hbm")),
        "flat-to-tile": (tile((6, 7)), tile((42,), space="hbm")),
        "tile-to-cube": (tile((2, 3, 16), space="hbm"), tile((16, 6))),
        "one-element": (tile((1, 1)), tile((1, 1), space="hbm")),
        "one-of-many": (
            tile((3, 5), view=(S(0, 1), S(4, 5))),
            tile((7, 9), space="hbm", view=(S(6, 7), S(8, 9))),
        ),
        "all-partitions": (tile((128, 3)), tile((128, 3), space="hbm")),
        "many-rows-in-hbm": (tile((300, 2), space="hbm"), tile((300, 2), space="hbm")),
        "sbuf-to-sbuf": (tile((9, 4)), tile((9, 4))),
        "hbm-to-sbuf-half": (
            tile((5, 6), "bfloat16"),
            tile((5, 12), "bfloat16", "hbm", view=(S(0, 5), S(0, 12, 2))),
        ),
        "strided-both": (
            tile((16, 24), view=(S(0, 8), S(1, 24, 3))),
            tile((9, 40), space="hbm", view=(S(1, 9), S(3, 35, 4))),
        ),
        "row-steps-in-hbm": (tile((5, 4)), tile((10, 4), space="hbm", view=(S(0, 10, 2), S(0, 4)))),
        "into-hbm-window": (
            tile((7, 11), space="hbm", view=(S(2, 5), S(1, 11, 5))),
            tile((3, 2)),
        ),
        "permuted-source": (
            tile((4, 6, 5)),
            tile(
                (4, 5, 6),
                space="hbm",
                moves=permuted(0, 2, 1),
            ),
        ),
        "permuted-rows": (
            tile((5, 4)),
            tile(
                (4, 5),
                space="hbm",
                moves=permuted(1, 0),
            ),
        ),
        "broadcast-rows": (
            tile((6, 5)),
            tile((1, 5), space="hbm", moves=(("broadcast", (0, 6)),)),
        ),
        "casting-strided": (
            tile((8, 12), "float8_e4m3", view=(S(0, 8), S(0, 12, 2))),
            tile((8, 6), "float32", "hbm"),
        ),
        "four-axes": (tile((4, 3, 2, 5)), tile((4, 3, 2, 5), space="hbm")),
    }


def dma_options() -> Iterator[Case]:
    operands = {"dst": tile((5, 8), "int32"), "src": tile((5, 8), "int32", "hbm")}
    for target, mode in (("trn1", "none"), ("trn1", "swdge"), ("trn2", "none"), ("trn2", "hwdge")):
        yield one("dma_copy", f"dge-{mode}", operands, target=target, dge_mode=mode)
    for engine in ("sync", "scalar"):
        yield one("dma_copy", f"hwdge-{engine}", operands, engine=engine, dge_mode="hwdge")
    for priority in (0, 3):
        yield one("dma_copy", f"priority-{priority}", operands, target="trn3", priority=priority)


def copy_dtypes() -> Iterator[Case]:
    for source, target in product(SOURCES, ARITHMETIC_DTYPES):
        operands = {"dst": tile(SHAPE, target), "src": tile(SHAPE, source)}
        yield one("tensor_copy", f"{source}-to-{target}", operands)
    engines = (("trn1", "gpsimd"), ("trn2", "scalar"), ("trn3", "vector"))
    for (target, engine), dtype in product(engines, ARITHMETIC_DTYPES):
        operands = {"dst": tile(SHAPE, dtype), "src": tile(SHAPE, dtype)}
        yield one("tensor_copy", f"{engine}-{dtype}", operands, engine=engine, target=target)
    for engine in ("vector", "scalar", "gpsimd"):
        operands = {"dst": tile(SHAPE, "int16"), "src": tile(SHAPE)}
        yield one("tensor_copy", f"{engine}-rounds", operands, engine=engine)


def copy_layouts() -> Iterator[Case]:
    shapes: dict[str, tuple[TileSpec, TileSpec]] = {
        "one-element": (tile((1, 1)), tile((1, 1))),
        "strided-to-dense": (tile((6, 5)), tile((6, 15), view=(S(0, 6), S(0, 15, 3)))),
        "dense-to-strided": (tile((6, 15), view=(S(0, 6), S(2, 15, 3))), tile((6, 5))),
        "free-axes-regrouped": (tile((6, 2, 3, 4)), tile((6, 24))),
        "permuted": (
            tile((5, 4, 3)),
            tile(
                (5, 3, 4),
                moves=permuted(0, 2, 1),
            ),
        ),
        "permuted-destination": (
            tile(
                (5, 4, 3),
                moves=permuted(0, 2, 1),
            ),
            tile((5, 3, 4)),
        ),
        "broadcast": (tile((5, 4, 3)), tile((5, 1, 3), moves=(("broadcast", (1, 4)),))),
        "expanded": (
            tile((5, 12)),
            tile((5, 3), moves=(("expand_dim", (1,)), ("broadcast", (1, 4)))),
        ),
        "psum-to-sbuf": (tile((16, 24)), tile((16, 24), space="psum")),
        "sbuf-to-psum": (tile((16, 24), space="psum"), tile((16, 24))),
        "psum-to-psum": (tile((16, 24), space="psum"), tile((16, 24), space="psum")),
        "psum-bank-full": (tile((4, 512), space="psum"), tile((4, 512))),
        "psum-4096": (tile((1, 4096), "bfloat16"), tile((1, 4096), "bfloat16", "psum")),
        "sbuf-65535": (tile((1, 65535), "uint8"), tile((1, 65535), "uint8")),
        "psum-narrow": (tile((16, 24), "bfloat16", "psum"), tile((16, 24), "bfloat16")),
        "overlap-forward": (
            tile((4, 33), view=(S(0, 4), S(1, 33)), buffer="x"),
            tile((4, 33), view=(S(0, 4), S(0, 32)), buffer="x"),
        ),
        "overlap-backward": (
            tile((4, 33), view=(S(0, 4), S(0, 32)), buffer="x"),
            tile((4, 33), view=(S(0, 4), S(1, 33)), buffer="x"),
        ),
        "in-place": (tile((4, 33), buffer="x"), tile((4, 33), buffer="x")),
        "seen-as-integers": (tile((8, 10), "int32"), tile((8, 10), moves=seen_as("int32"))),
        "halves": (tile((8, 20), "uint16"), tile((8, 10), moves=seen_as("uint16"))),
        "bytes-joined": (tile((8, 5), "int32"), tile((8, 20), "uint8", moves=seen_as("int32"))),
        "into-bytes": (tile((8, 10), moves=seen_as("float8_e5m2")), tile((8, 40), "float8_e5m2")),
        "cross-quadrant": (
            tile((128, 5), view=(S(32, 64), S(0, 5))),
            tile((128, 5), view=(S(96, 128), S(0, 5))),
        ),
    }
    for (name, (dst, src)), target in product(shapes.items(), ("trn1", "trn3")):
        yield one("tensor_copy", name, {"dst": dst, "src": src}, target=target)
    for name, partitions, window in PARTITION_WINDOWS:
        view = (window, S(0, 3))
        operands = {"dst": tile((partitions, 3), view=view), "src": tile((partitions, 3), view=view)}
        yield one("tensor_copy", name, operands)


def memset_values() -> Iterator[Case]:
    for dtype, (low, high) in INTEGERS.items():
        for whole in () if dtype == "int64" else (low, high, high - 1):
            yield one("memset", f"{dtype}-{whole}", {"dst": tile((3, 5), dtype)}, numbers={"value": whole})
    usual = (0.0, -0.0, 1.5, INF, -INF, NAN)
    ends: dict[str, tuple[float, ...]] = {
        "float32": (*usual, 0.1, 3.4028234663852886e38, 2.0**-149, -(2.0**-126)),
        "tfloat32": (*usual, 0.1, 1 + 2.0**-11, 3.4e38),
        "bfloat16": (*usual, 0.1, 1 + 2.0**-8, 3.4e38),
        "float16": (*usual, 0.1, 65504.0, 65520.0, 2.0**-24),
        "float8_e5m2": (*usual, 57344.0, 61440.0),
        "float8_e4m3": (0.0, -0.0, 1.5, NAN, 240.0, 1000.0),
        "float8_e4m3fn": (0.0, -0.0, 1.5, NAN, 448.0, 1000.0),
    }
    for dtype, values in ends.items():
        for value in values:
            yield one("memset", f"{dtype}-{value!r}", {"dst": tile((3, 5), dtype)}, numbers={"value": value})
    for bit in (0, 1):
        yield one("memset", f"bool-{bit}", {"dst": tile((3, 5), "bool")}, numbers={"value": bit})
    for dtype in ("float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"):
        operands = {"dst": tile((3, 5), dtype)}
        yield one("memset", f"{dtype}-0", operands, numbers={"value": 0}, target="trn3")


def memset_layouts() -> Iterator[Case]:
    shapes = {
        "strided": tile((6, 15), view=(S(0, 6), S(1, 15, 2))),
        "cube": tile((6, 3, 4), view=(S(0, 6), S(1, 3), S(0, 4, 3))),
        "one-element": tile((9, 9), view=(S(0, 1), S(8, 9))),
        "psum": tile((128, 512), space="psum", view=(S(0, 128), S(500, 512))),
        "start-96": tile((128, 4), view=(S(96, 128), S(0, 4))),
        "as-floats": tile((6, 12), "uint16", moves=seen_as("float32")),
    }
    for (name, dst), target in product(shapes.items(), ("trn1", "trn3")):
        yield one("memset", name, {"dst": dst}, numbers={"value": 2.5}, target=target)
    for engine in ("vector", "gpsimd"):
        yield one("memset", engine, {"dst": tile((6, 4))}, numbers={"value": 2.5}, engine=engine)


def transposes() -> Iterator[Case]:
    sizes = ((1, 1), (1, 7), (7, 1), (32, 32), (13, 31))
    for (rows, columns), target in product(sizes, TARGETS):
        operands = {"dst": tile((columns, rows)), "data": tile((rows, columns))}
        yield one("nc_transpose", f"vector-{rows}x{columns}", operands, engine="vector", target=target)
    for (rows, columns), target in product(((128, 128), (1, 128), (128, 1), (77, 45), (1, 1)), TARGETS):
        operands = {"dst": tile((columns, rows), space="psum"), "data": tile((rows, columns))}
        how = ordinary if target == "trn1" else fill
        name = f"tensor-{rows}x{columns}"
        yield one("nc_transpose", name, operands, engine="tensor", target=target, how=how)
    for dtype in ARITHMETIC_DTYPES:
        operands = {"dst": tile((25, 16), dtype), "data": tile((16, 25), dtype)}
        yield one("nc_transpose", f"vector-{dtype}", operands, engine="vector")
    for dtype in ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "int32", "uint8"):
        operands = {"dst": tile((25, 16), dtype, "psum"), "data": tile((16, 25), dtype)}
        yield one("nc_transpose", f"tensor-{dtype}", operands, engine="tensor")
        yield one("nc_transpose", f"open-{dtype}", operands, target="trn3")
    yield one("nc_transpose", "open-to-sbuf", {"dst": tile((25, 16)), "data": tile((16, 25))})
    yield one(
        "nc_transpose", "free-axes", {"dst": tile((30, 8)), "data": tile((8, 2, 3, 5))}, engine="vector"
    )
    yield one(
        "nc_transpose",
        "psum-source",
        {"dst": tile((9, 8)), "data": tile((8, 9), space="psum")},
        engine="vector",
    )
    strided = tile((8, 30), view=(S(0, 8), S(0, 30, 3)))
    yield one(
        "nc_transpose", "strided", {"dst": tile((10, 8), space="psum"), "data": strided}, engine="tensor"
    )
    window = tile((64, 40), view=(S(32, 42), S(4, 36, 4)))
    yield one("nc_transpose", "into-window", {"dst": window, "data": tile((8, 10))}, engine="vector")
    square = tile((16, 16), buffer="x")
    yield one("nc_transpose", "in-place", {"dst": square, "data": square}, engine="vector")

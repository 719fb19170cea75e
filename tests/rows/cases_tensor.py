"""Cases of nc_matmul: dtypes, sizes, accumulation, tiling, transpose mode, double row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from tests.rows.cases import Attributes, Call, Case, S, case, one, ordinary, permuted, tile
from tests.rows.conversions import Array, storage
from tests.rows.edge_values import fill, moderate

TARGETS = ("trn1", "trn2", "trn3")
NARROW = ("bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INF = float("inf")


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from dtypes()
    yield from sizes()
    yield from specials()
    yield from accumulation()
    yield from bf16_destination()
    yield from tiling()
    yield from transpose_mode()
    yield from double_row()
    yield from layouts()


def _matmul(
    name: str, k: int, m: int, n: int, *, left: str = "bfloat16", right: str = "bfloat16",
    target: str = "trn2", data: dict[str, Array] | None = None, **attributes: Any,
) -> Case:  # fmt: skip
    operands = {
        "dst": tile((m, n), space="psum"),
        "stationary": tile((k, m), left),
        "moving": tile((k, n), right),
    }
    fresh = ("dst",) if attributes.get("accumulate") is not True else ()
    return one("nc_matmul", name, operands, how=ordinary, target=target, data=data, fresh=fresh, **attributes)


def dtypes() -> Iterator[Case]:
    for left, right in product(NARROW, repeat=2):
        yield _matmul(f"{left}-{right}", 20, 9, 13, left=left, right=right)
    for left, right in product(("float32", "tfloat32"), repeat=2):
        for target in TARGETS:
            yield _matmul(f"{left}-{right}", 20, 9, 13, left=left, right=right, target=target)
    for other in ("float8_e4m3fn", "float8_e5m2", "bfloat16"):
        yield _matmul(f"e4m3fn-{other}", 20, 9, 13, left="float8_e4m3fn", right=other, target="trn3")


def sizes() -> Iterator[Case]:
    shapes = (
        (1, 1, 1),
        (128, 128, 512),
        (128, 1, 512),
        (1, 128, 512),
        (127, 65, 511),
        (3, 128, 1),
        (128, 1, 1),
    )
    for k, m, n in shapes:
        yield _matmul(f"{k}x{m}x{n}", k, m, n)
    for target in ("trn1", "trn3"):
        yield _matmul("128x128x512", 128, 128, 512, left="float32", right="float32", target=target)
    yield _matmul("moving-4096", 2, 3, 4096, target="trn3")
    yield _matmul("moving-513", 2, 3, 513, target="trn3")


def specials() -> Iterator[Case]:
    for dtype in ("bfloat16", "float32"):
        left, right = moderate(dtype, (4, 3), 1), moderate(dtype, (4, 6), 2)
        left[0, 0], right[1, 2], right[2, 3], left[2, 1] = INF, -INF, float("nan"), 0.0
        right[3, 5], left[3, 2] = INF, 0.0
        data = {"stationary": left, "moving": right}
        for target in TARGETS:
            yield _matmul(f"specials-{dtype}", 4, 3, 6, left=dtype, right=dtype, data=data, target=target)
        flags: Attributes = {"is_stationary_onezero": True, "is_moving_onezero": True}
        bits = {
            "stationary": (moderate(dtype, (9, 3), 1) > 0).astype(storage(dtype)),
            "moving": (moderate(dtype, (9, 6), 2) > 0).astype(storage(dtype)),
        }
        yield _matmul(f"onezero-{dtype}", 9, 3, 6, left=dtype, right=dtype, data=bits, **flags)
    tiny = {
        "stationary": np.full((2, 1), 2.0**-75, np.float32),
        "moving": np.array([[2.0**-74, 2.0**-60], [2.0**-74, -(2.0**-60)]], np.float32),
    }
    yield _matmul("subnormal-products", 2, 1, 2, left="float32", right="float32", data=tiny)


def accumulation() -> Iterator[Case]:
    for target, mode in product(TARGETS, (None, True, False)):
        modes = (False, mode, mode) if mode is True else (mode, mode, mode)
        calls = [_step(number, S(0, 8), mode_, 8) for number, mode_ in enumerate(modes)]
        yield case(f"three-{mode}", *calls, how=ordinary, fresh=("dst",), target=target)
    windows = (S(0, 8), S(4, 12), S(0, 12, 2), S(3, 11))
    calls = [_step(number, window, None, 12) for number, window in enumerate(windows)]
    yield case("overlapping-windows", *calls, how=ordinary, fresh=("dst",))
    calls = [_step(0, S(0, 12), None, 12), _step(1, S(2, 7), False, 12), _step(2, S(0, 12), True, 12)]
    yield case("overwrite-inside", *calls, how=ordinary, fresh=("dst",))
    # design §5: "written since allocation (by any instruction, memset included) -> add"
    for mode in (None, False, True):
        call = _step(0, S(2, 10), mode, 12)
        yield case(f"onto-written-{mode}", call, how=ordinary, target="trn3")
    zero = Call("memset", {"dst": tile((5, 12), space="psum", buffer="dst")}, {"value": 2.5})
    yield case("onto-memset", zero, _step(0, S(0, 12), None, 12), how=ordinary, fresh=("dst",), target="trn3")


def _step(number: int, window: slice, mode: bool | None, width: int, dtype: str = "float32") -> Call:
    columns = len(range(*window.indices(width)))
    operands = {
        "dst": tile((5, width), dtype, "psum", view=(S(0, 5), window), buffer="dst"),
        "stationary": tile((6, 5), "bfloat16", buffer=f"stationary{number}"),
        "moving": tile((6, columns), "bfloat16", buffer=f"moving{number}"),
    }
    return Call("nc_matmul", operands, {}, {} if mode is None else {"accumulate": mode})


def bf16_destination() -> Iterator[Case]:
    for mode in (None, True, False):
        modes = (False, mode, mode) if mode is True else (mode, mode, mode)
        calls = [_step(number, S(0, 8), mode_, 8, "bfloat16") for number, mode_ in enumerate(modes)]
        yield case(f"bf16-three-{mode}", *calls, how=ordinary, fresh=("dst",), target="trn3")
    operands = {
        "dst": tile((3, 8192), "bfloat16", "psum"),
        "stationary": tile((2, 3), "bfloat16"),
        "moving": tile((2, 8192), "bfloat16"),
    }
    yield one("nc_matmul", "bf16-8192", operands, how=ordinary, fresh=("dst",), target="trn3")


def tiling() -> Iterator[Case]:
    tiles = (
        ("trn1", (0, 0), (128, 128)), ("trn1", (64, 0), (64, 128)), ("trn1", (0, 64), (128, 64)),
        ("trn2", (0, 0), (64, 128)), ("trn2", (32, 0), (32, 128)), ("trn2", (96, 0), (32, 128)),
        ("trn2", (64, 64), (64, 64)), ("trn3", (32, 96), (32, 32)), ("trn3", (0, 32), (128, 32)),
    )  # fmt: skip
    for target, (row, column), (height, width) in tiles:
        k, m = min(height, 32), min(width, 32)
        operands = {
            "dst": tile((128, 10), space="psum", view=(S(column, column + m), S(0, 10))),
            "stationary": tile((128, m), "bfloat16", view=(S(row, row + k), S(0, m))),
            "moving": tile((128, 10), "bfloat16", view=(S(row, row + k), S(0, 10))),
        }
        name = f"tile-{row}-{column}-of-{height}x{width}"
        attributes: Attributes = {
            "tile_position": (row, column),
            "tile_size": (height, width),
            "accumulate": False,
        }
        yield one("nc_matmul", name, operands, how=ordinary, target=target, **attributes)


def transpose_mode() -> Iterator[Case]:
    for target, dtype in product(("trn2", "trn3"), ("float32", "bfloat16", "float16")):
        operands = {
            "dst": tile((25, 16), dtype, "psum"),
            "stationary": tile((16, 25), dtype),
            "moving": tile((16, 16), dtype),
        }
        data = {"stationary": fill(dtype, (16, 25), 3), "moving": np.eye(16).astype(storage(dtype))}
        yield one(
            "nc_matmul",
            f"transpose-{dtype}",
            operands,
            data=data,
            fresh=("dst",),
            target=target,
            is_transpose=True,
        )
    # trainium2_arch.rst: "16-bit output elements in PSUM, with the upper 8 bits filled with zeros"
    for dtype, wide in product(("float8_e4m3", "float8_e5m2"), ("uint16", "bfloat16")):
        operands = {
            "dst": tile((25, 16), wide, "psum"),
            "stationary": tile((16, 25), dtype),
            "moving": tile((16, 16), dtype),
        }
        data = {"stationary": fill(dtype, (16, 25), 3), "moving": np.eye(16).astype(storage(dtype))}
        name = f"transpose-{dtype}-{wide}"
        yield one("nc_matmul", name, operands, data=data, fresh=("dst",), is_transpose=True)
    # gen2: the flag only names the instruction for the profiler; the product is an ordinary one
    eye = {"moving": np.eye(16).astype(storage("bfloat16"))}
    yield _matmul("transpose-accounting", 16, 25, 16, data=eye, target="trn1", is_transpose=True)


def double_row() -> Iterator[Case]:
    pairs = (("float8_e4m3", "float8_e4m3"), ("float8_e4m3", "float8_e5m2"), ("float8_e5m2", "float8_e5m2"))
    extra = (("float8_e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e4m3fn"))
    for target, (left, right) in [*product(("trn2", "trn3"), pairs), *product(("trn3",), extra)]:
        for k, m, n in ((1, 1, 1), (128, 1, 3), (17, 9, 33), (128, 128, 512)):
            operands = {
                "dst": tile((m, n), space="psum"),
                "stationary": tile((k, 2, m), left),
                "moving": tile((k, 2, n), right),
            }
            if (k, m, n) == (128, 128, 512) and left != right:
                continue
            name = f"double-{left}-{right}-{k}x{m}x{n}"
            attributes: Attributes = {"perf_mode": "double_row"}
            yield one("nc_matmul", name, operands, how=ordinary, fresh=("dst",), target=target, **attributes)


def layouts() -> Iterator[Case]:
    strided = {
        "dst": tile((5, 20), space="psum", view=(S(0, 5), S(1, 19, 2))),
        "stationary": tile((6, 10), "bfloat16", view=(S(0, 6), S(0, 10, 2))),
        "moving": tile((6, 27), "bfloat16", view=(S(0, 6), S(0, 27, 3))),
    }
    cube = {
        "dst": tile((6, 2, 10), space="psum"),
        "stationary": tile((7, 2, 3), "bfloat16"),
        "moving": tile((7, 4, 5), "bfloat16"),
    }
    shared = {
        "dst": tile((9, 9), space="psum"),
        "stationary": tile((8, 9), "bfloat16", buffer="x"),
        "moving": tile((8, 9), "bfloat16", buffer="x"),
    }
    turned = {
        "dst": tile((6, 20), space="psum"),
        "stationary": tile(
            (7, 3, 2),
            "float16",
            moves=permuted(0, 2, 1),
        ),
        "moving": tile((7, 1, 5), "float16", moves=(("broadcast", (1, 4)),)),
    }
    for target in TARGETS:
        yield one("nc_matmul", "strided", strided, how=ordinary, target=target, accumulate=False)
        yield one("nc_matmul", "cubes", cube, how=ordinary, fresh=("dst",), target=target)
        yield one("nc_matmul", "gram", shared, how=ordinary, fresh=("dst",), target=target)
        yield one("nc_matmul", "permuted", turned, how=ordinary, fresh=("dst",), target=target)

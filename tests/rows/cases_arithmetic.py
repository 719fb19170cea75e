"""Cases of the elementwise instructions: tensor_tensor, tensor_scalar, reciprocal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from tests.rows.cases import PARTITION_WINDOWS, Attributes, Case, S, TileSpec, one, permuted, seen_as, tile
from tests.rows.conversions import ARITHMETIC_DTYPES, FLOAT_DTYPES, INTEGER_DTYPES, Array, storage
from tests.rows.edge_values import edge_values, fill, moderate, within
from tests.rows.oracle_alu import ARITHMETIC_BINARY, LOGICAL, MAGNITUDE

SHAPE = (16, 25)
INF = float("inf")
PLAIN = tuple(op for op in ARITHMETIC_BINARY if op != "power")
BIT_BINARY = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
TARGETS = ("trn1", "trn2", "trn3")
Operands = Mapping[str, TileSpec]


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from tensor_tensor_operators()
    yield from tensor_tensor_bits()
    yield from tensor_tensor_dtypes()
    yield from tensor_tensor_layouts()
    yield from power()
    yield from magnitudes()
    yield from tensor_scalar_operators()
    yield from tensor_scalar_stages()
    yield from tensor_scalar_bits()
    yield from tensor_scalar_patterns()
    yield from tensor_scalar_unary()
    yield from tensor_scalar_dtypes()
    yield from tensor_scalar_layouts()
    yield from reciprocals()


def crossed(dtype: str, shape: tuple[int, int], seed: int = 0) -> dict[str, Array]:
    """Return two operands that meet many pairs of edge values, equal ones and opposite ones among them."""
    left = fill(dtype, shape, seed)
    right = fill(dtype, shape, seed + 1)
    right[0] = left[0]
    if dtype in FLOAT_DTYPES:
        right[1] = -left[1]
    return {"data1": left, "data2": right}


def triple(dst: str, data1: str, data2: str, shape: tuple[int, ...] = SHAPE) -> dict[str, TileSpec]:
    return {"dst": tile(shape, dst), "data1": tile(shape, data1), "data2": tile(shape, data2)}


def tensor_tensor_operators() -> Iterator[Case]:
    for op in PLAIN:
        data = crossed("float32", SHAPE)
        yield one("tensor_tensor", f"{op}-fp32", triple("float32", "float32", "float32"), data=data, op=op)
        operands = triple("bfloat16", "bfloat16", "float16")
        yield one("tensor_tensor", f"{op}-bf16-fp16", operands, op=op, target="trn1")
        for dtype in ("int32", "uint32"):
            data = crossed(dtype, SHAPE, seed=3)
            operands = triple(dtype, dtype, dtype)
            yield one("tensor_tensor", f"{op}-{dtype}-exact", operands, data=data, op=op)
        yield one("tensor_tensor", f"{op}-uint32-vector", operands, data=data, op=op, engine="vector")
    for op in ("add", "subtract", "multiply", "equal", "less", "logical_and"):
        for dst in ("int32", "uint32"):
            operands = triple(dst, "int32", "uint32")
            yield one("tensor_tensor", f"{op}-mixed-{dst}", operands, op=op, target="trn3")
    for op in ("maximum", "minimum"):
        data = {"data1": moderate("int32", SHAPE, 1), "data2": moderate("uint32", SHAPE, 2)}
        yield one("tensor_tensor", f"{op}-mixed", triple("int32", "int32", "uint32"), data=data, op=op)


def tensor_tensor_bits() -> Iterator[Case]:
    for op, dtype in product(BIT_BINARY, INTEGER_DTYPES):
        left = fill(dtype, SHAPE, 1)
        right = fill(dtype, SHAPE, 2)
        if op.endswith("shift"):
            width = storage(dtype).itemsize * 8
            right[:8] = np.resize(np.arange(width + 3), (8, 25)).astype(storage(dtype))
        data = {"data1": left, "data2": right}
        yield one("tensor_tensor", f"{op}-{dtype}", triple(dtype, dtype, dtype), data=data, op=op)
    for op in ("bitwise_xor", "right_shift"):
        yield one("tensor_tensor", f"{op}-signs", triple("uint16", "int16", "int16"), op=op, target="trn1")
    operands = triple("uint32", "uint32", "uint32")
    yield one("tensor_tensor", "bitwise_and-vector", operands, op="bitwise_and", engine="vector")


def tensor_tensor_dtypes() -> Iterator[Case]:
    for number, dtype in enumerate(ARITHMETIC_DTYPES):
        other = ARITHMETIC_DTYPES[(number + 5) % len(ARITHMETIC_DTYPES)]
        yield one("tensor_tensor", f"add-{dtype}-{other}", triple("float32", dtype, other), op="add")
        yield one(
            "tensor_tensor", f"subtract-to-{dtype}", triple(dtype, "float32", "bfloat16"), op="subtract"
        )
        yield one(
            "tensor_tensor", f"multiply-{dtype}", triple(dtype, dtype, dtype), op="multiply", engine="vector"
        )
        yield one("tensor_tensor", f"greater-to-{dtype}", triple(dtype, "float32", "float32"), op="greater")
    operands = triple("float32", "float32", "int32")
    for engine in ("vector", "gpsimd"):
        yield one("tensor_tensor", f"add-{engine}", operands, op="add", engine=engine)
    yield one("tensor_tensor", "int32-to-fp32", triple("float32", "int32", "int32"), op="add")
    yield one("tensor_tensor", "int32-to-int8", triple("int8", "int32", "int32"), op="subtract")


def tensor_tensor_layouts() -> Iterator[Case]:
    window = (S(0, 8), S(1, 30, 3))
    shapes: dict[str, Operands] = {
        "one-element": triple("float32", "float32", "float32", (1, 1)),
        "strided": {
            "dst": tile((8, 10)),
            "data1": tile((8, 30), view=window),
            "data2": tile((8, 20), view=(S(0, 8), S(0, 20, 2))),
        },
        "strided-destination": {
            "dst": tile((8, 30), view=window),
            "data1": tile((8, 10)),
            "data2": tile((8, 10)),
        },
        "regrouped": {"dst": tile((4, 2, 15)), "data1": tile((4, 30)), "data2": tile((4, 5, 2, 3))},
        "broadcast": {
            "dst": tile((4, 5, 3)),
            "data1": tile((4, 5, 3)),
            "data2": tile((4, 1, 3), moves=(("broadcast", (1, 5)),)),
        },
        "psum-data1": {"dst": tile((8, 10)), "data1": tile((8, 10), space="psum"), "data2": tile((8, 10))},
        "psum-data2": {"dst": tile((8, 10)), "data1": tile((8, 10)), "data2": tile((8, 10), space="psum")},
        "psum-dst": {"dst": tile((8, 10), space="psum"), "data1": tile((8, 10)), "data2": tile((8, 10))},
        "in-place": {
            "dst": tile((8, 10), buffer="x"),
            "data1": tile((8, 10), buffer="x"),
            "data2": tile((8, 10), buffer="x"),
        },
        "overlap": {
            "dst": tile((8, 12), view=(S(0, 8), S(1, 11)), buffer="x"),
            "data1": tile((8, 12), view=(S(0, 8), S(0, 10)), buffer="x"),
            "data2": tile((8, 12), view=(S(0, 8), S(2, 12)), buffer="x"),
        },
        "quadrants": {
            "dst": tile((128, 4), view=(S(0, 32), S(0, 4))),
            "data1": tile((128, 4), view=(S(32, 64), S(0, 4)), buffer="x"),
            "data2": tile((128, 4), view=(S(32, 64), S(0, 4)), buffer="x"),
        },
    }
    for (name, operands), target in product(shapes.items(), ("trn1", "trn2")):
        yield one("tensor_tensor", name, operands, op="subtract", target=target)
    for name, partitions, rows in PARTITION_WINDOWS:
        spec = tile((partitions, 3), view=(rows, S(0, 3)))
        yield one("tensor_tensor", name, {"dst": spec, "data1": spec, "data2": spec}, op="multiply")
    for target in ("trn1", "trn3"):
        operands = triple("int32", "int32", "int32")
        yield one("tensor_tensor", "int32", operands, op="multiply", target=target)
    operands = {
        "dst": tile((8, 10), "int32", "psum"),
        "data1": tile((8, 10), "int32"),
        "data2": tile((8, 10), "int32"),
    }
    yield one("tensor_tensor", "int32-psum-falls-back", operands, op="add")


def power() -> Iterator[Case]:
    base, exponent = within(0.01, 9.0, SHAPE, 1), within(-5.0, 5.0, SHAPE, 2)
    base[0, :6] = [0.0, 0.0, 1.0, -2.0, -2.0, 4.0]
    exponent[0, :6] = [2.0, 0.0, 7.0, 3.0, 2.0, 0.5]
    data = {"data1": base, "data2": exponent}
    for target, engine in (("trn1", None), ("trn2", "gpsimd"), ("trn3", None)):
        operands = triple("float32", "float32", "float32")
        yield one("tensor_tensor", "power", operands, data=data, op="power", target=target, engine=engine)
    yield one("tensor_tensor", "power-bf16", triple("bfloat16", "float32", "float32"), data=data, op="power")
    small = {"data1": moderate("int8", SHAPE, 1) % 5, "data2": np.abs(moderate("int8", SHAPE, 2) % 4)}
    whole = {name: array.astype(np.int32) for name, array in small.items()}
    yield one("tensor_tensor", "power-int32", triple("int32", "int32", "int32"), data=whole, op="power")
    spec = {"dst": tile(SHAPE), "data": tile(SHAPE)}
    positive = {"data": within(1e-6, 1e6, SHAPE, 3)}
    for exponent0 in (0.5, -0.5, 2.0):
        numbers = {"operand0": 1e-3, "operand1": exponent0}
        name = f"add-power{exponent0}"
        yield one("tensor_scalar", name, spec, numbers=numbers, data=positive, op0="add", op1="power")


def magnitudes() -> Iterator[Case]:
    numbers = edge_values("float32")
    known = numbers[~np.isnan(numbers)]
    for op in MAGNITUDE:
        data = {"data1": np.resize(known, SHAPE), "data2": np.resize(known[::-1], SHAPE)}
        data["data2"][:4] = -data["data1"][:4]
        operands = triple("float32", "float32", "float32")
        yield one("tensor_tensor", op, operands, data=data, op=op, target="trn3")
        spec = {"dst": tile(SHAPE), "data": tile(SHAPE)}
        given = {"data": data["data1"]}
        yield one("tensor_scalar", op, spec, numbers={"operand0": -3.0}, data=given, op0=op, target="trn3")


def tensor_scalar_operators() -> Iterator[Case]:
    spec: dict[str, TileSpec] = {"dst": tile(SHAPE), "data": tile(SHAPE)}
    column = {**spec, "operand0": tile((SHAPE[0], 1))}
    for op in PLAIN:
        yield one("tensor_scalar", f"{op}-number", spec, numbers={"operand0": 1.5}, op0=op)
        yield one("tensor_scalar", f"{op}-column", column, op0=op, target="trn1")
        flipped = {"operand0": -2.5}
        yield one("tensor_scalar", f"{op}-reversed", spec, numbers=flipped, op0=op, reverse0=True)
        narrow = {"dst": tile(SHAPE, "bfloat16"), "data": tile(SHAPE, "float16")}
        yield one("tensor_scalar", f"{op}-fp16", narrow, numbers={"operand0": 0.1}, op0=op, target="trn3")
    scalars: tuple[Any, ...] = (np.float32(0.1), np.float64(0.1), np.int64(3), True)
    for number in (
        INF,
        -INF,
        math.nan,
        -0.0,
        2.0**-149,
        3.4028234663852886e38,
        16777217.0,
        0,
        3,
        2**24 + 1,
        *scalars,
    ):
        yield one(
            "tensor_scalar", f"multiply-by-{number!r}", spec, numbers={"operand0": number}, op0="multiply"
        )


def tensor_scalar_stages() -> Iterator[Case]:
    spec: dict[str, TileSpec] = {"dst": tile(SHAPE), "data": tile(SHAPE)}
    pairs = (("multiply", "add"), ("subtract", "multiply"), ("maximum", "minimum"), ("add", "greater"))
    for (op0, op1), reverse0, reverse1 in product(pairs, (False, True), (False, True)):
        name = f"{op0}-{op1}-{int(reverse0)}{int(reverse1)}"
        numbers = {"operand0": 1.1, "operand1": -0.7}
        attributes: Attributes = {"op0": op0, "op1": op1, "reverse0": reverse0, "reverse1": reverse1}
        yield one("tensor_scalar", name, spec, numbers=numbers, **attributes)
        if reverse0 != reverse1:
            column = (SHAPE[0], 1)
            columns = {**spec, "operand0": tile(column), "operand1": tile(column, space="psum")}
            yield one("tensor_scalar", f"{name}-columns", columns, target="trn1", **attributes)
    fused = {"data": np.full((2, 3), 1 + 2.0**-23, np.float32)}
    numbers = {"operand0": 1 + 2.0**-23, "operand1": -(1 + 2.0**-22)}
    small = {"dst": tile((2, 3)), "data": tile((2, 3))}
    for engine in ("vector", "scalar"):
        yield one(
            "tensor_scalar", f"not-fused-{engine}", small, numbers=numbers, data=fused, engine=engine,
            op0="multiply", op1="add",
        )  # fmt: skip
        for op in ("add", "multiply"):
            tenth = {"operand0": 0.1}
            yield one("tensor_scalar", f"{engine}-{op}", spec, numbers=tenth, engine=engine, op0=op)
    for op in LOGICAL:
        numbers = {"operand0": 0.0, "operand1": 1.0}
        yield one("tensor_scalar", f"equal-{op}", spec, numbers=numbers, op0="equal", op1=op)


def tensor_scalar_bits() -> Iterator[Case]:
    counts = {"left_shift": 3, "right_shift": 2, "bitwise_and": 0x5B, "bitwise_or": 0x21, "bitwise_xor": 0x7F}
    for dtype in INTEGER_DTYPES:
        spec: dict[str, TileSpec] = {"dst": tile(SHAPE, dtype), "data": tile(SHAPE, dtype)}
        for op, number in counts.items():
            yield one("tensor_scalar", f"{op}-{dtype}", spec, numbers={"operand0": number}, op0=op)
        yield one("tensor_scalar", f"invert-{dtype}", spec, op0="invert", target="trn1")
        numbers = {"operand0": 1, "operand1": 0x3C}
        yield one(
            "tensor_scalar", f"shift-and-{dtype}", spec, numbers=numbers, op0="right_shift", op1="bitwise_and"
        )
        width = storage(dtype).itemsize * 8
        for op in ("left_shift", "right_shift"):
            yield one("tensor_scalar", f"{op}-all-{dtype}", spec, numbers={"operand0": width - 1}, op0=op)
        name, counted = f"left_shift-reversed-{dtype}", {"operand0": 1}
        yield one("tensor_scalar", name, spec, numbers=counted, op0="left_shift", reverse0=True)
        column = {**spec, "operand0": tile((SHAPE[0], 1), dtype)}
        yield one("tensor_scalar", f"xor-column-{dtype}", column, op0="bitwise_xor")


def tensor_scalar_patterns() -> Iterator[Case]:
    """Yield bit operators with constants of all 32 bits, and on floats seen as integers."""
    for dtype, number in product(
        ("int32", "uint32"), (0xFF000000, 0x80000000, 0x7FFFFF, 2**32 - 1, 2**24 + 1)
    ):
        constant = number - 2**32 if dtype == "int32" and number >= 2**31 else number
        spec: dict[str, TileSpec] = {"dst": tile(SHAPE, dtype), "data": tile(SHAPE, dtype)}
        for op in ("bitwise_and", "bitwise_xor"):
            name = f"{op}-{constant}-{dtype}"
            yield one("tensor_scalar", name, spec, numbers={"operand0": constant}, op0=op)
    exponent = {"dst": tile(SHAPE, "int32"), "data": tile(SHAPE, moves=seen_as("int32"))}
    numbers = {"operand0": 23, "operand1": 0xFF}
    yield one("tensor_scalar", "exponent", exponent, numbers=numbers, op0="right_shift", op1="bitwise_and")
    sign = {"dst": tile(SHAPE, "bfloat16", moves=seen_as("uint16")), "data": tile(SHAPE, "uint16")}
    yield one("tensor_scalar", "sign-flip", sign, numbers={"operand0": 0x8000}, op0="bitwise_xor")


def tensor_scalar_unary() -> Iterator[Case]:
    spec: dict[str, TileSpec] = {"dst": tile(SHAPE), "data": tile(SHAPE)}
    positive = {"data": within(2.0**-80, 2.0**90, SHAPE, 1)}
    for target in TARGETS:
        yield one("tensor_scalar", "abs", spec, op0="abs", target=target)
        yield one("tensor_scalar", "abs-0", spec, numbers={"operand0": 0.0}, op0="abs", target=target)
        yield one("tensor_scalar", "reciprocal", spec, op0="reciprocal", target=target)
        for engine in ("gpsimd", None):
            yield one(
                "tensor_scalar",
                f"rsqrt-{engine}",
                spec,
                data=positive,
                engine=engine,
                op0="rsqrt",
                target=target,
            )
    for op in ("square", "relu"):
        yield one("tensor_scalar", op, spec, op0=op, target="trn3")
        numbers = {"operand1": 2.0}
        yield one("tensor_scalar", f"{op}-add", spec, numbers=numbers, op0=op, op1="add", target="trn3")
    numbers = {"operand1": 3.0}
    data = {"data": within(0.01, 100.0, SHAPE, 2)}
    yield one(
        "tensor_scalar", "rsqrt-multiply", spec, numbers=numbers, data=data, op0="rsqrt", op1="multiply"
    )
    yield one("tensor_scalar", "abs-maximum", spec, numbers=numbers, op0="abs", op1="maximum")
    yield one(
        "tensor_scalar", "abs-int8", {"dst": tile(SHAPE, "int8"), "data": tile(SHAPE, "int8")}, op0="abs"
    )


def tensor_scalar_dtypes() -> Iterator[Case]:
    for dtype in ARITHMETIC_DTYPES:
        numbers = {"operand0": 0.75, "operand1": 0.5}
        source = {"dst": tile(SHAPE), "data": tile(SHAPE, dtype)}
        yield one("tensor_scalar", f"from-{dtype}", source, numbers=numbers, op0="multiply", op1="add")
        target = {"dst": tile(SHAPE, dtype), "data": tile(SHAPE)}
        yield one("tensor_scalar", f"to-{dtype}", target, numbers=numbers, op0="multiply", op1="add")
        same = {"dst": tile(SHAPE, dtype), "data": tile(SHAPE, dtype)}
        yield one(
            "tensor_scalar", f"same-{dtype}", same, numbers={"operand0": 1.0}, op0="add", engine="vector"
        )


def tensor_scalar_layouts() -> Iterator[Case]:
    shapes: dict[str, Operands] = {
        "one-element": {"dst": tile((1, 1)), "data": tile((1, 1)), "operand0": tile((1, 1))},
        "strided": {
            "dst": tile((8, 20), view=(S(0, 8), S(0, 20, 2))),
            "data": tile((8, 30), view=(S(0, 8), S(2, 30, 3))),
            "operand0": tile((8, 5), view=(S(0, 8), S(3, 4))),
        },
        "cube": {"dst": tile((8, 2, 3, 4)), "data": tile((8, 24)), "operand0": tile((8, 1))},
        "psum": {
            "dst": tile((8, 10), space="psum"),
            "data": tile((8, 10), space="psum"),
            "operand0": tile((8, 1), space="psum"),
        },
        "in-place": {
            "dst": tile((8, 11), view=(S(0, 8), S(0, 10)), buffer="x"),
            "data": tile((8, 11), view=(S(0, 8), S(1, 11)), buffer="x"),
            "operand0": tile((8, 11), view=(S(0, 8), S(0, 1)), buffer="x"),
        },
        "bf16-cube": {
            "dst": tile((8, 3, 4), "bfloat16"),
            "data": tile(
                (8, 4, 3),
                "bfloat16",
                moves=permuted(0, 2, 1),
            ),
            "operand0": tile((8, 1)),
        },
    }
    for (name, operands), target in product(shapes.items(), TARGETS):
        yield one("tensor_scalar", name, operands, op0="subtract", target=target)
    for name, partitions, rows in PARTITION_WINDOWS:
        spec = tile((partitions, 3), view=(rows, S(0, 3)))
        column = tile((partitions, 1), view=(rows, S(0, 1)))
        yield one("tensor_scalar", name, {"dst": spec, "data": spec, "operand0": column}, op0="multiply")


def reciprocals() -> Iterator[Case]:
    for dtype in ARITHMETIC_DTYPES:
        yield one("reciprocal", f"from-{dtype}", {"dst": tile(SHAPE), "data": tile(SHAPE, dtype)})
        yield one("reciprocal", f"to-{dtype}", {"dst": tile(SHAPE, dtype), "data": tile(SHAPE)})
    window = tile((8, 30), view=(S(0, 8), S(1, 30, 4)))
    for target in TARGETS:
        yield one("reciprocal", "strided", {"dst": tile((8, 8)), "data": window}, target=target)
        spec = {"dst": tile((3, 7), space="psum"), "data": tile((3, 7), space="psum")}
        yield one("reciprocal", "psum", spec, target=target)
    yield one("reciprocal", "one-element", {"dst": tile((1, 1)), "data": tile((1, 1))})
    yield one("reciprocal", "all", {"dst": tile((128, 4)), "data": tile((128, 2, 2))})
    yield one("reciprocal", "in-place", {"dst": tile((5, 9), buffer="x"), "data": tile((5, 9), buffer="x")})

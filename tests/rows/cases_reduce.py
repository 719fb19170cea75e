"""Cases of tensor_reduce and activation, the accumulating sequences of the latter included."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.rows.cases import (
    PARTITION_WINDOWS,
    Attributes,
    Call,
    Case,
    S,
    TileSpec,
    case,
    one,
    ordinary,
    permuted,
    tile,
)
from tests.rows.conversions import ARITHMETIC_DTYPES, INTEGER_DTYPES, Array
from tests.rows.edge_values import within
from tests.rows.oracle_activation import FUNCTIONS, VALID
from tests.rows.oracle_alu import BIT_REDUCTIONS, REDUCTIONS

SHAPE = (16, 25)
TARGETS = ("trn1", "trn2", "trn3")


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from reduce_operators()
    yield from reduce_axes()
    yield from reduce_layouts()
    yield from functions()
    yield from activation_operands()
    yield from activation_layouts()
    yield from accumulations()


def reduce_operators() -> Iterator[Case]:
    exact = ("maximum", "minimum", "logical_and", "logical_or", "logical_xor")
    for op, dtype in product(REDUCTIONS, ("float32", "bfloat16", "int32", "uint8", "float8_e4m3")):
        operands = {"dst": tile((16, 5), dtype), "data": tile((16, 5, 5), dtype)}
        if op in exact:
            yield one("tensor_reduce", f"{op}-{dtype}-edges", operands, op=op, axis=2)
        yield one("tensor_reduce", f"{op}-{dtype}", operands, how=ordinary, op=op, axis=2, target="trn3")
    for op in REDUCTIONS:
        wide = {"dst": tile((16, 1)), "data": tile((16, 25))}
        yield one("tensor_reduce", f"{op}-negated", wide, how=ordinary, op=op, axis=1, negate=True)
    for op, dtype in product(BIT_REDUCTIONS, INTEGER_DTYPES):
        operands = {"dst": tile((16, 1), dtype), "data": tile((16, 25), dtype)}
        yield one("tensor_reduce", f"{op}-{dtype}", operands, op=op, axis=1)
    for dtype in ARITHMETIC_DTYPES:
        operands = {"dst": tile((16, 1), dtype), "data": tile((16, 25), dtype)}
        yield one("tensor_reduce", f"maximum-{dtype}-target", operands, op="maximum", axis=1, target="trn1")
    ones = {"data": np.ones((2, 2048), np.float32)}
    operands = {"dst": tile((2, 1), "bfloat16"), "data": tile((2, 2048))}
    yield one("tensor_reduce", "add-many-ones", operands, data=ones, op="add", axis=1)


def reduce_axes() -> Iterator[Case]:
    free = (3, 4, 5)
    forms: tuple[tuple[str, object, int], ...] = (
        ("int", 3, 3), ("tuple", (3,), 3), ("two", (2, 3), 2), ("three", (1, 2, 3), 1), ("list", [2, 3], 2),
        ("list-all", [1, 2, 3], 1),
    )  # fmt: skip
    for (name, axis, first), keepdims in product(forms, (False, True)):
        kept = free[: first - 1]
        shape = (6, *kept, *((1,) * (4 - first))) if keepdims else (6, *(kept or (1,)))
        operands = {"dst": tile(shape), "data": tile((6, *free))}
        attributes: Attributes = {"op": "add", "axis": axis, "keepdims": keepdims}
        yield one("tensor_reduce", f"{name}-keep{int(keepdims)}", operands, how=ordinary, **attributes)
    flat = {"dst": tile((6, 12)), "data": tile((6, *free))}
    yield one("tensor_reduce", "flat-destination", flat, how=ordinary, op="minimum", axis=3)


def reduce_layouts() -> Iterator[Case]:
    shapes: dict[str, dict[str, TileSpec]] = {
        "one-element": {"dst": tile((1, 1)), "data": tile((1, 1))},
        "one-long": {"dst": tile((3, 7)), "data": tile((3, 7, 1))},
        "strided": {
            "dst": tile((8, 10), view=(S(0, 8), S(1, 10, 3))),
            "data": tile((8, 3, 20), view=(S(0, 8), S(0, 3), S(1, 20, 4))),
        },
        "permuted": {
            "dst": tile((8, 5)),
            "data": tile(
                (8, 6, 5),
                moves=permuted(0, 2, 1),
            ),
        },
        "psum": {"dst": tile((8, 2), space="psum"), "data": tile((8, 2, 30), space="psum")},
        "in-place": {
            "dst": tile((8, 6), view=(S(0, 8), S(2, 3)), buffer="x"),
            "data": tile((8, 6), buffer="x"),
        },
    }
    for (name, operands), target, op in product(shapes.items(), ("trn1", "trn3"), ("add", "maximum")):
        spec = operands["data"]
        axis = len(spec.shape) - 1
        yield one("tensor_reduce", f"{op}-{name}", operands, how=ordinary, op=op, axis=axis, target=target)
    for name, partitions, rows in PARTITION_WINDOWS:
        data = tile((partitions, 9), view=(rows, S(0, 9)))
        dst = tile((partitions, 1), view=(rows, S(0, 1)))
        yield one("tensor_reduce", name, {"dst": dst, "data": data}, how=ordinary, op="add", axis=1)


def inputs(op: str, shape: tuple[int, int] = SHAPE) -> dict[str, Array]:
    """Return contents for a function of limited valid range, nothing for the others: all edge values."""
    if op not in VALID:
        return {}
    low, high = VALID[op]
    data = within(low, high, shape, seed=len(op))
    if op == "reciprocal":
        data[::2] *= -1
    if op in ("sin", "arctan"):
        data[0, 1:5] = [0.0, -0.0, 2.0**-149, -(2.0**-126)]
    return {"data": data}


def functions() -> Iterator[Case]:
    for op in FUNCTIONS:
        spec: dict[str, TileSpec] = {"dst": tile(SHAPE), "data": tile(SHAPE)}
        yield one("activation", f"{op}-fp32", spec, data=inputs(op), op=op)
        narrow: dict[str, TileSpec] = {"dst": tile(SHAPE, "bfloat16"), "data": tile(SHAPE)}
        yield one("activation", f"{op}-to-bf16", narrow, data=inputs(op), op=op, target="trn1")
        ordinary_range = {"data": within(-9.0, 9.0, SHAPE, 3)} if op not in VALID else inputs(op)
        yield one("activation", f"{op}-ordinary", spec, data=ordinary_range, op=op)
    outside = {"data": np.array([[9.0, -9.0]], np.float32)}
    two = {"dst": tile((1, 2)), "data": tile((1, 2))}
    for target in TARGETS:
        yield one("activation", "sin-nine", two, data=outside, op="sin", target=target)
    for op in ("log", "sqrt", "rsqrt", "reciprocal", "sin", "arctan"):
        nan = {"data": np.full((1, 2), math.nan, np.float32)}
        yield one("activation", f"{op}-nan", two, data=nan, op=op)


def activation_operands() -> Iterator[Case]:
    spec: dict[str, TileSpec] = {"dst": tile(SHAPE), "data": tile(SHAPE)}
    column = (SHAPE[0], 1)
    for op in ("copy", "exp", "square", "gelu"):
        data = {"data": within(-4.0, 4.0, SHAPE, 5)}
        yield one("activation", f"{op}-scale", spec, numbers={"scale": 0.3}, data=data, op=op)
        numbers = {"scale": -1.7, "bias": 0.25}
        yield one("activation", f"{op}-scale-bias", spec, numbers=numbers, data=data, op=op, target="trn3")
        columns = {**spec, "scale": tile(column), "bias": tile(column)}
        for target in TARGETS:
            yield one("activation", f"{op}-columns", columns, data=data, how=ordinary, op=op, target=target)
    for dtype in ARITHMETIC_DTYPES:
        if dtype != "tfloat32":
            columns = {**spec, "bias": tile(column, dtype)}
            yield one("activation", f"bias-{dtype}", columns, how=ordinary, op="copy", target="trn1")
        from_dtype = {"dst": tile(SHAPE), "data": tile(SHAPE, dtype)}
        yield one("activation", f"from-{dtype}", from_dtype, op="copy")
        to_dtype = {"dst": tile(SHAPE, dtype), "data": tile(SHAPE)}
        yield one("activation", f"to-{dtype}", to_dtype, op="copy")
        yield one(
            "activation", f"same-{dtype}", {"dst": tile(SHAPE, dtype), "data": tile(SHAPE, dtype)}, op="relu"
        )
    yield one("activation", "psum-columns", {
        "dst": tile(SHAPE, space="psum"), "data": tile(SHAPE, space="psum"),
        "scale": tile(column, space="psum"), "bias": tile(column, space="psum"),
    }, how=ordinary, op="copy")  # fmt: skip


def activation_layouts() -> Iterator[Case]:
    shapes: dict[str, dict[str, TileSpec]] = {
        "one-element": {"dst": tile((1, 1)), "data": tile((1, 1))},
        "strided": {
            "dst": tile((8, 20), view=(S(0, 8), S(1, 20, 2))),
            "data": tile((8, 30), view=(S(0, 8), S(0, 30, 3))),
        },
        "regrouped": {"dst": tile((8, 2, 15)), "data": tile((8, 30))},
        "overlap": {
            "dst": tile((8, 12), view=(S(0, 8), S(1, 12)), buffer="x"),
            "data": tile((8, 12), view=(S(0, 8), S(0, 11)), buffer="x"),
        },
        "psum-to-sbuf": {"dst": tile((8, 30)), "data": tile((8, 30), space="psum")},
        "sbuf-to-psum": {"dst": tile((8, 30), space="psum"), "data": tile((8, 30))},
    }
    for (name, operands), target in product(shapes.items(), TARGETS):
        yield one("activation", name, operands, op="tanh", target=target)
    for name, partitions, rows in PARTITION_WINDOWS:
        spec = tile((partitions, 3), view=(rows, S(0, 3)))
        column = tile((partitions, 1), view=(rows, S(0, 1)))
        yield one("activation", name, {"dst": spec, "data": spec, "bias": column}, how=ordinary, op="sigmoid")


def accumulations() -> Iterator[Case]:
    commands: dict[str, tuple[str, ...]] = {
        "one": ("reset_reduce",),
        "two": ("reset_reduce", "reduce"),
        "kept": ("reset_reduce", "idle", "reduce"),
        "cleared": ("reset_reduce", "reset", "reduce"),
        "again": ("reset_reduce", "reduce", "reset_reduce", "reduce", "reduce"),
        "reset-only": ("reset_reduce", "reset"),
    }
    for (name, chain), op, target in product(commands.items(), ("copy", "exp"), ("trn1", "trn2")):
        yield case(f"{name}-{op}", *_chain(chain, op, "float32"), how=ordinary, target=target)
    yield case("every-step-read", *_chain(commands["again"], "square", "float32", every=True), how=ordinary)
    yield case("bf16-tiles", *_chain(commands["two"], "exp", "bfloat16"), how=ordinary)
    yield case(
        "fp8-destination", *_chain(commands["two"], "copy", "float8_e4m3"), how=ordinary, target="trn3"
    )
    cube = {"dst": tile((7, 2, 15)), "data": tile((7, 5, 6)), "reduce_res": tile((7, 1))}
    attributes: Attributes = {"op": "copy", "reduce_op": "add", "reduce_cmd": "reset_reduce"}
    yield one("activation", "cube-reduced", cube, how=ordinary, **attributes)
    last = {
        "dst": tile((7, 6), view=(S(0, 7), S(0, 5)), buffer="x"),
        "data": tile((7, 5)),
        "reduce_res": tile((7, 6), view=(S(0, 7), S(5, 6)), buffer="x"),
    }
    yield one("activation", "result-beside", last, how=ordinary, **attributes)
    # release notes 0.6.0: "a reduce_res tile that aliases dst no longer clobbers the reduction result"
    alias = {**last, "reduce_res": tile((7, 6), view=(S(0, 7), S(0, 1)), buffer="x")}
    yield one("activation", "result-aliases-dst", alias, how=ordinary, **attributes)
    psum = {"dst": tile((7, 5)), "data": tile((7, 5)), "reduce_res": tile((7, 1), space="psum")}
    yield one("activation", "result-in-psum", psum, how=ordinary, **attributes)


def _chain(commands: tuple[str, ...], op: str, dtype: str, *, every: bool = False) -> list[Call]:
    """Return calls that go through `commands`; the last one (or every one) reads the registers."""
    calls = []
    for number, command in enumerate(commands):
        operands = {
            "dst": tile((9, 11), dtype, buffer=f"dst{number}"),
            "data": tile((9, 11), buffer=f"data{number}"),
        }
        if every or number == len(commands) - 1:
            operands["reduce_res"] = tile((9, 1), buffer=f"sum{number}")
        attributes: Attributes = {"op": op, "reduce_op": "add", "reduce_cmd": command}
        calls.append(Call("activation", operands, {"scale": 0.5 + number}, attributes))
    return calls

"""Cases of `select_reduce`, `tensor_copy_predicated` and `activation_reduce`, and calls that they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from tests.rows.cases import (
    PARTITION_WINDOWS,
    Attributes,
    Call,
    Case,
    Illegal,
    S,
    TileSpec,
    case,
    one,
    ordinary,
    permuted,
    tile,
)
from tests.rows.conversions import ARITHMETIC_DTYPES, FLOAT_DTYPES
from tests.rows.edge_values import within

Operands = dict[str, TileSpec]

SHAPE = (16, 25)
TARGETS = ("trn1", "trn2", "trn3")
SELECT_PREDICATES = ("int8", "uint8", "int16", "uint16")
COPY_PREDICATES = ("uint8", "uint16", "uint32")
SELECTABLE = tuple(d for d in ARITHMETIC_DTYPES if d not in ("tfloat32", "int32", "uint32"))


def cases() -> Iterator[Case]:
    """Yield all legal cases of this module."""
    yield from selections()
    yield from selection_layouts()
    yield from reductions()
    yield from copies()
    yield from copy_layouts()
    yield from activations()


def refused() -> Iterator[Illegal]:
    """Yield the calls that break one rule each."""
    yield from refused_selections()
    yield from refused_copies()
    yield from refused_activations()


# select_reduce --------------------------------------------------------------------------------------------


def picking(
    shape: tuple[int, ...] = SHAPE,
    dtype: str = "float32",
    predicate: str | TileSpec = "uint8",
    **others: TileSpec,
) -> Operands:
    """Return the operands of a selection; `others` replace or join them."""
    whole = tile(shape, dtype)
    return {"dst": whole, "predicate": condition(shape, predicate), "on_true": whole, **others}


def condition(shape: tuple[int, ...], predicate: str | TileSpec) -> TileSpec:
    """Return the predicate's tile: of that dtype, or as it stands."""
    return predicate if isinstance(predicate, TileSpec) else tile(shape, predicate)


def selections() -> Iterator[Case]:
    row = "select_reduce"
    for predicate, reverse in product(SELECT_PREDICATES, (False, True)):
        name = f"{predicate}-reverse{int(reverse)}"
        numbers = {"on_false": -2.5}
        yield one(row, name, picking(predicate=predicate), numbers=numbers, reverse_pred=reverse)
        vector = picking(predicate=predicate, on_false=tile((16, 1)))
        yield one(row, f"{name}-vector", vector, reverse_pred=reverse)
    for dtype in SELECTABLE:
        yield one(row, f"{dtype}-same", picking(dtype=dtype), numbers={"on_false": 1.0})
        if dtype in FLOAT_DTYPES:
            widened = picking(dtype=dtype, dst=tile(SHAPE))
            yield one(row, f"{dtype}-to-float32", widened, numbers={"on_false": 0.1}, target="trn3")
        narrowed = picking(dst=tile(SHAPE, dtype), on_false=tile((16, 1)))
        yield one(row, f"float32-to-{dtype}", narrowed, target="trn1")
    for name, value in (
        ("inf", float("-inf")), ("negative-zero", -0.0), ("tenth", 0.1), ("fp32-min", -3.4028234663852886e38),
    ):  # fmt: skip
        yield one(row, f"on-false-{name}", picking(), numbers={"on_false": value})
    for dtype in ("bfloat16", "float16", "int8"):
        yield one(row, f"on-false-{dtype}", picking(on_false=tile((16, 1), dtype)))


def selection_layouts() -> Iterator[Case]:
    row = "select_reduce"
    psum: dict[str, Operands] = {
        "on-true-in-psum": picking(on_true=tile(SHAPE, space="psum")),
        "dst-in-psum": picking(dst=tile(SHAPE, space="psum")),
        "dst-and-on-true-in-psum": picking(dst=tile(SHAPE, space="psum"), on_true=tile(SHAPE, space="psum")),
        "predicate-in-psum": picking(predicate=tile(SHAPE, "uint8", "psum")),
    }
    shapes: dict[str, Operands] = {
        "one-element": picking((1, 1)),
        "cube": picking((8, 3, 4)),
        # 0.6.0: "ranks may differ … when the free counts agree"
        "regrouped": picking((8, 12), on_true=tile((8, 3, 4)), predicate=tile((8, 2, 6), "uint8")),
        "permuted": picking((8, 3, 4), on_true=tile((8, 4, 3), moves=permuted(0, 2, 1))),
        "strided": picking(
            (8, 5),
            dst=tile((8, 12), view=(S(0, 8), S(1, 11, 2))),
            predicate=tile((8, 10), "uint8", view=(S(0, 8), S(0, 10, 2))),
        ),
        "in-place": picking((8, 6), dst=tile((8, 6), buffer="x"), on_true=tile((8, 6), buffer="x")),
        "overlap": picking(
            (8, 6),
            dst=tile((8, 9), view=(S(0, 8), S(3, 9)), buffer="x"),
            on_true=tile((8, 9), view=(S(0, 8), S(0, 6)), buffer="x"),
        ),
    }
    for (name, operands), target in product({**psum, **shapes}.items(), ("trn1", "trn2")):
        yield one(row, name, operands, numbers={"on_false": 7.0}, target=target)
    for name, partitions, rows in PARTITION_WINDOWS:
        view = (rows, S(0, 5))
        windowed: Operands = {
            "dst": tile((partitions, 5), view=view),
            "predicate": tile((partitions, 5), "uint8", view=view),
            "on_true": tile((partitions, 5), view=view),
            "on_false": tile((partitions, 1), view=(rows, S(0, 1))),
        }
        yield one(row, name, windowed)


def reductions() -> Iterator[Case]:
    chains: dict[str, tuple[str, ...]] = {
        "one": ("reset_reduce",),
        "three": ("reset_reduce", "reduce", "reduce"),
        "again": ("reset_reduce", "reduce", "reset_reduce", "reduce"),
        "idle-first": ("idle", "reset_reduce"),
        # "Always use reset_reduce after any operations that ran with idle mode"
        "idle-between": ("reset_reduce", "idle", "reset_reduce", "reduce"),
    }
    for (name, chain), target, finite in product(chains.items(), ("trn1", "trn3"), (True, False)):
        how = {"how": ordinary} if finite else {}
        full = f"reduce-{name}-{'finite' if finite else 'edges'}"
        yield case(full, *selecting(chain), target=target, **how)  # type: ignore[arg-type]  # a `Fill` or none
    yield case("reduce-every-step-read", *selecting(chains["three"], every=True), how=ordinary)
    for dtype in FLOAT_DTYPES:
        calls = selecting(chains["three"], result=dtype)
        yield case(f"reduce-result-{dtype}", *calls, how=ordinary, target="trn3")
    for dtype in ("bfloat16", "int8", "uint16", "float8_e4m3"):
        yield case(f"reduce-from-{dtype}", *selecting(chains["one"], dtype=dtype), how=ordinary)
    reverse = selecting(chains["three"], reverse_pred=True)
    yield case("reduce-reverse", *reverse, how=ordinary)
    # the result is reduced before it is cast: 0.1 stays fp32's beside a bf16 destination
    calls = selecting(chains["one"], dtype="bfloat16", on_false=0.1)
    none = {"predicate0": np.zeros((9, 11), np.uint8)}
    yield case("reduce-before-cast", *calls, data=none, how=ordinary)
    cube = picking((7, 5, 6), reduce_res=tile((7, 1)))
    numbers = {"on_false": -9.0}
    attributes: Attributes = {"reduce_cmd": "reset_reduce", "reduce_op": "maximum"}
    yield one("select_reduce", "reduce-cube", cube, numbers=numbers, how=ordinary, **attributes)
    psum = picking((7, 5), reduce_res=tile((7, 1), space="psum"))
    yield one("select_reduce", "reduce-to-psum", psum, numbers=numbers, how=ordinary, **attributes)


def selecting(
    chain: tuple[str, ...], *, dtype: str = "float32", result: str = "float32", every: bool = False,
    on_false: float = -0.5, **attributes: Any,
) -> list[Call]:  # fmt: skip
    """Return selections that go through the commands; the last one (or every one) reads the registers."""
    calls = []
    for number, command in enumerate(chain):
        operands: Operands = {
            "dst": tile((9, 11), dtype, buffer=f"dst{number}"),
            "predicate": tile((9, 11), "uint8", buffer=f"predicate{number}"),
            "on_true": tile((9, 11), dtype, buffer=f"on_true{number}"),
        }
        if command != "idle" and (every or number == len(chain) - 1):
            operands["reduce_res"] = tile((9, 1), result, buffer=f"best{number}")
        given: Attributes = {"reduce_cmd": command, **attributes}
        calls.append(Call("select_reduce", operands, {"on_false": on_false - number}, given))
    return calls


# tensor_copy_predicated -----------------------------------------------------------------------------------


def copying(
    shape: tuple[int, ...] = SHAPE,
    dtype: str = "float32",
    predicate: str | TileSpec = "uint8",
    **others: TileSpec,
) -> Operands:
    """Return the operands of a predicated copy from a tile; `others` replace them."""
    whole = tile(shape, dtype)
    return {"dst": whole, "src": whole, "predicate": condition(shape, predicate), **others}


def without_src(operands: Operands) -> Operands:
    """Return the operands of a copy from a number."""
    return {role: spec for role, spec in operands.items() if role != "src"}


def copies() -> Iterator[Case]:
    row = "tensor_copy_predicated"
    for number, (dtype, reverse) in enumerate(product(ARITHMETIC_DTYPES, (False, True))):
        predicate = COPY_PREDICATES[number % 3]
        operands = copying(dtype=dtype, predicate=predicate)
        target = TARGETS[number % 3]
        yield one(row, f"{dtype}-reverse{int(reverse)}", operands, target=target, reverse_pred=reverse)
    for predicate, reverse in product(COPY_PREDICATES, (False, True)):
        operands = copying(predicate=predicate)
        yield one(row, f"by-{predicate}-reverse{int(reverse)}", operands, reverse_pred=reverse)
        operands = without_src(operands)
        yield one(
            row, f"number-by-{predicate}-reverse{int(reverse)}", operands,
            numbers={"src": 0.1}, reverse_pred=reverse,
        )  # fmt: skip
    # one bit anywhere in a predicate's element makes it true
    single = {"predicate": (2 ** np.arange(32, dtype=np.uint32)).reshape(1, 32)}
    yield one(row, "single-bits", copying((1, 32), predicate="uint32"), data=single)
    for dtype, value in (
        ("float32", -0.0), ("float32", float("-inf")), ("bfloat16", 0.1), ("float16", 1e6), ("int32", -7),
        ("int8", -128), ("uint8", 255), ("float8_e4m3", 0.3),
    ):  # fmt: skip
        operands = without_src(copying(dtype=dtype))
        yield one(row, f"{dtype}-{value}", operands, numbers={"src": value})


def copy_layouts() -> Iterator[Case]:
    row = "tensor_copy_predicated"
    shapes: dict[str, Operands] = {
        "src-in-psum": copying(src=tile(SHAPE, space="psum")),
        "predicate-in-psum": copying(predicate=tile(SHAPE, "uint8", "psum")),
        "dst-in-psum": copying(dst=tile(SHAPE, space="psum")),
        "dst-and-src-in-psum": copying(dst=tile(SHAPE, space="psum"), src=tile(SHAPE, space="psum")),
        "one-element": copying((1, 1)),
        "cube": copying((8, 3, 4)),
        # 0.6.0: "ranks may differ … when the free counts agree"
        "regrouped": copying((8, 12), src=tile((8, 3, 4)), predicate=tile((8, 2, 6), "uint8")),
        "strided": copying(
            (8, 5),
            dst=tile((8, 12), view=(S(0, 8), S(1, 11, 2))),
            src=tile((8, 10), view=(S(0, 8), S(0, 10, 2))),
        ),
        "permuted": copying((8, 3, 4), dst=tile((8, 4, 3), moves=permuted(0, 2, 1))),
        "overlap": copying(
            (8, 6),
            dst=tile((8, 9), view=(S(0, 8), S(3, 9)), buffer="x"),
            src=tile((8, 9), view=(S(0, 8), S(0, 6)), buffer="x"),
        ),
    }
    for (name, operands), target in product(shapes.items(), ("trn1", "trn3")):
        yield one(row, name, operands, target=target)
    for name, partitions, rows in PARTITION_WINDOWS:
        view = (rows, S(0, 5))
        windowed = {key: tile((partitions, 5), view=view) for key in ("dst", "src")}
        yield one(row, name, {**windowed, "predicate": tile((partitions, 5), "uint8", view=view)})
    # a second copy where the first did not, and both keep the rest
    first = Call(row, copying((8, 6), dst=tile((8, 6), buffer="x")), {}, {})
    second = Call(row, copying((8, 6), dst=tile((8, 6), buffer="x"), src=tile((8, 6), buffer="y")), {}, {
        "reverse_pred": True,
    })  # fmt: skip
    yield case("both-branches", first, second)


# activation_reduce ----------------------------------------------------------------------------------------


def activations() -> Iterator[Case]:
    row = "activation_reduce"
    add: Attributes = {"reduce_op": "add"}
    column = (16, 1)
    spec: Operands = {"dst": tile(SHAPE), "data": tile(SHAPE), "reduce_res": tile(column)}
    for op, target in product(("copy", "exp", "square", "relu", "gelu"), TARGETS):
        data = {"data": within(-4.0, 4.0, SHAPE, 5)}
        yield one(row, f"{op}-plain", spec, data=data, op=op, target=target, **add)
        columns = {**spec, "scale": tile(column), "bias": tile(column)}
        yield one(row, f"{op}-columns", columns, data=data, how=ordinary, op=op, target=target, **add)
    numbers = {"scale": -1.7, "bias": 0.25}
    yield one(row, "numbers", spec, numbers=numbers, how=ordinary, op="exp", **add)
    yield one(row, "edges", spec, op="copy", **add)
    for dtype in ("bfloat16", "int32", "float8_e4m3"):
        narrow = {**spec, "dst": tile(SHAPE, dtype), "data": tile(SHAPE, dtype)}
        yield one(row, dtype, narrow, how=ordinary, op="copy", **add)
        result = {**spec, "reduce_res": tile(column, dtype)}
        yield one(row, f"result-{dtype}", result, how=ordinary, op="square", **add)
    shapes: dict[str, Operands] = {
        "cube": {"dst": tile((7, 2, 15)), "data": tile((7, 5, 6)), "reduce_res": tile((7, 1))},
        "psum": {**spec, "data": tile(SHAPE, space="psum"), "reduce_res": tile(column, space="psum")},
        "one-element": {"dst": tile((1, 1)), "data": tile((1, 1)), "reduce_res": tile((1, 1))},
        "all-partitions": {"dst": tile((128, 3)), "data": tile((128, 3)), "reduce_res": tile((128, 1))},
    }
    for name, operands in shapes.items():
        yield one(row, name, operands, how=ordinary, op="copy", **add)
    # the registers are those of `activation`: reset by this call, then summed on and read by the other
    begun = Call(row, {"dst": tile((9, 11), buffer="a"), "data": tile((9, 11), buffer="b"),
                       "reduce_res": tile((9, 1), buffer="s")}, {}, {"op": "copy", **add})  # fmt: skip
    more: Operands = {"dst": tile((9, 11), buffer="c"), "data": tile((9, 11), buffer="d"),
                      "reduce_res": tile((9, 1), buffer="t")}  # fmt: skip
    summed = Call("activation", more, {}, {"op": "square", "reduce_cmd": "reduce", **add})
    again = Call(row, {"dst": tile((9, 11), buffer="a"), "data": tile((9, 11), buffer="b"),
                       "reduce_res": tile((9, 1), buffer="u")}, {}, {"op": "square", **add})  # fmt: skip
    yield case("then-activation", begun, summed, how=ordinary)
    # "Pass None to keep the reduction result in the Scalar Engine's internal accumulator"
    kept = Call(row, {role: spec for role, spec in begun.operands.items() if role != "reduce_res"}, {},
                {"op": "copy", "reduce_res": None, **add})  # fmt: skip
    yield case("kept", kept, summed, how=ordinary)
    yield case("resets", begun, summed, again, how=ordinary)


# Refused --------------------------------------------------------------------------------------------------


def bad(
    rules: str, instruction: str, operands: Operands, name: str, *, target: str = "trn2",
    numbers: dict[str, float | int] | None = None, **attributes: Any,
) -> Illegal:  # fmt: skip
    """Return the illegal call; `rules` are ids joined by a bar, the likeliest first."""
    call = Call(instruction, operands, numbers or {}, attributes)
    return Illegal(case(name, call, target=target, how=ordinary), tuple(rules.split("|")))


def refused_selections() -> Iterator[Illegal]:
    row, number = "select_reduce", {"on_false": 0.0}
    small = (4, 6)
    psum = picking(small, on_true=tile(small, space="psum"), predicate=tile(small, "uint8", "psum"))
    yield bad("SELECT_REDUCE-01", row, psum, "both-in-psum", numbers={"on_false": 0.0})
    for key, spec in (
        ("predicate", tile((4, 5), "uint8")), ("on_true", tile((4, 5))), ("dst", tile((4, 7))),
        ("on_true", tile((5, 6))), ("predicate", tile((1, 6), "uint8")),
    ):  # fmt: skip
        operands = picking(small) | {key: spec}
        name = f"{key}-{spec.shape[0]}x{spec.shape[1]}"
        yield bad("SELECT_REDUCE-02|GEN-12", row, operands, name, numbers={"on_false": 0.0})
    for dtype in ("tfloat32", "int32", "uint32"):
        operands = picking(small, on_true=tile(small, dtype))
        yield bad("SELECT_REDUCE-03", row, operands, f"on-true-{dtype}", numbers={"on_false": 0.0})
    for shape in ((4, 2), (5, 1), (1, 1), (4, 6)):
        operands = picking(small, on_false=tile(shape))
        yield bad("SELECT_REDUCE-04", row, operands, f"on-false-{shape[0]}x{shape[1]}")
    for dtype in ("uint32", "int32", "float32", "bfloat16", "bool"):
        operands = picking(small, predicate=tile(small, dtype))
        yield bad("SELECT_REDUCE-05", row, operands, f"predicate-{dtype}", numbers={"on_false": 0.0})
    reduced: Attributes = {"reduce_cmd": "reset_reduce"}
    for name, spec in (
        ("wide", tile((4, 2))), ("short", tile((3, 1))), ("int32", tile((4, 1), "int32")),
        ("uint8", tile((4, 1), "uint8")),
    ):  # fmt: skip
        operands = picking(small, reduce_res=spec)
        yield bad("SELECT_REDUCE-06", row, operands, f"result-{name}", numbers={"on_false": 0.0}, **reduced)
    for op in ("add", "minimum"):
        operands = picking(small, reduce_res=tile((4, 1)))
        yield bad(
            "SELECT_REDUCE-06", row, operands, f"op-{op}", numbers={"on_false": 0.0}, reduce_op=op, **reduced
        )
    for command in ("reset", "load_reduce"):  # the page lists reset_reduce, reduce and idle
        operands = picking(small, reduce_res=tile((4, 1)))
        yield bad("SELECT_REDUCE-07", row, operands, command, numbers={"on_false": 0.0}, reduce_cmd=command)
    for key in ("on_true", "dst", "predicate"):
        outside = picking(small) | {key: tile(small, "uint8" if key == "predicate" else "float32", "hbm")}
        yield bad("GEN-SPACE|SELECT_REDUCE-01", row, outside, f"{key}-in-hbm", numbers=dict(number))


def refused_copies() -> Iterator[Illegal]:
    row, small = "tensor_copy_predicated", (4, 6)
    psum = copying(small, src=tile(small, space="psum"), predicate=tile(small, "uint8", "psum"))
    yield bad("TENSOR_COPY_PREDICATED-01", row, psum, "both-in-psum")
    for key, spec in (
        ("predicate", tile((4, 5), "uint8")), ("src", tile((4, 5))), ("dst", tile((4, 7))),
        ("src", tile((5, 6))), ("predicate", tile((1, 6), "uint8")),
    ):  # fmt: skip
        operands = copying(small) | {key: spec}
        name = f"{key}-{spec.shape[0]}x{spec.shape[1]}"
        yield bad("TENSOR_COPY_PREDICATED-02|GEN-12", row, operands, name)
    for dtype in ("int8", "int16", "int32", "float32", "bool"):
        operands = copying(small, predicate=tile(small, dtype))
        yield bad("TENSOR_COPY_PREDICATED-03", row, operands, f"predicate-{dtype}")
    for dtype in ("bfloat16", "int32", "tfloat32"):
        operands = copying(small, src=tile(small, dtype))
        yield bad("TENSOR_COPY_PREDICATED-04", row, operands, f"src-{dtype}")
    for key in ("src", "dst", "predicate"):
        outside = copying(small) | {key: tile(small, "uint8" if key == "predicate" else "float32", "hbm")}
        yield bad("GEN-SPACE|TENSOR_COPY_PREDICATED-01", row, outside, f"{key}-in-hbm")


def refused_activations() -> Iterator[Illegal]:
    row, small = "activation_reduce", (4, 6)
    spec: Operands = {"dst": tile(small), "data": tile(small), "reduce_res": tile((4, 1))}
    common: Attributes = {"op": "copy", "reduce_op": "add"}
    maximum: Attributes = {"op": "copy", "reduce_op": "maximum"}
    yield bad("ACTIVATION_REDUCE-01", row, spec, "maximum-on-gen2", target="trn1", **maximum)
    for name, result in (("wide", tile((4, 2))), ("short", tile((3, 1))), ("one", tile((1, 1)))):
        yield bad("ACTIVATION_REDUCE-02", row, {**spec, "reduce_res": result}, f"result-{name}", **common)

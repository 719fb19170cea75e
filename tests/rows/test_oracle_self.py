"""The oracles against values worked out by hand from the documents: they must be right on their own."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.rows.conversions import ARITHMETIC_DTYPES, storage, store
from tests.rows.oracle_activation import FUNCTIONS, function
from tests.rows.oracle_alu import BITVEC, COMPARISONS, LOGICAL
from tests.rows.oracle_matmul import Psum, accumulate, product, transposed
from tests.rows.oracle_result import Result, explain, stored, wrong
from tests.rows.oracles import (
    Tile,
    activation,
    dma_copy,
    memset,
    nc_transpose,
    reciprocal,
    tensor_copy,
    tensor_reduce,
    tensor_scalar,
    tensor_tensor,
)

INF, NAN = float("inf"), float("nan")
BIG = 2**24 + 1  # the first integer that fp32 does not hold


def row(dtype: str, *values: float) -> Tile:
    """Return a tile of one partition."""
    return Tile(np.array([values]).astype(storage(dtype)), dtype)


def values(result: Result) -> list[Any]:
    """Return the result's values as a flat list."""
    return list(np.asarray(result.values).ravel().tolist())


def test_tensor_tensor_is_exact_on_32_bit_integers() -> None:
    left, right = row("int32", BIG, 2**31 - 1, -(2**31), 70000), row("int32", 1, 1, -1, 70000)
    exact = tensor_tensor("int32", left, right, "add")
    assert stored(exact, "int32").ravel().tolist() == [2**24 + 2, -(2**31), 2**31 - 1, 140000]
    squares = tensor_tensor("int32", left, right, "multiply")
    assert stored(squares, "int32").ravel().tolist()[3] == 70000**2 - 2**32
    # "You may override this by passing engine=nki.isa.engine.vector explicitly"
    through = tensor_tensor("int32", left, right, "add", engine="vector")
    assert stored(through, "int32").ravel().tolist() == [2**24, 2**31 - 1, -(2**31), 140000]
    # "falls back to Vector Engine when any operand resides in PSUM"
    assert tensor_tensor("int32", left, right, "add", in_psum=True).kind == "float"


def test_mixed_signs_are_compared_as_numbers() -> None:
    left, right = row("int32", -1), row("uint32", 2**32 - 1)
    assert values(tensor_tensor("int32", left, right, "less")) == [1]
    assert values(tensor_tensor("int32", left, right, "equal")) == [0]
    assert stored(tensor_tensor("uint32", left, right, "add"), "uint32").tolist() == [[2**32 - 2]]


def test_comparisons_see_fp32_on_the_vector_engine() -> None:
    left, right = row("int32", BIG), row("int32", BIG - 1)
    assert values(tensor_tensor("int32", left, right, "greater")) == [1]
    assert values(tensor_tensor("int32", left, right, "greater", engine="vector")) == [0.0]
    nans = row("float32", NAN, 1.0)
    assert values(tensor_tensor("uint8", nans, nans, "equal")) == [0.0, 1.0]
    assert values(tensor_tensor("uint8", nans, nans, "not_equal")) == [1.0, 0.0]


def test_bit_operators_work_on_patterns() -> None:
    left, right = row("int8", -128, -1, 0x55), row("int8", 1, 4, 0x0F)
    assert stored(tensor_tensor("int8", left, right, "right_shift"), "int8").tolist() == [[64, 15, 0]]
    assert stored(tensor_tensor("int8", left, right, "left_shift"), "int8").tolist() == [[0, -16, 0]]
    assert stored(tensor_tensor("int8", left, right, "bitwise_xor"), "int8").tolist() == [[-127, -5, 0x5A]]
    far = tensor_tensor("int32", row("int32", -1, -1), row("int32", 32, -1), "right_shift")
    assert stored(far, "int32").tolist() == [[0, 0]]
    assert values(tensor_scalar("uint8", row("uint8", 0b1010), "invert")) == [0b11110101]


def test_abs_max_and_abs_min_as_their_examples_say() -> None:
    for op, left, right, expected in (
        ("abs_max", -5.0, 3.0, -5.0),
        ("abs_max", 1.0, -1.0, -1.0),
        ("abs_min", 5.0, -3.0, -3.0),
        ("abs_min", 1.0, -1.0, -1.0),
    ):
        assert values(tensor_tensor("float32", row("float32", left), row("float32", right), op)) == [expected]


def test_each_stage_rounds_once() -> None:
    x = 1 + 2.0**-23
    once = tensor_scalar("float32", row("float32", x), "multiply", x)
    assert values(once) == [1 + 2.0**-22]
    # a fused multiply-add would leave 2**-46
    assert values(
        tensor_scalar("float32", row("float32", x), "multiply", x, op1="subtract", operand1=1 + 2.0**-22)
    ) == [0]
    assert values(tensor_tensor("float32", row("float32", 1.0), row("float32", 2.0**-24), "add")) == [1.0]


def test_reversed_operands() -> None:
    data = row("float32", 3.0)
    assert values(tensor_scalar("float32", data, "subtract", 10.0, reverse0=True)) == [7.0]
    second = tensor_scalar("float32", data, "subtract", 10.0, False, "subtract", 1.0, True)
    assert values(second) == [8.0]
    vector = Tile(np.array([[1.0], [2.0]], np.float32), "float32")
    two = Tile(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), "float32")
    assert values(tensor_scalar("float32", two, "add", vector)) == [2.0, 3.0, 5.0, 6.0]
    shifted = tensor_scalar("uint8", row("uint8", 1, 2), "left_shift", 1, reverse0=True)
    assert values(shifted) == [2, 4]


def test_reductions() -> None:
    data = Tile(np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4), "float32")
    assert values(tensor_reduce("float32", "add", data, (2, 3))) == [66.0, 210.0]
    assert values(tensor_reduce("float32", "add", data, [1, 2, 3], negate=True)) == [-276.0]
    assert values(tensor_reduce("float32", "maximum", data, 3)) == [3.0, 7.0, 11.0, 15.0, 19.0, 23.0]
    assert values(tensor_reduce("float32", "subtract", row("float32", 10, 1, 2), 1)) == [7.0]
    assert values(tensor_reduce("int32", "maximum", row("int32", BIG, 0), 1)) == [BIG - 1]
    assert values(tensor_reduce("uint8", "logical_xor", row("uint8", 3, 5, 7), 1)) == [1.0]
    assert values(tensor_reduce("uint8", "bitwise_and", row("uint8", 0b1110, 0b0111), 1)) == [0b0110]
    assert math.isnan(values(tensor_reduce("float32", "minimum", row("float32", NAN, 1.0), 1))[0])
    # design: the sum of 2,048 bf16 ones is 2,048, in fp32
    ones = Tile(np.ones((1, 2048), ml_dtypes.bfloat16), "bfloat16")
    assert values(tensor_reduce("bfloat16", "add", ones, 1)) == [2048.0]


def test_conversions_of_copies() -> None:
    assert stored(dma_copy("float32", row("int32", BIG)), "float32").tolist() == [[2.0**24]]
    assert stored(tensor_copy("int32", row("int32", BIG)), "int32").tolist() == [[BIG]]
    assert stored(tensor_copy("int8", row("float32", 2.5, 300.0, NAN)), "int8").tolist() == [[2, 127, 0]]
    payload = Tile(np.array([[0x7F800001]], np.uint32).view(np.float32), "float32")
    assert tensor_copy("float32", payload).values.tolist() == [[0x7F800001]]
    assert stored(memset("uint32", 2**32 - 1, (1, 2)), "uint32").tolist() == [[2**32 - 1] * 2]
    assert stored(memset("float16", 65520.0, (1, 1)), "float16").tolist() == [[INF]]


def test_activation_functions_at_known_points() -> None:
    def at(op: str, x: float) -> float:
        return float(function(op, np.array([x]))[0])

    assert at("sin", 9.0) == pytest.approx(27.65, abs=0.005)
    assert at("sin", -9.0) == pytest.approx(-27.65, abs=0.005)
    assert at("sin", math.pi / 6) == pytest.approx(0.5, rel=1e-15)
    assert at("gelu", 1.0) == pytest.approx(0.8413447460685429, rel=1e-15)
    assert at("gelu", -10.0) == pytest.approx(-7.619853024160527e-23, rel=1e-12)
    assert at("gelu_dx", 0.0) == 0.5
    assert at("gelu_apprx_tanh", 1.0) == pytest.approx(0.8411919906082768, rel=1e-14)
    assert at("gelu_apprx_sigmoid", 1.0) == pytest.approx(1 / (1 + math.exp(-1.702)), rel=1e-15)
    assert at("silu", 1.0) == pytest.approx(0.7310585786300049, rel=1e-15)
    assert at("silu_dx", 0.0) == 0.5
    assert at("softplus", 0.0) == pytest.approx(math.log(2), rel=1e-15)
    assert at("softplus", -100.0) == pytest.approx(math.exp(-100), rel=1e-14)
    assert at("mish", 1.0) == pytest.approx(math.tanh(math.log(1 + math.e)), rel=1e-14)
    assert at("erf_dx", 0.0) == pytest.approx(1.1283791670955126, rel=1e-15)
    assert at("sign", -0.0) == 0.0


@pytest.mark.parametrize(
    ("op", "function_of"),
    [
        ("gelu", "gelu_dx"),
        ("silu", "silu_dx"),
        ("gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx"),
        ("erf", "erf_dx"),
    ],
)
def test_derivatives_agree_with_differences(op: str, function_of: str) -> None:
    points, step = np.linspace(-4, 4, 33), 1e-5
    slope = (function(op, points + step) - function(op, points - step)) / (2 * step)
    assert np.allclose(function(function_of, points), slope, atol=1e-9)


def test_limits_at_infinity() -> None:
    ends = np.array([-INF, INF])
    limits = {
        "sigmoid": [0, 1], "gelu": [0, INF], "gelu_dx": [0, 1], "gelu_apprx_tanh": [0, INF],
        "gelu_apprx_sigmoid": [0, INF], "gelu_apprx_sigmoid_dx": [0, 1], "silu": [0, INF], "silu_dx": [0, 1],
        "tanh": [-1, 1], "softplus": [0, INF], "mish": [0, INF], "erf": [-1, 1], "erf_dx": [0, 0],
        "exp": [0, INF], "relu": [0, INF], "sign": [-1, 1], "abs": [INF, INF], "square": [INF, INF],
    }  # fmt: skip
    for op, expected in limits.items():
        assert function(op, ends).tolist() == expected, op
    for op in FUNCTIONS:
        assert np.isnan(function(op, np.array([NAN]))).all(), op


def test_activation_registers() -> None:
    data = row("float32", 1.0, 2.0)
    _, registers = activation("float32", "copy", data, reduce_cmd="reset_reduce")
    _, registers = activation("float32", "square", data, scale=2.0, reduce_cmd="reduce", registers=registers)
    _, kept = activation("float32", "copy", data, reduce_cmd="idle", registers=registers)
    assert kept is not None
    assert values(kept.result()) == [3.0 + 4.0 + 16.0]
    _, cleared = activation("float32", "copy", data, reduce_cmd="reset", registers=kept)
    assert cleared is not None
    assert values(cleared.result()) == [0.0]
    biased, _ = activation("float32", "relu", data, bias=-1.5, scale=1.0)
    assert values(biased) == [0.0, 0.5]


def test_reciprocal_is_rounded_once() -> None:
    assert values(reciprocal("float32", row("float32", 3.0, 0.0, -0.0, INF))) == [
        float(np.float32(1) / np.float32(3)), INF, -INF, 0.0,
    ]  # fmt: skip


def test_double_row_splits_the_contraction() -> None:
    stationary = Tile(np.ones((128, 2, 1), ml_dtypes.float8_e4m3), "float8_e4m3")
    weights = np.arange(3) + np.zeros((128, 2, 3))
    moving = Tile(weights.astype(ml_dtypes.float8_e5m2), "float8_e5m2")
    result = product(stationary, moving, double_row=True)
    assert result.values.tolist() == [[0.0, 256.0, 512.0]]


def test_accumulation_adds_where_written() -> None:
    zero = np.zeros((1, 4))
    psum = Psum(zero, zero, np.array([[True, True, False, False]]))
    term = Result(np.array([[1.0, 2.0, 3.0, 4.0]]))
    once = accumulate(Psum(zero + 10, zero + 10, psum.written), term, None, "float32")
    assert once.result().values.tolist() == [[11.0, 12.0, 3.0, 4.0]]
    assert accumulate(once, term, False, "float32").result().values.tolist() == [[1.0, 2.0, 3.0, 4.0]]
    assert accumulate(once, term, True, "float32").result().values.tolist() == [[12.0, 14.0, 6.0, 8.0]]
    # bf16 in PSUM: upcast, add in fp32, round: 256 + 1 ties to the even 256
    half = accumulate(Psum(zero + 256, zero + 256, psum.written | True), term, True, "bfloat16")
    assert half.result().values.tolist() == [[256.0, 258.0, 260.0, 260.0]]


def test_transposes_move_bits() -> None:
    data = Tile(np.array([[0x7FC00001, 1], [2, 3], [4, 5]], np.uint32).view(np.float32), "float32")
    assert nc_transpose("float32", data).values.tolist() == [[0x7FC00001, 2, 4], [1, 3, 5]]
    assert transposed(data).values.tolist() == nc_transpose("float32", data).values.tolist()
    cube = Tile(np.arange(12, dtype=np.int32).reshape(2, 2, 3), "int32")
    assert nc_transpose("int32", cube).values.tolist() == cube.array.reshape(2, 6).T.tolist()


def test_judgement_is_sharp() -> None:
    third = Result(np.array([1 / 3]), ulps=4)
    near, far = np.float32(1 / 3) + np.float32(4 * 2.0**-25), np.float32(1 / 3) + np.float32(5 * 2.0**-25)
    assert not wrong(third, np.array([near], np.float32), "float32").any()
    assert wrong(third, np.array([far], np.float32), "float32").all()
    exact = Result(np.array([0.0]))
    assert wrong(exact, np.array([-0.0], np.float32), "float32").all()
    assert "want" in explain(exact, np.array([-0.0], np.float32), "float32")
    assert not wrong(Result(np.array([NAN])), np.array([NAN], np.float32), "float32").any()
    assert not wrong(Result(np.array([NAN])), np.array([0], np.int8), "int8").any()
    for dtype in ARITHMETIC_DTYPES:
        one = Result(np.array([1.0]))
        assert explain(one, store(np.array([1.0]), dtype), dtype) == ""


def test_every_binary_operator_of_the_table_is_here() -> None:
    left, right = row("float32", 2.0), row("float32", 3.0)
    expected = {
        "add": 5.0, "subtract": -1.0, "multiply": 6.0, "maximum": 3.0, "minimum": 2.0, "power": 8.0,
        "equal": 0, "not_equal": 1, "greater_equal": 0, "greater": 0, "less_equal": 1, "less": 1,
        "logical_and": 1, "logical_or": 1, "logical_xor": 0, "abs_max": 3.0, "abs_min": 2.0,
    }  # fmt: skip
    assert set(COMPARISONS) | set(LOGICAL) < set(expected)
    assert len(BITVEC) + len(expected) == 23
    for op, value in expected.items():
        assert values(tensor_tensor("float32", left, right, op)) == [value]
        native = tensor_tensor("int32", row("int32", 2), row("int32", 3), op)
        assert stored(native, "int32").tolist() == [[int(value)]]

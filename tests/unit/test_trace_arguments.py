"""Tracing: attributes and numbers of instructions, specs and arguments of kernels."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opennki
from opennki import Spec, nki
from opennki.diag import OpenNkiError
from opennki.ir.program import instructions
from opennki.ir.types import Instruction, View
from tests.unit.tracing import called, line_of, place, refused, sbuf, trace

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call traces: a cache would answer for it."""
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "0")


# ------------------------------------------------------------------------------ attributes and numbers


def stored(kernel: Callable[[], object]) -> tuple[Any, ...]:
    """Return attributes and numbers of the one instruction that a kernel records."""

    def whole(x: Any) -> Any:
        kernel()
        return x

    (program,) = trace(whole, "float32[1]").programs
    (instruction,) = program.body
    assert isinstance(instruction, Instruction)
    numbers = [operand for operand in instruction.operands if not isinstance(operand, View)]
    return (*numbers, *program.attrs[instruction.attrs])


@pytest.mark.parametrize(
    "value", [2, 2.0, -0.0, float("inf"), np.float32(2), np.int64(2), np.float16(2), True]
)
def test_numbers_are_pythons_own(value: Any) -> None:
    (found,) = stored(lambda: nisa.memset(dst=sbuf(2, 2), value=value))
    expected = value.item() if isinstance(value, np.generic) else float(value) if value is True else value
    assert (type(found), repr(found)) == (type(expected), repr(expected))


def test_numpy_ints_are_keys_as_pythons_are() -> None:
    def product(position: Any, size: Any) -> None:
        dst = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst, sbuf(16, 8), sbuf(16, 4), tile_position=position, tile_size=size)

    plain = stored(lambda: product((0, 0), (64, 128)))
    assert stored(lambda: product((np.int64(0), np.int32(0)), np.array([64, 128]).tolist())) == plain
    assert stored(lambda: product([0, np.int8(0)], [np.int64(64), 128])) == plain
    assert all(type(part) is int for attribute in plain if isinstance(attribute, tuple) for part in attribute)


def test_attributes_keep_type_and_sign_apart() -> None:
    def kernel(x: Any) -> Any:
        tile = sbuf(2, 2)
        for value in (0.0, -0.0, 0, 1, 1.0, float("nan")):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=value)
        for axis in (1, (1,), [1], -1):
            nisa.tensor_reduce(dst=tile[:, 0:1], op=nl.add, data=tile, axis=axis)
        return x

    (program,) = trace(kernel, "float32[1]").programs
    body = instructions(program)
    scalars = called(program, "tensor_scalar")
    assert [repr(i.operands[2]) for i in scalars] == ["0.0", "-0.0", "0", "1", "1.0", "nan"]
    assert len({i.attrs for i in scalars}) == 1
    axes = [program.attrs[i.attrs] for i in body[6:]]
    assert [a[1] for a in axes] == [(1,), (1,), (1,), (-1,)]
    assert len({i.attrs for i in body[6:9]}) == 1


@pytest.mark.parametrize("index", [np.int64(1), np.uint8(1), np.array(1), True])
def test_what_indexes_a_list_indexes_a_range(index: Any) -> None:
    if index is True:
        (found,) = refused(lambda x: nl.affine_range(index) and x, "float32[1]")
        assert found.code == "ONKI101"
    else:
        assert trace(lambda x: (list(nl.affine_range(index)), x)[1], "float32[1]").lnc == 1


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda t: nisa.tensor_copy(dst=t, src=1.0),
            "`tensor_copy` needs a tensor for `src`, got `1.0` (float)",
        ),
        (
            lambda t: nisa.tensor_copy(dst=t, src=None),
            "`tensor_copy` needs a tensor for `src`, got `None` (NoneType)",
        ),
        (
            lambda t: nisa.tensor_copy(dst=t, src=np.zeros((2, 2), np.float32)),
            "`tensor_copy` needs a tensor for `src`, got an object of type `ndarray`",
        ),
        (
            lambda t: nisa.tensor_scalar(dst=t, data=t, op0="add", operand0=1.0),
            "`tensor_scalar` needs an operator of `nki.language` such as `nl.add` for `op0`, "
            "got `'add'` (str)",
        ),
        (
            lambda t: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0="1"),
            "`tensor_scalar` needs a tensor or a number or None for `operand0`, got `'1'` (str)",
        ),
        (
            lambda t: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0, reverse0=2),
            "`tensor_scalar` needs a bool for `reverse0`, got `2` (int)",
        ),
        (
            lambda t: nisa.tensor_copy(dst=t, src=t, engine="vector"),
            "`tensor_copy` needs a member of `nisa.engine` for `engine`, got `'vector'` (str)",
        ),
        (
            lambda t: nisa.tensor_copy(dst=t, src=t, name=3),
            "`tensor_copy` needs a str or None for `name`, got `3` (int)",
        ),
        (
            lambda t: nl.ndarray((2, 2), nl.float32, "sbuf"),
            "`nl.ndarray` needs a memory region such as `nl.sbuf` for `buffer`, got `'sbuf'` (str)",
        ),
        (
            lambda t: nl.ndarray((2, 2.5), nl.float32),
            "`nl.ndarray` needs a tuple of ints for `shape`, got `(2, 2.5)` (tuple)",
        ),
    ],
)
def test_arguments_of_a_wrong_kind(make: Callable[[Any], Any], says: str) -> None:
    (found,) = refused(lambda: make(sbuf(2, 2)))
    assert (found.code, found.message) == ("ONKI101", says)
    with pytest.raises(TypeError):
        opennki.trace(lambda: make(sbuf(2, 2)))


# --------------------------------------------------------------------------------- specs and arguments


@pytest.mark.parametrize(
    ("spec", "dtype", "shape"),
    [
        ("float32[4,6]", "float32", (4, 6)),
        (" bfloat16[ 128 , 512 ] ", "bfloat16", (128, 512)),
        ("bool_[3]", "bool", (3,)),
        ("float8_e4m3fn_x4[2,2,2,]", "float8_e4m3fn_x4", (2, 2, 2)),
        (Spec("int32", (3,)), "int32", (3,)),
        (Spec(np.float16, (2, np.int64(3))), "float16", (2, 3)),  # type: ignore[arg-type]  # NumPy's own are taken
        (np.zeros((2, 3), np.int8), "int8", (2, 3)),
        (np.zeros((1,), ml_dtypes.bfloat16), "bfloat16", (1,)),
        (np.zeros((1,), np.int64), "int64", (1,)),
    ],
)
def test_specs(spec: object, dtype: str, shape: tuple[int, ...]) -> None:
    (found,) = trace(lambda x: x, spec).signature.inputs
    assert (found.name, found.key, found.dtype, found.shape) == ("x", "input:x", dtype, shape)


@pytest.mark.parametrize(
    "text", ["float32[0,4]", "float32[4,0]", "float32[4,-1]", "float32[a]", "float32[4]x"]
)
def test_malformed_specs(text: str) -> None:
    (found,) = refused(lambda x: x, text)
    assert (found.code, found.message) == ("ONKI003", f"`{text}` is no tensor spec")


@pytest.mark.parametrize("text", ["float99[4,4]", "fp32[128]"])
def test_text_of_a_specs_form_with_a_misspelt_dtype(text: str) -> None:
    (found,) = refused(lambda x: x, text)
    assert found.code == "ONKI003"


@pytest.mark.parametrize(
    ("dtype", "help"),
    [
        (np.float64, "pass `x.astype(np.float32)`"),
        (np.longdouble, "pass `x.astype(np.float32)`"),
        (np.complex64, "convert `x` with `.astype(…)`"),
        (np.uint64, "convert `x` with `.astype(…)`"),
        (object, "convert `x` with `.astype(…)`"),
        ("U3", "convert `x` with `.astype(…)`"),
    ],
)
def test_dtypes_that_the_hardware_lacks(dtype: Any, help: str) -> None:
    def kernel(x: Any) -> Any:
        return x

    (found,) = refused(kernel, np.zeros((2, 2), dtype))
    assert found.code == "ONKI214"
    assert found.message == f"argument `x` of kernel `kernel` is {np.dtype(dtype)}, which the hardware lacks"
    assert found.help == (help,)
    assert place(found) == line_of(kernel, "def kernel")
    with pytest.raises(OpenNkiError) as simulated:
        nki.simulate(kernel)(np.zeros((2, 2), dtype))
    assert simulated.value.diagnostics == (found,)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: nisa.tensor_copy(dst=t, src=t),
        lambda t: nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add),
        lambda t: nisa.memset(dst=t, value=0),
    ],
    ids=["tensor_copy", "tensor_tensor", "memset"],
)
def test_int64_is_for_dma_only(make: Callable[[Any], Any]) -> None:
    (found,) = refused(lambda: make(nl.ndarray((2, 2), dtype=nl.int64, buffer=nl.sbuf)))
    assert found.code == "ONKI214"


def test_an_array_without_elements() -> None:
    (found,) = refused(lambda x: x, np.zeros((0, 3), np.float32))
    assert found.code == "ONKI212"
    assert found.message.endswith("has no elements: shape [0, 3]")


@pytest.mark.parametrize(
    ("specs", "values", "problem"),
    [
        ((), {}, "missing a required argument: 'x'"),
        (("float32[1]", 1, 2), {}, "too many positional arguments"),
        (("float32[1]",), {"z": 1}, "got an unexpected keyword argument 'z'"),
        (("float32[1]",), {"x": 1}, "multiple values for argument 'x'"),
    ],
)
def test_arguments_that_do_not_fit(specs: tuple[Any, ...], values: dict[str, Any], problem: str) -> None:
    def kernel(x: Any, y: int = 0) -> Any:
        return x

    (found,) = refused(kernel, *specs, **values)
    assert found.code == "ONKI006"
    assert found.message == f"the arguments do not fit kernel `kernel`: {problem}"
    assert place(found) == line_of(kernel, "def kernel")


class Mode(Enum):
    fast = 1


@pytest.mark.parametrize("value", [None, 3, 2.5, True, "fast", Mode.fast, (1, 2), [3], {"a": None}, range(3)])
def test_plain_values_reach_the_kernel(value: object) -> None:
    seen = []

    def kernel(x: Any, mode: Any, *, flag: Any) -> Any:
        seen.append((mode, flag))
        return x

    assert [i.name for i in trace(kernel, "float32[1]", value, flag=value).signature.inputs] == ["x"]
    assert seen == [(value, value)]
    assert type(seen[0][0]) is type(value)


def test_tensors_inside_of_lists_tuples_and_dicts() -> None:
    seen = []

    def kernel(xs: Any, pair: Any, *rest: Any, table: Any, **more: Any) -> Any:
        seen.append((xs, pair, rest, table, more))
        return xs[0]

    one = "float32[1]"
    artifact = trace(kernel, [one, 2], (one, [one]), one, "text", table={"k": one, "n": 7}, extra=one)
    names = ["xs.0", "pair.0", "pair.1.0", "rest.0", "table.k", "extra"]
    assert [i.name for i in artifact.signature.inputs] == names
    xs, pair, rest, table, more = seen[0]
    assert (xs[1], rest[1], table["n"]) == (2, "text", 7)
    assert [t.name for t in (xs[0], pair[0], pair[1][0], rest[0], table["k"], more["extra"])] == names


def test_defaults_stay_and_scalars_are_values() -> None:
    seen = []

    def kernel(x: Any, scale: Any = 0.5, bias: Any = None) -> Any:
        seen.append((scale, bias))
        return x

    trace(kernel, "float32[1]")
    trace(kernel, "float32[1]", np.float32(2), bias=np.array(3))
    assert seen[0] == (0.5, None)
    assert (type(seen[1][0]), seen[1][1].shape) == (np.float32, ())

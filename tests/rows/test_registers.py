"""Registers and scalars: what they hold, and what Python and the instructions may not do with them.

Source: nki/api/nki/isa/__init__.py (`VirtualRegister`, `register_alloc`, `register_move`, `register_load`,
`register_store`), nki/get-started/nki-language-guide.rst ("Dynamic Control Flow"), SDK 2.33 pages
nki.isa.NkiScalar, nki.isa.scalar_load, nki.isa.scalar_store.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import opennki
from opennki.diag import Diagnostic, OpenNkiError
from tests.rows.conversions import Array, bits_of
from tests.rows.edge_values import edge_values
from tests.rows.oracle_scalar import COMPARISONS, UNDEFINED

nki: Any = import_module("opennki.nki")
nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

Kernel = Callable[..., Any]


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel here is traced once, so a key for it would be work for nothing."""
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "0")


def both(kernel: Kernel, *inputs: Array) -> Array:
    """Return what a simulation gives, having seen that the executable gives the same bits."""
    jitted = nki.jit(kernel)
    simulated = nki.simulate(jitted)(*[array.copy() for array in inputs])
    executed = opennki.compile(opennki.trace(jitted, *inputs, lnc=1, target="trn2"), lnc=1)(
        *[array.copy() for array in inputs]
    )
    assert simulated.dtype == executed.dtype
    assert np.array_equal(bits_of(simulated), bits_of(executed))
    return np.asarray(simulated)


def refusals(kernel: Kernel, error: type[Exception], *inputs: Array) -> list[Diagnostic]:
    """Return the findings with which a simulation and a trace refuse, one each."""
    jitted, found = nki.jit(kernel), []
    for attempt in (
        lambda: nki.simulate(jitted)(*[array.copy() for array in inputs]),
        lambda: opennki.trace(jitted, *inputs, lnc=1, target="trn2"),
    ):
        with pytest.raises(error) as raised:
            attempt()
        assert isinstance(raised.value, OpenNkiError)
        found.append(raised.value.diagnostics[0])
    return found


def codes(kernel: Kernel, error: type[Exception], *inputs: Array) -> list[str]:
    """Return the codes with which a simulation and a trace refuse."""
    return [finding.code for finding in refusals(kernel, error, *inputs)]


X = np.array([[5, 7]], np.int32)


def tile(dtype: Any, shape: tuple[int, ...] = (1, 1), buffer: Any = None) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf if buffer is None else buffer)


def stored(register: Any, out: Any, place: int) -> None:
    """Store a register into element `place` of a row in HBM."""
    holder = tile(nl.int32)
    nisa.register_store(holder, register)
    nisa.dma_copy(dst=out[0:1, place : place + 1], src=holder)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float32"])
@pytest.mark.parametrize("memory", ["sbuf", "hbm"])
def test_a_register_carries_every_bit_of_an_element(dtype: str, memory: str) -> None:
    """Its 32 bits hold "u8, u16, u32, i8, i16, i32, and fp32"."""
    values = edge_values(dtype)[:: max(1, len(edge_values(dtype)) // 12)]
    x = values.reshape(1, -1)

    def kernel(x: Any) -> Any:
        kind = getattr(nl, dtype)
        out = nl.ndarray(x.shape, dtype=kind, buffer=nl.shared_hbm)
        held, back = tile(kind, x.shape), tile(kind, x.shape)
        nisa.dma_copy(dst=held, src=x)
        for i in range(x.shape[1]):
            register, place = nisa.register_alloc(), (slice(0, 1), slice(i, i + 1))
            nisa.register_load(register, (x if memory == "hbm" else held)[place])
            nisa.register_store((out if memory == "hbm" else back)[place], register)
        if memory == "sbuf":
            nisa.dma_copy(dst=out, src=back)
        return out

    assert np.array_equal(bits_of(both(kernel, x)), bits_of(x))


def test_alloc_and_move_hold_constants_and_copies() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray((1, 8), dtype=nl.int32, buffer=nl.shared_hbm)
        first, second, third = nisa.register_alloc(-5), nisa.register_alloc(2**31 - 1), nisa.register_alloc()
        stored(first, out, 0)
        stored(second, out, 1)
        nisa.register_move(third, -(2**31))
        stored(third, out, 2)
        nisa.register_move(third, first)
        nisa.register_move(first, 9)  # a copy does not follow its source
        stored(third, out, 3)
        stored(first, out, 4)
        nisa.register_load(second, x[0:1, 1:2])
        stored(second, out, 5)
        nisa.register_move(second, second)
        stored(second, out, 6)
        stored(nisa.register_alloc(0), out, 7)
        return out

    assert both(kernel, X).tolist() == [[-5, 2**31 - 1, -(2**31), -5, 9, 7, 7, 0]]


def test_a_register_takes_a_tile_of_one_axis() -> None:
    """The documents write `shape [1] or [1, 1]`."""

    def kernel(x: Any) -> Any:
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        flat = nl.ndarray((1,), dtype=nl.int32, buffer=nl.shared_hbm)
        register = nisa.register_alloc()
        nisa.register_load(register, x)
        nisa.register_store(flat, register)
        nisa.dma_copy(dst=out, src=flat)
        return out

    assert both(kernel, np.array([41], np.int32)).tolist() == [[41]]


def test_a_scalar_keeps_the_value_that_it_was_loaded_with() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray((1, 3), dtype=nl.int32, buffer=nl.shared_hbm)
        held, results = tile(nl.int32, (1, 2)), tile(nl.int32, (1, 3))
        nisa.dma_copy(dst=held, src=x)
        before = nisa.scalar_load(held[0:1, 0:1])
        nisa.memset(dst=held, value=100)
        after = nisa.scalar_load(held[0:1, 0:1])
        nisa.scalar_store(results[0:1, 0:1], before)
        nisa.scalar_store(results[0:1, 1:2], after - before)
        nisa.scalar_store(results[0:1, 2:3], before * 3 + before)
        nisa.dma_copy(dst=out, src=results)
        return out

    assert both(kernel, X).tolist() == [[5, 95, 20]]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_scalars_load_from_and_store_to_hbm(dtype: str) -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray((2, 2), dtype=getattr(nl, dtype), buffer=nl.shared_hbm)
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            place = (slice(row, row + 1), slice(column, column + 1))
            scalar = nisa.scalar_load(x[place])
            assert scalar.dtype == getattr(nl, dtype)
            assert isinstance(scalar, nisa.NkiScalar)
            nisa.scalar_store(out[place], scalar - 1)
        return out

    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([[low, high], [0, -1]], dtype)
    assert both(kernel, x).tolist() == [[high, high - 1], [-1, -2]]


def register(x: Any) -> Any:
    made = nisa.register_alloc()
    nisa.register_load(made, x[0:1, 0:1])
    return made


def scalar(x: Any) -> Any:
    return nisa.scalar_load(x[0:1, 0:1])


CONTROL: dict[str, Callable[[Any], Any]] = {
    "if": lambda value: 1 if value else 2,
    "not": lambda value: not value,
    "and": lambda value: value and 1,
    "int": int,
    "float": float,
    "range": range,
    "index": lambda value: [10, 20][value],
    "slice": lambda value: [10, 20][value:],
    "list": list,
}


@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize("kind", [register, scalar], ids=["register", "scalar"])
def test_run_time_values_have_no_place_in_python_control_flow(name: str, kind: Kernel) -> None:
    """Under the tracer "using a register in Python control flow … raises TypeError"."""

    def kernel(x: Any) -> Any:
        CONTROL[name](kind(x))
        return x

    assert codes(kernel, TypeError, X) == ["ONKI111", "ONKI111"]


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_gives_a_value_that_nothing_takes(name: str) -> None:
    """int32 comparisons are recorded, "but the result has no legal use"; int64 ones are refused."""

    def unused(x: Any) -> Any:
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        value = scalar(x)
        COMPARISONS[name](value, 3)
        COMPARISONS[name](value, value)
        nisa.scalar_store(out, value)
        return out

    def as_condition(x: Any) -> Any:
        assert COMPARISONS[name](scalar(x), 3)
        return x

    def stored_away(x: Any) -> Any:
        nisa.scalar_store(x[0:1, 0:1], COMPARISONS[name](scalar(x), 3))
        return x

    def as_bound(x: Any) -> Any:
        nl.fori_loop(0, COMPARISONS[name](scalar(x), 3), lambda i: None)
        return x

    def of_int64(x: Any) -> Any:
        COMPARISONS[name](scalar(x), 3)
        return x

    assert both(unused, X).tolist() == [[5]]
    for kernel in (as_condition, stored_away, as_bound):
        assert len(set(codes(kernel, OpenNkiError, X))) == 1
    assert len(set(codes(of_int64, OpenNkiError, X.astype(np.int64)))) == 1


@pytest.mark.parametrize("name", UNDEFINED)
def test_operators_that_no_document_lists_are_refused(name: str) -> None:
    def of_scalars(x: Any) -> Any:
        UNDEFINED[name](scalar(x), scalar(x))
        return x

    def of_a_number(x: Any) -> Any:
        UNDEFINED[name](scalar(x), 2)
        return x

    for kernel in (of_scalars, of_a_number):
        for attempt in (nki.simulate(nki.jit(kernel)), lambda y, k=kernel: opennki.trace(nki.jit(k), y)):
            with pytest.raises(TypeError):
                attempt(X.copy())


def test_registers_have_no_arithmetic() -> None:
    """Only scalars do (NKI 0.7); a register is moved, loaded and stored."""

    def kernel(x: Any) -> Any:
        return register(x) + 1

    for attempt in (nki.simulate(nki.jit(kernel)), lambda y: opennki.trace(nki.jit(kernel), y)):
        with pytest.raises(TypeError):
            attempt(X.copy())


def wide(x: Any) -> Any:
    """Return an int64 scalar of value zero or so, whatever `x` is."""
    zero = nl.ndarray((1, 1), dtype=nl.int64, buffer=nl.private_hbm)
    return nisa.scalar_load(zero)


CALLS: dict[str, Callable[[Any], Any]] = {
    "mixed-widths": lambda x: scalar(x) + wide(x),
    "mixed-widths-compared": lambda x: scalar(x) < wide(x),
    "number-too-large": lambda x: scalar(x) + 2**31,
    "number-too-small": lambda x: scalar(x) * (-(2**31) - 1),
    "wide-number-too-large": lambda x: wide(x) - 2**63,
    "float-operand": lambda x: scalar(x) + 1.5,
    "operand-register": lambda x: scalar(x) + register(x),
    "load-unsigned": lambda x: nisa.scalar_load(tile(nl.uint32)),
    "load-float": lambda x: nisa.scalar_load(tile(nl.float32)),
    "load-int16": lambda x: nisa.scalar_load(tile(nl.int16)),
    "load-two": lambda x: nisa.scalar_load(x),
    "load-psum": lambda x: nisa.scalar_load(tile(nl.int32, buffer=nl.psum)),
    "store-number": lambda x: nisa.scalar_store(tile(nl.int32), 5),
    "store-narrower": lambda x: nisa.scalar_store(tile(nl.int32), wide(x)),
    "store-wider": lambda x: nisa.scalar_store(
        nl.ndarray((1, 1), dtype=nl.int64, buffer=nl.private_hbm), scalar(x)
    ),
    "store-unsigned": lambda x: nisa.scalar_store(tile(nl.uint32), scalar(x)),
    "store-two": lambda x: nisa.scalar_store(x, scalar(x)),
    "store-psum": lambda x: nisa.scalar_store(tile(nl.int32, buffer=nl.psum), scalar(x)),
    "sbuf-offset-int64": lambda x: nisa.dma_copy(
        dst=tile(nl.float32),
        src=tile(nl.float32, (1, 8)).ap(pattern=[[8, 1], [1, 1]], scalar_offset=wide(x), indirect_dim=1),
    ),
    "register-load-two": lambda x: nisa.register_load(nisa.register_alloc(), x),
    "register-load-psum": lambda x: nisa.register_load(nisa.register_alloc(), tile(nl.int32, buffer=nl.psum)),
    "register-load-int64": lambda x: nisa.register_load(
        nisa.register_alloc(), nl.ndarray((1, 1), dtype=nl.int64, buffer=nl.private_hbm)
    ),
    "register-store-two": lambda x: nisa.register_store(x, register(x)),
    "register-store-psum": lambda x: nisa.register_store(tile(nl.int32, buffer=nl.psum), register(x)),
    "register-move-float": lambda x: nisa.register_move(nisa.register_alloc(), 1.5),
    "register-move-string": lambda x: nisa.register_move(nisa.register_alloc(), "3"),
    "register-move-to-number": lambda x: nisa.register_move(3, nisa.register_alloc(1)),
    "register-alloc-float": lambda x: nisa.register_alloc(0.5),
    "register-alloc-too-large": lambda x: nisa.register_alloc(2**32),
    "register-alloc-too-small": lambda x: nisa.register_alloc(-(2**31) - 1),
}

REFUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            "store-number",
            "register-move-float",
            "register-move-string",
            "register-move-to-number",
            "register-alloc-float",
            "register-alloc-too-large",
            "register-alloc-too-small",
        ),
        "ONKI101",
    ),
    **dict.fromkeys(
        (
            "mixed-widths",
            "mixed-widths-compared",
            "number-too-large",
            "number-too-small",
            "wide-number-too-large",
            "float-operand",
            "operand-register",
        ),
        "ONKI111",
    ),
    **dict.fromkeys(
        (
            "load-psum",
            "store-psum",
            "register-load-psum",
            "register-store-psum",
        ),
        "ONKI201",
    ),
    **dict.fromkeys(
        (
            "load-unsigned",
            "load-float",
            "load-int16",
            "store-narrower",
            "store-wider",
            "store-unsigned",
            "register-load-int64",
        ),
        "ONKI202",
    ),
    **dict.fromkeys(
        (
            "load-two",
            "store-two",
            "register-load-two",
            "register-store-two",
        ),
        "ONKI205",
    ),
    **dict.fromkeys(("sbuf-offset-int64",), "ONKI210"),
}
"""The code of each call: another operand or width, another dtype or shape or memory, another kind."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_registers_and_scalars_do_not_take(name: str) -> None:
    def kernel(x: Any) -> Any:
        CALLS[name](x)
        return x

    for found in refusals(kernel, OpenNkiError, X):
        assert found.code == REFUSED[name], found.message
        assert called(name) in found.message  # what the user wrote


def called(name: str) -> str:
    """Return the function that a call of the table calls; arithmetic has none, its messages say `scalar`."""
    first, second = name.split("-")[:2]
    table = {"load": "scalar_load", "store": "scalar_store", "register": f"register_{second}"}
    return table.get(first, "scalar")


def test_every_call_has_its_code() -> None:
    assert set(CALLS) == set(REFUSED)

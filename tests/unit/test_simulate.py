"""Simulation: launches, turns, barriers, arrays in place."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.frontend.simulate import Simulation
from opennki.isa.recorder import CURRENT
from tests.unit.simulating import failure, hbm, line_of, ramp, sbuf

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@pytest.fixture(autouse=True)
def _on_trn2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


# ---------------------------------------------------------------------------------------------- launches


@nki.jit
def count(x: Any) -> Any:
    """Write how many cores there are, each core its own element."""
    out = hbm(1, 2)
    core = nl.program_id(0)
    tile = sbuf(1, 2)
    nisa.memset(dst=tile, value=float(nl.num_programs(0)))
    if nl.num_programs(0) == 1:
        nisa.dma_copy(dst=out, src=tile)
    else:
        nisa.dma_copy(dst=out[:, core : core + 1], src=tile[:, core : core + 1])
    return out


@pytest.mark.parametrize(
    ("simulation", "expected"),
    [
        (lambda: nki.simulate(count), 1),
        (lambda: nki.simulate(count[1]), 1),
        (lambda: nki.simulate(count[2]), 2),
        (lambda: nki.simulate(count)[2], 2),
        (lambda: nki.simulate(count[2])[2], 2),
        (lambda: nki.simulate(count.function)[2], 2),
    ],
)
def test_degree(simulation: Callable[[], Simulation], expected: int) -> None:
    assert simulation()(ramp(1)).tolist() == [[expected, expected]]


def test_degree_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    assert nki.simulate(count)(ramp(1)).tolist() == [[2, 2]]
    assert nki.simulate(count[1])(ramp(1)).tolist() == [[1, 1]]


def test_two_brackets_that_disagree() -> None:
    assert failure(lambda: nki.simulate(count[2])[1](ramp(1))).code == "ONKI301"


def test_a_degree_that_the_target_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    assert failure(lambda: nki.simulate(count[2])(ramp(1))).code == "NCC_EARG001"


def test_cpu_simulate_is_the_same() -> None:
    assert nki.cpu_simulate is nki.simulate
    assert repr(nki.simulate(count[2])) == "<simulation of <nki kernel count[2]>>"


def test_keywords_and_values() -> None:
    @nki.jit
    def kernel(x: Any, scale: float = 1.0, *, y: Any = None) -> Any:
        tile, out = sbuf(*x.shape), hbm(*x.shape)
        nisa.dma_copy(dst=tile, src=x if y is None else y)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = ramp(2, 3)
    assert np.array_equal(nki.simulate(kernel)(x), x)
    assert np.array_equal(nki.simulate(kernel)(x, 2.0), 2 * x)
    assert np.array_equal(nki.simulate(kernel)(x, scale=3.0, y=x + 1), 3 * (x + 1))


@pytest.mark.parametrize("order", ["F", "reversed", "broadcast"])
def test_inputs_in_any_order_of_memory(order: str) -> None:
    x = {
        "F": np.asfortranarray(ramp(4, 6)),
        "reversed": ramp(4, 6)[::-1, ::-1],
        "broadcast": np.broadcast_to(ramp(1, 6), (4, 6)),
    }[order]

    def kernel(x: Any) -> Any:
        out = hbm(4, 6)
        nisa.dma_copy(dst=out, src=x)
        return out

    assert np.array_equal(nki.simulate(kernel)(x), x)


@pytest.mark.parametrize("value", [opennki.Spec("float32", (2, 2)), [opennki.Spec("float32", (2, 2))]])
def test_a_spec_has_no_data_to_simulate(value: object) -> None:
    assert failure(lambda: nki.simulate(lambda x: x)(value)).code == "ONKI104"


def test_outputs_are_nested_as_the_kernel_nests_them() -> None:
    def kernel(x: Any) -> Any:
        out = hbm(2, 2)
        nisa.dma_copy(dst=out, src=x)
        return {"a": [out, None], "b": (out[1], out[:, 0])}

    x = ramp(2, 2)
    result = nki.simulate(kernel)(x)
    assert list(result) == ["a", "b"]
    assert np.array_equal(result["a"][0], x)
    assert result["a"][1] is None
    assert [part.tolist() for part in result["b"]] == [[2.0, 3.0], [0.0, 2.0]]


# ------------------------------------------------------------------------------------------ turns of cores


def test_cores_take_turns_that_change_only_where_they_meet() -> None:
    order: list[str] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        core = nl.program_id(0)
        for step in range(3):
            order.append(f"core {core} step {step}")
            nisa.core_barrier(data=x, cores=(0, 1))
        order.append(f"core {core} ends")
        return x

    expected = [
        "core 0 step 0",
        "core 1 step 0",
        "core 1 step 1",
        "core 0 step 1",
        "core 0 step 2",
        "core 1 step 2",
        "core 1 ends",
        "core 0 ends",
    ]
    for _ in range(5):
        order.clear()
        nki.simulate(kernel[2])(ramp(2, 2))
        assert order == expected


def test_without_a_meeting_core_0_runs_first() -> None:
    order: list[int] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        for _ in range(3):
            order.append(nl.program_id(0))
        return x

    nki.simulate(kernel[2])(ramp(2, 2))
    assert order == [0, 0, 0, 1, 1, 1]


@nki.jit
def swap(x: Any) -> Any:
    """Each core writes its half and, after the barrier, reads the other's."""
    core, half = nl.program_id(0), x.shape[0] // 2
    shared, out = hbm(*x.shape), hbm(*x.shape)
    mine, other = slice(core * half, (core + 1) * half), slice((1 - core) * half, (2 - core) * half)
    nisa.dma_copy(dst=shared[mine], src=x[mine])
    nisa.core_barrier(data=shared, cores=(0, 1))
    nisa.dma_copy(dst=out[mine], src=shared[other])
    return out


def test_a_barrier_orders_what_the_cores_share() -> None:
    x = ramp(4, 3)
    expected = np.concatenate([x[2:], x[:2]])
    assert np.array_equal(nki.simulate(swap[2])(x), expected)
    executable = opennki.compile(opennki.trace(swap, x, lnc=2), lnc=2)
    for _ in range(20):
        assert np.array_equal(executable(x), expected)


def test_a_barrier_of_one_core_orders_nothing() -> None:
    def kernel(x: Any) -> Any:
        nisa.core_barrier(data=x, cores=(0, 1))
        nisa.core_barrier(data=x)
        nisa.core_barrier(data=x, cores=0)
        return x

    x = ramp(2, 2)
    assert nki.simulate(kernel)(x) is x


def test_a_barrier_that_one_core_never_reaches() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        if nl.program_id(0) == 1:
            nisa.core_barrier(data=x, cores=(0, 1))  # alone
        return x

    (found,) = failure(lambda: nki.simulate(kernel[2])(ramp(2, 2))).diagnostics
    assert (found.code, found.core, found.related) == ("ONKI307", 1, ("NCC_IXGM002",))
    assert found.message == "core 1 waits at `core_barrier` and is never met: core 0 has finished"
    assert found.location is not None
    assert found.location.line == line_of(kernel, "# alone")


def test_a_simulation_and_a_trace_refuse_a_lopsided_barrier_alike() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        for _ in range(1 + nl.program_id(0)):
            nisa.core_barrier(data=x, cores=(0, 1))
        return x

    simulated = failure(lambda: nki.simulate(kernel[2])(ramp(2, 2)))
    traced = failure(lambda: opennki.trace(kernel[2], ramp(2, 2)))
    assert simulated.diagnostics == traced.diagnostics


def test_the_cores_of_a_barrier_are_a_set() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        nisa.core_barrier(data=x, cores=(0, 1) if nl.program_id(0) == 0 else [1, 0])
        return x

    assert np.array_equal(nki.simulate(kernel[2])(ramp(2, 2)), ramp(2, 2))


def test_an_exception_of_one_core_ends_the_other() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        if nl.program_id(0) == 1:
            raise LookupError("own")
        nisa.core_barrier(data=x, cores=(0, 1))
        return x

    with pytest.raises(LookupError, match="own") as caught:
        nki.simulate(kernel[2])(ramp(2, 2))
    (note,) = caught.value.__notes__
    assert note.endswith("on core 1 of 2")
    assert CURRENT.get() is None


def test_a_refusal_on_one_core_ends_the_other() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        if nl.program_id(0) == 1:
            sbuf(129, 1)
        nisa.core_barrier(data=x, cores=(0, 1))
        return x

    (found,) = failure(lambda: nki.simulate(kernel[2])(ramp(2, 2))).diagnostics
    assert (found.code, found.core) == ("ONKI212", 1)


def test_cores_see_the_callers_context() -> None:
    import contextvars

    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen = []

    @nki.jit
    def kernel(x: Any) -> Any:
        seen.append(variable.get())
        return x

    variable.set("set")
    nki.simulate(kernel[2])(ramp(2, 2))
    assert seen == ["set", "set"]


def test_a_simulation_inside_of_a_kernel() -> None:
    seen = []

    def outer(x: Any) -> Any:
        seen.append(nki.simulate(count[2])(ramp(1)).tolist())
        out = hbm(2, 2)
        nisa.dma_copy(dst=out, src=x)
        return out

    assert np.array_equal(nki.simulate(outer)(ramp(2, 2)), ramp(2, 2))
    assert seen == [[[2.0, 2.0]]]


# -------------------------------------------------------------------------------------- arrays in place


def in_place(x: Any, y: Any) -> Any:
    """Double `x` in place; return `y`."""
    tile = sbuf(*x.shape)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=x, src=tile)
    return y


def test_a_written_input_changes_the_callers_array() -> None:
    x, y = ramp(2, 3), ramp(1, 1)
    assert nki.simulate(in_place)(x, y) is y
    assert np.array_equal(x, 2 * ramp(2, 3))
    assert np.array_equal(y, ramp(1, 1))


def test_a_written_input_that_lies_across_memory() -> None:
    whole = ramp(6, 8)
    window = whole[1:5:2, ::4]
    nki.simulate(in_place)(window, ramp(1, 1))
    expected = ramp(6, 8)
    expected[1:5:2, ::4] *= 2
    assert np.array_equal(whole, expected)


def test_an_alias_is_the_callers_array() -> None:
    def kernel(x: Any) -> Any:
        nisa.dma_copy(dst=x[0:1], src=x[1:2])
        return x, x[0]

    x = ramp(2, 2)
    whole, row = nki.simulate(kernel)(x)
    assert whole is x
    assert x.tolist() == [[2.0, 3.0], [2.0, 3.0]]
    assert row.tolist() == [2.0, 3.0]


def test_a_kernel_may_return_nothing_but_what_it_wrote() -> None:
    def kernel(x: Any) -> None:
        nisa.dma_copy(dst=x[0:1], src=x[1:2])

    x = ramp(2, 2)
    assert nki.simulate(kernel)(x) is None
    assert x.tolist() == [[2.0, 3.0], [2.0, 3.0]]


def test_a_kernel_without_any_effect() -> None:
    def kernel(x: Any) -> None:
        sbuf(1, 1)

    assert failure(lambda: nki.simulate(kernel)(ramp(2, 2))).code == "ONKI106"


def test_read_only_arrays_are_read_and_not_written() -> None:
    x = ramp(2, 2)
    x.flags.writeable = False
    assert nki.simulate(lambda x, y: y)(x, ramp(1)).tolist() == [0.0]
    error = failure(lambda: nki.simulate(in_place)(x, ramp(1, 1)))
    assert error.code == "ONKI703"
    assert error.diagnostics[0].message == "input `x` is written by the kernel but the array is read-only"
    assert np.array_equal(x, ramp(2, 2))


def test_an_array_stays_as_it_was_when_a_kernel_fails() -> None:
    def kernel(x: Any) -> None:
        nisa.dma_copy(dst=x[0:1], src=x[1:2])
        raise RuntimeError

    x = ramp(2, 2)
    with pytest.raises(RuntimeError):
        nki.simulate(kernel)(x)
    assert np.array_equal(x, ramp(2, 2))

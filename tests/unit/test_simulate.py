"""Simulation: turns, barriers, arrays in place, unwritten memory, PSUM accumulation, the life of storage."""

from __future__ import annotations

import gc
import inspect
import warnings
import weakref
from collections.abc import Callable
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.diag import OpenNkiError
from opennki.frontend.simulate import Simulation
from opennki.isa.recorder import CURRENT

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _on_trn2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


def hbm(*shape: int, dtype: str = "float32") -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def sbuf(*shape: int, dtype: str = "float32", address: tuple[int, int] | None = None) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, address=address)


def psum(*shape: int, address: tuple[int, int] | None = None) -> Any:
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum, address=address)


def ramp(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def line_of(function: Callable[..., Any], text: str) -> int:
    """Return the number of the one line of a function's source that holds `text`."""
    lines, first = inspect.getsourcelines(getattr(function, "function", function))
    (found,) = [first + i for i, line in enumerate(lines) if text in line]
    return found


def failure(run: Callable[[], object]) -> OpenNkiError:
    with pytest.raises(OpenNkiError) as caught:
        run()
    assert CURRENT.get() is None
    return caught.value


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
    assert found.message == "core 1 waits at a barrier that is never completed: core 0 has finished"
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


# ------------------------------------------------------------------------------------------------ memory


@pytest.mark.parametrize(
    ("dtype", "is_unwritten"),
    [
        ("float32", np.isnan),
        ("bfloat16", lambda a: np.isnan(a.astype(np.float32))),
        ("float8_e4m3", lambda a: np.isnan(a.astype(np.float32))),
        ("int32", lambda a: a == 4),
        ("uint8", lambda a: a == 4),
        ("bool", lambda a: a),
    ],
)
@pytest.mark.parametrize("space", ["sbuf", "hbm", "shared_hbm"])
def test_unwritten_memory(dtype: str, is_unwritten: Callable[[Array], Any], space: str) -> None:
    def kernel(x: Any) -> Any:
        kind = nl.bool_ if dtype == "bool" else getattr(nl, dtype)
        tile = nl.ndarray((2, 3), dtype=kind, buffer=getattr(nl, space))
        out = nl.ndarray((2, 3), dtype=kind, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    simulated = nki.simulate(kernel)(ramp(1))
    assert is_unwritten(simulated).all()
    assert opennki.compile(opennki.trace(kernel, ramp(1)), lnc=1)(ramp(1)).tobytes() == simulated.tobytes()


def test_unwritten_elements_of_an_output_stay_unwritten() -> None:
    def kernel(x: Any) -> Any:
        out = hbm(2, 2)
        nisa.dma_copy(dst=out[0:1], src=x[0:1])
        return out

    first, second = nki.simulate(kernel)(ramp(2, 2))
    assert first.tolist() == [0.0, 1.0]
    assert np.isnan(second).all()


def test_tiles_at_one_address_share_their_bytes() -> None:
    def kernel(x: Any) -> Any:
        words = sbuf(2, 4, address=(0, 64))
        halves = sbuf(2, 8, dtype="int16", address=(0, 64))
        second = sbuf(1, 2, address=(1, 72))
        outs = hbm(2, 8, dtype="int16"), hbm(1, 2)
        nisa.dma_copy(dst=words, src=x)
        nisa.dma_copy(dst=outs[0], src=halves)
        nisa.dma_copy(dst=outs[1], src=second)
        return outs

    x = ramp(2, 4)
    halves, second = nki.simulate(kernel)(x)
    assert np.array_equal(halves, x.view(np.int16))
    assert np.array_equal(second, x[1:, 2:])


def test_tiles_without_an_address_share_nothing() -> None:
    def kernel(x: Any) -> Any:
        placed = sbuf(2, 2, address=(0, 0))
        free = sbuf(2, 2)
        out = hbm(2, 2)
        nisa.dma_copy(dst=placed, src=x)
        nisa.dma_copy(dst=out, src=free)
        return out

    assert np.isnan(nki.simulate(kernel)(ramp(2, 2))).all()


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int16"])
def test_unwritten_integers_at_an_address_read_as_4(dtype: str) -> None:
    def kernel(x: Any) -> Any:
        out = hbm(2, 3, dtype=dtype)
        nisa.dma_copy(dst=out, src=sbuf(2, 3, dtype=dtype, address=(0, 0)))
        return out

    assert (nki.simulate(kernel)(ramp(1)) == 4).all()


# ---------------------------------------------------------------------------------------- accumulation


def ones(k: int, columns: int) -> Any:
    tile = sbuf(k, columns)
    nisa.memset(dst=tile, value=1.0)
    return tile


def result(tile: Any) -> Any:
    """Bring a PSUM tile out."""
    row, out = sbuf(*tile.shape), hbm(*tile.shape)
    nisa.tensor_copy(dst=row, src=tile)
    nisa.dma_copy(dst=out, src=row)
    return out


def both(kernel: Any, *arrays: Array) -> Array:
    """Return a kernel's result, the same when simulated and when compiled, twice."""
    simulated = nki.simulate(kernel)(*arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", opennki.OpenNkiWarning)
        executable = opennki.compile(opennki.trace(kernel, *arrays), lnc=1)
    for _ in range(2):
        assert executable(*arrays).tobytes() == simulated.tobytes()
    return np.asarray(simulated)


def test_accumulation_is_decided_for_each_element() -> None:
    """Each product adds 2 to the columns that are written and overwrites the rest of its window."""

    def kernel(x: Any) -> Any:
        dst = psum(4, 8)
        left, right = ones(2, 4), ones(2, 8)
        for low, high in ((0, 4), (2, 6), (0, 6), (5, 8)):
            nisa.nc_matmul(dst=dst[:, low:high], stationary=left, moving=right[:, low:high])
        return result(dst)

    assert both(kernel, ramp(1)).tolist() == [[4, 4, 6, 6, 4, 6, 2, 2]] * 4


def test_accumulation_over_partitions_and_steps() -> None:
    def kernel(x: Any) -> Any:
        dst = psum(64, 6)
        right = ones(1, 6)
        nisa.nc_matmul(dst=dst[0:32, 0:6:2], stationary=ones(1, 32), moving=right[:, 0:3])
        nisa.nc_matmul(dst=dst[32:64, :], stationary=ones(1, 32), moving=right)
        nisa.nc_matmul(dst=dst, stationary=ones(1, 64), moving=right)
        return result(dst)

    expected = [[2, 1, 2, 1, 2, 1]] * 32 + [[2] * 6] * 32
    assert both(kernel, ramp(1)).tolist() == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((None,), 1),
        ((None, None), 2),
        ((False, False), 1),
        ((False, None), 2),
        ((None, False, None), 2),
        ((False, True, True), 3),
    ],
)
def test_accumulate_flags(flags: tuple[bool | None, ...], expected: float) -> None:
    def kernel(x: Any) -> Any:
        dst = psum(2, 2)
        for flag in flags:
            nisa.nc_matmul(dst=dst, stationary=ones(1, 2), moving=ones(1, 2), accumulate=flag)
        return result(dst)

    assert both(kernel, ramp(1)).tolist() == [[expected] * 2] * 2


def test_any_instruction_counts_as_a_write() -> None:
    def kernel(x: Any) -> Any:
        dst = psum(2, 4)
        nisa.memset(dst=dst[:, 1:2], value=10.0)
        nisa.tensor_copy(dst=dst[:, 2:3], src=ones(2, 1))
        nisa.nc_matmul(dst=dst, stationary=ones(1, 2), moving=ones(1, 4))
        return result(dst)

    assert both(kernel, ramp(1)).tolist() == [[1, 11, 2, 1]] * 2


def test_each_allocation_is_fresh() -> None:
    def kernel(x: Any) -> Any:
        total = hbm(3, 2, 2)
        for turn in range(3):
            dst = psum(2, 2)
            for _ in range(turn + 1):
                nisa.nc_matmul(dst=dst, stationary=ones(1, 2), moving=ones(1, 2))
            row = sbuf(2, 2)
            nisa.tensor_copy(dst=row, src=dst)
            nisa.dma_copy(dst=total[turn], src=row)
        return total

    assert both(kernel, ramp(1)).tolist() == [[[n] * 2] * 2 for n in (1, 2, 3)]


def test_a_new_allocation_at_the_same_address_is_fresh() -> None:
    def kernel(x: Any) -> Any:
        for _ in range(3):
            dst = psum(2, 2, address=(0, 0))
            nisa.nc_matmul(dst=dst, stationary=ones(1, 2), moving=ones(1, 2))
        return result(dst)

    assert both(kernel, ramp(1)).tolist() == [[1, 1]] * 2


def test_a_product_onto_unwritten_psum_that_adds_gives_nan() -> None:
    def kernel(x: Any) -> Any:
        dst = psum(2, 2)
        nisa.nc_matmul(dst=dst, stationary=ones(1, 2), moving=ones(1, 2), accumulate=True)
        return result(dst)

    assert np.isnan(both(kernel, ramp(1))).all()


def test_the_accumulator_of_the_scalar_engine_starts_unwritten_in_each_launch() -> None:
    def kernel(x: Any) -> Any:
        tile, res, out = sbuf(2, 2), sbuf(2, 1), hbm(2, 1)
        nisa.memset(dst=tile, value=1.0)
        command = nisa.reduce_cmd
        for cmd in (command.reset_reduce, command.reduce, command.idle):
            op = None if cmd is command.idle else nl.add
            nisa.activation(dst=tile, op=nl.copy, data=tile, reduce_op=op, reduce_res=res, reduce_cmd=cmd)
        nisa.dma_copy(dst=out, src=res)
        return out

    for _ in range(2):
        assert both(kernel, ramp(1)).tolist() == [[4.0]] * 2


# --------------------------------------------------------------------------------------- life of storage


def test_storage_dies_with_the_last_tensor_that_shows_it() -> None:
    alive: list[weakref.ref[Any]] = []
    counts: list[int] = []

    def kernel(x: Any) -> Any:
        kept = sbuf(2, 2)
        alive.append(weakref.ref(kept.handle.storage.raw))
        for _ in range(4):
            tile = sbuf(2, 2)
            window = tile[:, 0:1]
            nisa.memset(dst=window, value=1.0)
            nisa.tensor_copy(dst=kept[:, 0:1], src=window)
            alive.append(weakref.ref(tile.handle.storage.raw))
            counts.append(sum(ref() is not None for ref in alive))
        del tile
        gc.collect()
        counts.append(sum(ref() is not None for ref in alive))  # the window keeps the last one
        del window
        gc.collect()
        counts.append(sum(ref() is not None for ref in alive))
        return x

    nki.simulate(kernel)(ramp(1))
    assert counts == [2, 2, 2, 2, 2, 1]
    gc.collect()
    assert [ref() for ref in alive] == [None] * 5


def test_a_result_outlives_its_launch() -> None:
    def kernel(x: Any) -> Any:
        out = hbm(2, 2)
        nisa.dma_copy(dst=out, src=x)
        return out

    first = nki.simulate(kernel)(ramp(2, 2))
    second = nki.simulate(kernel)(ramp(2, 2) + 1)
    assert np.array_equal(first, ramp(2, 2))
    assert not np.shares_memory(first, second)


# ------------------------------------------------------------------------------------ small things that bite


def test_bfloat16_arrays_come_and_go_as_they_are() -> None:
    def kernel(x: Any) -> Any:
        tile, out = sbuf(2, 3, dtype="bfloat16"), hbm(2, 3, dtype="bfloat16")
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = ramp(2, 3).astype(ml_dtypes.bfloat16)
    found = nki.simulate(kernel)(x)
    assert found.dtype == ml_dtypes.bfloat16
    assert np.array_equal(found, x + x)


def test_an_operand_may_be_the_destination() -> None:
    def kernel(x: Any) -> Any:
        tile, out = sbuf(2, 6), hbm(2, 6)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_copy(dst=tile[:, 1:6], src=tile[:, 0:5])  # overlaps itself
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = ramp(2, 6)
    assert np.array_equal(both(kernel, x), np.concatenate([x[:, :1], x[:, :5]], axis=1))


def test_findings_are_said_once() -> None:
    def kernel(x: Any) -> Any:
        tile = sbuf(4, 8)
        for _ in range(3):
            tile[:, 4:8].ap([[8, 4], [1, 2]], offset=2)
        return x

    with pytest.warns(opennki.OpenNkiWarning, match="ONKI403") as said:
        nki.simulate(kernel)(ramp(1))
    assert len(said) == 1

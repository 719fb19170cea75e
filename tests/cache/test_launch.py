"""Direct calls through the cache: what was compiled runs again, unless what it depends on has changed."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.cache import CACHE
from opennki.diag import OpenNkiError, OpenNkiWarning
from tests.unit.kernels import add_scaled, double_in_place, halve, ramp

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

Array = np.ndarray[Any, Any]


def scaled(x: Any, factor: float) -> Any:
    """Return x * factor, as a kernel writes it."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(factor))
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_an_equal_call_is_not_traced_again(traces: list[str]) -> None:
    for i in range(3):
        x = ramp() + i
        np.testing.assert_array_equal(halve(x), x / 2)
    assert traces == ["halve"]


def test_the_second_process_reads_the_first_ones_trace(traces: list[str]) -> None:
    np.testing.assert_array_equal(halve[2](ramp()), ramp() / 2)
    CACHE.forget()
    np.testing.assert_array_equal(halve[2](ramp()), ramp() / 2)
    assert traces == ["halve"]


def test_trace_compile_and_check_share_entries(traces: list[str]) -> None:
    artifact = opennki.trace(halve, ramp(), lnc=1)
    assert opennki.trace(halve, "float32[128,16]", lnc=1) is artifact
    assert opennki.check(halve, ramp(), lnc=1).ok
    np.testing.assert_array_equal(opennki.compile(halve, ramp(), lnc=1)(ramp()), ramp() / 2)
    np.testing.assert_array_equal(halve(ramp()), ramp() / 2)
    assert traces == ["halve"]


def test_simulation_always_runs_the_kernel(traces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    halve(ramp())
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    np.testing.assert_array_equal(halve(ramp()), ramp() / 2)
    assert traces == ["halve"]


CALLS: dict[str, tuple[Callable[[Array], Any], Callable[[Array], Any]]] = {
    "shape": (lambda x: halve(x), lambda x: halve(x[:, :8].copy())),
    "dtype": (lambda x: halve(x), lambda x: halve(x.astype(np.float16))),
    "degree": (lambda x: halve(x), lambda x: halve[2](x)),
    "bracket": (lambda x: halve(x), lambda x: halve[1](x)),
    "value": (lambda x: add_scaled(x, x, 2.0), lambda x: add_scaled(x, x, 3.0)),
    "default": (lambda x: add_scaled(x, x), lambda x: add_scaled(x, x, scale=1.0)),
    "type of a value": (lambda x: add_scaled(x, x, 1), lambda x: add_scaled(x, x, True)),
    "sign of zero": (lambda x: add_scaled(x, x, 0.0), lambda x: add_scaled(x, x, -0.0)),
}


@pytest.mark.parametrize(("one", "other"), CALLS.values(), ids=CALLS.keys())
def test_what_tells_two_calls_apart(
    one: Callable[[Array], Any], other: Callable[[Array], Any], traces: list[str]
) -> None:
    for call in (one, other, one, other):
        call(ramp())
    assert len(traces) == 2


def test_a_keyword_makes_no_difference(traces: list[str]) -> None:
    add_scaled(ramp(), ramp(), 2.0)
    add_scaled(ramp(), ramp(), scale=2.0)
    add_scaled(b=ramp(), a=ramp(), scale=2.0)
    assert traces == ["add_scaled"]


def test_two_arrays_are_not_mixed_up() -> None:
    a, b = ramp(), ramp() * 10
    same = add_scaled(a, a, 2.0)
    np.testing.assert_array_equal(same[0], 3 * a)
    for args, keywords in [
        ((a, b, 2.0), {}),
        ((a,), {"b": b, "scale": 2.0}),
        ((), {"scale": 2.0, "b": b, "a": a}),
    ]:
        total, difference = add_scaled(*args, **keywords)
        np.testing.assert_array_equal(total, a + 2 * b)
        np.testing.assert_array_equal(difference, a - 2 * b)
    np.testing.assert_array_equal(add_scaled(b=a, a=b, scale=2.0)[0], b + 2 * a)


def test_an_input_is_written_in_place_each_time(traces: list[str]) -> None:
    x = ramp()
    for factor in (2, 4, 8):
        assert double_in_place(x) is x
        np.testing.assert_array_equal(x, ramp() * factor)
    assert traces == ["double_in_place"]


def test_outputs_of_two_calls_are_apart() -> None:
    first = halve(ramp())
    second = halve(ramp() + 2)
    np.testing.assert_array_equal(first, ramp() / 2)
    np.testing.assert_array_equal(second, ramp() / 2 + 1)


def test_lists_of_arrays(traces: list[str]) -> None:
    @nki.jit
    def total(xs: Any) -> Any:
        return scaled(xs[0], len(xs))

    for xs in ([ramp(), ramp()], [ramp() + 1, ramp()], [ramp()]):
        np.testing.assert_array_equal(total(xs), xs[0] * len(xs))
    assert traces == ["total", "total"]


def test_settings_are_looked_at_in_each_call(traces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    halve(ramp())
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=1")
    with pytest.raises(OpenNkiError) as caught:
        halve(ramp())
    assert caught.value.code == "NCC_ENKI003"
    monkeypatch.delenv("NEURON_CC_FLAGS")
    np.testing.assert_array_equal(halve(ramp()), ramp() / 2)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    np.testing.assert_array_equal(halve(ramp()), ramp() / 2)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    np.testing.assert_array_equal(halve(ramp()), ramp() / 2)
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    np.testing.assert_array_equal(halve(ramp()), ramp() / 2)
    assert traces == ["halve"] * 4


def test_a_limit_of_zero_turns_the_cache_off(
    traces: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "0")
    halve(ramp())
    halve(ramp())
    assert traces == ["halve", "halve"]
    assert not (tmp_path / "cache").exists()


def test_a_limit_that_is_no_size_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "much")
    with pytest.raises(OpenNkiError) as caught:
        halve(ramp())
    assert caught.value.code == "ONKI008"


# Things that change in the same process: the kernel reads `factor()`, the change is made between two calls.

NUMBERS = [2.0, 3.0]
TABLE = {"a": 2.0}
ARRAY = np.array([2.0, 3.0])
BUFFER = bytearray(b"\x02")
WORDS = {"a", "b"}
HOLDER = SimpleNamespace(inner=SimpleNamespace(value=2.0))
GLOBAL = 2.0


class Scale:
    value = 2.0
    __slots__ = ("own",)

    def __init__(self) -> None:
        self.own = 2.0


SCALE = Scale()


class Getter:
    def get(self) -> float:
        return 2.0


GETTER = Getter()


def helper(value: float = 2.0, *, other: float = 2.0) -> float:
    return value + other


def by_attribute() -> float:
    return 2.0


by_attribute.extra = 2.0  # type: ignore[attr-defined]  # functions have attributes of their own


def set_extra() -> None:
    by_attribute.extra = 9.0  # type: ignore[attr-defined]  # as above


def bound_to(value: float, other: float) -> float:
    return value + other


BOUND = functools.partial(bound_to, other=1.0)

Change = tuple[Callable[[], float], Callable[[], object]]

CHANGES: dict[str, Change] = {
    "list": (lambda: NUMBERS[0], lambda: NUMBERS.__setitem__(0, 9.0)),
    "list grows": (lambda: float(len(NUMBERS)), lambda: NUMBERS.append(1.0)),
    "dict": (lambda: TABLE["a"], lambda: TABLE.update(a=9.0)),
    "array": (lambda: float(ARRAY[1]), lambda: ARRAY.__setitem__(1, 9.0)),
    "bytearray": (lambda: float(BUFFER[0]), lambda: BUFFER.__setitem__(0, 9)),
    "set": (lambda: float(len(WORDS)), lambda: WORDS.add("c")),
    "object in an object": (
        lambda: HOLDER.inner.value,
        lambda: setattr(HOLDER.inner, "value", 9.0),
    ),
    "slot": (lambda: SCALE.own, lambda: setattr(SCALE, "own", 9.0)),
    "class attribute": (lambda: SCALE.value, lambda: setattr(Scale, "value", 9.0)),
    "method": (lambda: GETTER.get(), lambda: setattr(Getter, "get", lambda self: 9.0)),
    "default": (lambda: helper(), lambda: setattr(helper, "__defaults__", (9.0,))),
    "keyword default": (lambda: helper(), lambda: (helper.__kwdefaults__ or {}).update(other=7.0)),
    "code": (
        lambda: helper(1.0),
        lambda: setattr(helper, "__code__", (lambda value, *, other: 9.0).__code__),
    ),
    "function's attribute": (lambda: by_attribute.extra, set_extra),  # type: ignore[attr-defined]  # as above
    "global": (lambda: GLOBAL, lambda: globals().update(GLOBAL=9.0)),
    "module's attribute": (lambda: nl_extra(), lambda: setattr(nl, "extra", lambda: 9.0)),
    "partial": (lambda: BOUND(4.0), lambda: BOUND.keywords.update(other=8.0)),
}


def nl_extra() -> float:
    found: float = nl.extra()
    return found


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_in_the_process_is_seen(
    name: str, traces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nl, "extra", lambda: 2.0, raising=False)
    factor, change = CHANGES[name]

    @nki.jit
    def kernel(x: Any) -> Any:
        return scaled(x, factor())

    x = ramp()
    before = factor()
    for _ in range(2):
        np.testing.assert_array_equal(kernel(x), x * before)
    assert traces == ["kernel"]
    change()
    assert factor() != before
    for _ in range(2):
        np.testing.assert_array_equal(kernel(x), x * factor())
    assert traces == ["kernel", "kernel"]


def test_a_module_that_a_function_imports_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        import late_module  # type: ignore[import-not-found]  # made below

        return scaled(x, late_module.FACTOR)

    for factor in (2.0, 5.0):
        module = ModuleType("late_module")
        module.FACTOR = factor  # type: ignore[attr-defined]  # made here
        monkeypatch.setitem(sys.modules, "late_module", module)
        np.testing.assert_array_equal(kernel(ramp()), ramp() * factor)


def test_the_order_of_keywords_counts(traces: list[str]) -> None:
    @nki.jit
    def kernel(x: Any, **factors: float) -> Any:
        return scaled(x, next(iter(factors.values())))

    np.testing.assert_array_equal(kernel(ramp(), a=2.0, b=3.0), ramp() * 2)
    np.testing.assert_array_equal(kernel(ramp(), b=3.0, a=2.0), ramp() * 3)
    assert traces == ["kernel", "kernel"]


def test_an_object_that_changes_its_class() -> None:
    class Two:
        def get(self) -> float:
            return 2.0

    class Five:
        def get(self) -> float:
            return 5.0

    held: Any = Two()

    @nki.jit
    def kernel(x: Any) -> Any:
        return scaled(x, held.get())

    np.testing.assert_array_equal(kernel(ramp()), ramp() * 2)
    held.__class__ = Five
    np.testing.assert_array_equal(kernel(ramp()), ramp() * 5)


def test_a_closure_cell_that_is_assigned() -> None:
    factor = 2.0

    def set_factor(value: float) -> None:
        nonlocal factor
        factor = value

    @nki.jit
    def kernel(x: Any) -> Any:
        return scaled(x, factor)

    np.testing.assert_array_equal(kernel(ramp()), ramp() * 2)
    set_factor(5.0)
    np.testing.assert_array_equal(kernel(ramp()), ramp() * 5)


def test_a_global_that_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        return scaled(x, abs(-2.0))

    np.testing.assert_array_equal(kernel(ramp()), ramp() * 2)
    monkeypatch.setitem(globals(), "abs", lambda value: 7.0)
    np.testing.assert_array_equal(kernel(ramp()), ramp() * 7)
    monkeypatch.undo()
    np.testing.assert_array_equal(kernel(ramp()), ramp() * 2)


LOCK = threading.Lock()


@nki.jit
def locked(x: Any) -> Any:
    with LOCK:
        return scaled(x, 2.0)


def test_what_cannot_be_digested_is_traced_each_time_and_said_once(traces: list[str]) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(3):
            np.testing.assert_array_equal(locked(ramp()), ramp() * 2)
    assert traces == ["locked"] * 3
    (warning,) = said
    assert warning.category is OpenNkiWarning
    assert str(warning.message).splitlines()[0] == (
        "warning[ONKI506]: kernel `locked` is traced at each call: global `LOCK` of test_launch.py holds a "
        "`_thread.lock`, whose state cannot be read"
    )


def test_an_argument_that_cannot_be_digested(traces: list[str]) -> None:
    findings = opennki.trace(add_scaled, ramp(), ramp(), 1.0).findings
    assert findings == ()

    @nki.jit
    def kernel(x: Any, numbers: Any) -> Any:
        return scaled(x, next(numbers))

    for number in (2.0, 3.0):
        artifact = opennki.trace(kernel, ramp(), numbers=iter([number]))
        (finding,) = artifact.findings
        assert (finding.code, finding.message) == (
            "ONKI506",
            "kernel `kernel` is traced at each call: argument `numbers` holds a `builtins.list_iterator`, "
            "whose state cannot be read",
        )
        np.testing.assert_array_equal(opennki.compile(artifact, lnc=1)(ramp()), ramp() * number)
    assert traces == ["add_scaled", "kernel", "kernel"]


def test_a_kernel_that_changes_what_it_reads_is_not_kept(traces: list[str]) -> None:
    seen: list[int] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        seen.append(x.shape[0])
        return scaled(x, 2.0)

    for count in (1, 2):
        (finding,) = opennki.trace(kernel, ramp()).findings
        assert finding.message == (
            "kernel `kernel` is traced at each call: outer variable `seen` of function "
            "`test_a_kernel_that_changes_what_it_reads_is_not_kept.<locals>.kernel` of test_launch.py "
            "changes while it is traced"
        )
        assert seen == [128] * count


def test_values_that_a_key_may_hold() -> None:
    @nki.jit
    def kernel(x: Any, options: Any = None) -> Any:
        return scaled(x, 1.0 if options is None else options.factor)

    for options, expected in [
        (None, 1.0),
        (SimpleNamespace(factor=2.0), 2.0),
        (SimpleNamespace(factor=3.0), 3.0),
    ]:
        np.testing.assert_array_equal(kernel(ramp(), options), ramp() * expected)
        np.testing.assert_array_equal(kernel(ramp(), options=options), ramp() * expected)


def test_threads_share_the_cache() -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        for i in range(20):
            x = ramp() + number + i
            if not np.array_equal(halve(x), x / 2):
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_kernels_own_error_is_raised_each_time(traces: list[str]) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            kernel(ramp())
    assert traces == ["kernel", "kernel"]


def test_findings_of_a_trace_are_kept_with_it() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype)
        part = nl.ndarray((128, 4), dtype=x.dtype)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_copy(dst=part, src=tile[:, 4:8].ap(pattern=[[16, 128], [1, 4]], offset=0))
        nisa.dma_copy(dst=out, src=part)
        return out

    first = opennki.trace(kernel, ramp())
    CACHE.forget()
    second = opennki.trace(kernel, ramp())
    assert [finding.code for finding in first.findings] == ["ONKI403"]
    assert str(OpenNkiError(*second.findings)) == str(OpenNkiError(*first.findings))
    assert second.programs == first.programs

"""Every kernel with dynamic loops gives its reference: simulated, and traced, compiled and executed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import opennki
from opennki.ir.types import Instruction, Loop
from tests.loops import kernels_counted, kernels_legacy, kernels_nested, kernels_two_cores
from tests.loops.loop_case import Array, Arrays, LoopCase, loop_case

nki: Any = import_module("opennki.nki")
nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

MODULES = (kernels_counted, kernels_nested, kernels_two_cores, kernels_legacy)


def runs() -> Iterator[Any]:
    """Yield every case once for each degree that gives its value."""
    for module in MODULES:
        for case in module.cases():
            for lnc in case.degrees:
                marks = [pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")] * case.warns
                yield pytest.param(case, lnc, id=f"{case.name}-lnc{lnc}", marks=marks)


def several(arrays: Arrays) -> tuple[Array, ...]:
    return arrays if isinstance(arrays, tuple) else (arrays,)


def copies(case: LoopCase) -> list[Array]:
    return [array.copy() for array in case.inputs]


def assert_equal(actual: Any, expected: Arrays) -> None:
    """Fail unless both are the same arrays: dtype, shape and every element."""
    for one, other in zip(several(actual), several(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other, strict=True)


@pytest.mark.parametrize(("case", "lnc"), list(runs()))
def test_a_kernel_with_loops_gives_its_reference(
    case: LoopCase, lnc: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    kernel = nki.jit(case.kernel)
    expected = case.reference(*copies(case), **case.values)
    assert_equal(nki.simulate(kernel[lnc])(*copies(case), **case.values), expected)
    artifact = opennki.trace(kernel, *case.inputs, lnc=lnc, target="trn2", **case.values)
    exe = opennki.compile(artifact, lnc=lnc)
    for _ in range(2):  # an executable starts afresh each time
        assert_equal(exe(*copies(case)), expected)


def instructions(body: tuple[Instruction | Loop, ...]) -> int:
    """Return the number of instructions of a program's body, those of loops counted once."""
    return sum(instructions(item.body) if isinstance(item, Loop) else 1 for item in body)


def depth(body: tuple[Instruction | Loop, ...]) -> int:
    """Return how deep the loops of a body nest."""
    return max([1 + depth(item.body) for item in body if isinstance(item, Loop)], default=0)


def test_a_program_does_not_grow_with_the_trip_count() -> None:
    """ "The compiled artifact size does not grow with the trip count"; even with constant bounds."""
    sizes = []
    for upper in (1, 10, 1_000_000):
        bounds = np.zeros((1, 2), np.int32)
        artifact = opennki.trace(nki.jit(kernels_counted.turns_and_sum), bounds, lnc=1, upper=upper)
        sizes.append((instructions(artifact.programs[0].body), depth(artifact.programs[0].body)))
    assert len(set(sizes)) == 1
    assert sizes[0][1] == 1


def test_nested_loops_nest_in_the_program() -> None:
    artifact = opennki.trace(nki.jit(kernels_nested.three_deep), np.zeros((1, 2), np.int32), lnc=2)
    assert [depth(program.body) for program in artifact.programs] == [3, 3]


def test_a_body_is_recorded_once_and_simulated_once_a_turn() -> None:
    turns: list[Any] = []

    def kernel(x: Any) -> Any:
        def body(i: Any) -> None:
            turns.append(i)
            nisa.dma_copy(dst=x, src=x)

        nl.fori_loop(0, 7, body)
        return x

    x = np.zeros((2, 2), np.float32)
    opennki.trace(nki.jit(kernel), x, lnc=1)
    assert len(turns) == 1
    nki.simulate(nki.jit(kernel))(x)
    assert len(turns) == 8


def test_many_turns_run() -> None:
    case = loop_case(
        kernels_counted.turns_and_sum, kernels_counted.turns_and_sum_reference,
        np.zeros((1, 2), np.int32), upper=3000,
    )  # fmt: skip
    exe = opennki.compile(opennki.trace(nki.jit(case.kernel), *case.inputs, lnc=1, **case.values), lnc=1)
    assert_equal(exe(*copies(case)), case.reference(*case.inputs, **case.values))


def test_a_saved_kernel_with_loops_gives_the_same(tmp_path: Any) -> None:
    """The text and the bytes of a program carry its loops: `.nka`, loaded again, executes alike."""
    for case in (*list(kernels_nested.nested_cases())[-3:], next(kernels_two_cores.cases())):
        lnc = case.degrees[-1]
        artifact = opennki.trace(nki.jit(case.kernel), *case.inputs, lnc=lnc, target="trn2", **case.values)
        artifact.save(tmp_path / "kernel.nka")
        exe = opennki.compile(opennki.load(tmp_path / "kernel.nka"), lnc=lnc)
        assert_equal(exe(*copies(case)), case.reference(*copies(case), **case.values))


def test_the_names_of_cases_are_unique() -> None:
    names = [case.name for module in MODULES for case in module.cases()]
    assert len(set(names)) == len(names)

"""Every row against its independent oracle: simulated, and traced, compiled and executed, with equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opennki

opennki.install(force=True)

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from tests.rows.case_kernel import inputs_of, kernel_of, named  # noqa: E402
from tests.rows.cases import Case, Illegal, illegal_calls, legal_cases  # noqa: E402
from tests.rows.conversions import bits_of  # noqa: E402
from tests.rows.oracle_calls import disagreement, evaluate  # noqa: E402

LEGAL = [pytest.param(case, id=case.id) for case in legal_cases()]
ILLEGAL = [pytest.param(illegal, id=illegal.case.id) for illegal in illegal_calls()]
BARRIERS = [
    pytest.param("trn1", (0, 1), False, "CORE_BARRIER-01", id="core_barrier-gen2"),
    pytest.param("trn2", (0,), False, "CORE_BARRIER-02", id="core_barrier-one-core"),
    pytest.param("trn2", (0, 2), False, "CORE_BARRIER-02", id="core_barrier-core-2"),
    pytest.param("trn2", (0, 1), True, "CORE_BARRIER-03", id="core_barrier-private"),
]


@pytest.mark.parametrize("case", LEGAL)
def test_row_agrees_with_its_oracle(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", case.target)
    kernel = kernel_of(case)
    simulated = named(case, nki.simulate(kernel)(*inputs_of(case)))
    assert disagreement(case, evaluate(case), simulated) == ""
    artifact = opennki.trace(kernel, *inputs_of(case), lnc=1, target=case.target)
    executed = named(case, opennki.compile(artifact, lnc=1)(*inputs_of(case)))
    for name, array in simulated.items():
        differ = bits_of(array) != bits_of(executed[name])
        assert not differ.any(), f"{name}: simulated and executed differ in {int(differ.sum())} elements"


@pytest.mark.parametrize("illegal", ILLEGAL)
def test_illegal_call_names_its_rule(illegal: Illegal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", illegal.case.target)
    kernel = kernel_of(illegal.case)
    with pytest.raises(nisa.NkiValidationError) as simulated:
        nki.simulate(kernel)(*inputs_of(illegal.case))
    with pytest.raises(nisa.NkiValidationError) as traced:
        opennki.trace(kernel, *inputs_of(illegal.case), lnc=1, target=illegal.case.target)
    for error in (simulated.value, traced.value):
        assert error.diagnostics[0].rule in illegal.rules, str(error)


@nki.jit
def exchange(x: Any) -> Any:
    """Each core writes its half of a shared tensor and, after the barrier, reads the other's."""
    core, half = nl.program_id(0), x.shape[0] // 2
    shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    mine, other = core * half, (1 - core) * half
    nisa.dma_copy(dst=tile, src=x[mine : mine + half, :])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(core + 2))
    nisa.dma_copy(dst=shared[mine : mine + half, :], src=tile)
    nisa.core_barrier(data=shared, cores=(0, 1))
    nisa.dma_copy(dst=out[mine : mine + half, :], src=shared[other : other + half, :])
    return out


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_core_barrier_orders_what_two_cores_share(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    expected = np.concatenate([x[4:] * 3, x[:4] * 2])
    for _ in range(5):
        assert np.array_equal(nki.simulate(exchange[2])(x), expected)
    exe = opennki.compile(opennki.trace(exchange, x, lnc=2, target=target), lnc=2)
    for _ in range(20):
        assert np.array_equal(exe(x), expected)


@pytest.mark.parametrize(("target", "cores", "private", "rule"), BARRIERS)
def test_illegal_barriers(target: str, cores: tuple[int, ...], private: bool, rule: str) -> None:
    @nki.jit
    def barrier(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm) if private else out
        nisa.core_barrier(data=data, cores=cores)
        nisa.dma_copy(dst=out, src=x)
        return out

    lnc = 1 if target == "trn1" else 2
    with pytest.raises(nisa.NkiValidationError) as error:
        opennki.trace(barrier, np.zeros((2, 2), np.float32), lnc=lnc, target=target)
    assert error.value.diagnostics[0].rule == rule

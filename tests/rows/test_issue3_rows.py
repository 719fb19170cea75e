"""Rows with indices, predicates, sums, registers and scalars against their independent oracles.

Each case is simulated, and traced, compiled and executed; both runs must give the oracle's values, and equal
bits.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import opennki

opennki.install(force=True)  # the kernels of case_kernel.py say `import nki`

from opennki.diag import OpenNkiError  # noqa: E402
from tests.rows import case_kernel, cases_indexed, cases_scalar, cases_select, indexed_kernel  # noqa: E402
from tests.rows import oracle_indexed as indexed  # noqa: E402
from tests.rows import oracle_select as select  # noqa: E402
from tests.rows.cases import Case, Illegal  # noqa: E402
from tests.rows.cases_indexed import Fault  # noqa: E402
from tests.rows.cases_scalar import ScalarCase  # noqa: E402
from tests.rows.conversions import Array, bits_of  # noqa: E402
from tests.rows.oracle_calls import disagreement  # noqa: E402
from tests.rows.oracle_indexed import IndexedCase  # noqa: E402
from tests.rows.oracle_scalar import build, evaluate, spelled  # noqa: E402

nki: Any = import_module("opennki.nki")
nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel here is traced once, so a key for it would be work for nothing."""
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "0")


def named_by(values: Any) -> str:
    """Return the id of a case, or of the case of an illegal call."""
    return str(values.case.id if isinstance(values, Illegal) else values.id)


def assert_same_bits(simulated: dict[str, Array], executed: dict[str, Array]) -> None:
    """Fail unless both runs gave the same bits in every buffer."""
    for name, array in simulated.items():
        differ = bits_of(array) != bits_of(executed[name])
        assert not differ.any(), f"{name}: simulated and executed differ in {int(differ.sum())} elements"


@pytest.mark.parametrize("case", cases_select.cases(), ids=named_by)
def test_choosing_rows_agree_with_their_oracles(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", case.target)
    kernel = case_kernel.kernel_of(case)
    simulated = case_kernel.named(case, nki.simulate(kernel)(*case_kernel.inputs_of(case)))
    claims, _ = select.run(case)
    assert disagreement(case, claims, simulated) == ""
    artifact = opennki.trace(kernel, *case_kernel.inputs_of(case), lnc=1, target=case.target)
    executed = opennki.compile(artifact, lnc=1)(*case_kernel.inputs_of(case))
    assert_same_bits(simulated, case_kernel.named(case, executed))


@pytest.mark.parametrize("case", cases_indexed.cases(), ids=named_by)
def test_indexed_accesses_agree_with_their_oracle(case: IndexedCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", case.target)
    kernel = indexed_kernel.kernel_of(case)
    simulated = indexed_kernel.named(case, nki.simulate(kernel)(*indexed_kernel.inputs_of(case)))
    claims, _ = indexed.evaluate(case)
    assert indexed.disagreement(case, claims, simulated) == ""
    artifact = opennki.trace(kernel, *indexed_kernel.inputs_of(case), lnc=1, target=case.target)
    executed = opennki.compile(artifact, lnc=1)(*indexed_kernel.inputs_of(case))
    assert_same_bits(simulated, indexed_kernel.named(case, executed))


@pytest.mark.parametrize("fault", cases_indexed.faults(), ids=named_by)
def test_an_index_out_of_range_is_an_error_of_the_run(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    case = fault.case
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", case.target)
    kernel = indexed_kernel.kernel_of(case)
    with pytest.raises(OpenNkiError) as simulated:
        nki.simulate(kernel)(*indexed_kernel.inputs_of(case))
    exe = opennki.compile(
        opennki.trace(kernel, *indexed_kernel.inputs_of(case), lnc=1, target=case.target), lnc=1
    )
    with pytest.raises(OpenNkiError) as executed:
        exe(*indexed_kernel.inputs_of(case))
    for error in (simulated.value, executed.value):
        assert [finding.code for finding in error.diagnostics] == ["ONKI704"]
        assert str(fault.index) in error.diagnostics[0].message


def refused(error: type[Exception], kernel: Any, inputs: list[Array], target: str, lnc: int = 1) -> list[Any]:
    """Return the first finding of a simulation and of a trace, both refused."""
    launched = kernel if lnc == 1 else kernel[lnc]
    with pytest.raises(error) as simulated:
        nki.simulate(launched)(*[array.copy() for array in inputs])
    with pytest.raises(error) as traced:
        opennki.trace(kernel, *inputs, lnc=lnc, target=target)
    found = [raised.value.diagnostics[0] for raised in (simulated, traced)]  # type: ignore[attr-defined]  # ours
    assert found[0].code == found[1].code
    return found


@pytest.mark.parametrize("illegal", cases_select.refused(), ids=named_by)
def test_illegal_calls_name_their_rule(illegal: Illegal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", illegal.case.target)
    kernel, inputs = case_kernel.kernel_of(illegal.case), case_kernel.inputs_of(illegal.case)
    for found in refused(nisa.NkiValidationError, kernel, inputs, illegal.case.target):
        assert found.rule in illegal.rules, str(found)


# A scatter whose indices repeat: the order is not documented ---------------------------------------------


def test_a_scatter_to_one_row_keeps_one_of_the_rows() -> None:
    table = cases_indexed.hbm(10, 4)
    case = cases_indexed.moved("twice", "ap", table, (3, 7, 3, 3), scatter=True)
    result = indexed_kernel.named(
        case, nki.simulate(indexed_kernel.kernel_of(case))(*indexed_kernel.inputs_of(case))
    )["table"]
    rows, before = case.data["tile"], case.data["table"]
    assert any(np.array_equal(bits_of(result[3]), bits_of(rows[i])) for i in (0, 2, 3))
    assert np.array_equal(bits_of(result[7]), bits_of(rows[1]))
    others = [0, 1, 2, 4, 5, 6, 8, 9]
    assert np.array_equal(bits_of(result[others]), bits_of(before[others]))


# Scalars -------------------------------------------------------------------------------------------------


def scalar_kernel(case: ScalarCase) -> Any:
    """Return a kernel that loads every element as a scalar and stores every expression."""

    def kernel(x: Any) -> Any:
        count, kind = len(case.expressions), getattr(nl, case.dtype)
        tile = nl.ndarray((1, x.shape[1]), dtype=kind, buffer=nl.sbuf)
        out = nl.ndarray((1, count), dtype=kind, buffer=nl.shared_hbm)
        results = nl.ndarray((1, count), dtype=kind, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        scalars = [nisa.scalar_load(tile[0:1, i : i + 1]) for i in range(x.shape[1])]
        for place, expression in enumerate(case.expressions):
            nisa.scalar_store(results[0:1, place : place + 1], build(expression, scalars))
        nisa.dma_copy(dst=out, src=results)
        return out

    return nki.jit(kernel)


@pytest.mark.parametrize("case", cases_scalar.cases(), ids=named_by)
def test_scalar_arithmetic_wraps_at_its_width(case: ScalarCase) -> None:
    kernel, data = scalar_kernel(case), case.data[0].tolist()
    simulated = nki.simulate(kernel)(case.data.copy())
    wanted = [evaluate(expression, data, case.dtype) for expression in case.expressions]
    wrong = [
        f"{spelled(expression)} is {have}, want {want} for {data}"
        for expression, have, want in zip(case.expressions, simulated[0].tolist(), wanted, strict=True)
        if have != want
    ]
    assert wrong == []
    executed = opennki.compile(opennki.trace(kernel, case.data, lnc=1, target="trn2"), lnc=1)(case.data)
    assert executed.dtype == simulated.dtype == np.dtype(case.dtype)
    assert executed.tolist() == simulated.tolist()


# Views and transfers that a documented rule forbids --------------------------------------------------------


def tiles(dtype: Any = None) -> dict[str, Any]:
    """Return tensors for the refusals below."""
    return {
        "table": nl.ndarray((8, 4, 6), dtype=nl.float32, buffer=nl.shared_hbm),
        "sbuf": nl.ndarray((8, 4, 6), dtype=nl.float32, buffer=nl.sbuf),
        "psum": nl.ndarray((8, 24), dtype=nl.float32, buffer=nl.psum),
        "tile": nl.ndarray((4, 24), dtype=nl.float32, buffer=nl.sbuf),
        "other": nl.ndarray((4, 24), dtype=nl.float32, buffer=nl.sbuf),
        "rows": nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.sbuf),
        "one": nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf),
        "two": nl.ndarray((1, 2), dtype=nl.int32, buffer=nl.sbuf),
        "far": nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.shared_hbm),
        "near": nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.psum),
    }


WHOLE = [[24, 4], [1, 24]]


def picked(t: dict[str, Any]) -> Any:
    return t["table"].ap(pattern=WHOLE, vector_offset=t["rows"], indirect_dim=0)


def added(t: dict[str, Any], **changes: Any) -> Any:
    given = {"dst": t["tile"], "srcs": [t["tile"], t["other"]], "reduce_op": nl.add, **changes}
    return nisa.dma_compute(**given)


Forbidden = Callable[[dict[str, Any]], Any]
FORBIDDEN: dict[str, tuple[str, Forbidden]] = {
    "both-offsets": (
        "GEN-29",
        lambda t: t["table"].ap(pattern=WHOLE, scalar_offset=t["one"], vector_offset=t["rows"]),
    ),
    "second-select": ("GEN-30", lambda t: t["table"].select(0, t["one"]).select(0, t["one"])),
    "select-partition": ("GEN-30", lambda t: t["sbuf"].select(0, t["one"])),
    "ap-partition": (
        "GEN-30",
        lambda t: t["sbuf"].ap(pattern=[[24, 4], [1, 24]], scalar_offset=t["one"], indirect_dim=0),
    ),
    "vector-then-select": ("GEN-30", lambda t: t["table"].vector_select(0, t["rows"]).select(1, t["one"])),
    "vector-dim-1": ("GEN-31|GEN-32", lambda t: t["table"].vector_select(1, t["rows"])),
    "vector-in-sbuf": ("GEN-31", lambda t: t["sbuf"].vector_select(0, t["rows"])),
    "vector-ap-dim-1": (
        "GEN-32",
        lambda t: t["table"].ap(pattern=WHOLE, vector_offset=t["rows"], indirect_dim=1),
    ),
    "slice-selected": ("GEN-33", lambda t: t["table"].vector_select(0, t["rows"])[1:3]),
    "select-selected": ("GEN-33", lambda t: t["table"].vector_select(0, t["rows"]).select(0, 1)),
    "vector-ap-in-sbuf": (
        "DMA_COPY-03|GEN-31",
        lambda t: nisa.dma_copy(
            dst=t["tile"], src=t["sbuf"].ap(pattern=WHOLE, vector_offset=t["rows"], indirect_dim=0)
        ),
    ),
    "vector-of-hbm": (
        "DMA_COPY-03",
        lambda t: nisa.dma_copy(
            dst=t["tile"], src=t["table"].ap(pattern=WHOLE, vector_offset=t["far"], indirect_dim=0)
        ),
    ),
    "scalar-of-two": (
        "DMA_COPY-04",
        lambda t: nisa.dma_copy(
            dst=t["tile"], src=t["table"].ap(pattern=WHOLE, scalar_offset=t["two"], indirect_dim=0)
        ),
    ),
    "scalar-in-psum": (
        "DMA_COPY-04",
        lambda t: nisa.dma_copy(
            dst=t["tile"], src=t["table"].ap(pattern=WHOLE, scalar_offset=t["near"], indirect_dim=0)
        ),
    ),
    "vector-without-dge": (
        "DMA_COPY-08|DMA_COPY-11",
        lambda t: nisa.dma_copy(dst=t["tile"], src=picked(t), dge_mode=nisa.dge_mode.none),
    ),
    "vector-by-hwdge": (
        "DMA_COPY-08|DMA_COPY-09",
        lambda t: nisa.dma_copy(dst=t["tile"], src=picked(t), dge_mode=nisa.dge_mode.hwdge),
    ),
    "sum-multiply": ("DMA_COMPUTE-01", lambda t: added(t, reduce_op=nl.multiply)),
    "sum-scaled": ("DMA_COMPUTE-02", lambda t: added(t, scales=[1.0, 2.0])),
    "sum-17": ("DMA_COMPUTE-03", lambda t: added(t, srcs=[t["other"]] * 17)),
    "sum-elements": ("DMA_COMPUTE-04", lambda t: added(t, srcs=[t["tile"], t["tile"][:, 0:23]])),
    "sum-destination": ("DMA_COMPUTE-04", lambda t: added(t, dst=t["other"][:, 0:23])),
    "sum-psum-source": ("DMA_COMPUTE-05", lambda t: added(t, srcs=[t["tile"], t["psum"][0:4]])),
    "sum-psum-destination": ("DMA_COMPUTE-05", lambda t: added(t, dst=t["psum"][0:4])),
    "sum-scalar-offset": (
        "DMA_COMPUTE-06",
        lambda t: added(t, srcs=[t["tile"], t["table"].ap(pattern=WHOLE, scalar_offset=t["one"])]),
    ),
    "sum-three-indexed": ("DMA_COMPUTE-07", lambda t: added(t, srcs=[t["tile"], t["other"], picked(t)])),
    "sum-not-unique": (
        "DMA_COMPUTE-08",
        lambda t: added(t, srcs=[t["tile"], picked(t)], unique_indices=False),
    ),
    "sum-skip-static": ("DMA_COMPUTE-11", lambda t: added(t, oob_mode=nisa.oob_mode.skip)),
}
"""The rule that a call breaks, and the call. Source: facts/constraints.csv, the rules of that name."""


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_accesses_name_their_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, call = FORBIDDEN[name]
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")

    def kernel(x: Any) -> Any:
        call(tiles())
        return x

    for found in refused(OpenNkiError, nki.jit(kernel), [np.zeros((2, 2), np.float32)], "trn2"):
        assert found.rule in rules.split("|"), str(found)


@pytest.mark.parametrize("method", ["ap", "vector_select"])
def test_vector_indices_need_gen3(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    case = cases_indexed.moved("gen2", method, cases_indexed.hbm(10, 4), (3, 7), target="trn1")
    kernel, inputs = indexed_kernel.kernel_of(case), indexed_kernel.inputs_of(case)
    for found in refused(nisa.NkiValidationError, kernel, inputs, "trn1"):
        assert found.rule == "DMA_COPY-10"


# sendrecv --------------------------------------------------------------------------------------------------


def swap(dtype: str, shape: tuple[int, ...], engine: str, window: tuple[slice, ...]) -> Any:
    """Return a kernel in which each core sends its half and writes what it received."""

    def kernel(x: Any) -> Any:
        core, kind = nl.program_id(0), getattr(nl, dtype)
        out = nl.ndarray((2, *shape), dtype=kind, buffer=nl.shared_hbm)
        mine = nl.ndarray(shape, dtype=kind, buffer=nl.sbuf)
        received = nl.ndarray(shape, dtype=kind, buffer=nl.sbuf)
        nisa.dma_copy(dst=mine, src=x[core])
        nisa.dma_copy(dst=received, src=x[core])
        nisa.sendrecv(
            src=mine[window], dst=received[window], send_to_rank=1 - core, recv_from_rank=1 - core,
            pipe_id=0, dma_engine=nisa.dma_engine[engine],
        )  # fmt: skip
        nisa.dma_copy(dst=out[core], src=received)
        return out

    return nki.jit(kernel)


SWAPS: tuple[tuple[str, tuple[int, ...], tuple[slice, ...]], ...] = (
    ("float32", (128, 256), (slice(0, 128), slice(0, 256))),
    ("bfloat16", (4, 256), (slice(0, 4), slice(0, 256))),
    ("uint8", (1, 256), (slice(0, 1), slice(0, 256))),
    ("int32", (64, 6, 5), (slice(32, 64), slice(1, 6, 2), slice(0, 5))),
    ("float8_e4m3", (3, 7), (slice(0, 3), slice(0, 7))),
)
"""Element type, shape, and the window that is exchanged; the first three fill GpSimd's DMA to its limit."""


@pytest.mark.parametrize(("dtype", "shape", "window"), SWAPS)
@pytest.mark.parametrize("engine", ["dma", "gpsimd_dma"])
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_sendrecv_swaps_tiles(
    dtype: str, shape: tuple[int, ...], window: tuple[slice, ...], engine: str, target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    data = cases_indexed.built("swap", {"x": cases_indexed.hbm(2, *shape, dtype=dtype)}).data["x"]
    wanted = data.copy()
    for core in (0, 1):
        wanted[core][window] = data[1 - core][window]
    kernel = swap(dtype, shape, engine, window)
    simulated = nki.simulate(kernel[2])(data.copy())
    assert np.array_equal(bits_of(simulated), bits_of(wanted))
    exe = opennki.compile(opennki.trace(kernel, data, lnc=2, target=target), lnc=2)
    for _ in range(3):
        assert np.array_equal(bits_of(exe(data.copy())), bits_of(wanted))


def test_two_exchanges_in_one_program_keep_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pipes, then the same pipe again: each receives what the peer sent in that call."""
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")

    def kernel(x: Any) -> Any:
        core = nl.program_id(0)
        out = nl.ndarray((2, 4, 3), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((4, 3), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[core])
        for pipe in (0, 7, 0):
            other = nl.ndarray((4, 3), dtype=nl.float32, buffer=nl.sbuf)
            nisa.sendrecv(src=tile, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=pipe)
            nisa.tensor_scalar(dst=other, data=other, op0=nl.multiply, operand0=2.0)
            nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
        nisa.dma_copy(dst=out[core], src=tile)
        return out

    x = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    wanted = x.copy()
    for _ in range(3):
        wanted = wanted + 2 * wanted[::-1]
    jitted = nki.jit(kernel)
    assert np.array_equal(nki.simulate(jitted[2])(x), wanted)
    exe = opennki.compile(opennki.trace(jitted, x, lnc=2, target="trn2"), lnc=2)
    assert np.array_equal(exe(x), wanted)


Exchange = dict[str, Any]
EXCHANGES: dict[str, tuple[str, Callable[[dict[str, Any], int], Exchange]]] = {
    "rank-2": ("SENDRECV-02", lambda t, core: {"send_to_rank": 2}),
    "rank-negative": ("SENDRECV-02", lambda t, core: {"recv_from_rank": -1}),
    "source-in-psum": ("SENDRECV-03", lambda t, core: {"src": t["psum"][0:4]}),
    "destination-in-hbm": ("SENDRECV-03", lambda t, core: {"dst": t["table"][0:4, 0]}),
    "dtypes": ("SENDRECV-04", lambda t, core: {"dst": t["other"].view(nl.int32)}),
    "partitions": ("SENDRECV-04|GEN-12", lambda t, core: {"src": t["tile"][0:3]}),
    "elements": ("SENDRECV-04", lambda t, core: {"src": t["tile"][:, 0:23]}),
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_illegal_exchanges_name_their_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, changes = EXCHANGES[name]
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")

    def kernel(x: Any) -> Any:
        core, t = nl.program_id(0), tiles()
        given = {"src": t["tile"], "dst": t["other"], "send_to_rank": 1 - core, "recv_from_rank": 1 - core}
        nisa.sendrecv(**{**given, **changes(t, core)}, pipe_id=0)
        return x

    for found in refused(nisa.NkiValidationError, nki.jit(kernel), [np.zeros((2, 2), np.float32)], "trn2", 2):
        assert found.rule in rules.split("|"), str(found)


@pytest.mark.parametrize(("dtype", "elements"), [("float32", 257), ("float16", 257), ("int8", 257)])
def test_gpsimd_exchange_has_a_limit(dtype: str, elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """1024 bytes per partition of 32-bit elements, 512 of 16-bit, 256 of 8-bit: 256 elements each."""
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    kernel = swap(dtype, (2, elements), "gpsimd_dma", (slice(0, 2), slice(0, elements)))
    data = np.zeros((2, 2, elements), dtype)
    for found in refused(nisa.NkiValidationError, kernel, [data], "trn2", lnc=2):
        assert found.rule == "SENDRECV-05"
        assert str(elements * data.itemsize) in found.message


@pytest.mark.parametrize(("target", "lnc"), [("trn1", 1), ("trn2", 1)])
def test_sendrecv_needs_two_cores_of_gen3(target: str, lnc: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    kernel = swap("float32", (2, 3), "dma", (slice(0, 2), slice(0, 3)))
    for found in refused(nisa.NkiValidationError, kernel, [np.zeros((2, 2, 3), np.float32)], target, lnc):
        assert found.rule == "SENDRECV-01"

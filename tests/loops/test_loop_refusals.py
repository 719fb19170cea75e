"""What dynamic loops refuse, in a simulation and in a trace with one code; and what they only warn of.

Source: nki/api/nki/language/__init__.py (`fori_loop`, `while_loop`), nki/migration/index.rst ("Rules for
migrated loops"), nki/deep-dives/nki-dynamic-loops.rst, SDK 2.33 page nki-loops.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import opennki
from opennki.diag import Diagnostic, OpenNkiError, OpenNkiWarning
from tests.loops.kernels_counted import sbuf
from tests.loops.kernels_legacy import documented_range, documented_while, ranges, unrolled
from tests.loops.kernels_two_cores import known_trips
from tests.loops.loop_case import counts

nki: Any = import_module("opennki.nki")
nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

X = np.array([[3]], np.int32)


def refusals(kernel: Callable[..., Any]) -> list[Diagnostic]:
    """Return the findings with which a simulation and a trace refuse."""
    found = []
    for attempt in (
        lambda: nki.simulate(nki.jit(kernel))(X.copy()),
        lambda: opennki.trace(nki.jit(kernel), X, lnc=1, target="trn2"),
    ):
        with pytest.raises(OpenNkiError) as raised:
            attempt()
        found.append(raised.value.diagnostics[0])
    return found


def register(x: Any) -> Any:
    made = nisa.register_alloc()
    nisa.register_load(made, x)
    return made


def bump(tile: Any, number: float = 1.0) -> None:
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=number)


def nothing(i: Any) -> None:
    """A body without instructions."""


def wide_bound(x: Any) -> None:
    zero = nl.ndarray((1, 1), dtype=nl.int64, buffer=nl.private_hbm)
    nl.fori_loop(0, nisa.scalar_load(zero), nothing)


def escaping_tensor(x: Any) -> None:
    kept = []

    def body(i: Any) -> None:
        kept.append(sbuf(1, 1))
        nisa.memset(dst=kept[-1], value=0.0)

    nl.fori_loop(0, 3, body)
    bump(kept[0])


def escaping_psum(x: Any) -> None:
    kept = []

    def body(i: Any) -> None:
        kept.append(nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.psum))
        nisa.memset(dst=kept[-1], value=0.0)

    nl.fori_loop(0, 3, body)
    nisa.tensor_copy(dst=sbuf(4, 4), src=kept[0])


def escaping_view(x: Any) -> None:
    kept = []

    def body(r: Any) -> Any:
        kept.append(sbuf(4, 4)[0:2, 1:3])
        nisa.memset(dst=kept[-1], value=0.0)
        nisa.register_move(r, 0)
        return r

    nl.while_loop(register(x), body)
    nisa.tensor_copy(dst=sbuf(2, 2), src=kept[0])


def escaping_inner(x: Any) -> None:
    kept = []

    def inner(j: Any) -> None:
        kept.append(sbuf(1, 1))
        nisa.memset(dst=kept[-1], value=0.0)

    def outer(i: Any) -> None:
        nl.fori_loop(0, 2, inner)
        bump(kept[-1])

    nl.fori_loop(0, 2, outer)


def in_no_reorder(x: Any) -> None:
    with nl.no_reorder():
        nl.fori_loop(0, 3, nothing)


def while_in_no_reorder(x: Any) -> None:
    with nl.no_reorder():
        nl.while_loop(register(x), lambda r: r)


def range_in_no_reorder(x: Any) -> None:
    with nl.no_reorder():
        for _ in nl.dynamic_range(3):
            pass


def legacy_break(x: Any) -> None:
    for _ in nl.dynamic_range(register(x)):
        bump(sbuf(1, 1))
        break


def legacy_else(x: Any) -> None:
    for _ in nl.dynamic_range(register(x)):
        bump(sbuf(1, 1))
    else:
        bump(sbuf(1, 1))


def legacy_continue(x: Any) -> None:
    for _ in nl.dynamic_range(register(x)):
        if x is not None:
            continue
        bump(sbuf(1, 1))


def legacy_return(x: Any) -> Any:
    for _ in nl.dynamic_range(register(x)):
        return x


def legacy_while_break(x: Any) -> None:
    reg = register(x)
    while reg:
        break


def legacy_while_return(x: Any) -> Any:
    reg = register(x)
    while reg:
        nisa.register_move(reg, 0)
        return x


def legacy_if_inside(x: Any) -> None:
    for i in nl.dynamic_range(register(x)):
        if i:
            bump(sbuf(1, 1))


def legacy_and(x: Any) -> None:
    reg, turns = register(x), iter(range(3))
    while reg and x is not None:
        next(turns)  # never mind what a turn is taken for, it ends
        nisa.register_move(reg, 0)


def legacy_written(x: Any) -> None:
    for i in nl.dynamic_range(10):
        nisa.register_move(i, 10)


def legacy_loaded(x: Any) -> None:
    for i in nl.dynamic_range(10):
        nisa.register_load(i, x)


REFUSED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "step-zero": ("ONKI101", lambda x: nl.fori_loop(0, 3, nothing, step=0)),
    "step-negative": ("ONKI101", lambda x: nl.fori_loop(3, 0, nothing, step=-1)),
    "step-float": ("ONKI101", lambda x: nl.fori_loop(0, 3, nothing, step=1.0)),
    "step-register": ("ONKI101", lambda x: nl.fori_loop(0, 3, nothing, step=register(x))),
    "step-scalar": ("ONKI101", lambda x: nl.fori_loop(0, 3, nothing, step=nisa.scalar_load(x))),
    "bound-float": ("ONKI101", lambda x: nl.fori_loop(0, 3.0, nothing)),
    "bound-tile": ("ONKI101", lambda x: nl.fori_loop(0, x, nothing)),
    "bound-int64": ("ONKI101", wide_bound),
    "bound-none": ("ONKI101", lambda x: nl.fori_loop(0, None, nothing)),
    "bound-too-large": ("ONKI101", lambda x: nl.fori_loop(2**31, 2**31 + 1, nothing)),
    "body-returns": ("ONKI114", lambda x: nl.fori_loop(0, 3, lambda i: i)),
    "body-of-while-returns-nothing": ("ONKI114", lambda x: nl.while_loop(register(x), nothing)),
    "body-of-while-returns-int": ("ONKI114", lambda x: nl.while_loop(register(x), lambda r: 0)),
    "body-of-while-returns-tile": ("ONKI114", lambda x: nl.while_loop(register(x), lambda r: x)),
    "while-of-int": ("ONKI101", lambda x: nl.while_loop(3, lambda r: r)),
    "while-of-scalar": ("ONKI101", lambda x: nl.while_loop(nisa.scalar_load(x), lambda r: r)),
    "while-of-tile": ("ONKI101", lambda x: nl.while_loop(x, lambda r: r)),
    "if-induction": ("ONKI111", lambda x: nl.fori_loop(0, 3, lambda i: bump(x) if i else None)),
    "if-induction-register": (
        "ONKI111",
        lambda x: nl.fori_loop(0, register(x), lambda i: bump(x) if i else None),
    ),
    "range-of-induction": (
        "ONKI111",
        lambda x: nl.fori_loop(0, 3, lambda i: bump(x, sum(range(i)))),
    ),
    "if-while": ("ONKI111", lambda x: nl.while_loop(register(x), lambda r: r if r else None)),
    "slice-by-induction": ("ONKI111", lambda x: nl.fori_loop(0, 1, lambda i: nothing(sbuf(4, 4)[:, i:3]))),
    "escaping-tensor": ("ONKI113", escaping_tensor),
    "escaping-psum": ("ONKI113", escaping_psum),
    "escaping-view": ("ONKI113", escaping_view),
    "escaping-inner": ("ONKI113", escaping_inner),
    "in-no-reorder": ("ONKI112", in_no_reorder),
    "while-in-no-reorder": ("ONKI112", while_in_no_reorder),
    "range-in-no-reorder": ("ONKI112", range_in_no_reorder),
    "legacy-step-register": ("ONKI101", lambda x: [None for _ in nl.dynamic_range(0, 3, register(x))]),
    "legacy-step-zero": ("ONKI101", lambda x: [None for _ in nl.dynamic_range(0, 3, 0)]),
    "legacy-break": ("ONKI112", legacy_break),
    "legacy-else": ("ONKI112", legacy_else),
    "legacy-continue": ("ONKI112", legacy_continue),
    "legacy-return": ("ONKI112", legacy_return),
    "legacy-while-break": ("ONKI112", legacy_while_break),
    "legacy-while-return": ("ONKI112", legacy_while_return),
    "legacy-if-inside": ("ONKI111", legacy_if_inside),
    "legacy-and": ("ONKI111", legacy_and),
    "legacy-written": ("ONKI101", legacy_written),
    "legacy-loaded": ("ONKI101", legacy_loaded),
}
"""The code and the kernel's loop."""


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")  # the legacy loops' lint
def test_what_loops_refuse(name: str) -> None:
    code, loop = REFUSED[name]

    def kernel(x: Any) -> Any:
        loop(x)
        nisa.dma_copy(dst=x, src=x)
        return x

    simulated, traced = refusals(kernel)
    assert simulated.code == traced.code
    assert traced.code == code, traced.message
    for found in (simulated, traced):
        assert found.location is not None
        assert found.location.file.endswith("test_loop_refusals.py")


@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")  # the legacy loop's lint
def test_the_message_on_a_written_induction_value_says_what_it_is() -> None:
    """Case 54: the words that a user searches for, and the way out."""

    def kernel(x: Any) -> Any:
        legacy_written(x)
        return x

    for found in refusals(kernel):
        text = f"{found.message} {' '.join(found.notes)} {' '.join(str(line) for line in found.help)}"
        assert "induction" in text
        assert "while_loop" in text


def test_no_reorder_inside_a_body_is_fine() -> None:
    def kernel(x: Any) -> Any:
        tile = sbuf(1, 1)
        out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.memset(dst=tile, value=0.0)

        def body(i: Any) -> None:
            with nl.no_reorder():
                bump(tile)

        nl.fori_loop(0, 3, body)
        nisa.dma_copy(dst=out, src=tile)
        return out

    assert nki.simulate(nki.jit(kernel))(X).tolist() == [[3.0]]
    exe = opennki.compile(opennki.trace(nki.jit(kernel), X, lnc=1), lnc=1)
    assert exe(X).tolist() == [[3.0]]


def test_writing_to_the_value_of_fori_loop_changes_no_trip() -> None:
    """ "passed by value … writing to `i` has no effect on the loop" """

    def kernel(bounds: Any) -> Any:
        tile, here = sbuf(1, 1), sbuf(1, 1, dtype=nl.int32)
        out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.memset(dst=tile, value=0.0)

        def body(i: Any) -> None:
            nisa.register_move(i, 100)
            nisa.register_store(here, i)
            bump(tile)

        nl.fori_loop(0, register(bounds), body)
        nisa.dma_copy(dst=out, src=tile)
        return out

    assert nki.simulate(nki.jit(kernel))(X).tolist() == [[3.0]]
    exe = opennki.compile(opennki.trace(nki.jit(kernel), X, lnc=1), lnc=1)
    assert exe(X).tolist() == [[3.0]]


@pytest.mark.parametrize("kernel", [documented_range, documented_while, ranges])
def test_legacy_loops_work_and_say_that_they_are_gone(kernel: Callable[..., Any]) -> None:
    inputs = (np.zeros((4, 3), np.float32),) if kernel is documented_range else (counts(2, 3)[:, :1],)
    inputs = (counts(2, 3),) if kernel is ranges else inputs
    with pytest.warns(OpenNkiWarning, match="ONKI115"):
        artifact = opennki.trace(nki.jit(kernel), *inputs, lnc=1)
    assert {finding.code for finding in artifact.findings} == {"ONKI115"}
    text = str(artifact.findings[0].message) + " ".join(str(line) for line in artifact.findings[0].help)
    assert ("while_loop" if kernel is documented_while else "fori_loop") in text
    with pytest.warns(OpenNkiWarning, match="ONKI115"):
        nki.simulate(nki.jit(kernel))(*inputs)


def test_unrolled_ranges_bring_no_finding() -> None:
    """`affine_range` and its kind are deprecated, equal to `range`, and run (0.7)."""
    artifact = opennki.trace(nki.jit(unrolled), np.zeros((2, 2), np.float32), lnc=1)
    assert artifact.findings == ()


def test_trip_counts_that_differ_between_cores_are_a_finding() -> None:
    """Known while tracing, nothing meets inside: the kernel runs, and the difference is said."""
    artifact = opennki.trace(nki.jit(known_trips), np.zeros((2, 4, 3), np.float32), lnc=2, turns=(3, 5))
    assert len(artifact.findings) == 1
    message = artifact.findings[0].message
    assert "3" in message
    assert "5" in message
    same = opennki.trace(nki.jit(known_trips), np.zeros((2, 4, 3), np.float32), lnc=2, turns=(3, 3))
    assert same.findings == ()


@pytest.mark.parametrize(
    ("bounds", "step", "role"),
    [
        ((0, 1 << 31), 1, "upper"),
        ((-(1 << 31) - 1, 0), 1, "lower"),
        ((0, 4), 1 << 31, "step"),
        ((0, 4), 1 << 70, "step"),
        ((0, 1 << 70), 1, "upper"),
    ],
)
def test_what_no_register_holds_is_refused(bounds: tuple[int, int], step: int, role: str) -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.fori_loop(*bounds, lambda i: None, step=step)
        return out

    with pytest.raises(OpenNkiError) as caught:
        opennki.trace(kernel, "float32[4,4]", target="trn2")
    (found,) = caught.value.diagnostics
    assert (found.code, found.data["role"]) == ("ONKI101", role)
    assert "32-bit register" in found.message


@pytest.mark.parametrize(("bounds", "step"), [((-(1 << 31), (1 << 31) - 1), (1 << 31) - 1), ((0, 4), 5)])
def test_what_a_register_just_holds_is_traced_and_looked_at(bounds: tuple[int, int], step: int) -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)

        def body(i: Any) -> None:
            nisa.dma_copy(dst=out, src=tile)

        nl.fori_loop(*bounds, body, step=step)
        return out

    assert opennki.check(kernel, "float32[4,4]", lnc=1, target="trn2").ok

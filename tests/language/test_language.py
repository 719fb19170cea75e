"""The language: every feature of Python while tracing, and what cannot be a kernel, refused by name."""

from __future__ import annotations

import pdb
import sys
from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.diag import OpenNkiError
from tests.cases.loading import FILES, run_file

Array = np.ndarray[Any, np.dtype[Any]]
KERNELS = run_file(FILES.parents[1] / "language" / "kernel_file.py", "language_kernel_file")
nl = sys.modules["nki.language"]
nisa = sys.modules["nki.isa"]
X = np.arange(160 * 64, dtype=np.float32).reshape(160, 64)
SMALL = np.arange(32, dtype=np.float32).reshape(4, 8)


def both(kernel: Any, *args: Any, lnc: int = 1, **kwargs: Any) -> Any:
    """Return what a kernel gives, simulated and compiled alike."""
    launched = kernel[lnc]
    simulated = nki.simulate(launched)(*args, **kwargs)
    artifact = opennki.trace(launched, *args, **kwargs, target="trn2")
    compiled = opennki.compile(artifact, lnc=lnc)
    assert artifact.kernel == kernel.name
    arrays = [value for value in (*args, *kwargs.values()) if isinstance(value, np.ndarray)]
    if len(arrays) == sum(1 for entry in artifact.signature.inputs):
        np.testing.assert_array_equal(compiled(*arrays), simulated, strict=True)
    return simulated


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, X / 2),
        ({"scale": "double"}, X * 2),
        ({"mode": KERNELS.Mode.SQUARE}, X * X),
        ({"tiling": KERNELS.Tiling(rows=50, columns=48)}, X / 2),
        ({"mode": KERNELS.Mode.SQUARE, "tiling": KERNELS.Tiling(rows=1)}, X * X),
    ],
)
def test_control_flow(arguments: dict[str, Any], expected: Array) -> None:
    assert np.array_equal(both(KERNELS.control_flow, X, **arguments), expected)


def test_classes() -> None:
    steps = [KERNELS.Step(3.0), KERNELS.Shifted(4.0)]
    assert np.array_equal(both(KERNELS.classes, SMALL, steps), (SMALL * 3 * 4 + 1) * 0.5)


def test_structures() -> None:
    result = nki.simulate(KERNELS.structures)(
        {"b": SMALL, "a": 2 * SMALL}, (SMALL, SMALL + 1), SMALL + 2, SMALL + 3
    )
    assert np.array_equal(result[0], 3 * SMALL)
    assert np.array_equal(result[1], 4 * SMALL + 6)


def test_views() -> None:
    changed = SMALL.copy()
    changed[:, 0::2] += SMALL[:, 0:1]
    assert np.array_equal(both(KERNELS.views, SMALL), changed.reshape(4, 2, 4))


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_loops(trips: int) -> None:
    n = np.array([[trips]], np.int32)
    assert np.array_equal(both(KERNELS.loops, SMALL, n), SMALL + 3 * trips)


@pytest.mark.parametrize("lnc", [1, 2])
def test_cores(lnc: int) -> None:
    factor = np.repeat(np.arange(1, lnc + 1, dtype=np.float32), 4 // lnc)[:, None]
    assert np.array_equal(both(KERNELS.cores, SMALL, lnc=lnc), SMALL * factor)


def turn(i: Any) -> None:
    """Ask Python for the value of a loop's counter."""
    [0, 1, 2, 3][i]


def register() -> Any:
    """A register that holds 0."""
    return nisa.register_alloc(0)


def combined(a: Any, op: Any) -> None:
    """Combine a tile with itself by an operator that may be none."""
    tile = nl.load(a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=op)


REFUSED: list[tuple[Callable[[Any], object], str, str]] = [
    (lambda a: a if a else None, "ONKI111", "the truth of `a`"),
    (lambda a: a if a[0, 0] > 0 else None, "ONKI111", "the operator `>`"),
    (lambda a: [row for row in a], "ONKI111", "a loop over `a`"),
    (lambda a: float(a[0, 0]), "ONKI111", "`float(…)`"),
    (lambda a: int(a[0, 0]), "ONKI111", "`int(…)`"),
    (lambda a: 3 in a, "ONKI111", "`in` with `a`"),
    (lambda a: np.sum(a), "ONKI111", "NumPy with `a`"),
    (lambda a: np.float32(2) * a, "ONKI111", "NumPy with `a`"),
    (lambda a: a + 1, "ONKI111", "the operator `+`"),
    (lambda a: 2.0 * a, "ONKI111", "the operator `*`"),
    (lambda a: a @ a, "ONKI111", "the operator `@`"),
    (lambda a: a.__setitem__(0, 1.0), "ONKI210", "writes nothing"),
    (lambda a: a // 2, "ONKI111", "the operator `//`"),
    (lambda a: 2 // a, "ONKI111", "the operator `//`"),
    (lambda a: -a, "ONKI111", "the operator `-`"),
    (lambda a: ~a, "ONKI111", "the operator `~`"),
    (lambda a: abs(a), "ONKI111", "`abs(…)`"),
    (lambda a: round(a), "ONKI111", "`round(…)`"),
    (lambda a: a.__delitem__(0), "ONKI111", "`del`"),
    (lambda a: f"{a:.2f}", "ONKI111", "the format `.2f`"),
    (lambda a: [1, 2][a], "ONKI111", "`a` as an int of Python"),
    (lambda a: (1, 2)[a], "ONKI111", "`a` as an int of Python"),
    (lambda a: "ab"[a], "ONKI111", "`a` as an int of Python"),
    (lambda a: [1, 2][a:], "ONKI111", "`a` as an int of Python"),
    (lambda a: [*range(a)], "ONKI111", "`a` as an int of Python"),
    (lambda a: a[a], "ONKI210", "must be an int, got a tensor"),
    (lambda a: a[0:a], "ONKI210", "must be an int, got a tensor"),
    (lambda a: nl.ndarray((4, a), dtype=a.dtype, buffer=nl.sbuf), "ONKI101", "a tuple of ints"),
    (lambda a: a[np.array([0, 1])], "ONKI210", "must be an int, got array([0, 1])"),
    (lambda a: a[[0, 1]], "ONKI210", "must be an int, got [0, 1]"),
    (lambda a: a[1.0], "ONKI210", "must be an int, got 1.0"),
    (lambda a: a[None], "ONKI210", "None is no index"),
    (lambda a: a[True], "ONKI210", "True is no index"),
    (lambda a: a[::-1], "ONKI210", "a step of -1"),
    (lambda a: a[0:5], "ONKI208", "slice 0:5"),
    (lambda a: a[4], "ONKI208", "index 4"),
    (lambda a: a[2:2], "ONKI208", "slice 2:2"),
    (lambda a: a[0, 0, 0], "ONKI208", "3 indices"),
    (lambda a: a.reshape((4, 9)), "ONKI213", "keeps the number of elements"),
    (lambda a: nl.load(a).permute((1, 0)), "ONKI210", "partition axis"),
    (lambda a: nl.load(a).reshape((8, 4)), "ONKI210", "partition axis"),
    (lambda a: nl.load(a)[0:4:2], "ONKI210", "one by one"),
    (lambda a: nl.load(a).ap(pattern=[[16, 2], [1, 8]]), "ONKI210", "row size 8"),
    (lambda a: a.select(0, register()).select(0, register()), "ONKI210", "takes one"),
    (lambda a: nl.ndarray((4, 8), dtype=np.float64, buffer=nl.sbuf), "ONKI214", "float64"),
    (lambda a: nl.ndarray((4, 8), dtype=a.dtype, buffer="sbuf"), "ONKI101", "a memory region"),
    (lambda a: nl.ndarray((4, 8), dtype=a.dtype, buffer=1), "ONKI101", "a memory region"),
    (lambda a: nisa.memset(dst=nl.load(a), value=0.0, engine=5), "ONKI101", "a member of `nisa.engine`"),
    (lambda a: nisa.memset(dst=nl.load(a), value=0.0, engine="vector"), "ONKI101", "a member of"),
    (lambda a: combined(a, "add"), "ONKI101", "an operator of `nki.language`"),
    (lambda a: combined(a, np.add), "ONKI101", "an operator of `nki.language`"),
    (lambda a: 1 if register() else 2, "ONKI111", "a register as a condition"),
    (lambda a: register() and 1, "ONKI111", "a register as a condition"),
    (lambda a: not register(), "ONKI111", "a register as a condition"),
    (lambda a: range(register()), "ONKI111", "a register as an int of Python"),
    (lambda a: a[register()], "ONKI111", "a register as an int of Python"),
    (lambda a: int(register()), "ONKI111", "`int(…)` of a register"),
    (lambda a: register() + 1, "ONKI111", "the operator `+` on a register"),
    (lambda a: 2 * register(), "ONKI111", "the operator `*` on a register"),
    (lambda a: register() < 1, "ONKI111", "the operator `<` on a register"),
    (lambda a: register() == 1, "ONKI111", "a comparison of a register with a number"),
    (lambda a: register() != 0, "ONKI111", "a comparison of a register with a number"),
    (lambda a: nl.ndarray((4, 8), dtype=a.dtype, buffer=nl.hbm), "ONKI105", "private_hbm"),
    (lambda a: {1: nl.ndarray((4, 8), dtype=a.dtype, buffer=nl.shared_hbm)}, "ONKI105", "type `dict`"),
    (lambda a: {a}, "ONKI105", "type `set`"),
    (lambda a: (row for row in (a,)), "ONKI105", "type `generator`"),
    (lambda a: nl.fori_loop(0, 4, turn), "ONKI111", "a register as an int of Python"),
    (lambda a: 3, "ONKI105", "an object of type `int`"),
    (lambda a: nl.load(a), "ONKI105", "in sbuf"),
    (lambda a: None, "ONKI106", "returns nothing"),
]


@pytest.mark.parametrize(("body", "code", "words"), REFUSED)
def test_what_cannot_be_in_a_kernel(body: Callable[[Any], object], code: str, words: str) -> None:
    kernel = nki.jit(body)
    runs = (lambda: nki.simulate(kernel)(SMALL), lambda: opennki.trace(kernel, SMALL, target="trn2"))
    for run in runs:
        with pytest.raises(OpenNkiError) as caught:
            run()
        found = caught.value.diagnostics[0]
        assert found.code == code
        assert words in found.message
        assert found.location is not None
        assert found.location.file.endswith("test_language.py")


def test_the_fix_for_an_operator_can_be_pasted() -> None:
    fixes = {
        lambda a: a + 1: "`nl.add(a, 1)`",
        lambda a: 2.0 - a: "`nl.subtract(2.0, a)`",
        lambda a: a @ nl.load(a): "`nl.matmul(a, …)`",
    }
    for body, call in fixes.items():
        with pytest.raises(OpenNkiError) as caught:
            nki.simulate(nki.jit(body))(SMALL)
        assert call in caught.value.diagnostics[0].help[0]


def test_tensors_are_equal_to_themselves_only() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        assert tile in {tile}
        assert a != tile
        return a

    assert nki.simulate(kernel)(SMALL) is not None


def test_an_exception_of_the_kernel_is_the_users_own() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        raise LookupError("no such head size")

    with pytest.raises(LookupError, match="no such head size"):
        nki.simulate(kernel[2])(SMALL)


def test_a_debugger_stops_inside_a_kernel_on_both_cores_and_shows_values() -> None:
    said = StringIO()
    debugger = pdb.Pdb(stdin=StringIO("p core\np tile\nc\n" * 2), stdout=said, nosigint=True, readrc=False)
    debugger.use_rawinput = False

    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        tile = nl.load(a[2 * core : 2 * core + 2, 0:2])
        debugger.set_trace()
        nl.store(out[2 * core : 2 * core + 2, 0:2], tile)
        return out

    before = sys.gettrace()
    try:
        result = nki.simulate(kernel[2])(SMALL)
    finally:
        sys.settrace(before)
    assert np.array_equal(result[:, :2], SMALL[:, :2])
    text = said.getvalue()
    assert text.count("(Pdb) 0") == text.count("(Pdb) 1") == 1
    for value in ("0.", "9.", "16.", "25."):
        assert value in text, text

"""The language guide clause by clause: what it documents works, simulated and compiled alike."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.ir.program import instructions
from tests.cases.loading import FILES, run_file

Array = np.ndarray[Any, np.dtype[Any]]
TESTS = FILES.parents[1]
GUIDE = run_file(TESTS / "language" / "guide_kernels.py", "language_guide_kernels")
TABLE = TESTS.parent / "docs" / "conformance" / "language.md"
A = np.arange(-16, 16, dtype=np.float32).reshape(4, 8)


def both(kernel: Any, *args: Any, **values: Any) -> Any:
    """Return what a kernel gives, simulated and compiled alike."""
    simulated = nki.simulate(kernel)(A.copy(), *args, **values)
    artifact = opennki.trace(kernel, A, *args, **values, target="trn2")
    compiled = opennki.compile(artifact, lnc=1)(A.copy())
    np.testing.assert_array_equal(compiled, simulated, strict=True)
    return simulated


def opcodes(kernel: Any, *args: Any) -> list[str]:
    """Return the instructions of a kernel's program by name."""
    (program,) = opennki.trace(kernel, A, *args, target="trn2").programs
    return [program.opcodes[i.opcode] for i in instructions(program)]


def test_checks_and_prints_happen_while_tracing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "0")
    artifact = opennki.trace(GUIDE.prints_while_tracing, A, target="trn2")
    assert capsys.readouterr().out == "doubling float32 of shape (4, 8)\n"
    executable = opennki.compile(artifact, lnc=1)
    np.testing.assert_array_equal(executable(A), 2 * A)
    assert capsys.readouterr().out == ""
    with pytest.raises(AssertionError):
        opennki.trace(GUIDE.prints_while_tracing, "float32[256,8]", target="trn2")


def test_loops_branches_and_calls_are_resolved_while_tracing() -> None:
    assert opcodes(GUIDE.unrolled) == ["dma_copy", *["tensor_scalar"] * 8, "dma_copy"]
    np.testing.assert_array_equal(both(GUIDE.unrolled), np.maximum((A + 2) * 6 - 1, 0) + 2)


def test_numbers_strings_lists_and_dictionaries() -> None:
    np.testing.assert_array_equal(both(GUIDE.containers), A)


def test_attributes_and_predicates_of_a_tensor() -> None:
    np.testing.assert_array_equal(both(GUIDE.anatomy), A)


def test_views_share_storage() -> None:
    np.testing.assert_array_equal(
        both(GUIDE.shares_storage), np.hstack([A[:, :4], np.full((4, 4), -1.0, np.float32)])
    )


def test_indexing_keeps_and_drops_axes() -> None:
    np.testing.assert_array_equal(both(GUIDE.indexing), A)


def test_access_patterns() -> None:
    np.testing.assert_array_equal(both(GUIDE.patterns), A[:, ::2])


def test_classes_and_enumerations() -> None:
    np.testing.assert_array_equal(both(GUIDE.classes, GUIDE.Scaling(3.0, 1.0)), A * 3 + 1)


@pytest.mark.parametrize(("name", "expected"), [("half", A / 2), ("relu", np.maximum(A, 0))])
def test_functions_are_values(name: str, expected: Array) -> None:
    np.testing.assert_array_equal(both(GUIDE.composed, name), expected)
    assert opcodes(GUIDE.composed, name)[1::3] == [{"half": "tensor_scalar", "relu": "activation"}[name]] * 2


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: GUIDE.Counter(1, False, 3), "Counter() takes 2 fields, got 3"),
        (lambda: GUIDE.Counter(1, x=2), "Counter() got x twice"),
    ],
)
def test_fields_that_do_not_fit(make: Any, says: str) -> None:
    with pytest.raises(TypeError, match=re.escape(says)):
        make()


def test_a_class_without_its_fields_has_none() -> None:
    made = GUIDE.Counter()
    assert (made.x, made.y) == (None, False)
    assert GUIDE.Counter(extra=5).extra == 5


def test_range_hints_have_no_more_arguments() -> None:
    nl = GUIDE.nl
    for make in (nl.affine_range, nl.sequential_range, nl.static_range):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            make(3, multi_buffer=2)


def test_operators_on_members_of_an_enumeration_are_pythons_own_error() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        return GUIDE.Kind.first + GUIDE.Kind.second

    with pytest.raises(TypeError, match="unsupported operand"):
        opennki.trace(kernel, A, target="trn2")


def test_equality_of_own_classes_is_pythons() -> None:
    """Structural up to 0.6; from 0.7 on as the class says, by identity where it says nothing."""
    assert GUIDE.Counter(1) != GUIDE.Counter(1)
    assert GUIDE.Scaling(1.0) == GUIDE.Scaling(1.0)


def test_every_test_of_the_table_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TABLE.read_text(encoding="utf-8"))
    assert len(named) > 50
    for path, name in named:
        tree = ast.parse(Path(TESTS.parent, path).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{path}::{name}"

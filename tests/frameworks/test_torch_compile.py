"""`torch.compile(backend="opennki")`: values, shapes, written inputs, degrees, and whose error comes out."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opennki.diag import OpenNkiWarning
from tests.frameworks.refusals import refused
from tests.frameworks.tensor_kernels import bump, loud, total
from tests.unit.kernels import add_scaled, double_in_place, halve, raises

torch: Any = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Dynamo keeps what it compiled; settings are no part of its guards."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def ramp(rows: int = 128, columns: int = 16) -> Any:
    return torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns)


def compiled(function: Any, *, fullgraph: bool = True, dynamic: bool | None = None, **options: Any) -> Any:
    """Return a function compiled by our backend, by its name alone."""
    return torch.compile(
        function, backend="opennki", fullgraph=fullgraph, dynamic=dynamic, options=options or None
    )


@pytest.mark.parametrize("lnc", [1, 2])
def test_values_among_operators_of_pytorch(lnc: int) -> None:
    def model(a: Any, b: Any) -> Any:
        left, right = add_scaled[lnc](a @ b, halve[lnc](b @ b), scale=3.0)
        return left.relu() - right

    a, b = torch.rand(16, 16) - 0.5, torch.rand(16, 16) - 0.5
    if lnc == 2:

        def model(a: Any, b: Any) -> Any:
            return halve[2](halve[2](a @ b).relu())

        expected = (a @ b).relu() * 0.25
    else:
        left, right = a @ b + 1.5 * (b @ b), a @ b - 1.5 * (b @ b)
        expected = left.relu() - right
    torch.testing.assert_close(compiled(model, lnc=lnc)(a, b), expected)


def test_lists_keywords_and_dictionaries() -> None:
    def model(a: Any, b: Any) -> Any:
        found = total([a, b, a], names=("all", "one"))
        return found["all"] + found["one"][0]

    a, b = ramp(), ramp() + 1
    assert torch.equal(compiled(model, lnc=1)(a, b), 3 * a + b)


def test_many_calls_of_one_kernel() -> None:
    def model(a: Any) -> Any:
        for _ in range(6):
            a = halve(a) + 1
        return a

    expected = ramp()
    for _ in range(6):
        expected = expected * 0.5 + 1
    assert torch.equal(compiled(model, lnc=1)(ramp()), expected)


def test_shapes_recompile() -> None:
    function = compiled(lambda a: halve(a) * 2, lnc=1)
    for rows in (8, 16, 24, 8):
        assert torch.equal(function(ramp(rows)), ramp(rows))


def test_dynamic_shapes_become_numbers() -> None:
    function = compiled(lambda a: halve(a + 1) * 2, dynamic=True, lnc=1)
    for rows in (8, 16, 24, 64):
        assert torch.equal(function(ramp(rows)), ramp(rows) + 1)


def test_memory_that_is_not_contiguous() -> None:
    x = ramp().t()
    assert torch.equal(compiled(lambda a: halve(a) + a, lnc=1)(x), x * 1.5)
    assert torch.equal(compiled(lambda a: halve(a.t()) + 1, lnc=1)(x), x.t() * 0.5 + 1)


# ----------------------------------------------------------------------------------------- written inputs


def test_an_input_is_written() -> None:
    def model(a: Any) -> Any:
        same = double_in_place(a)
        return same + 1, a * 3

    x = ramp()
    first, second = compiled(model, lnc=1)(x)
    assert torch.equal(x, ramp() * 2)
    assert torch.equal(first, ramp() * 2 + 1)
    assert torch.equal(second, ramp() * 6)


def test_an_intermediate_and_a_view_are_written_beside_new_outputs() -> None:
    def model(a: Any) -> Any:
        same, twice = bump(a[::2].t(), step=3.0)
        other, _ = bump(twice + 0, step=1.0)
        return same, other

    x = ramp(8, 4)
    same, other = compiled(model, lnc=1)(x)
    changed = ramp(8, 4)[::2] + 3
    assert torch.equal(x[::2], changed)
    assert torch.equal(x[1::2], ramp(8, 4)[1::2])
    assert torch.equal(same, changed.t())
    assert torch.equal(other, changed.t() * 2 + 1)


def test_kernels_that_write_are_counted_like_the_others() -> None:
    def model(a: Any) -> Any:
        double_in_place(a)
        return halve(a)

    found = refused(lambda: compiled(model, lnc=2)(ramp()))
    assert [(one.code, one.data["kernel"]) for one in found] == [
        ("NCC_EVRF066", "double_in_place"),
        ("NCC_EVRF066", "halve"),
    ]


# ------------------------------------------------------------------------------------ degrees and refusals


def test_all_calls_of_a_graph_are_in_one_report() -> None:
    def model(a: Any) -> Any:
        y = halve[2](a)
        z = halve(y)
        return halve[2](z)

    found = refused(lambda: compiled(model, lnc=1, target="trn2")(ramp()))
    assert [one.code for one in found] == ["NCC_ENKI003", "NCC_ENKI003"]
    lines = [one.location.text.strip() for one in found if one.location]
    assert lines == ["y = halve[2](a)", "return halve[2](z)"]
    assert found[0].location is not None
    place = found[0].location
    assert place.text[place.column : place.end_column] == "halve[2](a)"
    assert found[0].data["graph_origin"] == 'the option `options={"lnc": 1}`'
    assert found[0].data["lost"] == ["core 1 alone writes rows 64..127 of `out`, 50 % of it"]
    assert any('options={"lnc": 2}' in line for line in found[0].help)


def test_the_default_of_the_target_is_the_graphs() -> None:
    (found,) = refused(lambda: compiled(lambda a: halve(a))(ramp()))
    assert (found.code, found.data["graph_origin"]) == ("NCC_EVRF066", "the default of trn3")
    torch.compiler.reset()
    assert torch.equal(compiled(lambda a: halve(a), target="trn1")(ramp()), ramp() * 0.5)


def test_a_refused_graph_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    function = compiled(lambda a: halve(a))
    assert refused(lambda: function(ramp()))[0].code == "NCC_EVRF066"
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert torch.equal(function(ramp()), ramp() * 0.5)


def test_a_kernel_may_take_the_graphs_degree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENNKI_KERNEL_LNC", "graph")
    assert torch.equal(compiled(lambda a: halve(a), lnc=2)(ramp()), ramp() * 0.5)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"lnc": 0}, "ONKI001"),
        ({"lnc": "two"}, "ONKI001"),
        ({"target": "trn9"}, "ONKI002"),
        ({"degree": 2}, "ONKI006"),
        ({"lnc": 2, "target": "trn1"}, "NCC_EARG001"),
    ],
)
def test_options_that_are_wrong(options: dict[str, Any], code: str) -> None:
    (found,) = refused(lambda: compiled(lambda a: halve(a), **options)(ramp()))
    assert found.code == code


def test_a_runtime_of_another_degree_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    function = compiled(lambda a: halve(a), lnc=1)
    function(ramp())
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    assert refused(lambda: function(ramp()))[0].code == "ONKI304"


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda a: halve(a.double()), "ONKI214"),
        (lambda a: halve(a.sum()), "ONKI611"),
        (lambda a: halve(a, a), "ONKI006"),
        (lambda a: halve(a[:0]), "ONKI212"),
        (lambda a: halve(a.reshape(1024, 2)), "ONKI205"),
    ],
)
def test_errors_of_tracing_are_ours_at_the_users_line(function: Any, code: str) -> None:
    found, *_ = refused(lambda: compiled(function, lnc=1)(ramp()))
    assert found.location is not None
    if code != "ONKI205":
        assert found.code == code
        assert found.location.file.endswith(("test_torch_compile.py", "kernels.py"))


def test_a_gradient_would_be_lost() -> None:
    function = compiled(lambda a: halve(a), lnc=1)
    (found,) = refused(lambda: function(ramp().requires_grad_()))
    assert (found.code, found.data["argument"]) == ("ONKI612", "x")
    with torch.no_grad():
        assert torch.equal(function(ramp().requires_grad_()), ramp() * 0.5)


def test_an_exception_of_the_kernel_passes() -> None:
    with pytest.raises(ValueError, match="rows must be a multiple of 256") as caught:
        compiled(lambda a: raises(a), lnc=1)(ramp())
    assert any("raised by kernel `raises`" in note for note in caught.value.__notes__)


def test_a_graph_break_is_said_with_its_reason_and_its_line() -> None:
    def model(a: Any) -> Any:
        b = halve(a)
        torch._dynamo.graph_break()
        return halve(b)

    with pytest.warns(OpenNkiWarning, match="ONKI613") as caught:
        result = compiled(model, fullgraph=False, lnc=1)(ramp())
    assert torch.equal(result, ramp() * 0.25)
    (said,) = {str(one.message) for one in caught}
    assert "torch._dynamo.graph_break()" in said
    assert "test_torch_compile.py" in said.splitlines()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(lambda a: halve(a) + 2, lnc=1)(ramp())


def test_both_sides_of_a_graph_break_are_checked() -> None:
    def model(a: Any) -> Any:
        b = halve(a)
        torch._dynamo.graph_break()
        return halve[2](b)

    with pytest.warns(OpenNkiWarning, match="ONKI613"):
        (found,) = refused(lambda: compiled(model, fullgraph=False, lnc=1)(ramp()))
    assert found.code == "NCC_ENKI003"


def test_the_simulator_honours_the_kernels_degree_and_checks_no_graph(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def model(a: Any) -> Any:
        same, twice = bump(a)
        return halve[2](loud(same)), twice

    monkeypatch.setenv("NKI_SIMULATOR", "1")
    x = ramp(8, 4)
    first, second = compiled(model, lnc=1)(x)
    assert torch.equal(x, ramp(8, 4) + 1)
    assert torch.equal(first, x * 0.5)
    assert torch.equal(second, x * 2)
    assert "[[ 1.  2.  3.  4.]" in capsys.readouterr().out, "a simulated tile shows its values"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_other_backends_run_the_operators(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def model(a: Any) -> Any:
        return halve(double_in_place(a)) + 1

    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    x = ramp()
    function = torch.compile(model, backend=backend, fullgraph=True)
    assert torch.equal(function(x), ramp() + 1)
    assert torch.equal(x, ramp() * 2)
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=2")
    assert refused(lambda: function(x))[0].code == "NCC_EVRF066"


# --------------------------------------------------------------------------------------- a fresh process

SCRIPT = """
import sys
import torch
import opennki
opennki.install()
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def halve(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
    nisa.dma_copy(dst=out, src=tile)
    return out

x = torch.ones(8, 4)
assert not [name for name in sys.modules if name == "opennki.frameworks.torch.calls"]
function = torch.compile(lambda a: halve(a) * 4, backend=sys.argv[1], fullgraph=True)
print(function(x).sum().item())
"""


@pytest.mark.parametrize("backend", ["opennki", "eager"])
def test_a_kernel_that_dynamo_meets_first(backend: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = os.environ | {"NEURON_LOGICAL_NC_CONFIG": "1", "OPENNKI_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, str(script), backend], capture_output=True, text=True, env=environment, check=False
    )
    assert (run.returncode, run.stdout.strip()) == (0, "64.0"), run.stderr

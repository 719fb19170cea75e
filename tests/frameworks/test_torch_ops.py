"""`nki_op`, `wrap_nki` and gradients, imported as people import them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import opennki
from opennki.build import aliasing
from opennki.diag import OpenNkiWarning
from tests.frameworks.refusals import refused
from tests.unit.kernels import add_scaled, double_in_place, halve

torch: Any = pytest.importorskip("torch")
torch_neuronx: Any = import_module("torch_neuronx")
nki_op: Callable[..., Callable[[Callable[..., Any]], Any]] = torch_neuronx.nki_op
wrap_nki: Callable[[Any], Any] = torch_neuronx.wrap_nki


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def ramp(rows: int = 128, columns: int = 16) -> Any:
    return torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns)


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="opennki", fullgraph=True, options=options)


@nki_op("opennki_tests::half", mutates_args={})
def half(x: torch.Tensor) -> torch.Tensor:
    return wrap_nki(halve)(x)


@nki_op("opennki_tests::half_of_two", mutates_args=())
def half_of_two(x: torch.Tensor) -> torch.Tensor:
    return wrap_nki(halve)[2](x)


@nki_op("opennki_tests::sum_and_difference")
def sum_and_difference(a: torch.Tensor, b: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    left, right = wrap_nki(add_scaled)(a, b, scale=scale)
    return left, right


def _backward(context: Any, left: Any, right: Any) -> Any:
    return left + right, context.scale * (left - right), None


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.scale = inputs[2]


half.register_autograd(lambda context, gradient: half(gradient.contiguous()))
half_of_two.register_autograd(lambda context, gradient: half_of_two(gradient.contiguous()))
sum_and_difference.register_autograd(_backward, setup_context=_keep)


@nki_op("opennki_tests::double_", mutates_args=("x",))
def double_(x: torch.Tensor) -> None:
    double_in_place(x)


class Half(torch.autograd.Function):  # type: ignore[misc,unused-ignore]  # Any, without PyTorch too
    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        return halve(x)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        return halve(gradients[0].contiguous())


class HalfOfTwo(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        return halve[2](x)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        return halve[2](gradients[0].contiguous())


def gradients(function: Any, *shapes: tuple[int, int]) -> list[Any]:
    """Return value and gradients of a function at numbers that no other call has."""
    given = [(torch.arange(a * b).reshape(a, b) % 13 / 7).requires_grad_() for a, b in shapes]
    value = function(*given)
    value.sum().backward()
    return [value.detach(), *(one.grad for one in given)]


def model(operator: Any) -> Any:
    return lambda x: (operator(x @ x).relu() * x).sum(dim=0)


@pytest.mark.parametrize("operator", [half, Half.apply], ids=["register_autograd", "autograd.Function"])
@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_gradients_are_those_without_a_kernel(operator: Any, way: str) -> None:
    function = model(operator) if way == "eager" else compiled(model(operator), lnc=1)
    expected = gradients(model(lambda x: x * 0.5), (16, 16))
    for found, plain in zip(gradients(function, (16, 16)), expected, strict=True):
        torch.testing.assert_close(found, plain)


@pytest.mark.parametrize("operator", [half_of_two, HalfOfTwo.apply], ids=["nki_op", "autograd.Function"])
def test_gradients_at_two_cores(operator: Any) -> None:
    expected = gradients(model(lambda x: x * 0.5), (16, 16))
    found = gradients(compiled(model(operator), lnc=2), (16, 16))
    for one, plain in zip(found, expected, strict=True):
        torch.testing.assert_close(one, plain)
    assert refused(lambda: gradients(model(operator), (16, 16)))[0].code == "NCC_ENKI003"


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_several_outputs_and_a_context(way: str) -> None:
    def weighted(operator: Any) -> Any:
        def function(a: Any, b: Any) -> Any:
            left, right = operator(a, b, 3.0)
            return left * left + right * a

        return function

    def plain(a: Any, b: Any, scale: float) -> Any:
        return a + scale * b, a - scale * b

    function = weighted(sum_and_difference)
    function = function if way == "eager" else compiled(function, lnc=1)
    expected = gradients(weighted(plain), (16, 8), (16, 8))
    for found, one in zip(gradients(function, (16, 8), (16, 8)), expected, strict=True):
        torch.testing.assert_close(found, one)


def test_an_operator_is_looked_into_by_the_graphs_rules() -> None:
    assert torch.equal(half(ramp()), ramp() * 0.5)
    assert torch.equal(torch.ops.opennki_tests.half(ramp()), ramp() * 0.5)
    assert torch.equal(compiled(lambda x: half_of_two(x) + 1, lnc=2)(ramp()), ramp() * 0.5 + 1)
    (found,) = refused(lambda: compiled(lambda x: half_of_two(x) + 1, lnc=1)(ramp()))
    assert found.code == "NCC_ENKI003"
    assert found.location is not None
    assert found.location.text.strip() == "return wrap_nki(halve)[2](x)"
    executable = opennki.compile(lambda x: half_of_two(x) + 1, ramp(), lnc=2)
    assert [call.name for call in executable.calls] == ["halve"]
    assert torch.equal(executable(ramp()), ramp() * 0.5 + 1)


def test_an_operator_that_writes_its_input() -> None:
    x = ramp()
    double_(x)
    assert torch.equal(x, ramp() * 2)

    def function(x: Any) -> Any:
        double_(x)
        return x + 1

    x = ramp()
    assert torch.equal(compiled(function, lnc=1)(x), ramp() * 2 + 1)
    assert torch.equal(x, ramp() * 2)
    assert refused(lambda: compiled(function, lnc=2)(ramp()))[0].code == "NCC_EVRF066"


def test_the_wrappers_bracket_and_the_kernels() -> None:
    assert wrap_nki(halve)[2].kernel.degree == 2
    with pytest.warns(OpenNkiWarning, match="ONKI616"):
        inner = wrap_nki(halve[2])
    assert inner.kernel.degree == inner[2].kernel.degree == 2
    assert torch.equal(compiled(lambda x: inner(x), lnc=2)(ramp()), ramp() * 0.5)
    assert torch.equal(compiled(lambda x: wrap_nki(halve)[2](x), lnc=2)(ramp()), ramp() * 0.5)
    (found,) = refused(lambda: inner[1])
    assert (found.code, found.data["bracket"], found.data["option"]) == ("ONKI301", 2, 1)


def test_what_cannot_be_an_operator() -> None:
    (found,) = refused(lambda: nki_op("opennki_tests::raw", halve))
    assert found.code == "ONKI006"
    assert "type annotation" in found.message or "annot" in found.message
    assert refused(lambda: nki_op("no_space", lambda x: x))[0].code == "ONKI006"


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("torch_neuronx", ("nki_op", "wrap_nki")),
        ("torch_neuronx.nki_hop", ("nki_op", "wrap_nki")),
        ("libtorch_neuronx_lite.nki.nki_hop", ("wrap_nki",)),
        ("libtorch_neuronx_lite._compiler", ("nki_op",)),
    ],
)
def test_the_modules_that_people_import_from(module: str, names: tuple[str, ...]) -> None:
    found = import_module(module)
    for name in names:
        assert getattr(found, name) is getattr(torch_neuronx, name)


def test_a_real_package_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if type(one).__name__ != "_Alias"])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    real = ModuleType("torch_neuronx")
    sys.modules["torch_neuronx"] = real
    for name in [name for name in sys.modules if name.startswith("libtorch_neuronx_lite")]:
        del sys.modules[name]
    assert aliasing.install(force=True)
    assert import_module("torch_neuronx") is real
    assert import_module("libtorch_neuronx_lite._compiler").nki_op is nki_op

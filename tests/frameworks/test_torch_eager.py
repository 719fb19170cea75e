"""Kernels called on tensors: dtypes, memory, in-place outputs, and the tensors that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opennki import nki
from tests.frameworks.refusals import refused
from tests.frameworks.tensor_kernels import bump, copy, nisa, nl, total, wide
from tests.unit.kernels import add_scaled, double_in_place, halve, raises

torch: Any = pytest.importorskip("torch")
eager: Any = pytest.importorskip("opennki.frameworks.torch.eager")

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("float16", "float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"),
)


def ramp(rows: int = 128, columns: int = 16) -> Any:
    return torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns)


def bits(tensor: Any) -> Any:
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_keeps_its_bits(dtype: str) -> None:
    x = (ramp(8, 16) % 120).to(getattr(torch, dtype))
    result = copy(x)
    assert (result.dtype, result.shape) == (x.dtype, x.shape)
    assert torch.equal(bits(result), bits(x))
    assert result.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_small_floats_are_computed_in_float32_and_rounded(dtype: str) -> None:
    x = torch.tensor([[1.0, -2.5, 0.375, 448.0]]).to(getattr(torch, dtype))
    expected = (x.float() * 0.5).to(x.dtype)
    assert torch.equal(bits(halve(x)), bits(expected))


def test_several_outputs_and_plain_arguments() -> None:
    a, b = ramp(), ramp() - 7
    both = add_scaled(a, b, scale=2.0)
    assert isinstance(both, tuple)
    assert torch.equal(both[0], a + 2 * b)
    assert torch.equal(both[1], a - 2 * b)


def test_lists_and_dictionaries() -> None:
    parts = [ramp(), ramp() + 1, ramp() * 3]
    found = total(parts, names=("all", "one"))
    assert list(found) == ["all", "one"]
    assert torch.equal(found["all"], parts[0] + parts[1] + parts[2])
    assert torch.equal(found["one"][0], parts[0])


@pytest.mark.parametrize(
    "view",
    [lambda x: x.t(), lambda x: x[::2], lambda x: x[:, 3:9], lambda x: x[:1].expand(64, 16)],
    ids=["transposed", "every second row", "columns", "expanded"],
)
def test_memory_that_is_not_contiguous(view: Any) -> None:
    x = view(ramp())
    before = x.clone()
    assert torch.equal(halve(x), before * 0.5)
    assert torch.equal(x, before)


def test_an_input_that_is_written_is_returned_itself() -> None:
    x = ramp()
    version = x._version
    assert double_in_place(x) is x
    assert torch.equal(x, ramp() * 2)
    assert x._version > version, "autograd must notice"
    part = x[::2, 1:5]
    assert double_in_place(part) is part
    assert torch.equal(x[::2, 1:5], ramp()[::2, 1:5] * 4)
    assert torch.equal(x[1::2], ramp()[1::2] * 2)


def test_an_input_is_written_beside_a_new_output() -> None:
    x = ramp(8, 4)
    same, twice = bump(x, step=3.0)
    assert same is x
    assert torch.equal(x, ramp(8, 4) + 3)
    assert torch.equal(twice, x * 2)


def test_what_autograd_saved_is_not_changed_unseen() -> None:
    weight = torch.ones(8, 4, requires_grad=True)
    x = ramp(8, 4)
    product = weight * x
    double_in_place(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_a_second_call_runs_what_the_first_one_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ramp(16, 8)
    halve(x)
    monkeypatch.setattr(eager, "compiled_call", None)
    assert torch.equal(halve(x * 3), x * 1.5)


FACTOR = 2.0


@nki.jit
def scaled(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=FACTOR)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_call_is_told_from_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ramp(8, 4)
    for _ in range(2):
        assert torch.equal(scaled(x), x * 2)
    assert torch.equal(scaled(x.to(torch.bfloat16)), x.to(torch.bfloat16) * 2)
    assert torch.equal(scaled(ramp(4, 8)), ramp(4, 8) * 2)
    assert torch.equal(scaled(x.t()), x.t() * 2)
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert torch.equal(scaled(x), x * 5)
    for scale in (1.0, 2.0, -0.0, 0.0, 2):
        assert torch.equal(add_scaled(x, x, scale=scale)[0], x + scale * x)


# ----------------------------------------------------------------------------------------------- degrees


def test_the_eager_path_is_for_one_core_and_offers_no_other_graph() -> None:
    (found,) = refused(lambda: halve[2](ramp()))
    assert found.code == "NCC_ENKI003"
    assert found.location is not None
    assert found.location.text.strip() == "(found,) = refused(lambda: halve[2](ramp()))"
    assert found.data["graph_kind"] == "eager"
    assert found.data["lost"] == ["core 1 alone writes rows 64..127 of `out`, 50 % of it"]
    assert len(found.help) == 1
    assert "halve[1](…)" in found.help[0]


def test_the_environment_at_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    (found,) = refused(lambda: halve(ramp()))
    assert (found.code, found.data["kernel_origin"]) == ("NCC_ENKI003", "NEURON_LOGICAL_NC_CONFIG=2")
    assert torch.equal(halve[1](ramp()), ramp() * 0.5)  # the way out that is offered
    assert refused(lambda: halve(ramp()))[0].code == "NCC_ENKI003"
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert torch.equal(halve(ramp()), ramp() * 0.5)


def test_the_simulator_is_not_the_eager_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    assert torch.equal(halve[2](ramp()), ramp() * 0.5)
    x = ramp()
    assert double_in_place(x) is x
    assert torch.equal(x, ramp() * 2)


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("tensor", "fix"),
    [
        (lambda: ramp().double(), "pass `x.float()`"),
        (lambda: torch.ones(4, 4, dtype=torch.complex64), "pass its parts: `x.real.float()`"),
        (lambda: torch.ones(4, 4, dtype=torch.uint64), "pass `x.int()`"),
    ],
    ids=["float64", "complex64", "uint64"],
)
def test_a_dtype_without_hardware_has_a_fix_of_pytorch(tensor: Any, fix: str) -> None:
    (found,) = refused(lambda: halve(tensor()))
    assert found.code == "ONKI214"
    assert found.location is not None
    assert found.help[0].startswith(fix)


@pytest.mark.parametrize(
    ("tensor", "says", "fix"),
    [
        (lambda: ramp().to("meta"), "on the device `meta`", "a `Spec`"),
        (lambda: ramp().to_sparse(), "sparse (sparse_coo)", "`x.to_dense()`"),
        (lambda: ramp().to_sparse_csr(), "sparse (sparse_csr)", "`x.to_dense()`"),
        (lambda: torch.tensor(3.0), "a tensor without axes", "`x.item()`"),
    ],
    ids=["meta", "sparse", "csr", "no axes"],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_a_tensor_that_no_kernel_takes(tensor: Any, says: str, fix: str) -> None:
    halve(ramp())
    (found,) = refused(lambda: halve(tensor()))
    assert (found.code, found.message) == ("ONKI611", f"argument `x` of kernel `halve` is {says}")
    assert fix in found.help[0]


def test_a_transform_of_pytorch_has_no_memory() -> None:
    halve(ramp())
    (found,) = refused(lambda: torch.vmap(halve)(ramp()[None]))
    assert found.code == "ONKI611"
    assert "torch.vmap" in found.help[0]


def test_an_expanded_tensor_is_not_written() -> None:
    (found,) = refused(lambda: double_in_place(torch.ones(1, 4).expand(8, 4)))
    assert found.code == "ONKI611"
    assert found.help == ("pass `x.clone()`",)


def test_a_gradient_would_be_lost() -> None:
    x = ramp().requires_grad_()
    (found,) = refused(lambda: halve(x))
    assert (found.code, found.message) == (
        "ONKI612",
        "kernel `halve` has no gradient but argument `x` requires one",
    )
    with torch.no_grad():
        assert torch.equal(halve(x), x * 0.5)
    assert refused(lambda: halve(x))[0].code == "ONKI612"
    assert torch.equal(halve(x.detach()), x.detach() * 0.5)
    (found,) = refused(lambda: total([ramp(), x]))
    assert found.data["argument"] == "parts[1]"


def test_tensors_of_two_frameworks() -> None:
    (found,) = refused(lambda: add_scaled(ramp(), ramp().numpy()))
    assert found.code == "ONKI603"
    (found,) = refused(lambda: add_scaled(ramp().numpy(), b=ramp()))
    assert found.code == "ONKI603"
    jax = pytest.importorskip("jax")
    (found,) = refused(lambda: add_scaled(ramp(), jax.numpy.ones((128, 16))))
    assert found.message == (
        "kernel `add_scaled` is called with tensors of PyTorch (`argument 0`) and of JAX (`argument 1`)"
    )


def test_an_output_of_float64_is_refused_by_tracing() -> None:
    (found,) = refused(lambda: wide(ramp()))
    assert found.code == refused(lambda: wide(ramp().numpy()))[0].code
    assert "float64" in found.message


def test_an_exception_of_the_kernel_passes() -> None:
    with pytest.raises(ValueError, match="rows must be a multiple of 256") as caught:
        raises(ramp())
    assert any("raised by kernel `raises`" in note for note in caught.value.__notes__)


def test_arguments_that_do_not_fit() -> None:
    assert refused(lambda: halve(ramp(), ramp()))[0].code == "ONKI006"
    assert refused(lambda: halve(y=ramp()))[0].code == "ONKI006"


def test_results_do_not_share_memory_between_calls() -> None:
    x = ramp()
    first = halve(x)
    kept = first.clone()
    halve(x + 1)
    assert torch.equal(first, kept)
    np.testing.assert_array_equal(first.numpy(), ramp().numpy() * 0.5)


def test_a_permuted_input_is_returned_permuted() -> None:
    @nki.jit
    def turned(x: Any) -> Any:
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=x, src=tile)
        return x.permute((1, 0))

    x = ramp(4, 4)
    for function in (turned, torch.compile(lambda x: turned(x), backend="opennki", options={"lnc": 1})):
        before = x.clone()
        assert torch.equal(function(x), (before + 1).T)
        assert torch.equal(x, before + 1)

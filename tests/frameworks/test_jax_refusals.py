"""What JAX's users get wrong: each mistake has its code, at their line, at once and in a graph alike."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.diag import Diagnostic, OpenNkiError, OpenNkiUsageError
from tests.unit.kernels import add_scaled, halve, raises, ramp

jax: Any = pytest.importorskip("jax")
jnp: Any = jax.numpy
nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

ERRORS = (jax.errors.JaxRuntimeError, ValueError)
"""What XLA raises for an error of a callback: the one or the other, by the way that the call takes."""


@pytest.fixture(autouse=True)
def _at_degree_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")


def refused(call: Callable[..., Any], line: str = "", given: tuple[Any, ...] = ()) -> Diagnostic:
    """Return the one finding of a call that is refused, at a line of this file that has `line`."""
    with pytest.raises(OpenNkiError) as caught:
        call(*given)
    (found,) = caught.value.diagnostics
    if line:
        assert found.location is not None
        assert found.location.file.endswith("test_jax_refusals.py")
        assert line in found.location.text
    return found


def both(function: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """Return a function to be called at once, and jitted."""
    return function, jax.jit(function)


X = ramp(8, 4)


def x() -> Any:
    return jnp.asarray(X)


@nki.jit
def pick(x: Any, index: Any) -> Any:
    """Return the rows of `x` that `index` names."""
    out = nl.ndarray((index.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    rows = nl.load(index)
    tile = nl.ndarray((index.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.vector_select(0, rows))
    nl.store(out, tile)
    return out


@nki.jit
def clear(x: Any, part: bool = False) -> Any:
    """Write zeros over the input, and return nothing of it, or a part."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0)
    nl.store(x, tile)
    return x[0:2, :] if part else None


# Transformations


@pytest.mark.parametrize("degree", [1, 2])
def test_vmap(degree: int) -> None:
    for function in both(jax.vmap(lambda x: halve[degree](x))):
        assert refused(function, "halve[degree](x)", (x()[None],)).code == "ONKI620"
    add = jax.vmap(lambda a, b: add_scaled(a, b)[0], in_axes=(None, 0))
    found = refused(lambda: add(x(), x()[None]), "add_scaled(a, b)")
    assert (found.code, found.help[0]) == (
        "ONKI620",
        "loop over the axis: `jax.lax.map(add_scaled, xs)` instead of `jax.vmap(add_scaled)(xs)`",
    )


def test_vmap_over_something_else() -> None:
    found = jax.vmap(lambda scale: halve(x()) * scale)(jnp.arange(3.0))
    np.testing.assert_array_equal(found, X * 0.5 * np.arange(3, dtype=np.float32)[:, None, None])


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jax.grad(lambda x: f(x).sum()),
        lambda f: lambda x: jax.jvp(f, (x,), (x,)),
        lambda f: lambda x: jax.vjp(f, x),
        lambda f: lambda x: jax.linearize(f, x),
        jax.jacfwd,
    ],
    ids=["grad", "jvp", "vjp", "linearize", "jacfwd"],
)
def test_derivatives(transform: Callable[..., Any]) -> None:
    for function in both(transform(lambda x: halve(x))):
        assert refused(function, "lambda x: halve(x)", (x(),)).code == "ONKI621"


def test_what_needs_no_derivative() -> None:
    gradient = jax.grad(lambda y, x: (y * halve(jax.lax.stop_gradient(x))).sum())(x(), x())
    np.testing.assert_array_equal(gradient, X * 0.5)
    np.testing.assert_array_equal(jax.grad(lambda y: (y * halve(x())).sum())(x()), X * 0.5)


# Shapes and elements


def test_symbolic_shapes() -> None:
    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 4"), jnp.float32)
    found = refused(lambda: jax.export.export(jax.jit(lambda x: halve(x)))(shape), "halve(x)")
    assert (found.code, found.data["size"], found.data["argument"]) == ("ONKI622", "n", "x")


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn", "complex64", "uint64", "float64"])
def test_elements_that_the_hardware_lacks(dtype: str) -> None:
    with jax.enable_x64(True):
        given = jnp.ones((8, 4), dtype)
        for function in both(lambda x: halve(x)):
            found = refused(function, "", (given,))
            assert (found.code, dtype in found.message) == ("ONKI214", True)


def test_keys_are_no_tensors() -> None:
    for function in both(lambda x: halve(x)):
        assert refused(function, "", (jax.random.split(jax.random.key(0), 4),)).code == "ONKI214"


def test_a_tensor_without_elements() -> None:
    for function in both(lambda x: halve(x)):
        assert refused(function, "", (jnp.ones((0, 4)),)).code == "ONKI212"


def test_64_bits() -> None:
    wide = np.arange(32).reshape(8, 4)
    found = refused(lambda: add_scaled(x(), wide), "add_scaled(x(), wide)")
    assert (found.code, found.data["tensor"], found.data["dtype"]) == ("ONKI625", "argument `b`", "int64")

    @nki.jit
    def widen(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=nl.int64, buffer=nl.shared_hbm, name="out")
        nisa.dma_copy(dst=out, src=x)
        return out

    narrow = jnp.asarray(wide, jnp.int32)
    for function in both(lambda x: widen(x)):
        found = refused(function, "widen(x)", (narrow,))
        assert (found.code, found.data["tensor"]) == ("ONKI625", "output `out`")
    with jax.enable_x64(True):
        for function in both(lambda x: widen(x)):
            found = function(narrow)
            assert found.dtype == jnp.int64
            np.testing.assert_array_equal(found, wide)


def test_numbers() -> None:
    for function in (
        jax.jit(lambda x, s: add_scaled(x, x, s)),
        jax.jit(lambda x, s: add_scaled(x, x, scale=s)),
    ):
        found = refused(function, "add_scaled(x, x, ", (X, 0.5))
        assert (found.code, found.data["argument"]) == ("ONKI624", "scale")
    np.testing.assert_array_equal(add_scaled(x(), x(), jnp.float32(0.5))[0], X * 1.5)


# In place


@pytest.mark.parametrize("part", [False, True])
def test_what_is_written_must_be_returned(part: bool) -> None:
    for function in both(lambda x: clear(x, part)):
        found = refused(function, "clear(x, part)", (x(),))
        assert (found.code, found.help) == (
            "ONKI623",
            ("return it whole from the kernel: `return x`, beside its other outputs",),
        )


# Frameworks, arguments, exceptions of the kernel


def test_tensors_of_two_frameworks() -> None:
    torch: Any = pytest.importorskip("torch")
    for function in both(lambda x: add_scaled(x, torch.ones(8, 4))):
        found = refused(function, "add_scaled(x, torch.ones(8, 4))", (x(),))
        assert found.code == "ONKI603"
        assert "JAX (`argument 0`) and of PyTorch (`argument 1`)" in found.message


def test_arguments_that_do_not_fit() -> None:
    for function in both(lambda x: halve(x, x, x)):
        assert refused(function, "", (x(),)).code == "ONKI006"


def test_a_kernels_own_exception_passes() -> None:
    for function in both(lambda x: raises(x)):
        with pytest.raises(ValueError, match="rows must be a multiple of 256, got 8") as caught:
            function(x())
        assert any("raised by kernel `raises`" in note for note in caught.value.__notes__)


def test_an_instruction_that_is_refused() -> None:
    @nki.jit
    def wrong(x: Any) -> Any:
        return nl.load(x)

    for function in both(lambda x: wrong(x)):
        assert refused(function, "", (x(),)).code == "ONKI105"


# While it runs


def test_a_run_that_fails() -> None:
    index = jnp.asarray([[0], [9]], jnp.uint32)
    np.testing.assert_array_equal(pick(x(), index % 8), X[[0, 1]])
    found = refused(lambda: pick(x(), index), "nisa.dma_copy(dst=tile, src=x.vector_select(")
    assert found.code == "ONKI704"

    function = jax.jit(lambda x, i: pick(x, i) + 1)
    np.testing.assert_array_equal(function(X, index % 8), X[[0, 1]] + 1)
    for _ in range(3):
        with pytest.raises(ERRORS, match="OpenNkiError: error\\[ONKI704\\]") as caught:
            jax.block_until_ready(function(X, index))
        text = str(caught.value)
        assert found.message in text
        frames = text.partition("OpenNkiError")[0]
        assert "opennki" not in frames
        assert 'File "test_jax_refusals.py"' in frames.splitlines()[-2] + frames.splitlines()[-1]
    np.testing.assert_array_equal(function(X, index % 8), X[[0, 1]] + 1)

    executable = opennki.compile(lambda x, i: pick(x, i) + 1, X_LIKE, index)
    np.testing.assert_array_equal(executable(X, index % 8), X[[0, 1]] + 1)
    again = refused(lambda: executable(X, index), "nisa.dma_copy(dst=tile, src=x.vector_select(")
    assert (again.code, again.message) == (found.code, found.message)


X_LIKE = jax.ShapeDtypeStruct(X.shape, X.dtype)


# The compiled function


def test_examples() -> None:
    found = refused(lambda: opennki.compile(lambda x, mode: halve(x), x(), "half"), "opennki.compile(")
    assert (found.code, found.message) == ("ONKI006", "example 1 holds a `str`, which is no array")
    found = refused(lambda: opennki.compile(lambda x, y: halve(x), x(), y=X_LIKE), "opennki.compile(")
    assert (found.code, found.message) == ("ONKI006", "`y` is the example of an array, given by name")
    exported = jax.export.export(jax.jit(lambda x: x + 1))(X_LIKE)
    assert refused(lambda: opennki.compile(exported), "opennki.compile(").code == "ONKI601"


def test_arguments_of_a_compiled_function() -> None:
    executable = opennki.compile(lambda x, n: halve(x["a"]) + n, {"a": x()}, 1)
    np.testing.assert_array_equal(executable({"a": X}, 3), X * 0.5 + 3)
    found = refused(lambda: executable(X, 3), "executable(X, 3)")
    assert found.code == "ONKI006"
    assert "({a: float32[8, 4]}, int32[])" in found.message
    for wrong, got in ((X[:4], "float32[4, 4]"), (X.astype(np.float64), "float64[8, 4]")):
        found = refused(executable, "call(*given)", ({"a": wrong}, 3))
        assert (found.code, found.data["got"], found.data["expected"]) == ("ONKI702", got, "float32[8, 4]")
    assert refused(lambda: executable({"a": X}, 0.5)).data["got"] == "float32[]"
    assert refused(lambda: executable.save("model.nkx"), "executable.save").code == "ONKI626"


def test_a_function_without_kernels() -> None:
    executable = opennki.compile(lambda x: x + 1, x())
    assert executable.calls == ()
    np.testing.assert_array_equal(executable(X), X + 1)


def test_options_are_judged_first() -> None:
    with pytest.raises(OpenNkiUsageError, match="ONKI001"):
        opennki.compile(lambda x: halve(x), x(), lnc="many")
    assert (
        refused(lambda: opennki.compile(lambda x: halve(x), x(), lnc=2, target="trn1")).code == "NCC_EARG001"
    )

"""The degree table from JAX: at once, jitted and compiled, each cell against an oracle of a few lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import opennki
from opennki.diag import Diagnostic, OpenNkiError
from tests.frameworks.degree_table import cells, expected, put_in_force
from tests.unit.kernels import add_scaled, halve, ramp

jax: Any = pytest.importorskip("jax")
jnp: Any = jax.numpy


def outcome(call: Callable[[], Any]) -> str:
    """Return the code that a call is refused with, or `values`."""
    try:
        found = call()
    except OpenNkiError as problem:
        return problem.diagnostics[0].code
    except (jax.errors.JaxRuntimeError, ValueError) as problem:  # XLA's, with our text
        (code,) = re.findall(r"OpenNkiError: error\[(\w+)\]", str(problem))
        return str(code)
    np.testing.assert_array_equal(found, ramp(2, 2) * 0.5)
    return "values"


WAYS: dict[str, Callable[[Any, Any, int | None], Any]] = {
    "at once": lambda kernel, x, _: kernel(x),
    "jitted": lambda kernel, x, _: jax.jit(lambda x: kernel(x))(x),
    "compiled": lambda kernel, x, option: opennki.compile(lambda x: kernel(x), x, lnc=option)(x),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_cell_of_the_table(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for cell in cells(options=way == "compiled"):
        put_in_force(cell, monkeypatch)
        kernel = halve if cell.bracket is None else halve[cell.bracket]
        x = jnp.asarray(ramp(2, 2))
        right = expected(cell, is_eager=way == "at once")
        assert outcome(partial(WAYS[way], kernel, x, cell.option)) == right, cell
        seen.add(right)
    codes = {"NCC_ENKI003", "NCC_EARG001", "values"}
    assert seen == (codes if way == "at once" else codes | {"NCC_EVRF066", "ONKI304"})


def refused(call: Callable[[], Any]) -> tuple[Diagnostic, ...]:
    with pytest.raises(OpenNkiError) as caught:
        call()
    return caught.value.diagnostics


def test_the_eager_path_offers_no_other_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jnp.asarray(ramp())
    (found,) = refused(lambda: halve[2](x))
    assert found.message == (
        "NKI kernel halve was traced for 2 NeuronCores but the graph is compiled for LNC=1; "
        "baking only core 0's function would silently produce a partial output."
    )
    assert found.location is not None
    assert found.location.text.strip() == "(found,) = refused(lambda: halve[2](x))"
    assert found.data["graph_kind"] == "eager"
    assert found.data["lost"] == ["core 1 alone writes rows 64..127 of `out`, 50 % of it"]
    assert len(found.help) == 1
    assert "halve[1](…)" in found.help[0]
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    (found,) = refused(lambda: halve(x))
    assert (found.code, found.data["kernel_origin"]) == ("NCC_ENKI003", "NEURON_LOGICAL_NC_CONFIG=2")
    np.testing.assert_array_equal(halve[1](x), ramp() * 0.5)  # the way out that is offered


def test_a_call_is_not_remembered_across_the_rule_of_degrees(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jnp.asarray(ramp())
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    monkeypatch.setenv("OPENNKI_KERNEL_LNC", "graph")
    np.testing.assert_array_equal(halve(x), ramp() * 0.5)
    monkeypatch.delenv("OPENNKI_KERNEL_LNC")
    (found,) = refused(lambda: halve(x))
    assert found.code == "NCC_ENKI003"


def model(x: Any) -> Any:
    """Two calls that are wrong in a graph for LNC=2, one in a loop, and one that is right."""
    y = halve(x)
    y = jax.lax.fori_loop(0, 2, lambda _, y: add_scaled[1](y, y)[0], y)
    return jax.jit(halve[2])(y)


@pytest.mark.parametrize("way", ["jitted", "compiled"])
def test_all_calls_of_a_graph_are_in_one_report(way: str) -> None:
    x = ramp()
    found = refused(
        lambda: jax.jit(model)(x) if way == "jitted" else opennki.compile(model, jnp.asarray(x), lnc=2)
    )
    assert [(one.code, one.data["kernel"]) for one in found] == [
        ("NCC_EVRF066", "halve"),
        ("NCC_EVRF066", "add_scaled"),
    ]
    lines = [one.location.text.strip() for one in found if one.location]
    assert lines == [
        "y = halve(x)",
        "y = jax.lax.fori_loop(0, 2, lambda _, y: add_scaled[1](y, y)[0], y)",
    ]
    origins = {one.data["graph_origin"] for one in found}
    assert origins == {"the default of trn3" if way == "jitted" else "the option `lnc=2`"}


def test_a_graph_traced_for_one_degree_and_lowered_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    traced = jax.jit(lambda x: halve(x)).trace(ramp())
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    (found,) = refused(traced.lower)
    assert (found.code, found.data["num_funcs"], found.data["lnc_count"]) == ("NCC_ENKI003", 2, 1)
    (found,) = refused(lambda: traced.lower(lowering_platforms=("neuron",)))
    assert found.code == "NCC_ENKI003"


def test_a_graph_that_jax_keeps_is_never_run_at_another_degree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    function = jax.jit(lambda x: halve(x))
    function(ramp())
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="ONKI304") as caught:
        function(ramp())
    text = str(caught.value)
    assert "LNC=1 but the runtime is set to LNC=2" in text
    assert "`jax.clear_caches()`" in text
    assert 'File "test_jax_degrees.py"' in text
    assert "opennki" not in text.partition("OpenNkiError")[0]
    jax.clear_caches()
    np.testing.assert_array_equal(function(ramp()), ramp() * 0.5)


def test_a_compiled_function_keeps_its_degree(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = opennki.compile(lambda x: halve[2](x), jnp.asarray(ramp()), lnc=2)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    (found,) = refused(lambda: executable(ramp()))
    assert found.code == "ONKI304"
    assert (
        refused(lambda: opennki.compile(lambda x: halve[2](x), jnp.asarray(ramp())))[0].code == "NCC_ENKI003"
    )

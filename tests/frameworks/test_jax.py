"""Kernels on JAX's arrays: values at once and in graphs, at both degrees, against jnp and NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from tests.unit.kernels import add_scaled, first_half, halve, ramp

jax: Any = pytest.importorskip("jax")
jnp: Any = jax.numpy
nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

DTYPES = (
    *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
    *("float16", "bfloat16", "float32", "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"),
)


@pytest.fixture(params=[1, 2])
def lnc(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Both degrees, of kernels and graphs alike."""
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", str(request.param))
    jax.clear_caches()  # JAX keeps the graphs of a function, whatever the environment
    degree: int = request.param
    return degree


@nki.jit
def copy(x: Any) -> Any:
    """Copy a tensor, whatever its elements are."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    rows = x.shape[0] // nl.num_programs(0)
    own = slice(nl.program_id(0) * rows, (nl.program_id(0) + 1) * rows)
    nisa.dma_copy(dst=out[own, :], src=x[own, :])
    return out


@nki.jit
def nested(x: dict[str, Any], pair: tuple[Any, Any], *, swap: bool = False) -> Any:
    """Return copies, nested in all ways, one of them twice over."""
    first, second = copy(pair[0]), copy(pair[1])
    if swap:
        first, second = second, first
    return {"own": copy(x["a"]), "pair": (first, [second, None])}


@nki.jit
def accumulate(total: Any, x: Any) -> Any:
    """Add to the first input in place; return it, and what was added."""
    rows = x.shape[0] // nl.num_programs(0)
    own = slice(nl.program_id(0) * rows, (nl.program_id(0) + 1) * rows)
    added = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="added")
    tile = nl.load(x[own, :])
    nl.store(added[own, :], tile)
    nl.store(total[own, :], nl.add(tile, nl.load(total[own, :])))
    return added, total


def test_a_call_on_arrays_runs_at_once() -> None:
    x = jnp.asarray(ramp())
    for _ in range(2):  # traced, then remembered
        found = halve(x)
        assert type(found) is type(x)
        assert (found.dtype, found.committed) == (jnp.float32, False)
        np.testing.assert_array_equal(found, ramp() * 0.5)


def test_a_kernel_in_a_graph(lnc: int) -> None:
    function = jax.jit(lambda x: halve(x * 3) + 1)
    np.testing.assert_array_equal(function(ramp()), ramp() * 1.5 + 1)
    (site,) = [e.params["site"] for e in function.trace(ramp()).jaxpr.eqns if e.primitive.name == "nki_call"]
    assert repr(site) == f"halve[{lnc}]"
    assert len(site.artifact.programs) == lnc


def test_a_kernel_itself_is_jitted(lnc: int) -> None:
    np.testing.assert_array_equal(jax.jit(halve)(ramp()), ramp() * 0.5)


def test_shapes_without_values(lnc: int) -> None:
    found = jax.eval_shape(lambda x: add_scaled(x, x), jax.ShapeDtypeStruct((128, 16), jnp.bfloat16))
    assert [(one.shape, one.dtype) for one in found] == [((128, 16), jnp.bfloat16)] * 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_passes_unchanged(dtype: str, lnc: int) -> None:
    bits = np.arange(128 * 4, dtype=np.uint32) * 257
    x = jnp.asarray((bits % 2).astype(bool) if dtype == "bool" else bits.astype(np.uint8).astype(np.float32))
    x = x.reshape(128, 4).astype(dtype)
    results = [jax.jit(copy)(x), copy[1](x)]
    for found in results:
        assert found.dtype == jnp.dtype(dtype)
        assert np.asarray(found).tobytes() == np.asarray(x).tobytes()


@pytest.mark.parametrize("swap", [False, True])
def test_structures_go_in_and_come_out(swap: bool, lnc: int) -> None:
    x, a, b = ramp(), ramp() + 1, ramp(64, 8)
    function = jax.jit(lambda x, pair: nested({"a": x}, pair, swap=swap))
    for found in (function(x, (a, b)), nested[1]({"a": jnp.asarray(x)}, (a, b), swap=swap)):
        assert set(found) == {"own", "pair"}
        first, (second, nothing) = found["pair"]
        assert nothing is None
        np.testing.assert_array_equal(found["own"], x)
        np.testing.assert_array_equal(first, b if swap else a)
        np.testing.assert_array_equal(second, a if swap else b)


def test_several_outputs_and_a_plain_value(lnc: int) -> None:
    total, difference = jax.jit(lambda a, b: add_scaled(a, b, scale=0.25))(ramp(), ramp() + 4)
    np.testing.assert_array_equal(total, ramp() + 0.25 * (ramp() + 4))
    np.testing.assert_array_equal(difference, ramp() - 0.25 * (ramp() + 4))


def test_what_is_written_in_place_is_a_new_array(lnc: int) -> None:
    total, x = jnp.asarray(ramp()), jnp.ones((128, 16))
    for function in (jax.jit(accumulate), accumulate[1]):
        added, found = function(total, x)
        np.testing.assert_array_equal(found, ramp() + 1)
        np.testing.assert_array_equal(added, x)
        np.testing.assert_array_equal(total, ramp())
    host = ramp()
    np.testing.assert_array_equal(accumulate[1](host, x)[1], ramp() + 1)
    np.testing.assert_array_equal(host, ramp())


def test_a_donated_input_is_given_up(lnc: int) -> None:
    total = jnp.asarray(ramp()) + 0
    _, found = jax.jit(accumulate, donate_argnums=0)(total, jnp.ones((128, 16)))
    np.testing.assert_array_equal(found, ramp() + 1)
    assert total.is_deleted()


def test_loops_of_jax_around_a_kernel(lnc: int) -> None:
    xs = np.stack([ramp() + i for i in range(3)])
    np.testing.assert_array_equal(jax.jit(lambda xs: jax.lax.map(halve, xs))(xs), xs * 0.5)
    total, _ = jax.jit(lambda xs: jax.lax.scan(lambda c, x: (accumulate(c, x)[1], None), xs[0] * 0, xs))(xs)
    np.testing.assert_array_equal(total, xs.sum(0))
    power = jax.jit(lambda x: jax.lax.fori_loop(0, 4, lambda _, x: halve(x), x))(ramp())
    np.testing.assert_array_equal(power, ramp() / 16)
    choice = jax.jit(lambda p, x: jax.lax.cond(p, halve, copy, x))
    np.testing.assert_array_equal(choice(True, ramp()), ramp() / 2)
    np.testing.assert_array_equal(choice(False, ramp()), ramp())


def test_a_rule_of_the_users_own_for_vmap() -> None:
    half = jax.custom_batching.custom_vmap(lambda x: halve(x))
    half.def_vmap(lambda size, is_batched, x: (halve(x.reshape(-1, 16)).reshape(x.shape), True))
    xs = jnp.stack([jnp.asarray(ramp(32))] * 2)
    np.testing.assert_array_equal(jax.vmap(half)(xs), xs * 0.5)


def test_an_array_keeps_its_device() -> None:
    x = jax.device_put(ramp(), jax.devices("cpu")[0])
    assert halve(x).committed
    np.testing.assert_array_equal(halve(x), ramp() * 0.5)


def test_the_simulator_knows_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=1")
    np.testing.assert_array_equal(halve[2](jnp.asarray(ramp())), ramp() * 0.5)
    np.testing.assert_array_equal(jax.jit(halve[2])(ramp()), ramp() * 0.5)
    np.testing.assert_array_equal(jax.jit(accumulate[2])(ramp(), ramp())[1], ramp() * 2)


def test_threads_get_their_own_results(lnc: int) -> None:
    function = jax.jit(lambda x: halve(x) + halve(x * 2))
    wrong = []

    def work(number: int) -> None:
        x = ramp() + number
        for _ in range(10):
            if not np.array_equal(function(x), x * 1.5) or not np.array_equal(
                halve[1](jnp.asarray(x)), x / 2
            ):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert not any(thread.is_alive() for thread in threads)


_EXIT = """
import sys, threading, time
import jax, jax.numpy as jnp
from opennki.build.executable import BakedCall
from tests.unit.kernels import halve

run = BakedCall.run
def slow(self, arrays):
    started.set()
    time.sleep(0.1)
    return run(self, arrays)

started = threading.Event()
function = jax.jit(lambda x: sum(halve[2](x * i) for i in range(4)))
x = jnp.ones((128, 512))
if sys.argv[1] == "devices":  # XLA's own threads, and nobody waits for them
    mesh = jax.sharding.Mesh(jax.devices(), "d")
    spec = jax.sharding.PartitionSpec("d")
    function = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec))
function(x).block_until_ready()
BakedCall.run = slow
is_daemon = sys.argv[1] == "daemon"
def work():
    for _ in range(20 if is_daemon else 1):
        function(x)
for _ in range(3):
    threading.Thread(target=work, daemon=is_daemon).start()
started.wait()
function(x)
print("end of the script", flush=True)
"""


@pytest.mark.parametrize("kind", ["daemon", "plain", "devices"])
def test_the_process_ends_with_calls_in_flight(kind: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _EXIT, kind],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONPATH": "src", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "end of the script\n", "")


# The compiled function


@pytest.mark.parametrize("degree", [1, 2])
def test_a_compiled_function(degree: int) -> None:
    def model(weights: dict[str, Any], x: Any, *, shift: float) -> Any:
        y = halve[degree](x * weights["w"])
        return {"y": y + shift, "both": (add_scaled[degree](x, y), None)}

    w = {"w": jax.ShapeDtypeStruct((), jnp.float32)}
    executable = opennki.compile(model, w, jnp.asarray(ramp()), shift=1.0, lnc=degree, target="trn2")
    assert [call.name for call in executable.calls] == ["halve", "add_scaled"]
    assert all(len(call.programs) == degree for call in executable.calls)
    assert (executable.lnc, executable.target) == (degree, "trn2")
    assert repr(executable) == f"<Executable of model (halve, add_scaled) target=trn2 lnc={degree}>"
    signature = executable.signature
    assert [(i.name, i.shape, i.dtype) for i in signature.inputs] == [
        ("x0.w", (), "float32"),
        ("x1", (128, 16), "float32"),
    ]
    assert [o.name for o in signature.outputs] == ["both.0.0", "both.0.1", "y"]
    for x in (ramp(), jnp.asarray(ramp())):
        found = executable({"w": np.float32(4)}, x)
        np.testing.assert_array_equal(found["y"], ramp() * 2 + 1)
        np.testing.assert_array_equal(found["both"][0][0], ramp() * 3)
        assert found["both"][1] is None


def test_a_compiled_function_of_jitted_ones_is_traced_for_its_own_target() -> None:
    inner = jax.jit(halve[1])
    outer = [
        opennki.compile(lambda x: inner(x), ramp_of(), lnc=1, target=t) for t in ("trn1", "trn2", "trn3")
    ]
    assert [one.calls[0].artifact.target for one in outer] == ["trn1", "trn2", "trn3"]
    for one in outer:
        np.testing.assert_array_equal(one(ramp()), ramp() * 0.5)


def ramp_of() -> Any:
    return jnp.asarray(ramp())


def test_a_kernel_may_follow_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENNKI_KERNEL_LNC", "graph")
    for degree in (1, 2):
        executable = opennki.compile(lambda x: halve(x), ramp_of(), lnc=degree)
        assert executable.calls[0].artifact.lnc == degree
        np.testing.assert_array_equal(executable(ramp()), ramp() * 0.5)
    np.testing.assert_array_equal(jax.jit(halve)(ramp()), ramp() * 0.5)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    np.testing.assert_array_equal(halve(ramp_of()), ramp() * 0.5)  # the eager graph has one core


def test_text_for_neuron_carries_the_call() -> None:
    import base64
    import json
    import re

    traced = jax.jit(lambda t, x: accumulate[2](t, x)[1]).trace(ramp(), ramp())
    text = traced.lower(lowering_platforms=("neuron",)).as_text()
    (config,) = re.findall(r'custom_call @AwsNeuronCustomNativeKernel.*backend_config = "([^"]*)"', text)
    found = json.loads(base64.b64decode(config))
    assert (found["func_name"], found["kernel_format"], found["grid"]) == ("accumulate", "opennki", [2])
    assert (found["platform_target"], found["aliases"]) == ("trn3", [[0, 1]])
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", found["klir_binary"]["binary"])
    assert found["klir_binary"]["input_names"] == ["total", "x"]
    assert found["klir_binary"]["output_names"] == ["added", "total"]
    assert "api_version = 2" in text
    assert "output_operand_aliases" in text
    assert text == traced.lower(lowering_platforms=("neuron",)).as_text()


def test_an_export_carries_the_same_call_on_every_platform() -> None:
    name = "AwsNeuronCustomNativeKernel"
    checks = [jax.export.DisabledSafetyCheck.custom_call(name)]
    for platform in ("cpu", "neuron"):
        exported = jax.export.export(jax.jit(halve[2]), platforms=(platform,), disabled_checks=checks)(ramp())
        assert exported.platforms == (platform,)
        assert exported.mlir_module().count(f"@{name}") == 1


def test_elements_that_nobody_writes_are_said_at_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    for function in (first_half, jax.jit(lambda x: first_half(x))):
        with pytest.warns(opennki.OpenNkiWarning, match="ONKI401") as caught:
            function(jnp.asarray(ramp()))
        assert [Path(warning.filename).name for warning in caught] == ["test_jax.py"]

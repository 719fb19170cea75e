"""`nl.device_print`: text on standard output while simulating, a finding when compiled."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.diag import OpenNkiError, OpenNkiWarning
from opennki.frontend.values import shown_value, value_of
from tests.unit.nl_run import BF16, nisa, nl

Capture = pytest.CaptureFixture[str]

RAMP = np.arange(8, dtype=np.float32).reshape(2, 4)

uncached = pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")
"""A kernel that writes into a list outside is traced at each call, which a warning says."""


@nki.jit
def prints(x: Any) -> Any:
    tile = nl.load(x)
    nl.device_print("value of x:", tile)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def test_a_tile(capsys: Capture) -> None:
    assert np.array_equal(nki.simulate(prints)(RAMP), RAMP)
    assert capsys.readouterr().out == f"value of x:\n{RAMP}\n"


def test_one_row_stands_on_the_line_of_its_prefix(capsys: Capture) -> None:
    nki.simulate(prints)(RAMP[:1])
    assert capsys.readouterr().out == "value of x: [[0. 1. 2. 3.]]\n"


@pytest.mark.parametrize("dtype", [BF16, np.int32, np.uint8])
def test_dtypes(dtype: Any, capsys: Capture) -> None:
    nki.simulate(prints)(RAMP[:1].astype(dtype))
    assert capsys.readouterr().out == f"value of x: {np.array2string(RAMP[:1].astype(dtype))}\n"


def test_what_is_there_at_that_moment(capsys: Capture) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.shared_hbm, name="out")
        tile = nl.load(x)
        nl.device_print("before", tile[0:1, 1:3])
        nisa.memset(dst=tile, value=5.0)
        nl.device_print("after", tile[0:1, 1:3])
        nl.device_print("unwritten", out)
        nl.store(out, tile[0:1, :])
        nl.device_print("out", out)
        nl.device_print("x", x[1, ::2])
        return out

    nki.simulate(kernel)(RAMP)
    assert capsys.readouterr().out.splitlines() == [
        "before [[1. 2.]]",
        "after [[5. 5.]]",
        "unwritten [[nan nan nan nan]]",
        "out [[5. 5. 5. 5.]]",
        "x [4. 6.]",
    ]


def test_cores_are_named(capsys: Capture) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        core = nl.program_id(0)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
        tile = nl.load(x[core : core + 1, :])
        nl.device_print("row", tile)
        nl.store(out[core : core + 1, :], tile)
        return out

    nki.simulate(kernel[2])(RAMP)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == ["core 0: row [[0. 1. 2. 3.]]", "core 1: row [[4. 5. 6. 7.]]"]


def test_each_turn_of_a_loop(capsys: Capture) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.zeros((1, 1), dtype=nl.float32)

        def body(i: Any) -> None:
            nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=2.0)
            nl.device_print("total", total)

        nl.fori_loop(0, 3, body)
        nl.store(out, total)
        return out

    nki.simulate(kernel)(RAMP)
    assert capsys.readouterr().out.splitlines() == ["total [[2.]]", "total [[4.]]", "total [[6.]]"]


def test_a_placed_tile(capsys: Capture) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((2, 4), dtype=nl.float32, buffer=nl.sbuf, address=(32, 64))
        nisa.dma_copy(dst=tile, src=x)
        nl.device_print("tile", tile[1:2, 2:])
        nl.store(out, tile)
        return out

    nki.simulate(kernel)(RAMP)
    assert capsys.readouterr().out == "tile [[6. 7.]]\n"


def test_a_compiled_kernel_leaves_it_out_and_says_so(capsys: Capture) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        artifact = opennki.trace(prints, RAMP, target="trn2")
    assert [w.category for w in said] == [OpenNkiWarning]
    (found,) = artifact.findings
    assert (found.code, found.severity.value) == ("ONKI408", "warning")
    assert found.message == "`nl.device_print` prints in a simulation only, a compiled kernel leaves it out"
    assert found.location is not None
    assert found.location.text.strip() == 'nl.device_print("value of x:", tile)'
    assert np.array_equal(opennki.compile(artifact, lnc=1)(RAMP), RAMP)
    assert capsys.readouterr().out == ""


def test_it_changes_no_instruction() -> None:
    @nki.jit
    def silent(x: Any) -> Any:
        tile = nl.load(x)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpenNkiWarning)
        bodies = [opennki.trace(k, RAMP, target="trn2").programs[0].body for k in (prints, silent)]
    assert [len(body) for body in bodies] == [2, 2]


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (
            lambda t: nl.device_print(1, t),
            "ONKI101",
            "`nl.device_print` needs a str for `print_prefix`, got `1` (int)",
        ),
        (
            lambda t: nl.device_print("x", 1.0),
            "ONKI101",
            "`nl.device_print` needs a tensor for `tensor`, got `1.0` (float)",
        ),
        (
            lambda t: nl.device_print("x", nl.transpose(t)),
            "ONKI201",
            "`nl.device_print` needs `tensor` in sbuf or shared_hbm or private_hbm, it is in psum",
        ),
    ],
)
def test_wrong_arguments(call: Any, code: str, message: str) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        call(nl.load(x))
        return x

    for attempt in (nki.simulate(kernel), lambda x: opennki.trace(kernel, x, target="trn2")):
        with pytest.raises(OpenNkiError) as caught:
            attempt(RAMP)
        assert (caught.value.code, caught.value.diagnostics[0].message) == (code, message)


@uncached
def test_what_a_tensor_holds() -> None:
    seen: list[Any] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        seen.append(value_of(tile.reshape((2, 2, 2))[:, :, 1]))
        nisa.memset(dst=tile, value=0.0)
        return x

    nki.simulate(kernel)(RAMP)
    assert np.array_equal(seen[0], [[1, 3], [5, 7]]), "a copy, from before the memset"
    opennki.trace(kernel, RAMP, target="trn2")
    assert seen[1] is None, "a trace has no values"


@uncached
def test_a_value_on_one_line() -> None:
    seen: list[str] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        seen.append(shown_value(nl.load(x)))
        seen.append(shown_value(x[0, 1:3]))
        seen.append(shown_value(nl.zeros((128, 64), dtype=nl.int32)))
        return x

    nki.simulate(kernel)(RAMP)
    assert seen == [
        " [[0. 1. 2. 3.] [4. 5. 6. 7.]]",
        " [1. 2.]",
        " [[0 0 0 ... 0 0 0] [0 0 0 ... 0 0 0] [0 0 0 ... 0 0 0] ... "
        "[0 0 0 ... 0 0 0] [0 0 0 ... 0 0 0] [0 0 0 ... 0 0 0]]",
    ]
    opennki.trace(kernel, RAMP, target="trn2")
    assert seen[3:] == ["", "", ""]

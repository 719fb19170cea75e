"""`opennki exec`: executables on `.npy` files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opennki
from tests.unit.command_line import Run, executable
from tests.unit.kernels import ramp


def test_exec_needs_neither_source_nor_artifact(run: Run) -> None:
    executable(run)
    Path("k.py").unlink()
    Path("t.nka").unlink()
    x = ramp(512, 64)
    np.save("x.npy", x)
    status, out, err = run("exec", "f.nkx", "--input", "x.npy", "--output-dir", "out")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "runtime: LNC=2, from the executable, which was compiled for it",
        f"wrote {Path('out') / 'out.npy'}: float32[512, 64]",
    ]
    np.testing.assert_array_equal(np.load("out/out.npy"), x * 0.5)


def test_exec_names_the_origin_of_the_runtime_degree(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(run)
    np.save("x.npy", ramp(512, 64))
    monkeypatch.setenv("NEURON_RT_VIRTUAL_CORE_SIZE", "2")
    assert (
        "runtime: LNC=2, from NEURON_RT_VIRTUAL_CORE_SIZE=2\n" in run("exec", "f.nkx", "--input", "x.npy")[1]
    )
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    status, _, err = run("exec", "f.nkx", "--input", "x.npy")
    assert status == 1
    assert err.startswith("error[ONKI304]: ")


ADD = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def subtract(a, b):
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.subtract)
    nisa.dma_copy(dst=a, src=left)
    first = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="../first")
    nisa.dma_copy(dst=first, src=right)
    return a, first
"""


@pytest.mark.parametrize(
    "inputs",
    [["a.npy", "b.npy"], ["b=b.npy", "a=a.npy"], ["b=b.npy", "a.npy"], ["a.npy", "b=b.npy"]],
    ids=" ".join,
)
def test_inputs_in_order_or_by_name(run: Run, inputs: list[str]) -> None:
    Path("k.py").write_text(ADD)
    arguments = ("--arg", "a=float32[4,4]", "--arg", "b=float32[4,4]", "--target", "trn2", "--lnc", "1")
    assert run("compile", "k.py", *arguments, "-o", "f.nkx")[0] == 0
    a, b = ramp(4, 4), ramp(4, 4)[::-1] * 2
    np.save("a.npy", a)
    np.save("b.npy", np.asfortranarray(b))
    options = [part for file in inputs for part in ("--input", file)]
    assert run("exec", "f.nkx", *options, "--output-dir", "out")[0] == 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["_first.npy", "a.npy"]
    np.testing.assert_array_equal(np.load("out/a.npy"), a - b)
    np.testing.assert_array_equal(np.load("out/_first.npy"), b)


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ([], "`fold` takes 1 inputs, got 0"),
        (["x.npy", "x.npy"], "`fold` takes 1 inputs, got 2"),
        (["b=x.npy"], "`fold` has no input `b`"),
        (["a=x.npy", "a=x.npy"], "input `a` is given twice"),
    ],
)
def test_inputs_that_do_not_fit(run: Run, inputs: list[str], problem: str) -> None:
    executable(run)
    np.save("x.npy", ramp(512, 64))
    options = [part for file in inputs for part in ("--input", file)]
    status, _, err = run("exec", "f.nkx", *options)
    assert status == 2
    assert err.splitlines()[:2] == [f"error[ONKI006]: {problem}", "  help: give --input a=FILE.npy"]


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (ramp(512, 32), "float32[512, 32] in `x.npy`"),
        (ramp(512, 64).astype(np.float64), "float64[512, 64] in `x.npy`"),
        (ramp(512, 64).astype(np.uint32), "uint32[512, 64] in `x.npy`"),
    ],
    ids=["shape", "float64", "uint32"],
)
def test_arrays_that_do_not_fit(run: Run, array: np.ndarray[Any, Any], got: str) -> None:
    executable(run)
    np.save("x.npy", array)
    status, _, err = run("exec", "f.nkx", "--input", "x.npy")
    assert status == 1
    assert err.startswith(f"error[ONKI702]: input `a` is {got}, the kernel was traced for float32[512, 64]")


def test_a_file_of_the_other_byte_order(run: Run) -> None:
    executable(run)
    x = ramp(512, 64)
    np.save("x.npy", x.astype(">f4"))
    assert run("exec", "f.nkx", "--input", "x.npy")[0] == 0
    np.testing.assert_array_equal(np.load("out.npy"), x * 0.5)


def test_bfloat16_as_numpy_saves_it_and_as_bits(run: Run) -> None:
    import ml_dtypes

    executable(run, spec="a=bfloat16[512,64]")
    x = ramp(512, 64).astype(ml_dtypes.bfloat16)
    expected = (x.astype(np.float32) * 0.5).astype(ml_dtypes.bfloat16)
    for stored in (x, x.view(np.uint16)):
        np.save("x.npy", stored)
        assert run("exec", "f.nkx", "--input", "x.npy")[0] == 0
        np.testing.assert_array_equal(np.load("out.npy").view(ml_dtypes.bfloat16), expected)
    np.save("x.npy", x.astype(np.float32))
    status, _, err = run("exec", "f.nkx", "--input", "x.npy")
    assert status == 1
    assert "array.astype(ml_dtypes.bfloat16)" in err


def test_a_pickle_is_never_read(run: Run) -> None:
    executable(run)
    np.save("x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    status, _, err = run("exec", "f.nkx", "--input", "x.npy")
    assert status == 2
    assert err.startswith("error[ONKI005]: cannot read `x.npy`: it is no .npy array: ")


def header(shape: tuple[int, ...], descr: str = "<f4") -> bytes:
    """Return the start of a .npy file that says it has such an array."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (header((512, 64)), "it is cut short: 0 of 131072 bytes"),
        (header((512, 64)) + bytes(131071), "it is cut short: 131071 of 131072 bytes"),
        (header((1 << 50, 64)) + bytes(64), f"it is cut short: 64 of {1 << 58} bytes"),
        (header((512, 64), "|O") + bytes(64), "it is no .npy array: "),
        (header((512, 64), "<f99") + bytes(64), "it is no .npy array: "),
        (b"\x93NUMPY\x09\x00" + bytes(100), "it is no .npy array: "),
        (b"\x93NUM", "it is no .npy array: "),
        (b"", "it is no .npy array: "),
        (b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535, "it is no .npy array: "),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + b"{" * 10, "it is no .npy array: "),
    ],
    ids=["no data", "one byte less", "vast", "objects", "dtype", "version", "cut", "empty", "deep", "long"],
)
def test_a_file_that_is_no_array_is_refused_at_once(run: Run, data: bytes, says: str) -> None:
    executable(run)
    Path("x.npy").write_bytes(data)
    status, _, err = run("exec", "f.nkx", "--input", "x.npy")
    assert status == 2
    assert err.startswith("error[ONKI005]: cannot read `x.npy`: ")
    assert says in err


def test_a_pipe_is_not_waited_for(run: Run) -> None:
    executable(run)
    os.mkfifo("x.npy")
    status, _, err = run("exec", "f.nkx", "--input", "x.npy")
    assert status == 2
    assert "cannot read `x.npy`: it is no regular file" in err


def test_outputs_are_written_all_or_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(run)
    np.save("x.npy", ramp(512, 64))
    Path("out").mkdir()
    Path("out/out.npy").write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    status, _, err = run("exec", "f.nkx", "--input", "x.npy", "--output-dir", "out")
    assert status == 1
    assert "error[ONKI504]: cannot write `out/out.npy`: no space left on device" in err
    assert [p.name for p in Path("out").iterdir()] == ["out.npy"]
    assert Path("out/out.npy").read_bytes() == b"old"


def test_one_of_several_kernel_calls(run: Run) -> None:
    artifact = opennki.trace(_fold(), "float32[128,8]", lnc=1, target="trn2")
    opennki.compile([artifact, artifact], lnc=1).save("both.nkx")
    x = ramp(128, 8)
    np.save("x.npy", x)
    status, _, err = run("exec", "both.nkx", "--input", "x.npy")
    assert status == 2
    assert "give --call: 0 is `fold`, 1 is `fold`" in err
    assert run("exec", "both.nkx", "--input", "x.npy", "--call", "1")[0] == 0
    np.testing.assert_array_equal(np.load("out.npy"), x * 0.5)
    assert run("exec", "both.nkx", "--input", "x.npy", "--call", "fold")[0] == 2
    assert run("exec", "both.nkx", "--input", "x.npy", "--call", "2")[0] == 2


def _fold() -> Any:
    from opennki.cli.kernels import load_kernel

    return load_kernel("k.py:fold")

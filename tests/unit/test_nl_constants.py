"""`nl.shared_constant` and `nl.shared_identity_matrix`: values, artifacts, agreement of the cores."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opennki
from opennki import nki
from opennki.diag import Diagnostic, OpenNkiError
from opennki.frontend.constant_pool import noted_files
from opennki.ir.parse import parse_artifact
from opennki.ir.program import size_bytes
from opennki.ir.text import print_artifact
from opennki.ir.types import KernelArtifact, Origin, Space
from opennki.ir.verify import verify
from opennki.isa.table import ROW_FACTS
from tests.unit.nl_run import BF16, Array, Function, nisa, nl, normal

TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)

DTYPES = (
    np.float32,
    np.float16,
    BF16,
    np.int32,
    np.int16,
    np.int8,
    np.uint32,
    np.uint16,
    np.uint8,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e8m0fnu,
)


def constant_kernel(constant: Any) -> Any:
    """Return a kernel that copies a constant to its output."""

    @nki.jit
    def kernel() -> Any:
        table = nl.shared_constant(constant)
        out = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=table)
        return out

    return kernel


def both(kernel: Any, *arrays: Array, lnc: int = 1) -> Array:
    """Return what a kernel gives, simulated and compiled alike."""
    simulated: Array = nki.simulate(kernel[lnc])(*arrays)
    artifact = opennki.trace(kernel, *arrays, lnc=lnc, target="trn2")
    assert list(verify(artifact, ROW_FACTS)) == []
    executable = opennki.compile(artifact, lnc=lnc)
    for _ in range(2):
        compiled = executable(*arrays)
        assert (compiled.dtype, compiled.shape) == (simulated.dtype, simulated.shape)
        assert compiled.tobytes() == simulated.tobytes()
    return simulated


def refused(kernel: Any, *arrays: Array, lnc: int = 1) -> Diagnostic:
    """Return the one error of a kernel, the same simulated and traced."""
    found = []
    for call in (nki.simulate(kernel[lnc]), lambda *a: opennki.trace(kernel, *a, lnc=lnc, target="trn2")):
        with pytest.raises(OpenNkiError) as caught:
            call(*arrays)
        (one,) = caught.value.diagnostics
        found.append(one)
    assert (found[0].code, found[0].message) == (found[1].code, found[1].message)
    return found[0]


def line_of(found: Diagnostic) -> str:
    assert found.location is not None
    return found.location.text.strip()


# Values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_documented_dtype(dtype: Any, lnc: int) -> None:
    array = np.abs(normal(3, 5) * 8).astype(dtype)
    result = both(constant_kernel(array), lnc=lnc)
    assert result.dtype == dtype
    assert result.tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(1,), (1, 1), (7,), (2, 3, 5), (300, 4)])
def test_shapes(shape: tuple[int, ...]) -> None:
    array = normal(*shape)
    assert np.array_equal(both(constant_kernel(array)), array)


def test_layouts_of_arrays() -> None:
    base = normal(6, 8)
    for array in (base.T, base[::2, 1::3], np.asfortranarray(base), np.broadcast_to(base[0], (3, 8))):
        assert np.array_equal(both(constant_kernel(array)), array)


def test_big_endian_arrays_are_turned() -> None:
    assert np.array_equal(both(constant_kernel(TABLE.astype(">f4"))), TABLE)


def test_the_bytes_are_taken_when_the_kernel_runs() -> None:
    array = TABLE.copy()

    @nki.jit
    def kernel() -> Any:
        table = nl.shared_constant(array)
        array[...] = -1
        out = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=table)
        return out

    assert np.array_equal(nki.simulate(kernel)(), TABLE)
    assert (array == -1).all()


def test_a_constant_can_be_returned() -> None:
    @nki.jit
    def kernel() -> Any:
        return nl.shared_constant(TABLE)[1:, :]

    assert np.array_equal(both(kernel), TABLE[1:])


def test_loaded_and_used() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        weights = nl.load(nl.shared_constant(TABLE))
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), weights))
        return out

    x = normal(3, 4)
    assert np.array_equal(both(kernel, x), x * TABLE)


# Files ---------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")  # a `Path` outside of a kernel: not cached
@pytest.mark.parametrize("text", [True, False])
def test_a_file(tmp_path: Path, text: bool) -> None:
    path = tmp_path / "table.npy"
    np.save(path, TABLE)
    assert np.array_equal(both(constant_kernel(str(path) if text else path)), TABLE)


def test_a_file_is_found_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("table.npy", TABLE.T)
    assert np.array_equal(both(constant_kernel("table.npy")), TABLE.T)


def test_the_files_that_a_trace_reads_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, TABLE)
    with noted_files() as seen:
        nki.simulate(constant_kernel(str(path)))()
    assert seen == {str(path): hashlib.sha256(path.read_bytes()).hexdigest()}


def test_a_file_that_changes_makes_a_new_trace(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, TABLE)
    kernel = constant_kernel(str(path))
    assert np.array_equal(opennki.compile(opennki.trace(kernel, lnc=1), lnc=1)(), TABLE)
    np.save(path, TABLE + 1)
    assert np.array_equal(opennki.compile(opennki.trace(kernel, lnc=1), lnc=1)(), TABLE + 1)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    found = refused(constant_kernel(str(tmp_path / "no.npy")))
    assert found.code == "ONKI005"
    assert found.message.endswith("no.npy`: No such file or directory")
    assert line_of(found) == "table = nl.shared_constant(constant)"


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    path, sprung = tmp_path / "objects.npy", tmp_path / "sprung"
    np.save(path, np.array([Trap(sprung)], object), allow_pickle=True)
    found = refused(constant_kernel(str(path)))
    assert found.code == "ONKI005"
    assert found.message.endswith("it is no .npy file with an array of numbers")
    assert not sprung.exists()


@pytest.mark.parametrize("content", [b"", b"not an array", b"\x93NUMPY\x01\x00", b"PK\x03\x04"])
def test_a_file_that_is_no_array(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.npy"
    path.write_bytes(content)
    assert refused(constant_kernel(str(path))).code == "ONKI005"


def test_a_file_that_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, TABLE)
    path.write_bytes(path.read_bytes()[:-4])
    assert refused(constant_kernel(str(path))).code == "ONKI005"


# Artifacts -----------------------------------------------------------------------------------------------


def traced(function: Function, lnc: int = 1) -> KernelArtifact:
    return opennki.trace(nki.jit(function), lnc=lnc, target="trn2")


def test_the_artifact_carries_the_bytes() -> None:
    artifact = opennki.trace(constant_kernel(TABLE), lnc=2, target="trn2")
    (constant,) = artifact.signature.constants
    assert (constant.name, constant.dtype, constant.shape) == ("table", "float32", (3, 4))
    assert constant.digest == hashlib.sha256(TABLE.tobytes()).hexdigest()
    assert artifact.constants == (TABLE.tobytes(),)
    assert size_bytes(constant.shape, constant.dtype) == len(artifact.constants[0])
    for program in artifact.programs:
        (buffer,) = [b for b in program.buffers if b.origin is Origin.constant]
        assert (buffer.key, buffer.space, buffer.loop) == (constant.key, Space.shared_hbm, -1)


def test_equal_constants_are_one() -> None:
    def kernel() -> Any:
        out = nl.ndarray((3, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        for _ in range(5):
            table = nl.shared_constant(TABLE.copy())
        again = nl.shared_constant(TABLE)
        other = nl.shared_constant(TABLE.reshape(4, 3))
        nisa.dma_copy(dst=out, src=again)
        nisa.dma_copy(dst=out, src=other)
        nisa.dma_copy(dst=out, src=table)
        return out

    artifact = traced(kernel)
    assert [constant.shape for constant in artifact.signature.constants] == [(3, 4), (4, 3)]
    assert [constant.name for constant in artifact.signature.constants] == ["table", "other"]
    assert np.array_equal(both(nki.jit(kernel)), TABLE)


def test_an_artifact_is_saved_with_its_constants(tmp_path: Path) -> None:
    artifact = opennki.trace(constant_kernel(TABLE), lnc=2, target="trn2")
    loaded = opennki.load(artifact.save(tmp_path / "table.nka"))
    assert isinstance(loaded, KernelArtifact)
    assert loaded.constants == artifact.constants
    assert loaded.signature == artifact.signature
    executable = opennki.compile(loaded, lnc=2)
    assert np.array_equal(executable(), TABLE)
    saved = opennki.load(executable.save(tmp_path / "table.nkx"))
    assert isinstance(saved, opennki.Executable)
    assert np.array_equal(saved(), TABLE)


def test_the_text_form_holds_the_bytes() -> None:
    artifact = opennki.trace(constant_kernel(TABLE), lnc=2, target="trn2")
    parsed = parse_artifact(print_artifact(artifact, ROW_FACTS), ROW_FACTS)
    assert (parsed.signature, parsed.constants) == (artifact.signature, artifact.constants)


def test_a_check_has_nothing_to_say() -> None:
    report = opennki.check(constant_kernel(TABLE), lnc=1, target="trn2")
    assert report.findings == ()


def test_a_constant_made_in_a_loop_outlives_it() -> None:
    @nki.jit
    def kernel() -> Any:
        out = nl.ndarray((3, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        made = []

        def body(i: Any) -> None:
            made.append(nl.shared_constant(TABLE))

        nl.fori_loop(0, 3, body)
        nisa.dma_copy(dst=out, src=made[-1])
        return out

    assert np.array_equal(both(kernel, lnc=2), TABLE)


# Two cores -----------------------------------------------------------------------------------------------


def test_each_core_reads_its_part() -> None:
    @nki.jit
    def kernel() -> Any:
        table = nl.shared_constant(np.arange(8, dtype=np.int32).reshape(4, 2))
        out = nl.ndarray((4, 2), dtype=nl.int32, buffer=nl.shared_hbm, name="out")
        rows = 4 // nl.num_programs(0)
        start = nl.program_id(0) * rows
        nisa.dma_copy(dst=out[start : start + rows, :], src=table[start : start + rows, :])
        return out

    for lnc in (1, 2):
        assert np.array_equal(both(kernel, lnc=lnc), np.arange(8).reshape(4, 2))


def test_values_that_differ_between_cores() -> None:
    @nki.jit
    def kernel() -> Any:
        out = nl.ndarray((3, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        shifted = TABLE.copy()
        shifted[1, 2] += nl.program_id(0)
        table = nl.shared_constant(shifted)
        nisa.dma_copy(dst=out, src=table)
        return out

    found = refused(kernel, lnc=2)
    assert (found.code, found.rule, found.core) == ("ONKI310", "KERNEL_LNC-09", 1)
    assert found.message == (
        "constant `table` differs between cores: element [1, 2] is 6.0 on core 0 and 7.0 on core 1"
    )
    assert line_of(found) == "table = nl.shared_constant(shifted)"
    assert [label.text for label in found.labels] == [
        "core 1 gives float32[3, 4]",
        "core 0 gives float32[3, 4]",
    ]


def test_shapes_that_differ_between_cores() -> None:
    @nki.jit
    def kernel() -> Any:
        out = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        table = nl.shared_constant(TABLE[nl.program_id(0) :])
        nisa.dma_copy(dst=out, src=table[0:1, :])
        return out

    found = refused(kernel, lnc=2)
    assert found.message == (
        "constant `table` differs between cores: float32[3, 4] on core 0, float32[2, 4] on core 1"
    )


def test_the_second_turn_of_a_line_is_compared_with_the_second() -> None:
    @nki.jit
    def kernel() -> Any:
        out = nl.ndarray((3, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        for i in range(3):
            nisa.dma_copy(dst=out, src=nl.shared_constant(TABLE + i * (nl.program_id(0) if i == 2 else 1)))
        return out

    found = refused(kernel, lnc=2)
    assert found.code == "ONKI310"
    assert "element [0, 0] is 0.0 on core 0 and 2.0 on core 1" in found.message


def test_all_lines_that_differ_are_reported() -> None:
    @nki.jit
    def kernel() -> Any:
        out = nl.ndarray((3, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        first = nl.shared_constant(TABLE + nl.program_id(0))
        second = nl.shared_constant(TABLE - nl.program_id(0))
        nisa.dma_copy(dst=out, src=first)
        nisa.dma_copy(dst=out, src=second)
        return out

    with pytest.raises(OpenNkiError) as caught:
        opennki.trace(kernel, lnc=2, target="trn2")
    assert [line_of(found).split()[0] for found in caught.value.diagnostics] == ["first", "second"]


@pytest.mark.parametrize("owner", [0, 1])
def test_a_constant_of_one_core_alone(owner: int) -> None:
    @nki.jit
    def kernel() -> Any:
        out = nl.ndarray((2, 3, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        source = nl.shared_constant(TABLE * 2) if core == owner else nl.shared_constant(TABLE)
        nisa.dma_copy(dst=out[core], src=source)
        return out

    result = both(kernel, lnc=2)
    assert np.array_equal(result[owner], TABLE * 2)
    assert np.array_equal(result[1 - owner], TABLE)


# Identity matrices ---------------------------------------------------------------------------------------

IDENTITY_DTYPES = (
    "uint8",
    "float32",
    "bfloat16",
    "float16",
    "int32",
    "float8_e4m3",
    "float8_e5m2",
    "tfloat32",
)


def identity_kernel(n: int, **options: Any) -> Any:
    @nki.jit
    def kernel() -> Any:
        tile = nl.shared_identity_matrix(n, **options)
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    return kernel


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("n", [1, 5, 128])
def test_identity(n: int, lnc: int) -> None:
    result = both(identity_kernel(n), lnc=lnc)
    assert result.dtype == np.uint8
    assert np.array_equal(result, np.eye(n))


@pytest.mark.parametrize("dtype", IDENTITY_DTYPES)
def test_identity_of_every_dtype(dtype: str) -> None:
    result = both(identity_kernel(6, dtype=getattr(nl, dtype)))
    assert np.array_equal(result.astype(np.float32), np.eye(6))


def test_identities_are_one_constant_and_tiles_of_their_own() -> None:
    @nki.jit
    def kernel() -> Any:
        out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        first = nl.shared_identity_matrix(4, dtype=nl.float32)
        nisa.tensor_scalar(dst=first, data=first, op0=nl.multiply, operand0=3.0)
        second = nl.shared_identity_matrix(4, dtype=nl.float32)
        nl.store(out, nl.add(first, second))
        return out

    assert np.array_equal(both(kernel), np.eye(4) * 4)
    assert len(opennki.trace(kernel, target="trn2").constants) == 1


def test_identity_into_a_tile() -> None:
    @nki.jit
    def kernel() -> Any:
        out = nl.ndarray((5, 9), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        tile = nl.zeros((5, 9), dtype=nl.bfloat16)
        window = nl.shared_identity_matrix(5, dst=tile[:, 2:7])
        assert window.shape == (5, 5)
        nl.store(out, tile)
        return out

    expected = np.zeros((5, 9))
    expected[:, 2:7] = np.eye(5)
    assert np.array_equal(both(kernel).astype(np.float64), expected)


def test_a_transpose_by_the_identity() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        identity = nl.shared_identity_matrix(n=x.shape[0], dtype=x.dtype)
        out = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(nl.matmul(tile, identity, transpose_x=True)))
        return out

    x = normal(7, 5)
    assert np.array_equal(both(kernel, x), x.T)


# Errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [np.eye(2), np.ones(2, np.int64), np.ones(2, np.bool_), np.ones(2, np.complex64), np.array(["a"])],
    ids=lambda array: str(array.dtype),
)
def test_dtypes_without_hardware(array: Array) -> None:
    found = refused(constant_kernel(array))
    assert found.code == "ONKI214"
    assert found.message == f"`nl.shared_constant` cannot hold elements of {array.dtype}"
    assert found.help[0].startswith("convert it with `.astype(…)` to one of float32, ")
    assert line_of(found) == "table = nl.shared_constant(constant)"


@pytest.mark.parametrize("array", [np.array(1, np.float32), np.ones((2, 0), np.float32)])
def test_arrays_without_elements_or_axes(array: Array) -> None:
    found = refused(constant_kernel(array))
    assert (found.code, line_of(found)) == ("ONKI212", "table = nl.shared_constant(constant)")


@pytest.mark.parametrize("value", [[1.0, 2.0], 3, None, {"a": 1}])
def test_what_is_no_array(value: Any) -> None:
    found = refused(constant_kernel(value))
    assert found.code == "ONKI101"
    assert "`nl.shared_constant` needs a NumPy array or the path of a .npy file" in found.message


@pytest.mark.parametrize(
    ("n", "code"), [(0, "ONKI212"), (129, "ONKI212"), (2.0, "ONKI101"), (True, "ONKI101")]
)
def test_sizes_of_identities(n: Any, code: str) -> None:
    found = refused(identity_kernel(n))
    assert (found.code, line_of(found)) == (code, "tile = nl.shared_identity_matrix(n, **options)")


def test_an_identity_of_packed_elements() -> None:
    found = refused(identity_kernel(4, dtype=nl.float8_e4m3fn_x4))
    assert (found.code, found.rule) == ("ONKI202", "DMA_COPY-13")


def test_an_identity_and_a_tile_of_another_size() -> None:
    @nki.jit
    def kernel() -> Any:
        nl.shared_identity_matrix(4, dst=nl.ndarray((4, 5), dtype=nl.float32))

    found = refused(kernel)
    assert found.code == "ONKI205"
    assert found.message == "`nl.shared_identity_matrix` fills a tile [4, 4], `dst` is [4, 5]"


def test_outside_of_a_kernel() -> None:
    with pytest.raises(OpenNkiError) as caught:
        nl.shared_constant(TABLE)
    assert caught.value.code == "ONKI103"


def test_nothing_is_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both(constant_kernel(TABLE))

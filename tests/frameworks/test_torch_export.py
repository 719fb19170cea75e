"""Exported programs: compiled, saved and run in processes that lack the source; files that are bad."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import opennki
from opennki.artifact import artifact_bytes
from opennki.artifact.container import pack, unpack
from opennki.cli import main
from tests.frameworks.refusals import refused
from tests.frameworks.tensor_kernels import bump
from tests.unit.kernels import add_scaled, double_in_place, halve

torch: Any = pytest.importorskip("torch")
adapter: Any = pytest.importorskip("opennki.frameworks.torch")
config: Any = pytest.importorskip("opennki.frameworks.torch.config")


def ramp(rows: int = 128, columns: int = 16) -> Any:
    return torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns)


class Model(torch.nn.Module):  # type: ignore[misc,unused-ignore]  # Any, without PyTorch too
    def __init__(self, degree: int = 1) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.linear = torch.nn.Linear(16, 16)
        self.degree = degree

    def forward(self, x: Any) -> Any:
        y = halve[self.degree](self.linear(x))
        return y.relu(), halve[self.degree](y)


class Writes(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    def forward(self, x: Any, y: Any) -> Any:
        _, twice = bump(x)
        return twice - y, double_in_place(y)


def exported(module: Any = None, *examples: Any, strict: bool = False) -> Any:
    return torch.export.export(module or Model(), examples or (ramp(),), strict=strict)


def reference(x: Any) -> list[Any]:
    with torch.no_grad():
        y = Model().linear(x) * 0.5
        return [y.relu(), y * 0.5]


@pytest.fixture
def program() -> Any:
    return exported()


# ---------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("degree", [1, 2])
def test_values(strict: bool, degree: int) -> None:
    executable = opennki.compile(exported(Model(degree), strict=strict), lnc=degree)
    assert [(call.name, call.lnc) for call in executable.calls] == [("halve", degree)] * 2
    for found, expected in zip(executable(ramp()), reference(ramp()), strict=True):
        assert torch.equal(found, expected)
    for found, expected in zip(executable(ramp().numpy()), reference(ramp()), strict=True):
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, expected.numpy())


def test_a_function_and_a_module_with_examples() -> None:
    executable = opennki.compile(lambda a, b: add_scaled(a, b, scale=2.0), ramp(), ramp(), lnc=1)
    assert [tensor.name for tensor in executable.signature.outputs] == ["total", "difference"]
    left, right = executable(ramp(), ramp() + 1)
    assert torch.equal(left, ramp() + 2 * (ramp() + 1))
    assert torch.equal(right, ramp() - 2 * (ramp() + 1))
    assert torch.equal(opennki.compile(Model(), ramp(), lnc=1)(ramp())[0], reference(ramp())[0])


@pytest.mark.parametrize("kind", ["tensors", "arrays"])
def test_inputs_are_written(kind: str) -> None:
    executable = opennki.compile(exported(Writes(), ramp(8, 4), ramp(8, 4)), lnc=1)
    assert [(tensor.name, tensor.is_written) for tensor in executable.signature.inputs] == [
        ("x", True),
        ("y", True),
    ]
    x, y = ramp(8, 4), ramp(8, 4) + 1
    given = (x, y) if kind == "tensors" else (x.numpy(), y.numpy())
    first, second = executable(*given)
    assert torch.equal(x, ramp(8, 4) + 1)
    assert torch.equal(y, (ramp(8, 4) + 1) * 2)
    assert torch.equal(torch.as_tensor(first), 2 * x - (ramp(8, 4) + 1))
    assert second is given[1]


@pytest.mark.parametrize("strict", [False, True])
def test_a_kernel_is_traced_again_for_the_graphs_target(strict: bool) -> None:
    program = exported(strict=strict)
    for target in ("trn2", "trn1", "trn3"):
        executable = opennki.compile(program, lnc=1, target=target)
        assert {call.artifact.target for call in executable.calls} == {target}


class Open(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    def forward(self, x: Any, y: Any) -> Any:
        return x * 2, halve(y)


def test_a_size_that_the_export_leaves_open_is_the_examples() -> None:
    sizes = ({0: torch.export.Dim("n")}, None)
    program = torch.export.export(Open(), (ramp(3, 2), ramp(8, 4)), dynamic_shapes=sizes)
    executable = opennki.compile(program, lnc=1)
    assert [tensor.shape for tensor in executable.signature.inputs] == [(3, 2), (8, 4)]
    first, second = executable(ramp(3, 2), ramp(8, 4))
    assert torch.equal(first, ramp(3, 2) * 2)
    assert torch.equal(second, ramp(8, 4) * 0.5)
    assert refused(lambda: executable(ramp(5, 2), ramp(8, 4)))[0].code == "ONKI702"


class Cache(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(8, 4))

    def forward(self, x: Any) -> Any:
        bump(self.kept, step=1.0)
        return self.kept + x


def test_a_buffer_that_a_kernel_writes_is_kept_between_runs(tmp_path: Path) -> None:
    executable = opennki.compile(exported(Cache(), ramp(8, 4)), lnc=1)
    for count in (1, 2, 3):
        assert torch.equal(executable(ramp(8, 4)), ramp(8, 4) + count)
    loaded = opennki.load(executable.save(tmp_path / "m.nkx"))
    assert isinstance(loaded, opennki.Executable)
    assert torch.equal(loaded(ramp(8, 4)), ramp(8, 4) + 1), "a file holds the program, not its runs"


def test_arguments_are_looked_at(program: Any) -> None:
    executable = opennki.compile(program, lnc=1)
    assert refused(lambda: executable())[0].code == "ONKI006"
    (found,) = refused(lambda: executable(ramp(8)))
    assert (found.code, found.message) == (
        "ONKI702",
        "input `x` is float32[8, 16], the kernel was traced for float32[128, 16]",
    )
    assert refused(lambda: executable(ramp().double()))[0].code == "ONKI702"
    assert refused(lambda: opennki.compile(program, ramp(), lnc=1))[0].code == "ONKI006"


@pytest.mark.parametrize("strict", [False, True])
def test_export_with_the_errors_of_a_kernel(strict: bool) -> None:
    (found,) = refused(lambda: exported(Double(), ramp(), strict=strict))
    assert found.code == "ONKI214"
    assert found.location is not None
    assert found.location.text.strip() == "return halve(x.double())"


class Double(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    def forward(self, x: Any) -> Any:
        return halve(x.double())


def test_a_program_and_its_file_are_checked(program: Any, tmp_path: Path) -> None:
    path = adapter.save(program, tmp_path / "model.pt2")
    for graph in (program, str(path)):
        assert opennki.check(graph, lnc=1).ok
        report = opennki.check(graph, lnc=2)
        assert [found.code for found in report.findings] == ["NCC_EVRF066", "NCC_EVRF066"]
        assert [found.code for found in opennki.check(graph, lnc=2, target="trn1").findings] == [
            "NCC_EARG001"
        ]
    assert [found.code for found in opennki.check(str(tmp_path / "no.pt2")).findings] == ["ONKI005"]


# ------------------------------------------------------------------------------------- files, processes


def python(code: str, folder: Path, *arguments: str, **environment: str) -> str:
    """Run Python in a process that has never seen this test's sources."""
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"OPENNKI_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": ""} | environment,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


MAIN = "import sys; from opennki.cli import main; sys.exit(main())"


def test_a_file_is_compiled_and_run_by_processes_without_the_source(program: Any, tmp_path: Path) -> None:
    adapter.save(program, tmp_path / "model.pt2")
    assert list(tmp_path.glob("*.nka")) == []
    np.save(tmp_path / "x.npy", ramp().numpy())
    said = python(MAIN, tmp_path, "compile", "model.pt2", "--lnc", "1", "--target", "trn3", "-o", "m.nkx")
    assert said == "wrote m.nkx: halve, halve, LNC=1, trn3"
    (tmp_path / "model.pt2").unlink()
    said = python(MAIN, tmp_path, "exec", "m.nkx", "--input", "x=x.npy")
    assert "wrote relu.npy: float32[128, 16]" in said
    first, second = reference(ramp())
    np.testing.assert_array_equal(np.load(tmp_path / "relu.npy"), first.numpy())
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), second.numpy())
    assert str(tmp_path).encode() not in (tmp_path / "m.nkx").read_bytes()
    here = opennki.compile(exported(), lnc=1).save(tmp_path / "here.nkx")
    assert (tmp_path / "m.nkx").read_bytes() == here.read_bytes(), "equal bytes from any folder"


def test_a_file_is_compiled_with_artifacts_beside_it(program: Any, tmp_path: Path) -> None:
    adapter.save(program, tmp_path / "model.pt2", embed=False)
    (artifact,) = tmp_path.glob("*.nka")
    assert not any("/extra/" in name for name in files_of(tmp_path / "model.pt2"))
    python(MAIN, tmp_path, "compile", "model.pt2", "--lnc", "1", "-o", "m.nkx")
    artifact.unlink()
    loaded = opennki.load(tmp_path / "m.nkx")
    assert isinstance(loaded, opennki.Executable)
    assert torch.equal(loaded(ramp())[0], reference(ramp())[0])


def test_pytorch_loads_the_file_without_an_import_of_ours(program: Any, tmp_path: Path) -> None:
    adapter.save(program, tmp_path / "model.pt2")
    code = (
        "import sys, torch; program = torch.export.load('model.pt2'); "
        "print(*[node.target for node in program.graph.nodes if 'opennki' in str(node.target)]); "
        "assert 'opennki.frameworks.torch.calls' not in sys.modules"
    )
    assert python(code, tmp_path) == "opennki.call.default opennki.call.default"


def test_a_loaded_program_runs_in_pytorch(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    adapter.save(program, tmp_path / "model.pt2")
    found = adapter.load(tmp_path / "model.pt2").module()(ramp())
    assert torch.equal(found[0], reference(ramp())[0])
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=2")
    assert refused(lambda: adapter.load(tmp_path / "model.pt2").module()(ramp()))[0].code == "NCC_EVRF066"


def test_an_executable_is_saved_and_loaded(tmp_path: Path) -> None:
    executable = opennki.compile(exported(Writes(), ramp(8, 4), ramp(8, 4)), lnc=1)
    loaded = opennki.load(executable.save(tmp_path / "m.nkx"))
    x, y = ramp(8, 4).numpy(), ramp(8, 4).numpy() + 1
    assert isinstance(loaded, opennki.Executable)
    loaded(x, y)
    np.testing.assert_array_equal(x, ramp(8, 4).numpy() + 1)
    np.testing.assert_array_equal(y, (ramp(8, 4).numpy() + 1) * 2)
    assert loaded.signature == executable.signature


def test_exec_saves_written_inputs_under_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    opennki.compile(exported(Writes(), ramp(8, 4), ramp(8, 4)), lnc=1).save("m.nkx")
    np.save("a.npy", ramp(8, 4).numpy())
    assert main(["exec", "m.nkx", "--input", "x=a.npy", "--input", "y=a.npy"]) == 0
    np.testing.assert_array_equal(np.load("x.npy"), ramp(8, 4).numpy() + 1)
    np.testing.assert_array_equal(np.load("y.npy"), ramp(8, 4).numpy() * 2)
    assert main(["inspect", "m.nkx"]) == 0
    assert "bump" in capsys.readouterr().out


# -------------------------------------------------------------------------------------------- bad files


def files_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as found:
        return {name: found.read(name) for name in found.namelist()}


def written(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as out:
        for name, data in files.items():
            out.writestr(name, data)
    return path


def changed(path: Path, end: str, change: Callable[[Any], None]) -> Path:
    """Change the JSON of the archive's entry whose name ends so."""
    files = files_of(path)
    (name,) = (name for name in files if name.endswith(end))
    record = msgspec.json.decode(files[name])
    change(record)
    files[name] = msgspec.json.encode(record)
    return written(path, files)


@pytest.fixture
def saved(program: Any, tmp_path: Path) -> Path:
    return Path(adapter.save(program, tmp_path / "model.pt2"))


def code_of(path: Path) -> tuple[str, str]:
    (found,) = refused(lambda: opennki.compile(str(path), lnc=1))
    return found.code, found.message


def test_an_artifact_that_is_missing(saved: Path) -> None:
    files = files_of(saved)
    written(saved, {name: data for name, data in files.items() if "/extra/" not in name})
    config.forget()
    (found,) = refused(lambda: opennki.compile(str(saved), lnc=1))
    assert found.code == "NCC_EVRF059"
    assert found.message.startswith("Kernel file '")
    assert found.location is not None
    assert found.location.text.strip() == "y = halve[self.degree](self.linear(x))"
    assert any("opennki.frameworks.torch.save" in line for line in found.help)


def test_an_artifact_beside_the_file_that_is_another(program: Any, tmp_path: Path) -> None:
    adapter.save(program, tmp_path / "model.pt2", embed=False)
    (artifact,) = tmp_path.glob("*.nka")
    opennki.trace(halve, "float32[4,4]", lnc=1).save(artifact)
    config.forget()
    assert code_of(tmp_path / "model.pt2")[1].endswith("the artifact in it has another digest than its name")


def test_an_artifact_of_an_old_format(saved: Path) -> None:
    files = files_of(saved)
    (name,) = (name for name in files if "/extra/" in name)
    data = base64.b64decode(files[name])
    stream = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as source, zipfile.ZipFile(stream, "w") as out:
        for entry in source.namelist():
            text = source.read(entry)
            out.writestr(entry, text.replace(b'"format": 1', b'"format": 0'))
    files[name] = base64.b64encode(stream.getvalue())
    code, message = code_of(written(saved, files))
    assert (code, message) == (
        "NCC_EVRF065",
        "NKI kernel 'halve' was traced with an unsupported NKI version.",
    )


def test_an_artifact_of_another_digest(saved: Path) -> None:
    files = files_of(saved)
    (name,) = (name for name in files if "/extra/" in name)
    files[name] = base64.b64encode(artifact_bytes(opennki.trace(halve, "float32[4,4]", lnc=1)))
    assert code_of(written(saved, files)) == (
        "ONKI614",
        f"`{saved}:extra/{name.rpartition('/')[2]}` is no exported program that OpenNKI reads: "
        "the artifact in it has another digest than its name",
    )


@pytest.mark.parametrize("kept", [0, 1, 40, 1000, -1, -30])
def test_a_file_that_is_cut_short(saved: Path, kept: int) -> None:
    saved.write_bytes(saved.read_bytes()[:kept])
    assert code_of(saved)[0] == "ONKI614"


@pytest.mark.parametrize("position", range(0, 100, 7))
def test_a_file_that_is_damaged(saved: Path, position: int) -> None:
    data = bytearray(saved.read_bytes())
    place = len(data) * position // 100
    data[place] ^= 0xFF
    saved.write_bytes(bytes(data))
    codes = ["ONKI614"]
    try:
        opennki.compile(str(saved), lnc=1)
    except opennki.OpenNkiError as problem:
        codes = [one.code for one in problem.diagnostics]
    assert codes in (["ONKI614"], ["ONKI502"], ["NCC_EVRF059"], ["NCC_EVRF065"])


def test_files_that_are_something_else(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_text("weights")
    assert code_of(path)[1].endswith("it is no zip archive")
    written(path, {"readme.txt": b"hello"})
    assert code_of(path)[1].endswith("it is a zip archive of something else")
    written(path, {"version": b"5.1", "serialized_exported_program.json": b"{}"})
    assert code_of(path)[1].endswith("it is in PyTorch's archive format of before 2.8")
    torch.save({"a": ramp()}, path)
    assert code_of(path)[0] == "ONKI614"
    (found,) = refused(lambda: opennki.compile(str(tmp_path / "absent.pt2"), lnc=1))
    assert found.code == "ONKI005"


def set_target(record: Any, target: str) -> None:
    record["graph_module"]["graph"]["nodes"][0]["target"] = target


@pytest.mark.parametrize(
    "target", ["torch.os.system", "torch.load", "torch.ops.load_library", "torch.hub.load", "builtins.exec"]
)
def test_a_file_that_calls_more_than_operators(saved: Path, target: str) -> None:
    changed(saved, "models/model.json", lambda record: set_target(record, target))
    assert code_of(saved)[1].endswith(f"it calls `{target}`, which is no operator")


def test_an_operator_that_is_not_registered(saved: Path) -> None:
    changed(saved, "models/model.json", lambda record: set_target(record, "torch.ops.mine.op.default"))
    (found,) = refused(lambda: opennki.compile(str(saved), lnc=1))
    assert found.message.endswith("the operator `mine::op`, which is not registered in this process")
    assert found.help == ("import the module that defines the operator first",)


def test_a_size_that_is_code(saved: Path) -> None:
    def change(record: Any) -> None:
        values = record["graph_module"]["graph"]["tensor_values"]
        size = {"as_expr": {"expr_str": "__import__('os').getcwd()", "hint": {"as_int": 128}}}
        values["x"]["sizes"][0] = size

    changed(saved, "models/model.json", change)
    assert code_of(saved)[1].endswith("`__import__('os').getcwd()` is no size")


def test_guards_are_code_and_are_dropped(saved: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w').close()"

    def change(record: Any) -> None:
        record["guards_code"] = [code]

    changed(saved, "models/model.json", change)
    assert torch.equal(opennki.compile(str(saved), lnc=1)(ramp())[0], reference(ramp())[0])
    assert not mark.exists()


def test_weights_that_are_pickled_or_objects(saved: Path) -> None:
    def pickled(record: Any) -> None:
        record["config"]["linear.weight"]["use_pickle"] = True

    def an_object(record: Any) -> None:
        record["config"]["linear.weight"]["path_name"] = "custom_obj_0"

    before = saved.read_bytes()
    changed(saved, "model_weights_config.json", pickled)
    assert code_of(saved)[1].endswith("`linear.weight` is pickled")
    saved.write_bytes(before)
    changed(saved, "model_weights_config.json", an_object)
    assert "that Python would have to run" in code_of(saved)[1]


def test_examples_are_pickled_and_are_not_read(saved: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    files = files_of(saved)
    (name,) = (name for name in files if "sample_inputs" in name)
    files[name] = b"cposix\nsystem\n(S'touch " + str(mark).encode() + b"'\ntR."
    assert torch.equal(opennki.compile(str(written(saved, files)), lnc=1)(ramp())[0], reference(ramp())[0])
    assert not mark.exists()


def test_an_executable_whose_graph_was_changed(program: Any, tmp_path: Path) -> None:
    path = opennki.compile(program, lnc=1).save(tmp_path / "m.nkx")
    other = opennki.compile(exported(Writes(), ramp(8, 4), ramp(8, 4)), lnc=1).save(tmp_path / "o.nkx")
    manifest, entries = unpack(path.read_bytes(), "nkx", "m")
    _, others = unpack(other.read_bytes(), "nkx", "o")
    said = {name: manifest[name] for name in ("lnc", "target", "calls", "framework")}
    mixed = {name: data for name, data in others.items() if name.startswith("host/")}
    mixed |= {name: data for name, data in entries.items() if not name.startswith("host/")}
    path.write_bytes(pack("nkx", said, mixed))
    (found,) = refused(lambda: opennki.load(path))
    assert found.message.endswith("the kernel calls of its graph are not those of its list")
    path.write_bytes(pack("nkx", said | {"framework": "other"}, entries))
    assert refused(lambda: opennki.load(path))[0].message.endswith("`other` is no framework")
    del entries["host/models/model.json"]
    path.write_bytes(pack("nkx", said, entries))
    assert refused(lambda: opennki.load(path))[0].code == "ONKI614"

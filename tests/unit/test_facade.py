"""The public surface: lazy names, and `nki` as another name of `opennki.nki`."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import opennki
from opennki.build.aliasing import has_wheel
from opennki.diag import OpenNkiError

ROOT = Path(__file__).parents[2]
PUBLIC = {
    "Executable",
    "KernelArtifact",
    "OpenNkiError",
    "OpenNkiUsageError",
    "OpenNkiWarning",
    "Report",
    "Spec",
    "__version__",
    "check",
    "compile",
    "install",
    "load",
    "trace",
}
SUBMODULES = ("isa", "isa.constants", "language", "collectives", "dtype", "typing", "compiler")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An interpreter in which nothing was installed: no finder of ours, no module called nki."""
    finders, modules = list(sys.meta_path), dict(sys.modules)
    sys.meta_path[:] = [finder for finder in finders if type(finder).__module__ != "opennki.build.aliasing"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "nki"]:
        del sys.modules[name]
    yield
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "nki"]:
        del sys.modules[name]
    sys.modules.update({name: module for name, module in modules.items() if name.partition(".")[0] == "nki"})


def test_public_names() -> None:
    assert set(opennki.__all__) == PUBLIC
    assert set(dir(opennki)) == PUBLIC
    assert all(getattr(opennki, name) is not None for name in PUBLIC)


def test_public_functions_are_what_their_modules_define() -> None:
    from opennki.build.pipeline import compile
    from opennki.build.read import load
    from opennki.build.tracing import trace

    assert (opennki.compile, opennki.load, opennki.trace) == (compile, load, trace)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'opennki' has no attribute 'tracing'"):
        opennki.tracing  # noqa: B018


def test_version_is_the_one_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if "version" in project:
        assert opennki.__version__ == project["version"]
    else:
        assert project["dynamic"] == ["version"]
        assert opennki.__version__.count(".") == 2


@pytest.mark.usefixtures("bare")
def test_nki_is_opennkis_module_under_both_names() -> None:
    assert opennki.install()
    assert importlib.import_module("nki") is importlib.import_module("opennki.nki")
    for name in SUBMODULES:
        ours = importlib.import_module(f"opennki.nki.{name}")
        assert importlib.import_module(f"nki.{name}") is ours
        assert ours.__name__ == f"opennki.nki.{name}"
        assert ours.__spec__ is not None
        assert ours.__spec__.name == f"opennki.nki.{name}"


@pytest.mark.usefixtures("bare")
def test_without_install_there_is_no_nki() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nki.language")


@pytest.mark.usefixtures("bare")
def test_a_name_that_nki_lacks_is_not_found() -> None:
    opennki.install()
    with pytest.raises(ModuleNotFoundError, match=r"nki\.nothing"):
        importlib.import_module("nki.nothing")


@pytest.mark.usefixtures("bare")
def test_installing_twice_keeps_one_finder() -> None:
    assert opennki.install()
    count = len(sys.meta_path)
    assert opennki.install(force=True)
    assert len(sys.meta_path) == count


def _wheel(folder: Path) -> Path:
    (folder / "nki").mkdir()
    (folder / "nki" / "__init__.py").write_text("VENDOR = True\n")
    return folder


@pytest.mark.usefixtures("bare")
def test_a_real_wheel_wins_and_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(_wheel(tmp_path))
    assert has_wheel()
    assert not opennki.install()
    assert "nki" not in sys.modules
    assert importlib.import_module("nki").VENDOR is True


@pytest.mark.usefixtures("bare")
def test_force_takes_the_place_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(_wheel(tmp_path))
    assert importlib.import_module("nki").VENDOR is True
    assert opennki.install(force=True)
    assert importlib.import_module("nki") is importlib.import_module("opennki.nki")


@pytest.mark.usefixtures("bare")
def test_a_folder_called_nki_is_no_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nki").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not has_wheel()
    assert opennki.install()
    assert importlib.import_module("nki") is importlib.import_module("opennki.nki")


def test_the_enums_of_constants_are_those_of_isa() -> None:
    import opennki.nki.isa as nisa
    from opennki.nki.isa import constants

    assert constants.oob_mode is nisa.oob_mode
    assert constants.dge_mode is nisa.dge_mode
    assert constants.matmul_perf_mode is nisa.matmul_perf_mode


def test_collectives_are_not_yet() -> None:
    from opennki.nki import collectives

    for name in collectives.__all__:
        with pytest.raises(OpenNkiError) as caught:
            getattr(collectives, name)()
        assert caught.value.code == "ONKI102"
        assert f"`nki.collectives.{name}`" in str(caught.value)


def test_a_collective_in_a_kernel_names_the_users_line() -> None:
    import opennki.nki as nki
    import opennki.nki.collectives as ncc

    @nki.jit
    def gathers(x: object) -> object:
        ncc.all_gather([x], [x], None, 0)  # type: ignore[arg-type]  # what a kernel would pass
        return x

    with pytest.raises(OpenNkiError) as caught:
        nki.simulate(gathers)(np.zeros((2, 2), np.float32))
    found = caught.value.diagnostics[0]
    assert found.code == "ONKI102"
    assert found.location is not None
    assert found.location.text.strip().startswith("ncc.all_gather(")

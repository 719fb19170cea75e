"""Imports go downward only, and heavy packages stay where they belong."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from tests.house.sources import PACKAGE, Source, all_sources, imports, package_sources

LAYERS: tuple[tuple[str, ...], ...] = (
    ("diag",),
    ("ir", "targets", "settings"),
    ("isa",),
    ("analyse", "execute"),
    ("frontend",),
    ("lnc", "artifact", "graph", "cache"),
    ("build",),
    ("frameworks", "cli", "pytest_plugin"),
    ("", "nki"),
)
"""Low to high, as ARCHITECTURE.md draws them; "" is `opennki/__init__.py`. A layer may import itself."""

DATA_ONLY = {"facts"}
HEAVY = {"torch", "jax", "jaxlib", "typer", "rich", "matplotlib"}
LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}


def _part(module: str) -> str:
    """Return the layer's name of a module of ours: `opennki.isa.define` is in `isa`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def _ours(source: Source) -> list[tuple[str, int]]:
    """Return (part, line) of each import of ours; `from opennki import x` is `x` if that is a module."""
    names = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir()}
    found = []
    for module, line, _ in imports(source):
        if module.split(".")[0] == "opennki":
            part = _part(module)
            found.append((part if part in names else "", line))
    return found


def test_every_part_of_the_package_has_a_layer() -> None:
    parts = {_part(source.module) for source in package_sources()}
    assert parts <= set(LAYER_OF), "put the new part into LAYERS here and into ARCHITECTURE.md"


def test_imports_go_downward() -> None:
    upward = [
        f"{source.shown}:{line} imports {f'opennki.{part}' if part else 'the façade'}"
        for source in package_sources()
        for part, line in _ours(source)
        if part not in DATA_ONLY and LAYER_OF[part] > LAYER_OF[_part(source.module)]
    ]
    assert upward == []


def test_a_deliberate_upward_import_is_found() -> None:
    text = "def f() -> None:\n    from opennki.build import pipeline\n"
    source = Source(PACKAGE / "isa" / "x.py", "opennki.isa.x", "opennki.isa", ast.parse(text))
    assert [(i.module, i.line, i.top_level) for i in imports(source)] == [
        ("opennki.build.pipeline", 2, False)
    ]
    relative = Source(
        PACKAGE / "isa" / "x.py", "opennki.isa.x", "opennki.isa", ast.parse("from ..cli import main")
    )
    assert [i.module for i in imports(relative)] == ["opennki.cli.main"]


def test_heavy_packages_are_imported_where_used() -> None:
    at_top = [
        f"{source.shown}:{line} imports {module} at module level"
        for source in package_sources()
        if _part(source.module) not in ("frameworks", "cli")
        for module, line, top_level in imports(source)
        if top_level and module.split(".")[0] in HEAVY
    ]
    assert at_top == []


def _loaded_by(code: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter holds after `code`."""
    report = "import sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "code",
    ["import opennki", "import opennki\nopennki.install()\nimport nki, nki.isa, nki.language"],
    ids=["opennki", "nki"],
)
def test_import_loads_nothing_heavy(code: str) -> None:
    loaded = _loaded_by(code)
    assert "opennki" in loaded
    assert loaded & HEAVY == set()


ENVIRONMENT = {"environ", "environb", "getenv", "putenv", "unsetenv"}


def test_the_environment_is_read_in_settings_only() -> None:
    readers = [
        f"{source.shown}:{node.lineno}"
        for source in package_sources()
        if source.module != "opennki.settings"
        for node in ast.walk(source.tree)
        if (isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT and ast.unparse(node.value) == "os")
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and {a.name for a in node.names} & ENVIRONMENT
        )
    ]
    assert readers == []


def test_the_sources_are_those_on_disk() -> None:
    modules = {source.module for source in all_sources()}
    assert {"opennki", "opennki.diag.records", "tests.house.test_layers"} <= modules

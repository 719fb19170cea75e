"""The golden-file fixture itself, and no golden file without its test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.golden_file import ROOT, Golden, golden_path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "test_x.txt"
    path.write_text("error: two\n\n  more\n", encoding="utf-8")
    return path


def test_path_mirrors_the_test() -> None:
    module = ROOT.parent / "unit" / "test_text.py"
    assert golden_path(module, "test_a[x/1-λ]") == ROOT / "unit" / "test_text" / "test_a_x_1-.txt"


def test_equal_text_passes_whatever_its_last_newline(file: Path) -> None:
    Golden(file, update=False)("error: two\n\n  more")


def test_other_text_fails_with_the_difference(file: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)-error: two\n\+error: three.*make golden"):
        Golden(file, update=False)("error: three\n\n  more")


def test_missing_file_fails_and_shows_the_text(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)no golden file.*the text"):
        Golden(tmp_path / "none.txt", update=False)("the text")
    assert not (tmp_path / "none.txt").exists()


def test_update_writes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "test_y.txt"
    Golden(path, update=True)("one\ntwo")
    assert path.read_text(encoding="utf-8") == "one\ntwo\n"


def test_lines_in_order_may_have_others_between(file: Path) -> None:
    Golden(file, update=False).contains_in_order("first\nerror: two cores\nx\nand more of it\n")


@pytest.mark.parametrize("text", ["more\nerror: two", "error: two"], ids=["wrong order", "one missing"])
def test_lines_out_of_order_fail(file: Path, text: str) -> None:
    with pytest.raises(AssertionError, match="contains\n  more"):
        Golden(file, update=False).contains_in_order(text)


def test_update_leaves_a_file_of_lines_in_order_alone(file: Path) -> None:
    Golden(file, update=True).contains_in_order("error: two\nmore\nmuch more\n")
    assert file.read_text(encoding="utf-8") == "error: two\n\n  more\n"


def test_one_golden_file_for_each_test(file: Path) -> None:
    golden = Golden(file, update=False)
    golden("error: two\n\n  more")
    with pytest.raises(AssertionError, match="one golden file"):
        golden("error: two\n\n  more")


def _tests_with_golden(module: Path) -> set[str]:
    """Return the names of the functions in a test module that take `golden`."""
    if not module.exists():
        return set()
    return {
        node.name
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and "golden" in {a.arg for a in node.args.args}
    }


def test_no_orphans(request: pytest.FixtureRequest) -> None:
    """Each file belongs to a test that takes `golden`, and to its parameters if this run collected them."""
    collected: dict[Path, set[Path]] = {}
    for item in request.session.items:
        collected.setdefault(item.path, set()).add(golden_path(item.path, item.name))
    is_selection = bool(request.config.getoption("keyword") or request.config.getoption("markexpr"))
    orphans = []
    for path in sorted(ROOT.rglob("*.txt")):
        module = ROOT.parent / path.parent.relative_to(ROOT).with_suffix(".py")
        names = _tests_with_golden(module)
        known = any(path.stem == name or path.stem.startswith(f"{name}_") for name in names)
        if known and module in collected and not is_selection and not _by_name(request):
            known = path in collected[module]
        if not known:
            orphans.append(path.relative_to(ROOT).as_posix())
    assert orphans == []


def _by_name(request: pytest.FixtureRequest) -> bool:
    """Tell whether the command line names single tests."""
    return any("::" in argument for argument in request.config.args)

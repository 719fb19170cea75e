"""Places in the user's source: file, line, columns and text, wherever the source comes from."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from opennki.diag import Location
from opennki.ir.location import kernel_location, locate, shown_file, source_root

SOURCE = """\
import functools


def noted(function):
    return functools.wraps(function)(lambda: function())


@noted
@noted
def kernel(
    a=None,
):
    größe = "é"; mark()
    return mark(
        a,
    )


def mark(*args):
    import sys

    frame = sys._getframe(1)
    PLACES.append((frame.f_code, frame.f_lasti))


PLACES = []
square = lambda: mark()
"""

Place = tuple[CodeType, int]


def module(path: Path, source: str = SOURCE) -> ModuleType:
    """Return the module that `source`, written to `path`, is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def places(found: ModuleType) -> list[Place]:
    """Run the kernel and return the places where it called `mark`."""
    found.kernel()
    marked: list[Place] = found.PLACES
    return marked


def test_columns_count_characters_and_calls_may_span_lines(tmp_path: Path) -> None:
    first, second = [locate(*place) for place in places(module(tmp_path / "k.py"))]
    assert first == Location("k.py", 13, 13, 17, 23, "kernel", '    größe = "é"; mark()')
    assert first.text[first.column : first.end_column] == "mark()"
    assert second == Location("k.py", 14, 16, 11, 5, "kernel", "    return mark(")


def test_a_file_is_shown_relative_to_its_top_package(tmp_path: Path) -> None:
    for folder in ("top", "top/sub"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    found = module(tmp_path / "top" / "sub" / "k.py")
    assert source_root(str(tmp_path / "top" / "sub" / "k.py")) == str(tmp_path)
    assert locate(*places(found)[0]).file == "top/sub/k.py"
    assert kernel_location(found.kernel).file == "top/sub/k.py"
    assert source_root(str(tmp_path / "plain.py")) == str(tmp_path)


def test_a_helper_outside_of_the_kernels_root_shows_no_path_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    helper = module(tmp_path / "lib" / "helper.py")
    root = source_root(str(tmp_path / "kernels" / "k.py"))
    assert locate(*places(helper)[0], root).file == "helper.py"
    assert locate(*places(helper)[0], str(tmp_path)).file == "lib/helper.py"
    assert locate(*places(helper)[0], str(tmp_path / "li")).file == "helper.py"


@pytest.mark.parametrize("name", ["<stdin>", "<ipython-input-3-abc>", "<doctest k[0]>", ""])
def test_names_that_are_no_files_are_kept(name: str) -> None:
    assert shown_file(name) == name


def executed(source: str, filename: str) -> Place:
    """Return the place of the call of `mark` in `source`."""
    marked: list[Place] = []

    def mark() -> None:
        frame = sys._getframe(1)
        marked.append((frame.f_code, frame.f_lasti))

    exec(compile(source, filename, "exec"), {"mark": mark})
    return marked[0]


def test_source_that_is_registered_in_linecache_is_found() -> None:
    source = "x = 1\nmark()  # here\n"
    name = "<cell 7>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    assert locate(*executed(source, name)) == Location(name, 2, 2, 0, 6, "<module>", "mark()  # here")


def test_source_that_is_lost_leaves_line_and_columns() -> None:
    assert locate(*executed("\n  \nmark()", "<string>")) == Location("<string>", 3, 3, 0, 6, "<module>", "")


def test_code_without_positions_has_line_0() -> None:
    code = compile("f()", "<string>", "eval").replace(co_linetable=b"")
    assert locate(code, 4) == Location("<string>", 0, 0, 0, 0, "<module>", "")
    assert locate(code, 10_000) == Location("<string>", 0, 0, 0, 0, "<module>", "")


def test_code_without_columns_spans_the_line(tmp_path: Path) -> None:
    code = places(module(tmp_path / "k.py"))[1][0]
    bare = code.replace(co_linetable=bytes([0xE8 + 7]) + bytes([0x00]) + bytes([0xE8 + 7, 0x00]) * 20)
    assert locate(bare, 4) == Location("k.py", 8, 8, 0, 6, "kernel", "@noted")


@pytest.mark.skipif(sys.platform == "win32", reason="file names there are text")
def test_a_file_name_that_is_no_text_is_made_text(tmp_path: Path) -> None:
    found = module(tmp_path / "k\udcff.py")
    assert locate(*places(found)[0]).file == "k?.py"


def test_the_kernel_is_at_its_def_not_at_its_decorators(tmp_path: Path) -> None:
    found = module(tmp_path / "k.py")
    expected = Location("k.py", 10, 10, 4, 10, "kernel", "def kernel(")
    assert kernel_location(found.kernel) == expected
    assert kernel_location(found.kernel.__wrapped__.__wrapped__) == expected
    assert kernel_location(found.square) == Location(
        "k.py", 27, 27, 0, 23, "<lambda>", "square = lambda: mark()"
    )


@pytest.mark.parametrize(("thing", "name"), [(len, "len"), (functools.partial(len, ()), "partial")])
def test_what_has_no_code_has_no_place(thing: Callable[..., object], name: str) -> None:
    assert kernel_location(thing) == Location("", 0, 0, 0, 0, name, "")


def test_an_edited_file_shows_its_new_text(tmp_path: Path) -> None:
    found = module(tmp_path / "k.py")
    place = places(found)[0]
    assert locate(*place).text == '    größe = "é"; mark()'
    (tmp_path / "k.py").write_text(SOURCE.replace("größe", "other_name"), encoding="utf-8")
    assert locate(*place).text == '    other_name = "é"; mark()'


TESTED = """\
import sys

PLACES = []


class Tested:
    def __bool__(self):
        frame = sys._getframe(1)
        PLACES.append((frame.f_code, frame.f_lasti))
        return False


def kernel(x):
    größe = "é"
    if x:
        pass
    elif (x):  # ein Maß
        pass
    while x: pass
    if "é" and x: pass; pass
    y = 1 if x else 2
    if (
        x
    ):
        pass


def failing(x):
    assert x, "no" ; y = 1
"""


def test_a_condition_is_underlined_without_its_statement(tmp_path: Path) -> None:
    found = module(tmp_path / "tested.py", TESTED)
    found.kernel(found.Tested())
    places = [locate(code, lasti, str(tmp_path)) for code, lasti in found.PLACES]
    shown = [place.text[place.column : place.end_column] for place in places[:5]]
    assert shown[0] == "x"
    assert shown[1] in ("x", "(x)")
    assert shown[2] == "x"
    assert shown[3] in ("x", '"é" and x')
    assert shown[4] in ("x", "1 if x else 2")
    assert [place.line for place in places[:5]] == [15, 17, 19, 20, 21]
    assert places[5].line in (22, 23)  # over several lines it is what the interpreter says


def test_a_failed_assertion_is_at_its_condition(tmp_path: Path) -> None:
    found = module(tmp_path / "tested.py", TESTED)
    with pytest.raises(AssertionError) as caught:
        found.failing(False)
    end = caught.tb
    while end.tb_next is not None:
        end = end.tb_next
    place = locate(end.tb_frame.f_code, end.tb_lasti, str(tmp_path))
    assert place.text[place.column : place.end_column] == "x"

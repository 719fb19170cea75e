"""From a code object and an instruction offset to a place in the user's source.

Tracing remembers places as such pairs; here they become file, line, columns and the line's text.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Callable
from itertools import islice
from types import CodeType

from opennki.diag import Location

__all__ = ["kernel_location", "locate", "shown_file", "source_root"]

_TESTING = re.compile(r"(?:if|elif|while|assert)\b")


def locate(code: CodeType, lasti: int, root: str | None = None) -> Location:
    """Return the place of the instruction at byte `lasti` of `code`.

    `root` is the folder that files are shown relative to, see `source_root`; None means that of the code's
    own file. The line's text is empty where the source cannot be found, the line is 0 where even that is
    unknown. Columns count characters; where the interpreter kept none, they span the line's text.
    """
    lines = next(islice(code.co_positions(), max(lasti, 0) // 2, None), (None, None, None, None))
    line, end_line, column, end_column = lines
    file = shown_file(code.co_filename, root)
    if line is None or line < 1:
        return Location(file, 0, 0, 0, 0, code.co_name, "")
    text = _source_line(code.co_filename, line)
    if column is None or end_column is None or end_line is None:
        start = len(text) - len(text.lstrip())
        return Location(file, line, line, start, len(text), code.co_name, text)
    last = text if end_line == line else _source_line(code.co_filename, end_line)
    start, end = _characters(text, column), _characters(last, end_column)
    condition = _condition(text, start)
    if condition is not None:
        return Location(file, line, line, *condition, code.co_name, text)
    return Location(file, line, end_line, start, end, code.co_name, text)


def kernel_location(function: Callable[..., object], root: str | None = None) -> Location:
    """Return the place of a function's `def` line, the name underlined; line 0 for what has no code.

    Decorators that keep `__wrapped__` are looked through.
    """
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        name = getattr(function, "__name__", type(function).__name__)
        return Location("", 0, 0, 0, 0, str(name), "")
    file, line = shown_file(code.co_filename, root), code.co_firstlineno
    define = re.compile(rf"\s*(?:async\s+)?def\s+({re.escape(code.co_name)})\b")
    for at in range(line, line + 100):  # decorators stand before the `def`
        text = _source_line(code.co_filename, at)
        found = define.match(text)
        if found:
            return Location(file, at, at, found.start(1), found.end(1), code.co_name, text)
    text = _source_line(code.co_filename, line)
    start = len(text) - len(text.lstrip())
    return Location(file, line, line, start, len(text), code.co_name, text)


def source_root(filename: str) -> str:
    """Return the folder that holds the top package of a source file: its own folder for a plain file."""
    folder = os.path.dirname(os.path.abspath(filename))
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    return folder


def shown_file(filename: str, root: str | None = None) -> str:
    """Return a source file as messages and artifacts show it: relative to `root`, with forward slashes.

    A file that is not below `root` is shown relative to its own top package, so that no path of this machine
    stays. Names that are no files, such as `<stdin>`, are kept.
    """
    if not filename or (filename.startswith("<") and filename.endswith(">")):
        return _printable(filename)
    path = os.path.abspath(filename)
    if root is None or not path.startswith(os.path.join(root, "")):
        root = source_root(filename)
    return _printable(os.path.relpath(path, root).replace(os.sep, "/"))


def _condition(text: str, start: int) -> tuple[int, int] | None:
    """Return the columns of the condition of an `if`, `while` or `assert` that begins at column `start`.

    Python 3.11 gives the whole statement for a test, later ones for an `assert`. None where there is no such
    statement, or it goes on in the next line.
    """
    if _TESTING.match(text, start) is None:
        return None
    import ast

    if text.startswith("elif", start):  # alone it is no statement, but its end is one
        start += len("el")
    statement = text[start:]
    for body in ("\n pass", ""):
        try:
            node = ast.parse(statement + body).body[0]
        except (SyntaxError, ValueError):
            continue
        assert isinstance(node, (ast.If, ast.While, ast.Assert))
        first, last = node.test.col_offset, node.test.end_col_offset
        assert last is not None
        return start + _characters(statement, first), start + _characters(statement, last)
    return None


def _source_line(filename: str, line: int) -> str:
    linecache.checkcache(filename)
    return _printable(linecache.getline(filename, line).rstrip("\r\n"))


def _printable(text: str) -> str:
    """Return `text` with what UTF-8 cannot hold replaced: undecodable bytes of file names are such."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _characters(text: str, column: int) -> int:
    """Return the column in characters of a column in UTF-8 bytes, which is what code objects hold."""
    if text.isascii():
        return column
    return len(text.encode("utf-8")[:column].decode("utf-8", "ignore"))

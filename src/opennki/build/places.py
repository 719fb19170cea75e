"""The user's places: the line that called us, the line that raised."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType

from msgspec import Struct

from opennki.diag import Location
from opennki.diag.say import caller
from opennki.ir.location import locate

__all__ = [
    "COMMAND_LINE",
    "Caller",
    "call_location",
    "is_ours",
    "is_users",
    "python_call",
    "raised_at",
]

_PYTHON = os.path.join(os.path.dirname(os.__file__), "")
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


class Caller(Struct, frozen=True):
    """Who asks: how the options for degree and target are written, and the call in the user's source.

    `place` is None where there is no such call.
    """

    lnc: str = "lnc="
    target: str = "target="
    place: Location | None = None


COMMAND_LINE = Caller("--lnc ", "--target ")


def python_call() -> Caller:
    """Return the caller of a function of the Python interface."""
    return Caller(place=call_location())


def call_location() -> Location | None:
    """Return the place in the user's source that called us."""
    frame = caller()
    return None if frame is None else locate(frame.f_code, frame.f_lasti)


def is_ours(raised: BaseException) -> bool:
    """True if `raised` left a function of ours, or a library that we called, and not the user's code.

    Recursion without end meets its limit anywhere; it belongs to the file that is on the stack most often.
    """
    if isinstance(raised, RecursionError):
        files = Counter(_files(raised.__traceback__))
        return bool(files) and _is_package(files.most_common(1)[0][0])
    found = _innermost(raised.__traceback__, lambda name: _is_package(name) or _is_users_own(name))
    return found is not None and _is_package(found.tb_frame.f_code.co_filename)


def _files(step: TracebackType | None) -> Iterator[str]:
    while step is not None:
        yield step.tb_frame.f_code.co_filename
        step = step.tb_next


def raised_at(raised: BaseException) -> Location | None:
    """Return the user's innermost place in the traceback of `raised`; of a syntax error its own."""
    if isinstance(raised, SyntaxError) and raised.filename and raised.lineno:
        column = max((raised.offset or 1) - 1, 0)
        text = (raised.text or "").rstrip("\r\n")
        file = os.path.basename(raised.filename)
        return Location(file, raised.lineno, raised.lineno, column, column + 1, "<module>", text)
    found = _innermost(raised.__traceback__, _is_users_own)
    return None if found is None else locate(found.tb_frame.f_code, found.tb_lasti)


def _innermost(step: TracebackType | None, matches: Callable[[str], bool]) -> TracebackType | None:
    found = None
    while step is not None:
        if matches(step.tb_frame.f_code.co_filename):
            found = step
        step = step.tb_next
    return found


def _is_package(filename: str) -> bool:
    return filename.startswith(_PACKAGE)


def is_users(filename: str) -> bool:
    """True for a source file that is neither ours nor Python's own start-up code."""
    return not (_is_package(filename) or filename.startswith("<frozen"))


def _is_users_own(filename: str) -> bool:
    """True for the user's code; libraries and Python's own modules are left out."""
    return is_users(filename) and "site-packages" not in filename and not filename.startswith(_PYTHON)

"""Exceptions that the user's own code raises, as findings; mistakes of ours pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opennki.build.places import is_ours, raised_at
from opennki.diag import InternalError, OpenNkiError, diagnostic, error

__all__ = ["kernel_errors", "user_error"]


@contextmanager
def kernel_errors(kernel: str) -> Iterator[None]:
    """Turn an exception of the kernel's own into ONKI110; what we raise, on purpose or not, passes."""
    try:
        yield
    except (OpenNkiError, InternalError):
        raise
    except Exception as raised:
        if is_ours(raised):
            raise
        raise user_error("ONKI110", raised, kernel=kernel) from raised


def user_error(code: str, raised: BaseException, **fields: str) -> OpenNkiError:
    """Return the error `code` for an exception that the user's code raised, at the user's innermost line.

    The template gets `raised` (type and message) besides `fields`; the exception's notes become notes.
    """
    text = " ".join(str(raised).split())
    shown = f"{type(raised).__name__}: {text}" if text else type(raised).__name__
    notes = [str(note) for note in getattr(raised, "__notes__", ())]
    data: dict[str, Any] = {"raised": shown, **fields}
    return error(diagnostic(code, at=raised_at(raised), label="raised here", notes=notes, **data))

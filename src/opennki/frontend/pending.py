"""`nl` functions that OpenNKI does not run yet: called, each raises ONKI102.

Source of names and signatures: nki/api/nki/language/__init__.py (SDK 2.32).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from opennki.diag import fail
from opennki.frontend.recorder import current
from opennki.ir.types import Space

P = ParamSpec("P")
R = TypeVar("R")

NAMES: list[str] = []
sbuf = Space.sbuf


def _not_yet(function: Callable[P, R]) -> Callable[P, R]:
    """Make `function` raise ONKI102, pointing at the caller."""
    name = function.__name__
    NAMES.append(name)

    @functools.wraps(function)
    def refuse(*args: P.args, **kwargs: P.kwargs) -> R:
        recorder = current(f"nl.{name}")
        location, callers = recorder.place(recorder.locate(sys._getframe(1)))
        fail(
            "ONKI102",
            at=location,
            label="called here",
            callers=callers,
            core=recorder.core,
            name=f"nl.{name}",
        )

    return refuse


@_not_yet
def dropout(x: Any, rate: Any, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def random_seed(seed: Any) -> Any:
    """Not yet as a function."""


@_not_yet
def gather_flattened(data: Any, indices: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """Not yet as a function."""


@_not_yet
def rand(shape: Any, dtype: Any, buffer: Any = sbuf, name: Any = "") -> Any:
    """Not yet as a function."""


__all__ = [*NAMES]  # names come from the decorator

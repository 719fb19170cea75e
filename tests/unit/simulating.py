"""What the tests of simulating share: small tensors, places, failures."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from opennki.diag import OpenNkiError
from opennki.isa.recorder import CURRENT

nl: Any = import_module("opennki.nki.language")

Array = np.ndarray[Any, Any]


def hbm(*shape: int, dtype: str = "float32") -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def sbuf(*shape: int, dtype: str = "float32", address: tuple[int, int] | None = None) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, address=address)


def psum(*shape: int, address: tuple[int, int] | None = None) -> Any:
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum, address=address)


def ramp(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def line_of(function: Callable[..., Any], text: str) -> int:
    """Return the number of the one line of a function's source that holds `text`."""
    lines, first = inspect.getsourcelines(getattr(function, "function", function))
    (found,) = [first + i for i, line in enumerate(lines) if text in line]
    return found


def failure(run: Callable[[], object]) -> OpenNkiError:
    with pytest.raises(OpenNkiError) as caught:
        run()
    assert CURRENT.get() is None
    return caught.value

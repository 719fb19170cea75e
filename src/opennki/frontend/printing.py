"""`nl.device_print`, and what a tensor holds while a kernel is simulated.

Source: nki/api/nki/language/__init__.py:2660 (SDK 2.32).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opennki.execute.views import Viewer
from opennki.frontend.composition import Composition, composed
from opennki.frontend.tensor import NkiTensor
from opennki.ir.types import Space

__all__ = ["device_print"]

Array = np.ndarray[Any, Any]

_PRINTABLE = (Space.sbuf, Space.shared_hbm, Space.private_hbm)


def value_of(tensor: NkiTensor) -> Array | None:
    """Return a copy of what a tensor holds now, None while it is traced or where a run-time index decides."""
    storage = tensor.handle.storage
    if storage is None or tensor.is_indirect():
        return None
    viewer = Viewer(tensor.layout.record, shaped=True, bits=False)
    return viewer.view(storage, tensor.offset).copy()


@composed
def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Print `print_prefix` and what `tensor`, in SBUF or HBM, holds: while simulating, to standard output.

    A compiled kernel leaves it out (ONKI408, a warning): the debug stream is the device's. At degree 2 the
    core is named. Errors: ONKI101, ONKI102 (a view with a run-time index), ONKI201 (PSUM).
    """
    call = Composition("device_print")
    if not isinstance(print_prefix, str):
        call.wrong_kind("print_prefix", "a str", print_prefix)
    call.operand("tensor", tensor, _PRINTABLE)
    if tensor.handle.storage is None:
        call.warn(
            "ONKI408",
            f"`{call.name}` prints in a simulation only, a compiled kernel leaves it out",
            "prints nothing when compiled",
        )
        return
    value = value_of(tensor)
    if value is None:
        call.not_yet("of a view with a run-time index")
    text = np.array2string(np.asarray(value))
    who = f"core {call.recorder.core}: " if call.recorder.degree > 1 else ""
    print(f"{who}{print_prefix}{chr(10) if chr(10) in text else ' '}{text}", flush=True)

"""`nl.device_print`: values on standard output while a kernel is simulated.

Source: nki/api/nki/language/__init__.py:2660 (SDK 2.32).
"""

from __future__ import annotations

import numpy as np

from opennki.frontend.composition import Composition, composed
from opennki.frontend.tensor import NkiTensor
from opennki.frontend.values import value_of
from opennki.ir.types import Space

__all__ = ["device_print"]

_PRINTABLE = (Space.sbuf, Space.shared_hbm, Space.private_hbm)


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
    text = np.array2string(value)
    who = f"core {call.recorder.core}: " if call.recorder.degree > 1 else ""
    print(f"{who}{print_prefix}{chr(10) if chr(10) in text else ' '}{text}", flush=True)

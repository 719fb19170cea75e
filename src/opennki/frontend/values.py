"""What a tensor holds while a kernel is simulated: for `nl.device_print`, a debugger and `repr`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opennki.execute.views import Viewer

if TYPE_CHECKING:
    from opennki.frontend.tensor import NkiTensor

__all__ = ["shown_value", "value_of"]

Array = np.ndarray[Any, Any]

_SHOWN = 12  # elements that a `repr` shows in full; of more, the first and last three of each axis


def value_of(tensor: NkiTensor) -> Array | None:
    """Return a copy of what a tensor holds now, None while it is traced or where a run-time index decides."""
    storage = tensor.handle.storage
    if storage is None or tensor.is_indirect():
        return None
    viewer = Viewer(tensor.handle.recorder.kept_layout(tensor.layout), shaped=True, bits=False)
    return viewer.view(storage, tensor.offset).copy()


def shown_value(tensor: NkiTensor) -> str:
    """Return what a `repr` adds of a tensor's value, on one line: nothing while it is traced."""
    value = value_of(tensor)
    if value is None:
        return ""
    return " " + " ".join(np.array2string(value, threshold=_SHOWN, precision=6).split())

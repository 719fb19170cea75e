"""The element types of NKI: storage in NumPy, width, kind, limits.

Source: nki/api/nki.api.shared.rst "Supported Data Types" (SDK 2.32).
"""

from __future__ import annotations

from typing import Any, Literal

import ml_dtypes
import numpy as np
from msgspec import Struct

Kind = Literal["float", "signed", "unsigned", "bool", "packed"]


class DTypeInfo(Struct, frozen=True):
    """Facts of one element type. `storage` is the NumPy dtype that holds an element."""

    name: str
    storage: np.dtype[Any]
    kind: Kind
    bytes: int

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in ("signed", "unsigned")

    @property
    def is_float(self) -> bool:
        """True for floating-point types, not for packed ones."""
        return self.kind == "float"


def _row(name: str, storage: Any, kind: Kind) -> DTypeInfo:
    dtype = np.dtype(storage)
    return DTypeInfo(name, dtype, kind, dtype.itemsize)


DTYPES: dict[str, DTypeInfo] = {
    row.name: row
    for row in (
        _row("bool", np.bool_, "bool"),
        _row("int8", np.int8, "signed"),
        _row("int16", np.int16, "signed"),
        _row("int32", np.int32, "signed"),
        _row("int64", np.int64, "signed"),
        _row("uint8", np.uint8, "unsigned"),
        _row("uint16", np.uint16, "unsigned"),
        _row("uint32", np.uint32, "unsigned"),
        _row("float16", np.float16, "float"),
        _row("bfloat16", ml_dtypes.bfloat16, "float"),
        _row("tfloat32", np.float32, "float"),
        _row("float32", np.float32, "float"),
        _row("float8_e4m3", ml_dtypes.float8_e4m3, "float"),
        _row("float8_e4m3fn", ml_dtypes.float8_e4m3fn, "float"),
        _row("float8_e5m2", ml_dtypes.float8_e5m2, "float"),
        _row("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, "float"),
        _row("float8_e4m3fn_x4", np.uint32, "packed"),
        _row("float8_e5m2_x4", np.uint32, "packed"),
        _row("float4_e2m1fn_x4", np.uint16, "packed"),
    )
}

_BY_STORAGE: dict[np.dtype[Any], str] = {
    info.storage: name for name, info in DTYPES.items() if info.kind != "packed" and name != "tfloat32"
}


def canonical(dtype: object) -> str | None:
    """Return the NKI name of `dtype` (a name, a NumPy dtype or scalar type), None if NKI has no such type.

    >>> canonical("bfloat16"), canonical("bool_"), canonical("float64")
    ('bfloat16', 'bool', None)
    """
    if isinstance(dtype, str):
        if dtype in DTYPES:
            return dtype
        if dtype == "bool_":
            return "bool"
    try:
        return _BY_STORAGE.get(np.dtype(dtype))  # type: ignore[call-overload]  # any object may be asked about
    except TypeError:
        return None

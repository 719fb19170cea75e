"""Tile layouts while tracing: an interned layout record with the facts that slicing and checks ask for."""

from __future__ import annotations

from math import prod
from typing import Literal, Protocol

from msgspec import Struct

from opennki.ir.dtypes import DTYPES, DTypeInfo
from opennki.ir.types import IndexKind, Layout, Register, Space, View

__all__ = ["FROZEN_REGISTER", "REGISTER", "SCALARS", "Columns", "RegisterLayout", "Tile", "TileLayout"]


class Columns(Struct, frozen=True):
    """What checks know of the tile that the offsets of an `.indirect()` view are read from.

    Its `partitions`, its offsets a partition (`width`), the partition that it starts on, and whether the
    kernel gave it an address.
    """

    partitions: int
    width: int
    start: int
    is_placed: bool


class TileLayout:
    """A layout of one trace. Identity is the key: a recorder makes each distinct layout once.

    State: `children` remembers the layouts that slicing this one has given, and `slices` what each key gave
    (how far it moves the start, and the layout), so that a slice in a loop costs one look-up.
    `columns`: of an `.indirect()` view, the tile of its offsets.
    """

    __slots__ = (
        "children",
        "columns",
        "dtype",
        "free_elements",
        "id",
        "info",
        "is_on_chip",
        "partitions",
        "pitch",
        "record",
        "shape",
        "slices",
        "space",
        "strides",
    )

    def __init__(self, number: int, record: Layout, pitch: int, columns: Columns | None = None) -> None:
        self.id = number
        self.record = record
        self.space: Space = record.space
        self.dtype: str = record.dtype
        self.info: DTypeInfo = DTYPES[record.dtype]
        self.shape: tuple[int, ...] = tuple([count for _, count in record.pattern])
        self.strides: tuple[int, ...] = tuple([step for step, _ in record.pattern])
        self.is_on_chip = record.space.is_on_chip
        self.partitions: int = self.shape[0] if self.is_on_chip and self.shape else 1
        self.free_elements: int = prod(self.shape[1:]) if self.is_on_chip else prod(self.shape)
        self.pitch = pitch
        self.columns = columns
        self.children: dict[object, TileLayout] = {}
        self.slices: dict[bytes, tuple[int, TileLayout]] = {}

    @property
    def elements(self) -> int:
        """Number of elements that an access of this layout touches."""
        return prod(self.shape)

    @property
    def start_partition(self) -> int:
        """The partition at which the access starts; 0 in HBM."""
        return self.record.start_partition

    @property
    def is_indirect(self) -> bool:
        """True when the address depends on a value known only at run time."""
        return self.record.index is not IndexKind.none

    def describe(self) -> str:
        """Return the layout as a message shows it, for example `float32[128, 512] in sbuf`."""
        return f"{self.dtype}{list(self.shape)} in {self.space.value}"


class RegisterLayout:
    """What checks know of a scalar register: its dtype, int32 or int64, and what it is to the kernel.

    `kind`: a register, the frozen induction register of a legacy loop, or the register behind a scalar.
    """

    __slots__ = ("dtype", "kind")

    def __init__(self, dtype: str, kind: Literal["register", "frozen", "scalar"]) -> None:
        self.dtype = dtype
        self.kind = kind


REGISTER = RegisterLayout("int32", "register")
FROZEN_REGISTER = RegisterLayout("int32", "frozen")
SCALARS: dict[str, RegisterLayout] = {name: RegisterLayout(name, "scalar") for name in ("int32", "int64")}


class Tile(Protocol):
    """What an instruction knows of an operand, a tensor or a register: what it is, and where it is.

    Which of both an operand may be is a rule of its row, so this type takes either.
    """

    @property
    def layout(self) -> TileLayout | RegisterLayout:
        """Of a tensor space, dtype, shape and strides; of a register its dtype and kind."""

    @property
    def access(self) -> View | Register:
        """The record of the access: buffer, offset and layout, or the register."""

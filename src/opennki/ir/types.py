"""The records of a traced kernel: layouts, views, buffers, instructions, programs, artifacts.

Records are data only; behaviour is functions over them elsewhere. They are frozen, but for `Instruction`,
`Loop` and `Program`, which tracing fills millions of times (design: speed). Everything is MessagePack-able
as it stands; `ir/codec.py` gives the canonical bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from opennki.diag import Diagnostic, Location

if TYPE_CHECKING:  # importing it costs 3 ms
    from pathlib import Path

__all__ = [
    "AttrValue",
    "Buffer",
    "Constant",
    "Engine",
    "Index",
    "IndexKind",
    "Input",
    "Instruction",
    "KernelArtifact",
    "Layout",
    "Loop",
    "LoopKind",
    "Operand",
    "Origin",
    "Output",
    "Program",
    "Register",
    "Signature",
    "Space",
    "Structure",
    "View",
]


class Space(Enum):
    """Where a buffer lives. `nl.sbuf`, `nl.psum`, `nl.shared_hbm`, `nl.private_hbm` are these members."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    __hash__ = object.__hash__  # members are singletons, and Enum's own hash is slow

    @property
    def is_on_chip(self) -> bool:
        """True for SBUF and PSUM, whose first axis is the partition axis."""
        return self is Space.sbuf or self is Space.psum


class Engine(Enum):
    """The engines of a NeuronCore, with the documented numbers. `nki.isa.engine` is this class."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6

    __hash__ = object.__hash__


class IndexKind(Enum):
    """How a view's address depends on a value known only when the instruction runs."""

    none = "none"
    scalar = "scalar"
    vector = "vector"
    columns = "columns"

    __hash__ = object.__hash__


class Origin(Enum):
    """What a buffer is to its kernel."""

    input = "input"
    constant = "constant"
    local = "local"


class LoopKind(Enum):
    """`for`: counts from lower to upper. `while`: turns as long as the register `induction` is not 0."""

    counted = "for"
    conditional = "while"


class Layout(Struct, frozen=True, array_like=True, gc=False):
    """The shape of an access, without its place. Interned: a program holds each layout once.

    `pattern` is `((step, count), …)` in elements of `dtype`, outermost first; on chip the first pair is the
    partition axis and its step is the row pitch of the buffer. `start_partition` is 0 in HBM.
    `bank_offset_bytes` is the byte within a PSUM bank at which the access starts, 0 elsewhere.
    """

    space: Space
    dtype: str
    pattern: tuple[tuple[int, int], ...]
    start_partition: int = 0
    bank_offset_bytes: int = 0
    index: IndexKind = IndexKind.none

    @property
    def shape(self) -> tuple[int, ...]:
        """The counts of the pattern."""
        return tuple(count for _, count in self.pattern)


class Register(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A scalar register of a program; `dtype` is int32 or int64."""

    id: int
    dtype: str


class Index(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The run-time part of a view's address: `offset += value * step`, legal values `0 … extent-1`.

    `axis` is the axis of the view along which a vector index picks (always 0 today).
    """

    kind: IndexKind
    source: View | Register
    step: int
    extent: int
    axis: int = 0


class View(Struct, frozen=True, array_like=True, tag=0, gc=False):
    """An access of a buffer: `offset` elements of the layout's dtype from the buffer's first byte.

    On chip `divmod(offset, row pitch)` gives partition and element; the pitch is the buffer's free size in
    elements of the layout's dtype.
    """

    buffer: int
    offset: int
    layout: int
    index: Index | None = None


class Buffer(Struct, frozen=True, array_like=True, gc=False):
    """An allocation.

    `key` says who the buffer is on every core: the name that the kernel gives, else its allocation line and
    the count on that line. `address` is `(partition, byte)` where the kernel places it by hand. `loop` is
    the id of the dynamic loop whose body allocates it, -1 for none. `location` indexes the program's table.
    """

    id: int
    name: str
    key: str
    space: Space
    shape: tuple[int, ...]
    dtype: str
    origin: Origin
    address: tuple[int, int] | None
    loop: int
    location: int


Operand = View | Register | float | int | None

ATTRIBUTE_DEPTH = 8
"""How deep an attribute's tuples nest at most."""

if TYPE_CHECKING:
    AttrValue = None | bool | int | float | str | tuple["AttrValue", ...]
else:  # msgspec decodes no recursive alias, so the nesting is spelled out
    AttrValue = None | bool | int | float | str
    for _ in range(ATTRIBUTE_DEPTH):
        AttrValue = None | bool | int | float | str | tuple[AttrValue, ...]


class Instruction(Struct, array_like=True, tag=4, gc=False):
    """One instruction: operands are the row's roles in order, a `many` role spread out.

    `attrs` and `location` index the program's tables; `engine` is the number of an `Engine`; `after` holds
    the positions of instructions that this one `depends_on`.
    """

    opcode: int
    operands: tuple[Operand, ...]
    attrs: int
    engine: int
    location: int
    after: tuple[int, ...] = ()
    name: str | None = None


class Loop(Struct, array_like=True, tag=5):
    """A dynamic loop. `id` is what `Buffer.loop` refers to."""

    id: int
    kind: LoopKind
    induction: Register
    lower: Operand
    upper: Operand
    step: int
    body: tuple[Instruction | Loop, ...]
    location: int


class Program(Struct):
    """The instruction list of one core with its tables. `opcodes` names the rows that instructions number."""

    core: int
    opcodes: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    layouts: tuple[Layout, ...]
    attrs: tuple[tuple[AttrValue, ...], ...]
    locations: tuple[Location, ...]
    body: tuple[Instruction | Loop, ...]


class Input(Struct, frozen=True):
    """A kernel's tensor argument. `is_written`: the kernel stores into it, so the caller's array changes."""

    name: str
    key: str
    shape: tuple[int, ...]
    dtype: str
    is_written: bool = False


class Constant(Struct, frozen=True):
    """A tensor whose bytes the artifact carries; `digest` is the SHA-256 of the raw little-endian bytes."""

    name: str
    key: str
    shape: tuple[int, ...]
    dtype: str
    digest: str


class Output(Struct, frozen=True):
    """A returned tensor: a view `(offset, pattern)` in elements of the buffer `key`.

    `alias` is the index of the input whose buffer it is, -1 for a fresh buffer.
    """

    name: str
    key: str
    shape: tuple[int, ...]
    dtype: str
    offset: int
    pattern: tuple[tuple[int, int], ...]
    alias: int = -1


class Structure(Struct, frozen=True, array_like=True):
    """How a kernel's return value is nested. A `leaf` is the output number `index`."""

    kind: Literal["none", "leaf", "tuple", "list", "dict"]
    index: int = -1
    keys: tuple[str, ...] = ()
    items: tuple[Structure, ...] = ()


class Signature(Struct, frozen=True):
    """What a kernel takes and gives, equal on all cores. `returns` nests the `outputs` by number."""

    inputs: tuple[Input, ...]
    constants: tuple[Constant, ...]
    outputs: tuple[Output, ...]
    returns: Structure


class KernelArtifact(Struct, frozen=True):
    """All programs of one traced kernel, and its signature.

    `target` is the concrete name (trn1, inf2, trn2, trn3). `location` is the kernel's own definition.
    `constants` holds the raw bytes in the order of `signature.constants`. `findings` are warnings of the
    trace; they are not part of the artifact's identity and not saved.
    """

    kernel: str
    target: str
    location: Location
    signature: Signature
    programs: tuple[Program, ...]
    constants: tuple[bytes, ...] = ()
    findings: tuple[Diagnostic, ...] = ()

    @property
    def lnc(self) -> int:
        """The degree that the kernel was traced for: the number of its programs."""
        return len(self.programs)

    def save(self, path: str | Path) -> Path:
        """Write the artifact as a `.nka` file and return the path. Errors: ONKI504, it cannot be written."""
        if not _save:
            from opennki.diag import InternalError

            raise InternalError("the artifact layer has not registered `save`")
        from pathlib import Path

        return _save[0](self, Path(path))

    def __repr__(self) -> str:
        outputs = ", ".join(f"{o.name} {o.dtype}{list(o.shape)}" for o in self.signature.outputs)
        count = sum(len(p.body) for p in self.programs)
        head = f"<KernelArtifact {self.kernel} target={self.target} lnc={self.lnc}"
        return f"{head} {count} instructions -> {outputs}>"


_save: list[Callable[[KernelArtifact, Path], Path]] = []


def register_save(function: Callable[[KernelArtifact, Path], Path]) -> None:
    """Register the one upward hook of this module: how the artifact layer saves."""
    _save[:] = [function]

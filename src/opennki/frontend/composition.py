"""What the `nl` functions made of instructions share: their operands, new tiles and refusals."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np
from msgspec.structs import replace

from opennki.diag import Diagnostic, Label, OpenNkiError, diagnostic, error, fail
from opennki.frontend.allocate import allocate
from opennki.frontend.recorder import current
from opennki.frontend.tensor import NkiTensor
from opennki.ir.types import Space
from opennki.isa.operators import OPERATORS
from opennki.isa.spell import operand_label
from opennki.isa.table import tensor_copy, tensor_scalar

__all__ = ["ON_CHIP", "Composition", "clip", "composed", "is_number", "spread"]

P = ParamSpec("P")
R = TypeVar("R")

ON_CHIP = (Space.sbuf, Space.psum)


def composed(function: Callable[P, R]) -> Callable[P, R]:
    """Make `function` one of `nl`'s: an error of an instruction that it is made of names the function too.

    Where instructions take its name as an operator (`op=nl.add`), it carries that operator.
    """
    name = function.__name__

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except OpenNkiError as problem:
            noted = [_noted(found, name) for found in problem.diagnostics]
        raise error(*noted)

    if name in OPERATORS:
        call.operator = OPERATORS[name]  # type: ignore[attr-defined]  # read by `operator_of`
    return call


def _noted(found: Diagnostic, name: str) -> Diagnostic:
    """Say which function made the instruction that a diagnostic is about."""
    instruction = str(found.data.get("instruction", "nl."))
    if instruction.startswith("nl."):
        return found
    return replace(found, notes=(*found.notes, f"`{instruction}` is an instruction of this `nl.{name}`"))


def is_number(value: object) -> bool:
    """Return True for what instructions take as a number: Python's and NumPy's ints, floats and bools."""
    return isinstance(value, (int, float, np.integer, np.floating, np.bool_))


def spread(tile: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    """Return a view of `tile` in which its free axes of size 1 are repeated as `shape` says."""
    for axis in range(1, len(shape)):
        if tile.shape[axis] != shape[axis]:
            tile = tile.broadcast(axis, shape[axis])
    return tile


def clip(dst: NkiTensor, data: NkiTensor, limit: float) -> None:
    """Write `data` to `dst`, kept within plus and minus `limit`; NaN stays."""
    low, high = OPERATORS["maximum"], OPERATORS["minimum"]
    tensor_scalar(dst=dst, data=data, op0=low, operand0=-limit, op1=high, operand1=limit)


class Composition:
    """One call of a function that is made of instructions. State: its name and trace, for its messages."""

    __slots__ = ("name", "recorder")

    def __init__(self, name: str) -> None:
        self.name = f"nl.{name}"
        self.recorder = current(self.name)

    # Tiles ----------------------------------------------------------------------------------------------

    def new(self, shape: tuple[int, ...], dtype: Any = "float32", space: Space = Space.sbuf) -> NkiTensor:
        """Return a new tensor; float32 is what results between two instructions are kept in."""
        return allocate(shape, dtype, space, "", None, self.name, sys._getframe(1))

    def like(self, tile: NkiTensor, dtype: Any = None) -> NkiTensor:
        """Return a new SBUF tile of a tile's shape, and of its dtype if none is given."""
        return self.new(tile.shape, tile.dtype if dtype is None else dtype)

    def cast(self, tile: NkiTensor, dtype: Any) -> NkiTensor:
        """Return `tile`, or a copy in SBUF where `dtype` is another one. None: leave the dtype alone."""
        result = self.like(tile, dtype) if dtype is not None and dtype != tile.dtype else tile
        if result.dtype == tile.dtype:
            return tile
        tensor_copy(dst=result, src=tile)
        return result

    # Operands -------------------------------------------------------------------------------------------

    def operand(self, role: str, value: object, spaces: tuple[Space, ...] = ON_CHIP) -> NkiTensor:
        """Return `value` if it is a tensor in one of `spaces`. Errors: ONKI101, ONKI201."""
        if not isinstance(value, NkiTensor):
            self.wrong_kind(role, "a tile" if spaces == ON_CHIP else "a tensor", value)
        if value.buffer not in spaces:
            allowed = " or ".join(space.value for space in spaces)
            self.refuse(
                "ONKI201",
                f"`{self.name}` needs `{role}` in {allowed}, it is in {value.buffer.value}",
                help=_way_into(value.buffer, spaces, value.name or role),
                role=role,
                tensor=value,
            )
        return value

    def same_shape(self, **tiles: NkiTensor) -> None:
        """Refuse operands of different shapes: ONKI205."""
        (first, one), *others = tiles.items()
        for role, other in others:
            if other.shape != one.shape:
                self.refuse(
                    "ONKI205",
                    f"`{self.name}` needs one shape for `{first}` and `{role}`: "
                    f"{list(one.shape)} and {list(other.shape)}",
                    help=_fitting(first, one, role, other),
                    role=role,
                    tensor=other,
                )

    # Messages -------------------------------------------------------------------------------------------

    def warn(self, code: str, says: str, label: str) -> None:
        """Say a finding that is no error, once for each line."""
        location, callers = self.recorder.place(self.recorder.locate(sys._getframe(1)))
        self.recorder.warn(
            diagnostic(
                code,
                at=Label(location, label),
                callers=callers,
                core=self.recorder.core,
                says=says,
                data={"function": self.name},
            )
        )

    def wrong_kind(self, role: str, expected: str, got: object, help: str = "") -> NoReturn:
        """Fail with ONKI101: an argument of a wrong kind."""
        location, callers = self.recorder.place(self.recorder.locate(sys._getframe(1)))
        text, kind = repr(got), type(got).__name__
        short = len(text) <= 40 and "\n" not in text
        fail(
            "ONKI101",
            at=operand_label(location, role, f"`{role}`"),
            callers=callers,
            core=self.recorder.core,
            help=(help,) if help else (),
            instruction=self.name,
            role=role,
            expected=expected,
            got=f"`{text}` ({kind})" if short else f"an object of type `{kind}`",
        )

    def not_yet(self, what: str) -> NoReturn:
        """Fail with ONKI102: a use of the function that OpenNKI does not have yet."""
        location, callers = self.recorder.place(self.recorder.locate(sys._getframe(1)))
        fail("ONKI102", at=location, callers=callers, core=self.recorder.core, name=f"{self.name} {what}")

    def refuse(
        self,
        code: str,
        says: str,
        *,
        help: str,
        role: str = "",
        tensor: NkiTensor | None = None,
        notes: Iterable[str] = (),
        **data: object,
    ) -> NoReturn:
        """Fail with `code` at the user's line, under the argument `role` where it is named there."""
        location, callers = self.recorder.place(self.recorder.locate(sys._getframe(1)))
        allocated: Label | None = None
        if tensor is not None and self.recorder.owns(tensor):
            allocated = self.recorder.allocation(tensor)[1]
        fail(
            code,
            at=operand_label(location, role, f"`{role}` of `{self.name}`" if role else f"this `{self.name}`"),
            others=[allocated] if allocated is not None else (),
            callers=callers,
            core=self.recorder.core,
            notes=notes,
            help=(help,),
            says=says,
            data={"instruction": self.name, **data},
        )


def _way_into(space: Space, spaces: tuple[Space, ...], name: str) -> str:
    """How a tensor of `space` comes to where a function takes it."""
    if Space.sbuf not in spaces:
        return "pass the HBM tensor itself"
    if space is Space.psum:
        return f"copy it into SBUF first: `nl.copy({name})`"
    return f"load it first: `nl.load({name})`"


def _fitting(first: str, one: NkiTensor, role: str, other: NkiTensor) -> str:
    """An edit that gives two operands one shape, where there is one."""
    for name, small, large in ((role, other, one), (first, one, other)):
        pairs = list(zip(small.shape, large.shape, strict=False))
        if len(small.shape) == len(large.shape) and all(a in (1, b) for a, b in pairs):
            if small.shape[0] == large.shape[0]:
                steps = "".join(
                    f".broadcast({axis}, {b})" for axis, (a, b) in enumerate(pairs) if axis and a != b
                )
                return f"repeat the smaller one with a view: `{small.name or name}{steps}`"
            return f"repeat the smaller one: `nl.broadcast_to({small.name or name}, {large.shape})`"
    return "slice or reshape one of the two"

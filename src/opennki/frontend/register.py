"""Scalar registers: `VirtualRegister` and `NkiScalar`, and the functions that make and fill them.

Their values exist only when the program runs, so Python's own control flow refuses them, in a trace and in a
simulation alike. The one exception is the legacy `while register:`, which `loops.py` recognises.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from opennki.diag import fail
from opennki.frontend.recorder import TraceRecorder, current
from opennki.frontend.tensor import NkiTensor
from opennki.frontend.valueless import is_int
from opennki.ir.types import Register
from opennki.isa.layout import FROZEN_REGISTER, REGISTER, SCALARS, RegisterLayout
from opennki.isa.operators import OPERATORS
from opennki.isa.table import register_load, register_move, scalar_arithmetic, scalar_read

__all__ = ["NkiScalar", "VirtualRegister", "register_alloc", "scalar_load"]

NO_VALUE = "its value exists only when the program runs"


class _Scalar:
    """What both kinds share: a register of one trace, and the refusal of Python's control flow."""

    __slots__ = ("access", "recorder")

    def __init__(self, recorder: TraceRecorder, register: Register) -> None:
        self.recorder = recorder
        self.access = register

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"register {self.access.id}"

    def _refuse(self, what: str, frame: Any, label: str = NO_VALUE, help: tuple[str, ...] = ()) -> NoReturn:
        location, callers = self.recorder.place(self.recorder.locate(frame))
        core = self.recorder.core
        fail("ONKI111", at=location, label=label, callers=callers, core=core, what=what, help=help)

    def __int__(self) -> NoReturn:
        self._refuse("`int(…)` of a register", sys._getframe(1))

    def __float__(self) -> NoReturn:
        self._refuse("`float(…)` of a register", sys._getframe(1))

    def __index__(self) -> NoReturn:
        self._refuse("a register as an int of Python, as in `range(…)` or an index,", sys._getframe(1))

    def __iter__(self) -> NoReturn:
        self._refuse("a loop over a register", sys._getframe(1))


def _operator(symbol: str) -> Any:
    def refused(self: _Scalar, other: object) -> NoReturn:
        self._refuse(
            f"the operator `{symbol}` on a register",
            sys._getframe(1),
            help=(
                "compute in a tile and `nisa.register_load` it, or take a scalar: `nisa.scalar_load(tile)`",
            ),
        )

    return refused


class VirtualRegister(_Scalar):
    """A 32-bit register of the sequencers, made by `nisa.register_alloc`.

    It serves as bound and condition of dynamic loops and as run-time offset of views.
    Source: nki/api/nki/isa/__init__.py:173.
    """

    __slots__ = ("is_frozen",)

    def __init__(self, recorder: TraceRecorder, register: Register, is_frozen: bool = False) -> None:
        super().__init__(recorder, register)
        self.is_frozen = is_frozen

    @property
    def layout(self) -> RegisterLayout:
        """What instructions check of it."""
        return FROZEN_REGISTER if self.is_frozen else REGISTER

    def __bool__(self) -> bool:
        frame = sys._getframe(1)
        answer = self.recorder.legacy_while(self.access, frame)
        if answer is None:
            self._refuse("a register as a condition", frame)
        return answer

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):  # never true, and not known: no answer would be right
            self._refuse("a comparison of a register with a number", sys._getframe(1))
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<VirtualRegister {self.access.id}{self.recorder.shown_value(self.access)}>"


for _symbol, _names in {
    **{"+": ("add", "radd"), "-": ("sub", "rsub"), "*": ("mul", "rmul"), "/": ("truediv", "rtruediv")},
    **{"//": ("floordiv", "rfloordiv"), "%": ("mod", "rmod"), "<<": ("lshift",), ">>": ("rshift",)},
    **{"&": ("and", "rand"), "|": ("or", "ror"), "^": ("xor", "rxor"), "**": ("pow", "rpow")},
    **{"<": ("lt",), "<=": ("le",), ">": ("gt",), ">=": ("ge",)},
}.items():
    for _name in _names:
        setattr(VirtualRegister, f"__{_name}__", _operator(_symbol))


class NkiScalar(_Scalar):
    """A value known at run time, int32 or int64; operators give new scalars that wrap at the width.

    From `nisa.scalar_load` or the induction value of `nl.fori_loop`. The other operand is an int that fits,
    or a scalar of the same dtype. Comparisons give a scalar that nothing takes.
    Source: nki.isa.NkiScalar, SDK 2.33.
    """

    __slots__ = ("is_comparison",)

    def __init__(self, recorder: TraceRecorder, register: Register, is_comparison: bool = False) -> None:
        super().__init__(recorder, register)
        self.is_comparison = is_comparison

    @property
    def dtype(self) -> str:
        """int32 or int64."""
        return self.access.dtype

    @property
    def layout(self) -> RegisterLayout:
        """What instructions check of it; a comparison's result has no use."""
        if self.is_comparison:
            self._refuse("use of the result of a comparison of scalars", sys._getframe(1))
        return SCALARS[self.access.dtype]

    def __bool__(self) -> NoReturn:
        self._refuse("a scalar as a condition", sys._getframe(1))

    def _other(self, other: Any, frame: Any) -> Any:
        if isinstance(other, NkiScalar):
            if other.dtype != self.dtype:
                what = f"arithmetic of {self.dtype} with {other.dtype} scalars"
                self._refuse(what, frame, "mixes two dtypes", ("load both from tensors of one dtype",))
            return other
        if isinstance(other, bool) or not isinstance(other, int):
            got, takes = type(other).__name__, f"use a Python int or another {self.dtype} scalar"
            self._refuse(f"arithmetic of a scalar with an object of type `{got}`", frame, "", (takes,))
        limit = 1 << (31 if self.dtype == "int32" else 63)
        if not -limit <= other < limit:
            what = f"arithmetic of {self.dtype} scalars with {other}"
            self._refuse(what, frame, f"{other} does not fit", (f"use an int from {-limit} to {limit - 1}",))
        return other

    def _combine(self, op: str, a: Any, b: Any, *, compares: bool = False) -> NkiScalar:
        frame = sys._getframe(2)
        a, b = (x if x is self else self._other(x, frame) for x in (a, b))
        if compares and self.dtype == "int64":
            self._refuse("a comparison of int64 scalars", frame, "only int32 scalars compare")
        result = NkiScalar(self.recorder, self.recorder.new_register(self.dtype), is_comparison=False)
        scalar_arithmetic(result, a, b, OPERATORS[op])
        result.is_comparison = compares
        return result

    def __add__(self, other: Any) -> NkiScalar:
        return self._combine("add", self, other)

    def __radd__(self, other: Any) -> NkiScalar:
        return self._combine("add", other, self)

    def __sub__(self, other: Any) -> NkiScalar:
        return self._combine("subtract", self, other)

    def __rsub__(self, other: Any) -> NkiScalar:
        return self._combine("subtract", other, self)

    def __mul__(self, other: Any) -> NkiScalar:
        return self._combine("multiply", self, other)

    def __rmul__(self, other: Any) -> NkiScalar:
        return self._combine("multiply", other, self)

    def __neg__(self) -> NkiScalar:
        return self._combine("subtract", 0, self)

    def __pos__(self) -> NkiScalar:
        return self._combine("add", self, 0)

    def __lt__(self, other: Any) -> NkiScalar:
        return self._combine("less", self, other, compares=True)

    def __le__(self, other: Any) -> NkiScalar:
        return self._combine("less_equal", self, other, compares=True)

    def __gt__(self, other: Any) -> NkiScalar:
        return self._combine("greater", self, other, compares=True)

    def __ge__(self, other: Any) -> NkiScalar:
        return self._combine("greater_equal", self, other, compares=True)

    def __eq__(self, other: object) -> NkiScalar:  # type: ignore[override]  # the documented operator
        return self._combine("equal", self, other, compares=True)

    def __ne__(self, other: object) -> NkiScalar:  # type: ignore[override]  # the documented operator
        return self._combine("not_equal", self, other, compares=True)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<NkiScalar {self.dtype} {self.access.id}{self.recorder.shown_value(self.access)}>"


def fits_register(value: int) -> bool:
    """True for an int that a 32-bit register holds."""
    return -(1 << 31) <= value < 1 << 31


def register_alloc(x: int | NkiTensor | None = None) -> VirtualRegister:
    """Return a new register: unset, or set to an int or, as real kernels write it, to a tile's one element.

    Errors: ONKI101, ONKI103. Source: nki/api/nki/isa/__init__.py:3049.
    """
    recorder = current("nisa.register_alloc")
    register = VirtualRegister(recorder, recorder.new_register("int32"))
    if isinstance(x, NkiTensor):
        register_load(register, x)
    elif x is not None:
        if not is_int(x) or not fits_register(int(x.__index__())):
            fail(
                "ONKI101",
                **recorder.here(1),
                instruction="nisa.register_alloc",
                role="x",
                expected="an int of 32 bits, a tile of one element or None",
                got=f"`{x!r}`",
            )
        register_move(register, int(x.__index__()))
    return register


def scalar_load(src: NkiTensor) -> NkiScalar:
    """Return the one element of `src`, int32 or int64, `[1, 1]` or `[1]` in SBUF or HBM, as a scalar.

    Errors: ONKI101, ONKI202, ONKI205. Source: nki.isa.scalar_load, SDK 2.33.
    """
    recorder = current("nisa.scalar_load")
    dtype = getattr(src, "dtype", "int32")
    scalar = NkiScalar(recorder, recorder.new_register(dtype if dtype == "int64" else "int32"))
    scalar_read(scalar, src)
    return scalar

"""What Python cannot do with a tensor, since its elements exist when the program runs: refused by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import index
from typing import Any, NoReturn

from opennki.diag import OpenNkiError, fail

__all__ = ["Valueless", "is_int"]

_FLOOR = "make a new tile with `nl.floor(nl.divide({}, {}))`"
_NO_VALUE = "the elements get their values when the program runs"


class Valueless:
    """Base of a tensor. Each of these operations is ONKI111, a `TypeError`, at the user's line."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        _refuse(self, "the truth of {}", ())

    def __int__(self) -> NoReturn:
        _refuse(self, "`int(…)` of {}", ())

    def __float__(self) -> NoReturn:
        _refuse(self, "`float(…)` of {}", ())

    def __index__(self) -> NoReturn:
        _refuse(
            self,
            "{} as an int of Python, as in `range(…)` or an index,",
            ("pick with `.select(axis, t)`; loop with `nl.fori_loop` up to a register or a scalar",),
        )

    def __format__(self, spec: str) -> str:
        if spec:
            _refuse(self, "the format `" + spec.replace("{", "{{").replace("}", "}}") + "` of {}", ())
        return str(self)

    def __floordiv__(self, other: object) -> NoReturn:
        _refuse(self, "the operator `//` on {}", (_FLOOR.format(_spelled(self), _spelled(other)),))

    def __rfloordiv__(self, other: object) -> NoReturn:
        _refuse(self, "the operator `//` on {}", (_FLOOR.format(_spelled(other), _spelled(self)),))

    def __delitem__(self, key: object) -> NoReturn:
        _refuse(self, "`del` of elements of {}", ())

    def __iter__(self) -> NoReturn:
        _refuse(
            self,
            "a loop over {}",
            ("loop over indices, as in `for i in range(t.shape[0])`",),
        )

    def __contains__(self, element: object) -> NoReturn:
        _refuse(self, "`in` with {}", ())

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        _refuse(self, "NumPy with {}", ("use the functions of `nki.language` and `nki.isa` in a kernel",))


def is_int(value: Any) -> bool:
    """Return True for what Python takes as an int, but for booleans. Errors: ONKI111 for a register."""
    if isinstance(value, (bool, Valueless)) or not hasattr(value, "__index__"):
        return False
    try:
        index(value)
    except OpenNkiError:
        raise
    except TypeError:  # an array of several elements
        return False
    return True


def _refuse(tensor: Any, what: str, help: tuple[str, ...], depth: int = 2) -> NoReturn:
    """Raise ONKI111 at the nearest frame that is not NumPy's."""
    frame = sys._getframe(depth)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "numpy":
        frame = frame.f_back
    recorder = tensor.handle.recorder
    location, callers = recorder.place(recorder.locate(frame))
    what = what.format(f"`{tensor.name}`" if tensor.name else "a tensor")
    fail(
        "ONKI111",
        at=location,
        label=_NO_VALUE,
        callers=callers,
        core=recorder.core,
        what=what,
        help=help,
    )


def _operator(symbol: str, function: str, *, reflected: bool = False) -> Callable[[Any, Any], NoReturn]:
    def refused(self: Any, other: object) -> NoReturn:
        operands = [_spelled(self), _spelled(other)]
        call = f"nl.{function}({', '.join(reversed(operands) if reflected else operands)})"
        help = f"make a new tile with `{call}`, or write to one with an instruction of `nki.isa`"
        _refuse(self, f"the operator `{symbol}` on {{}}", (help,))

    return refused


def _spelled(value: Any) -> str:
    """An operand as a fix writes it."""
    if isinstance(value, (int, float)):
        return repr(value)
    name: str = getattr(value, "name", "") if isinstance(value, Valueless) else ""
    return name or "…"


_ARITHMETIC = {
    "+": ("add", "add"),
    "-": ("sub", "subtract"),
    "*": ("mul", "multiply"),
    "/": ("truediv", "divide"),
    "%": ("mod", "mod"),
    "**": ("pow", "power"),
    "@": ("matmul", "matmul"),
    "&": ("and", "bitwise_and"),
    "|": ("or", "bitwise_or"),
    "^": ("xor", "bitwise_xor"),
    "<<": ("lshift", "left_shift"),
    ">>": ("rshift", "right_shift"),
}
_COMPARISONS = {
    "<": ("lt", "less"),
    "<=": ("le", "less_equal"),
    ">": ("gt", "greater"),
    ">=": ("ge", "greater_equal"),
}
_UNARY = {
    "-": ("neg", "negative"),
    "~": ("invert", "invert"),
    "abs": ("abs", "abs"),
    "round": ("round", "rint"),
}


def _unary(symbol: str, function: str) -> Callable[..., NoReturn]:
    what = f"the operator `{symbol}` on {{}}" if len(symbol) == 1 else f"`{symbol}(…)` of {{}}"

    def refused(self: Any, *rest: object) -> NoReturn:
        _refuse(self, what, (f"make a new tile with `nl.{function}({_spelled(self)})`",))

    return refused


for _symbol, (_name, _function) in _UNARY.items():
    setattr(Valueless, f"__{_name}__", _unary(_symbol, _function))
for _symbol, (_name, _function) in (_ARITHMETIC | _COMPARISONS).items():
    setattr(Valueless, f"__{_name}__", _operator(_symbol, _function))
    if _symbol in _ARITHMETIC:
        setattr(Valueless, f"__r{_name}__", _operator(_symbol, _function, reflected=True))

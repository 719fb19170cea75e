"""Direct calls that are like an earlier one: same shapes, values and settings, and nothing changed since."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import CodeType, NoneType
from typing import Any
from weakref import ref

import numpy as np
from msgspec import Struct

from opennki.build.executable import Executable
from opennki.cache import CACHE, Traced
from opennki.frontend.kernel import Kernel
from opennki.frontend.trace import Argument
from opennki.settings import launch_variables
from opennki.targets import Target

__all__ = ["Recalled", "RunOptions", "call_key", "compiled_before", "recall", "remember"]


class RunOptions(Struct, frozen=True):
    """The options of `opennki run`, which hold for every direct call of the script."""

    lnc: str | None = None
    target: str | None = None


class Recalled(Struct, frozen=True):
    """An executable, and where a call has its arrays: positions and names, in the signature's order.

    It is the memory of the cache that keeps the executable.
    """

    executable: ref[Executable]
    places: tuple[int | str, ...]

    def arrays(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arrays of a call."""
        return [args[place] if isinstance(place, int) else kwargs[place] for place in self.places]


_EXACT = (int, bool, str, bytes, NoneType)


def array_key(value: Any) -> tuple[object, ...] | None:
    """Return what a NumPy array counts by, None for anything else; without axes it is a plain value."""
    return (value.dtype, value.shape) if type(value) is np.ndarray and value.shape else None


def call_key(
    kernel: Kernel,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    options: RunOptions,
    tensor_key: Callable[[Any], tuple[object, ...] | None] = array_key,
) -> Hashable | None:
    """Return what tells two direct calls of a kernel apart, None where that takes more than a look.

    Plain values count by type and value, tensors by what `tensor_key` says of them: None for what is none.
    """
    if not isinstance(kernel.degree, int | str | None):
        return None
    key: list[Any] = [tensor_key, type(kernel.degree), kernel.degree, options, launch_variables(), *kwargs]
    for value in (*args, *kwargs.values()):
        kind = type(value)
        if kind in _EXACT:
            key += (kind, value)
        elif isinstance(value, float) and kind is float:
            key += (kind, value.hex())  # the sign of zero is kept
        else:
            found = tensor_key(value)
            if found is None:
                return None
            key += found
    return tuple(key)


def recall(
    kernel: Kernel, call: Hashable, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Executable, list[Any]] | None:
    """Return what an equal call compiled, and the arrays of this one; None if something has changed."""
    found = CACHE.memory.recall(kernel.function, call)
    if not isinstance(found, Recalled):
        return None
    executable = found.executable()
    return None if executable is None else (executable, found.arrays(args, kwargs))


def compiled_before(traced: Traced, degree: int, target: Target) -> Executable | None:
    """Return the executable of a kept artifact, if it was baked for this degree and target before."""
    found = CACHE.memory.made(traced.key, (degree, target.name)) if traced.key is not None else None
    return found if isinstance(found, Executable) else None


def remember(
    kernel: Kernel,
    call: Hashable | None,
    traced: Traced,
    executable: Executable,
    arguments: Sequence[Argument],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> None:
    """Keep the executable for calls like this one."""
    if traced.key is None:
        return
    memory = CACHE.memory
    memory.keep_made(traced.key, (executable.lnc, executable.target), executable)
    code = getattr(kernel.function, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if isinstance(code, CodeType) else ()
    names = names[: len(args)]
    if call is None or traced.has_files or len(args) > len(names):
        return
    places = tuple(name if name in kwargs else names.index(name) for name in (a.name for a in arguments))
    memory.remember_call(kernel.function, call, traced.key, Recalled(ref(executable), places))

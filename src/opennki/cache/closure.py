"""The digest of a function with everything reachable from it, and of the values that a call passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from opennki.cache.digest import Digest, Undigestible, combined
from opennki.cache.walk import Refusal, Walk
from opennki.ir.location import source_root

__all__ = ["digest_function", "digest_values"]


def digest_function(function: Callable[..., Any]) -> Digest | Undigestible:
    """Return the digest of a function by everything that it can reach, or why there is none.

    That is its code and source text, defaults and outer variables by value, the globals and module attributes
    that it reads by value, the functions and classes that these lead to, and what is installed by name and
    version. Never a path: the same files in another folder have the same digest.
    """
    return _digest(function, [("kernel", function)])


def digest_values(
    function: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]
) -> Digest | Undigestible:
    """Return the digest of the values that a function is called with, one part each, or why there is none."""
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if isinstance(code, CodeType) else ()
    named = [(names[i] if i < len(names) else f"*{i}", value) for i, value in enumerate(args)]
    return _digest(function, [(f"argument `{name}`", value) for name, value in (*named, *kwargs.items())])


def _digest(function: Callable[..., Any], named: Iterable[tuple[str, object]]) -> Digest | Undigestible:
    code = getattr(function, "__code__", None)
    walk = Walk(_root(code.co_filename) if isinstance(code, CodeType) else None)
    try:
        for label, value in named:
            with walk.at(label):
                walk.value_part(label, value)
        walk.finish()
    except Refusal as refusal:
        reason = str(refusal)
    except RecursionError:
        reason = f"{walk.where} nests too deep"
    else:
        return Digest(combined(walk.parts), walk.parts, walk.cells)
    walk.cells.close()
    return Undigestible(reason, walk.cells)


_root = lru_cache(maxsize=256)(source_root)

"""The digest of a function with everything reachable from it, and of the values that a call passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from opennki.cache.digest import Digest, Undigestible
from opennki.cache.walk import digest_of
from opennki.ir.location import source_root

__all__ = ["digest_function", "digest_values"]


def digest_function(function: Callable[..., Any]) -> Digest | Undigestible:
    """Return the digest of a function by everything that it can reach, or why there is none.

    That is its code and source text, defaults and outer variables by value, the globals and module attributes
    that it reads by value, the functions and classes that these lead to, and what is installed by name and
    version. Never a path: the same files in another folder have the same digest.
    """
    return digest_of(_root_of(function), [("kernel", function)])


def digest_values(
    function: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]
) -> Digest | Undigestible:
    """Return the digest of the values that a function is called with, one part each, or why there is none."""
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if isinstance(code, CodeType) else ()
    named = [(names[i] if i < len(names) else f"*{i}", value) for i, value in enumerate(args)]
    labelled = [(f"argument `{name}`", value) for name, value in (*named, *kwargs.items())]
    return digest_of(_root_of(function), labelled)


def _root_of(function: Callable[..., Any]) -> str | None:
    code = getattr(function, "__code__", None)
    return _root(code.co_filename) if isinstance(code, CodeType) else None


_root = lru_cache(maxsize=256)(source_root)

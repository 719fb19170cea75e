"""The arguments of a kernel's call: its tensors found in lists and dictionaries, each under a user's name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["replace_leaves"]

Leaf = Callable[[str, Any], Any]
"""What to put for an argument, given as a user would write it (`xs[0]`), and its value."""


def replace_leaves(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], leaf: Leaf
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with `leaf` applied to each; lists, tuples and dictionaries are looked into."""

    def replaced(name: str, value: Any) -> Any:
        kind = type(value)
        if kind is list or kind is tuple:
            return kind(replaced(f"{name}[{i}]", item) for i, item in enumerate(value))
        if kind is dict:
            return {key: replaced(f"{name}[{key!r}]", item) for key, item in value.items()}
        return leaf(name, value)

    names = _positional_names(function, len(args))
    return (
        tuple(replaced(name, value) for name, value in zip(names, args, strict=True)),
        {name: replaced(name, value) for name, value in kwargs.items()},
    )


def _positional_names(function: Callable[..., Any], count: int) -> list[str]:
    names: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{name}[{i}]" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(name)
    names += [f"argument {i}" for i in range(len(names), count)]  # one too many, refused when it is bound
    return names[:count]

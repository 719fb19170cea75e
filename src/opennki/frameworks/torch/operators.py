"""The two operators that stand for every kernel call in a graph: `opennki::call` and `opennki::call_mut`.

A call that writes no input gives new tensors. One that writes inputs gives nothing: functionalization takes
no operator that does both, so its new outputs are made before it and are written too.

PyTorch imports this module whenever it is imported itself, by the entry point `torch.backends`, so that
`torch.export.load` knows the operators. So it imports nothing but PyTorch; the rest comes with a first call.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

__all__ = ["register"]

_Library: Any = torch.library.Library
_LIBRARIES: list[Any] = []


def register() -> None:
    """Define the operators, once in a process."""
    if _LIBRARIES:
        return
    library: Any = _Library("opennki", "DEF")
    _LIBRARIES.append(library)
    tags = (torch.Tag.pt2_compliant_tag,)
    library.define("call(str config, Tensor[] args) -> Tensor[]", tags=tags)
    library.define(
        "call_mut(str config, Tensor(a!)[] written, Tensor(b!)[] out, Tensor[] args) -> ()", tags=tags
    )
    for name, function, fake in (("call", _call, _fake_call), ("call_mut", _call_mut, _fake_call_mut)):
        library.impl(name, function, "CompositeExplicitAutograd")
        torch.library.register_fake(f"opennki::{name}", fake, lib=library)
        torch.library.register_vmap(f"opennki::{name}", _no_batch, lib=library)


def _call(config: str, args: list[torch.Tensor]) -> list[torch.Tensor]:
    from opennki.frameworks.torch.ops import run_call

    return run_call(config, args)


def _call_mut(
    config: str, written: list[torch.Tensor], out: list[torch.Tensor], args: list[torch.Tensor]
) -> None:
    from opennki.frameworks.torch.ops import run_call_mut

    run_call_mut(config, written, out, args)


def _fake_call(config: str, args: list[torch.Tensor]) -> list[torch.Tensor]:
    from opennki.frameworks.torch.ops import fake_call

    return fake_call(config, args)


def _fake_call_mut(config: str, written: Any, out: Any, args: Any) -> None:
    """Nothing is made."""


def _no_batch(*_: object) -> NoReturn:
    raise NotImplementedError(
        "torch.vmap over an NKI kernel: a kernel is traced for fixed shapes, so write the batch loop in it"
    )


register()

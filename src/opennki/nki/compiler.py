"""`nki.compiler`: the options that `nki.jit` takes for the vendor's compiler; none has an effect here.

Source: nki.jit (SDK 2.33), names only; the defaults are `assumed`: None stands for the compiler's own choice.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["CompileConfig", "SpecializationConfig"]


class CompileConfig(Struct, frozen=True, kw_only=True):
    """Which passes the vendor's compiler runs over a kernel."""

    address_rotation: bool | None = None
    non_ssa_legalization: bool | None = None
    dead_code_elim: bool | None = None
    barrier_check: bool | None = None


class SpecializationConfig(Struct, frozen=True, kw_only=True):
    """How the vendor's compiler specialises a kernel for its arguments."""

    allow_nested_config_override: bool | None = None

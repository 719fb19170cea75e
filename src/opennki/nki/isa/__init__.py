"""`nki.isa`: the instructions, their enums, and the scalar registers."""

from __future__ import annotations

from opennki.frontend.register import NkiScalar, VirtualRegister, register_alloc, scalar_load
from opennki.isa.api import *  # noqa: F403  # the list of names lives there
from opennki.isa.api import __all__ as _instructions

__all__ = [*_instructions, "NkiScalar", "VirtualRegister", "register_alloc", "scalar_load"]

"""`nki.language`: tensors, ranges, program ids and the functions that are made of instructions."""

from __future__ import annotations

from opennki.frontend.language import *  # noqa: F403  # the list of names lives there
from opennki.frontend.language import __all__  # noqa: F401

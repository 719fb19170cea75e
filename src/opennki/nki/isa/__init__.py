"""`nki.isa`: the instructions and their enums."""

from __future__ import annotations

from opennki.isa.api import *  # noqa: F403  # the list of names lives there
from opennki.isa.api import __all__  # noqa: F401

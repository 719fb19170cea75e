"""The functions of `nki.language`, gathered from the modules that define them, and three plain operators."""

from __future__ import annotations

from opennki.frontend import (
    arithmetic,
    constants,
    elementwise,
    pending,
    printing,
    reductions,
    rounding,
    shapes,
    trigonometry,
)
from opennki.frontend.arithmetic import *  # noqa: F403  # each module lists its names
from opennki.frontend.constants import *  # noqa: F403
from opennki.frontend.elementwise import *  # noqa: F403
from opennki.frontend.pending import *  # noqa: F403
from opennki.frontend.printing import *  # noqa: F403
from opennki.frontend.reductions import *  # noqa: F403
from opennki.frontend.rounding import *  # noqa: F403
from opennki.frontend.shapes import *  # noqa: F403
from opennki.frontend.trigonometry import *  # noqa: F403
from opennki.isa.operators import OPERATORS, Operator

average: Operator = OPERATORS["average"]
prelu: Operator = OPERATORS["prelu"]
bypass: Operator = OPERATORS["bypass"]

__all__ = [
    "average",
    "bypass",
    "prelu",
    *arithmetic.__all__,
    *constants.__all__,
    *elementwise.__all__,
    *pending.__all__,
    *printing.__all__,
    *reductions.__all__,
    *rounding.__all__,
    *shapes.__all__,
    *trigonometry.__all__,
]

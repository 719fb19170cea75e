"""What `import nki` sees once `opennki.install()` was called."""

from __future__ import annotations

import opennki.build.hooks  # noqa: F401  # direct calls and saving, registered by the import
from opennki.frontend.kernel import jit
from opennki.frontend.simulate import simulate
from opennki.nki import dtype

__all__ = ["cpu_simulate", "dtype", "jit", "simulate"]

cpu_simulate = simulate
"""The older name of `simulate`, which public test suites still use."""

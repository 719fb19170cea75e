"""One thread for each product of tiles: a core is a thread already, and a tile is small.

NumPy's BLAS splits every product over all processors. A product of at most 128 × 128 × 512 gains little by
that, and two cores, or whatever else the machine does, then wait for each other's threads: measured, see
docs/decisions/008-one-blas-thread.md.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return what keeps BLAS to one thread while it is entered, in this thread and where BLAS can in all.

    Of several threads that enter it the first one rules; what held before comes back when that one leaves.
    """
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    """Return what knows the BLAS libraries of this process; finding them costs a millisecond, once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

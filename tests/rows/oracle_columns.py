"""What `.indirect()` picks, from the documents alone: the snake of offsets, gathered and scattered.

In each group of G partitions that starts at row `start`, column i of the view is the one at offset
`index[start + i % G, i // G]`; G is 32 on the Tensor engine and 16 on the others.
Source: nki/api/nki/language/__init__.py:546 and the SDK's tensor indirection tutorial.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def offsets(index: Array, count: int, group: int) -> list[list[int]]:
    """Return the offsets that each partition uses, in the order of the view's columns."""
    found = []
    for partition in range(index.shape[0]):
        start = partition - partition % group
        found.append([int(index[start + i % group, i // group]) for i in range(count)])
    return found


def gathered(data: Array, index: Array, count: int, group: int = 16) -> Array:
    """Return `[P, count]`: the picked columns of `data` `[P, F]`."""
    rows = offsets(index, count, group)
    return np.array([[data[p, offset] for offset in row] for p, row in enumerate(rows)], data.dtype)


def scattered(base: Array, value: Array, index: Array, group: int = 16, *, adds: bool = False) -> Array:
    """Return `base` with the columns of `value` stored one after the other, or added."""
    found = base.copy()
    for p, row in enumerate(offsets(index, value.shape[1], group)):
        for i, offset in enumerate(row):
            found[p, offset] = found[p, offset] + value[p, i] if adds else value[p, i]
    return found

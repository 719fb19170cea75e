"""Cases of scalar arithmetic: every operator at the limits of both widths, and random nested expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from tests.rows.conversions import INTEGERS, Array
from tests.rows.oracle_scalar import BINARY, UNARY, Applied, Constant, Expression, Loaded

WIDTHS = ("int32", "int64")


@dataclass(frozen=True)
class ScalarCase:
    """Expressions over the elements of a `[1, n]` array, all evaluated in one kernel."""

    name: str
    dtype: str
    data: Array
    expressions: tuple[Expression, ...]

    @property
    def id(self) -> str:
        """A name for the test's report."""
        return f"{self.name}-{self.dtype}"


def cases() -> Iterator[ScalarCase]:
    """Yield all cases: binary operators, operators with a Python int on either side, nested ones."""
    for dtype in WIDTHS:
        values = edges(dtype)
        data = np.array([values], dtype)
        pairs = list(product(range(len(values)), repeat=2))
        for name, op in (("add", "+"), ("subtract", "-"), ("multiply", "*")):
            both = tuple(Applied(op, (Loaded(i), Loaded(j))) for i, j in pairs[:: 2 if op == "*" else 3])
            yield ScalarCase(name, dtype, data, both)
            yield ScalarCase(f"{name}-number", dtype, data, tuple(with_numbers(op, values)))
        signs = tuple(Applied(op, (Loaded(i),)) for op in UNARY for i in range(len(values)))
        yield ScalarCase("signs", dtype, data, signs)
        yield ScalarCase("nested", dtype, data, tuple(nested(len(values), 24)))
    # NKI 0.7: 100000 · 100000 in int32 is 1410065408; the largest plus one is the smallest
    square, more = Applied("*", (Loaded(0), Loaded(0))), Applied("+", (Loaded(1), Constant(1)))
    yield ScalarCase("documented", "int32", np.array([[100000, 2**31 - 1]], np.int32), (square, more))


def edges(dtype: str) -> list[int]:
    """Return values at which an operation wraps, and ordinary ones."""
    low, high = INTEGERS[dtype]
    root = 2 ** (31 if dtype == "int64" else 15)
    return [low, low + 1, -root, -3, -1, 0, 1, 2, 7, root, root + 1, high - 1, high]


def with_numbers(op: str, values: list[int]) -> Iterator[Expression]:
    """Yield an operator with a Python int on its right and on its left."""
    for place in range(len(values)):
        number = values[(5 * place + 3) % len(values)]
        yield Applied(op, (Loaded(place), Constant(number)))
        yield Applied(op, (Constant(number), Loaded(place)))


def nested(places: int, count: int) -> Iterator[Expression]:
    """Yield random expressions four levels deep; each has a scalar in every operation."""
    generator = np.random.default_rng(11)

    def grow(depth: int) -> Expression:
        if depth == 0:
            return Loaded(int(generator.integers(places)))
        if generator.random() < 0.2:
            return Applied("-", (grow(depth - 1),))
        left: Expression = grow(depth - 1)
        right: Expression = grow(depth - 1)
        if generator.random() < 0.3:
            right = Constant(int(generator.integers(-1000, 1000)))
        pair = (left, right) if generator.random() < 0.5 else (right, left)
        return Applied(str(generator.choice(list(BINARY))), pair)

    for _ in range(count):
        yield grow(4)

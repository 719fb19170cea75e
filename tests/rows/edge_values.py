"""Adversarial inputs per element type: what rounding, saturation, NaN and signed zeros get wrong first."""

from __future__ import annotations

from functools import cache

import numpy as np

from tests.rows.conversions import (
    F64,
    FLOATS,
    INTEGERS,
    Array,
    bits_of,
    decoded,
    from_bits,
    load,
    round32,
    storage,
    store,
)

INF, NAN = float("inf"), float("nan")


@cache
def midpoints(dtype: str) -> F64:
    """Return ties of a narrower float type: around 1, at both ends of the subnormals, at overflow."""
    if dtype == "tfloat32":
        return np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, -(2 + 2.0**-10), 2.0**-137])
    table = decoded(dtype)[: 2 ** (FLOATS[dtype].bits - 1)]
    finite = table[np.isfinite(table)]
    one = int(np.searchsorted(finite, 1.0))
    normal = 2 ** FLOATS[dtype].mantissa_bits
    picked = [0, 1, 2, normal - 1, normal, one - 1, one, one + 1, len(finite) - 2]
    ties = [(finite[i] + finite[i + 1]) / 2 for i in picked]
    return np.array([*ties, finite[-1] + (finite[-1] - finite[-2]) / 2, -ties[-1], -ties[0]])


@cache
def fp32_values() -> F64:
    """Return the fp32 numbers that every conversion and operator must get right."""
    tiny, subnormal, normal = 2.0**-149, 2.0**-126 - 2.0**-149, 2.0**-126
    largest = 2.0**128 - 2.0**104
    plain = [1.0, 1 + 2.0**-23, 1 - 2.0**-24, 2.0, 3.0, 0.1, 1 / 3, 1e-30, 1e30]
    plain += [tiny, subnormal, normal, largest]
    halves = [0.5, 1.5, 2.5, 0.49999997, 0.50000006, 126.5, 127.5, 128.5, 254.5, 255.5, 32767.5, 65535.5]
    limits = [float(end) for low, high in INTEGERS.values() for end in (low, high, low - 1, high + 1)]
    exact = [2.0**24 - 1, 2.0**24, 2.0**24 + 2, 2.0**31 - 128, 2.0**32 - 256]
    exact += [240.0, 241.0, 447.0, 449.0, 65504.0]
    ties = np.concatenate([midpoints(name) for name in (*FLOATS, "tfloat32")])
    around = np.concatenate([ties * (1 + 2.0**-23), ties * (1 - 2.0**-24)])
    values = np.concatenate([plain, halves, limits, exact, ties, around])
    return round32(np.array([*np.unique(np.concatenate([values, -values])), 0.0, -0.0, INF, -INF, NAN]))


@cache
def edge_values(dtype: str) -> Array:
    """Return the adversarial elements of `dtype`; 8-bit types give all their patterns."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGERS:
        low, high = INTEGERS[dtype]
        wanted = {low, low + 1, high, high - 1, 0, 1, 2, 3, -1, -2, 127, 128, 255, 256, 2**15, 2**16 - 1}
        wanted |= {2**24 - 1, 2**24, 2**24 + 1, -(2**24) - 1, 2**24 + 3, 2**31 - 64, -(2**31) + 64}
        return np.array(sorted(v for v in wanted if low <= v <= high), storage(dtype))
    if storage(dtype).itemsize == 1:
        return from_bits(np.arange(256, dtype=np.uint64), dtype)
    patterns = np.unique(bits_of(store(fp32_values(), dtype)))
    if dtype == "tfloat32":
        return from_bits(patterns, dtype)
    quiet = patterns[np.isnan(load(from_bits(patterns, dtype), dtype))][0]
    # a NaN with another payload: copies of equal dtype keep it
    return from_bits(np.append(patterns, quiet | np.uint64(1)), dtype)


def fill(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Return an array of the edge values of `dtype`, shuffled, and random ones where there is room."""
    generator = np.random.default_rng(seed)
    count = int(np.prod(shape))
    edges = edge_values(dtype)
    order = generator.permutation(len(edges))
    chosen = edges[order[:count]]
    rest = moderate(dtype, (max(0, count - len(chosen)),), seed + 1)
    mixed = np.concatenate([chosen, rest])
    return mixed[generator.permutation(count)].reshape(shape)


def moderate(dtype: str, shape: tuple[int, ...], seed: int = 0, scale: float = 2.0) -> Array:
    """Return finite random elements of ordinary size, for sums and products."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype in INTEGERS:
        low, high = INTEGERS[dtype]
        span = (max(low, -1000), min(high, 1000))
        return generator.integers(span[0], span[1], shape, endpoint=True).astype(storage(dtype))
    return store(generator.standard_normal(shape) * scale, dtype)


def within(low: float, high: float, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Return fp32 elements over [low, high], ends included; by magnitude where the range spans many."""
    generator = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if low > 0 and high / low > 1000:
        picked = 2.0 ** generator.uniform(np.log2(low), np.log2(high), count)
    else:
        picked = generator.uniform(low, high, count)
    picked[0], picked[-1] = low, high
    inside = round32(picked)
    inside = np.where((inside < low) | (inside > high), (low + high) / 2, inside)
    return store(inside, "float32").reshape(shape)

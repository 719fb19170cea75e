"""The cache of traces: what a key is made of, in memory, on disk."""

from __future__ import annotations

from opennki.cache.traced import CACHE, Bound, Cache, Traced

__all__ = ["CACHE", "Bound", "Cache", "Traced"]

"""Graphs: the kernel calls that are compiled together, wherever they come from."""

from __future__ import annotations

from opennki.graph.calls import Graph, KernelCall, facts_of
from opennki.graph.config import CALL_TARGET, call_config

__all__ = ["CALL_TARGET", "Graph", "KernelCall", "call_config", "facts_of"]

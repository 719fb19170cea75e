"""Graphs: the kernel calls that are compiled together, wherever they come from."""

from __future__ import annotations

from opennki.graph.calls import Graph, KernelCall, facts_of

__all__ = ["Graph", "KernelCall", "facts_of"]

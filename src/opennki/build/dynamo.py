"""The call of a kernel that PyTorch's dynamo meets: dynamo runs an import statement, and no other import."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["graph_call"]

graph_call: Any = import_module("opennki.frameworks.torch.calls").graph_call

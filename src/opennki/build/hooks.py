"""The upward hooks of the lower layers, registered by importing this module.

What they lead to is imported when it is needed: a kernel that is only traced loads no executor.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opennki.frontend.kernel import Kernel, register_graph_call, register_launch
from opennki.ir.types import KernelArtifact, register_save

if TYPE_CHECKING:  # importing it costs 3 ms
    from pathlib import Path

__all__: list[str] = []


def _launch(kernel: Kernel, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    from opennki.build.launch import launch

    return launch(kernel, args, kwargs)


def _is_met_by_dynamo() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


def _dynamo_call(kernel: Kernel, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    from opennki.build.dynamo import graph_call

    return graph_call(kernel, args, kwargs)


def _save(artifact: KernelArtifact, path: Path) -> Path:
    from opennki.artifact import save_artifact

    return save_artifact(artifact, path)


register_launch(_launch)
register_graph_call(_is_met_by_dynamo, _dynamo_call)
register_save(_save)

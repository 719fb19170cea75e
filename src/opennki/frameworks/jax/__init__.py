"""JAX: kernels on its arrays at once, in its graphs, and graphs compiled for a degree and a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from opennki.build.places import call_location
from opennki.build.values import nest
from opennki.diag import fail
from opennki.diag.say import hide
from opennki.frameworks.jax.compilation import compile
from opennki.frameworks.jax.eager import call_of, run, run_again
from opennki.frameworks.jax.primitive import nki_call
from opennki.frameworks.jax.private import FOLDER
from opennki.frameworks.jax.site import site_of
from opennki.frontend.kernel import Kernel

__all__ = ["compile", "launch", "load_graph", "read"]

hide(FOLDER)


def launch(kernel: Kernel, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
    """Return what a kernel gives for JAX's arrays, or what stands for it in the graph that is being traced.

    On arrays it runs at once, at LNC=1. In a graph it becomes an equation `nki_call`, which is baked when
    JAX lowers the graph. Inputs never change: one that the kernel writes must be returned.

    Errors: those of tracing, ONKI622 to ONKI625; on arrays those of baking and running.
    """
    call = call_of(kernel, args, kwargs)
    if call is not None:
        is_known, value = run_again(call)
        if is_known:
            return value
    site, arrays = site_of(kernel, args, kwargs, call_location())
    outputs = nki_call.bind(*arrays, site=site) if call is None else run(site, arrays, call)
    return nest(site.artifact.signature.returns, outputs)


def read(path: Path) -> NoReturn:
    """Refuse: JAX has no files of its own that are graphs. ONKI602."""
    fail("ONKI602", graph=str(path), reason="JAX's graphs are given as functions")


def load_graph(files: Mapping[str, bytes], executable: object, file: str) -> NoReturn:
    """Refuse: no `.nkx` file holds a graph of JAX's (ONKI626), so this one was not written by us. ONKI502."""
    fail("ONKI502", file=file, reason="it claims a graph of JAX, which no such file holds")

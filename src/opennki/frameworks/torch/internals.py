"""Names of PyTorch's that it may change without notice: the one module that uses them. Seen with 2.13."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from traceback import FrameSummary
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import ShortenTraceback
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule

from opennki.build.places import is_users
from opennki.diag import Location
from opennki.diag.say import hide
from opennki.ir.location import shown_file

__all__ = ["compile_ahead", "compiler_options", "graph_break", "is_fake", "passing", "traced_place"]


_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
hide(_TORCH)  # the user's line is the one that called PyTorch


def is_fake(tensor: torch.Tensor) -> bool:
    """True for a tensor without data that stands for one while a graph is made."""
    return isinstance(tensor, FakeTensor) or isinstance(
        getattr(tensor, "elem", None) if type(tensor) is not torch.Tensor else None, FakeTensor
    )


def passing(raised: Exception) -> Exception:
    """Return the exception in a form that dynamo hands on as it is, of its own class and with its own text.

    Dynamo wraps what it does not know in an exception of its own; it knows `ShortenTraceback`.
    """
    kind = type(raised)
    try:
        made = type(
            kind.__name__,
            (kind, ShortenTraceback),
            {"__module__": kind.__module__, "__init__": _no_init, "__str__": kind.__str__},
        )
        found: Exception = made.__new__(made, *raised.args)
    except TypeError:  # a class of the user's that takes no second base
        return raised
    found.args = raised.args
    found.__dict__.update(raised.__dict__)
    found.__dict__.update(first_useful_frame=None, _torch_dynamo_tracer_output=None, frame_exec_strategy=None)
    found.__cause__, found.__suppress_context__ = raised.__cause__, True
    return found.with_traceback(raised.__traceback__)


def _no_init(self: Exception, *_: object) -> None:
    """Leave the attributes to `passing`: the two bases take different arguments."""


def traced_place() -> Location | None:
    """Return the user's line that dynamo reads at the moment, None where it reads nothing."""
    if TracingContext.try_get() is None:
        return None
    return _place(TracingContext.extract_stack())


def _place(frames: Iterable[FrameSummary]) -> Location | None:
    for frame in reversed(list(frames)):
        if is_users(frame.filename) and not frame.filename.startswith(_TORCH) and frame.lineno:
            return _location(frame)
    return None


def _location(frame: FrameSummary) -> Location:
    line = frame.lineno or 0
    text = linecache.getline(frame.filename, line).rstrip("\r\n")
    start, end = len(text) - len(text.lstrip()), len(text)
    if frame.colno is not None and text.isascii():  # these count bytes
        last = frame.end_colno if frame.end_colno is not None else end
        start, end = frame.colno, last if frame.colno < last <= end else end
    return Location(shown_file(frame.filename), line, line, start, end, frame.name, text)


def compiler_options(backend: Callable[..., Any]) -> Mapping[str, object] | None:
    """Return the options that `torch.compile` was given, while dynamo reads for `backend`; None otherwise."""
    convert = sys.modules.get("torch._dynamo.symbolic_convert")
    translator = getattr(getattr(convert, "tls", None), "current_tx", None)
    compiler = getattr(getattr(translator, "output", None), "compiler_fn", None)
    while compiler is not None and not hasattr(compiler, "compiler_fn"):
        compiler = getattr(compiler, "_torchdynamo_orig_backend", None)
    if compiler is None or compiler.compiler_fn is not backend:
        return None
    options: Mapping[str, object] = compiler.kwargs.get("options") or {}
    return options


def graph_break(graph: GraphModule) -> tuple[str, Location | None] | None:
    """Return why dynamo ended a graph before the function's end, and at which line; None if it did not."""
    found = getattr(graph, "compile_subgraph_reason", None)
    if found is None or not found.graph_break:
        return None
    first, *_ = str(found.reason).strip().splitlines() or ["unknown"]
    return first.strip(), _place(found.user_stack)


def compile_ahead(
    graph: GraphModule,
    inputs: list[Any],
    compiler: Callable[[GraphModule], Callable[..., Any]],
    decompositions: Mapping[Any, Callable[..., Any]],
) -> Callable[..., Any]:
    """Return the graph compiled by `compiler`, forward and backward, as graphs of ATen operators."""
    from functorch.compile import make_boxed_func

    def boxed(part: GraphModule, _: object) -> Any:
        return make_boxed_func(compiler(part))

    ahead = aot_autograd(fw_compiler=boxed, bw_compiler=boxed, decompositions=dict(decompositions))
    compiled: Callable[..., Any] = ahead(graph, inputs)
    return compiled

"""Tracing as the pipeline does it: a kernel call with its artifact, and where its degree comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

import opennki.build.hooks  # noqa: F401  # an artifact can be saved
from opennki.build.places import Caller, python_call
from opennki.cache import CACHE, Bound
from opennki.diag.say import warn
from opennki.frontend.kernel import Kernel, as_kernel
from opennki.frontend.trace import bind_arguments
from opennki.graph import KernelCall
from opennki.ir.types import KernelArtifact
from opennki.settings import Setting, check_degree, kernel_degree, target_setting
from opennki.targets import Target

__all__ = ["bound_call", "trace", "trace_call"]


def trace(
    kernel: Kernel | Callable[..., Any],
    /,
    *specs: object,
    lnc: object | None = None,
    target: str | None = None,
    **values: object,
) -> KernelArtifact:
    """Return the artifact of `kernel`, traced once for each core of its degree.

    A spec is an array, a `Spec` or a text such as "bfloat16[128,512]"; any other argument reaches the kernel
    as it is. The degree is that of the bracket, `lnc`, the environment, or 1; the target is `target`, the
    environment's, or trn3. What is found and is no error is in `.findings`, and said as a warning. Where the
    cache has the artifact, it is returned and the kernel's Python does not run.

    Errors: ONKI001, ONKI002, ONKI006, ONKI301 and NCC_EARG001 before the kernel runs; then those of its
    instructions and of its return value. An exception of the kernel's own passes, with a note.
    """
    artifact = trace_call(
        kernel, specs, values, target_setting(target), option=lnc, by=python_call()
    ).artifact
    warn(artifact.findings)
    return artifact


def trace_call(
    kernel: object,
    specs: Sequence[object],
    values: Mapping[str, object],
    target: Setting[Target],
    *,
    option: object | None = None,
    graph: Setting[int] | None = None,
    by: Caller,
) -> KernelCall:
    """Return the call of a kernel that is traced for `target` at its own degree, or was so before.

    The arguments are those of `bound_call`.
    """
    bound, degree = bound_call(kernel, specs, values, target, option=option, graph=graph, by=by)
    traced = CACHE.trace(bound)
    artifact = traced.artifact
    if traced.remarks:
        artifact = replace(artifact, findings=(*artifact.findings, *traced.remarks))
    return KernelCall(artifact=artifact, degree=degree, location=by.place)


def bound_call(
    kernel: object,
    specs: Sequence[object],
    values: Mapping[str, object],
    target: Setting[Target],
    *,
    option: object | None = None,
    graph: Setting[int] | None = None,
    by: Caller,
) -> tuple[Bound, Setting[int]]:
    """Return a kernel call that is ready to be traced for `target` at its own degree, and that degree.

    `option` is the kernel's degree as an option. `graph` is the graph's degree where it is settled before:
    OPENNKI_KERNEL_LNC=graph takes it.
    """
    found = as_kernel(kernel)
    degree = kernel_degree(found.degree, option, target, found.name, graph=graph, spelled=by.lnc, at=by.place)
    check_degree(degree, target, at=by.place)
    args, kwargs, arguments = bind_arguments(found, specs, values, texts=True)
    return Bound(found, args, kwargs, arguments, degree.value, target.value), degree

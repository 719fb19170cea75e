"""A kernel call as JAX's graphs carry it, and its baking: at once on the eager path, later for a graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jax.extend import core
from msgspec import Struct, field
from msgspec.structs import replace

from opennki.build.executable import BakedCall, Executable
from opennki.build.launch import options_in_force
from opennki.build.pipeline import bake
from opennki.cache import CACHE, Bound, Traced
from opennki.diag import Location, fail
from opennki.frameworks.jax.operands import check_written, operands_of, result_dtypes
from opennki.frameworks.jax.private import is_staged, sub_jaxprs
from opennki.frontend.kernel import Kernel
from opennki.graph import Graph, KernelCall
from opennki.ir.types import KernelArtifact
from opennki.settings import (
    Setting,
    check_degree,
    eager_degree,
    graph_degree,
    kernel_degree,
    kernel_lnc_from_graph,
    target_setting,
)
from opennki.targets import Target

__all__ = [
    "GraphSettings",
    "Site",
    "bake_sites",
    "settings_of_graph",
    "site_of",
    "sites_in",
    "with_settings",
]


_KEPT_PROBLEMS = 32


class GraphSettings(Struct, frozen=True):
    """What a graph is compiled for.

    `calls` are those that `opennki.compile` has baked before it lowers the graph. `problems` are the last
    errors of its kernels while they ran, so that they can be raised as what they are.
    """

    degree: Setting[int]
    target: Setting[Target]
    calls: dict[Site, BakedCall] = field(default_factory=dict)
    problems: deque[Exception] = field(default_factory=lambda: deque(maxlen=_KEPT_PROBLEMS))


class Site:
    """A kernel call in a graph, traced for its shapes. Equal for the same artifact, degree and line.

    It is a parameter of an equation of JAX, so it is compared, hashed and printed; it never changes.
    """

    __slots__ = ("bound", "degree", "location", "traced")

    def __init__(self, bound: Bound, traced: Traced, degree: Setting[int], location: Location | None) -> None:
        self.bound = bound
        self.traced = traced
        self.degree = degree
        self.location = location

    @property
    def artifact(self) -> KernelArtifact:
        """What the kernel was traced to when it was called."""
        return self.traced.artifact

    def _identity(self) -> tuple[object, ...]:
        return (id(self.traced.artifact), self.degree, self.location)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Site) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return f"{self.bound.kernel.name}[{self.degree.value}]"

    def call(self, traced: Traced, degree: Setting[int], *, is_eager: bool = False) -> KernelCall:
        """Return the call for the rules of baking."""
        return KernelCall(artifact=traced.artifact, degree=degree, location=self.location, is_eager=is_eager)

    def settled(self, graph: Setting[int], target: Setting[Target]) -> tuple[Traced, Setting[int]]:
        """Return the trace for the target of its graph, and the kernel's degree.

        The degree stays that of the call; under OPENNKI_KERNEL_LNC=graph a kernel without bracket takes the
        graph's. Errors: those of tracing; ONKI627 for outputs of other shapes than in the graph.
        """
        degree = self.degree
        if self.bound.kernel.degree is None and kernel_lnc_from_graph():
            degree = kernel_degree(None, None, target, self.bound.kernel.name, graph=graph)
        if (degree.value, target.value) == (self.bound.degree, self.bound.target):
            return self.traced, degree
        traced = CACHE.trace(replace(self.bound, degree=degree.value, target=target.value))
        if _outputs(traced.artifact) != _outputs(self.artifact):
            fail(
                "ONKI627",
                at=self.location,
                kernel=self.bound.kernel.name,
                before=f"{self.bound.target.name} at LNC={self.bound.degree}",
                after=f"{target.value.name} at LNC={degree.value}",
            )
        return traced, degree


def _outputs(artifact: KernelArtifact) -> list[tuple[tuple[int, ...], str, int]]:
    return [(output.shape, output.dtype, output.alias) for output in artifact.signature.outputs]


_settings: ContextVar[GraphSettings | None] = ContextVar("graph_settings", default=None)


@contextmanager
def with_settings(settings: GraphSettings) -> Iterator[None]:
    """Give the graphs that JAX traces and lowers in the body the settings of `opennki.compile`."""
    token = _settings.set(settings)
    try:
        yield
    finally:
        _settings.reset(token)


def settings_of_graph() -> GraphSettings:
    """Return what a graph is compiled for: the options of `opennki.compile` or `run`, flags, environment."""
    given = _settings.get()
    if given is not None:
        return given
    options = options_in_force()
    target = target_setting(options.target, spelled="--target ")
    return GraphSettings(graph_degree(options.lnc, target, spelled="--lnc "), target)


def site_of(
    kernel: Kernel, args: Sequence[object], kwargs: Mapping[str, object], place: Location | None
) -> tuple[Site, tuple[Any, ...]]:
    """Return a kernel call, traced for the shapes of its tensors, and the tensors.

    Errors: those of `operands_of` and of tracing, ONKI623, ONKI625.
    """
    operands = operands_of(kernel, args, kwargs, place)
    settings = settings_of_graph()
    graph = settings.degree if is_staged() else eager_degree()
    degree = kernel_degree(kernel.degree, None, settings.target, kernel.name, graph=graph, at=place)
    check_degree(degree, settings.target, at=place)
    bound = Bound(
        kernel, operands.args, operands.kwargs, operands.arguments, degree.value, settings.target.value
    )
    traced = CACHE.trace(bound)
    check_written(traced.artifact, place)
    result_dtypes(traced.artifact, place)
    return Site(bound, traced, degree, place), operands.arrays


def bake_sites(sites: Sequence[Site], settings: GraphSettings) -> Executable:
    """Return the executable of the calls of one graph. Errors: NCC_ENKI003, NCC_EVRF066 and the like, all."""
    settled = [site.settled(settings.degree, settings.target) for site in sites]
    calls = tuple(site.call(*each) for site, each in zip(sites, settled, strict=True))
    findings = [finding for traced, _ in settled for finding in (*traced.artifact.findings, *traced.remarks)]
    return bake(Graph(calls=calls), settings.degree, settings.target, findings)


def sites_in(graph: core.Jaxpr) -> Iterator[Site]:
    """Yield the kernel calls of a graph in its order, those of inner graphs where they stand."""
    for equation in graph.eqns:
        site = equation.params.get("site")
        if isinstance(site, Site):
            yield site
        for inner in sub_jaxprs(equation):
            yield from sites_in(inner)

"""The primitive `nki_call`: a kernel call in JAX's graphs, its abstract evaluation and its lowering."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NoReturn

import jax
from jax.extend import core

from opennki.artifact import artifact_bytes
from opennki.build.executable import BakedCall
from opennki.diag import fail
from opennki.diag.say import warn
from opennki.frameworks.jax.eager import run
from opennki.frameworks.jax.operands import result_dtypes, whole_aliases
from opennki.frameworks.jax.private import (
    graph_of,
    is_exported,
    kept,
    lower_callback,
    lower_neuron,
    set_rules,
)
from opennki.frameworks.jax.running import callback
from opennki.frameworks.jax.site import Site, bake_sites, settings_of_graph, sites_in
from opennki.graph import CALL_TARGET, call_config
from opennki.settings import simulator_requested

__all__ = ["nki_call"]

nki_call: Any = core.Primitive("nki_call")
nki_call.multiple_results = True


class _Baked(dict[Site, BakedCall]):
    """The calls of the module that is being lowered."""


def _run(*tensors: Any, site: Site) -> Any:
    return run(site, tensors)


def _shapes(*_: Any, site: Site) -> list[Any]:
    dtypes = result_dtypes(site.artifact, site.location)
    outputs = site.artifact.signature.outputs
    return [jax.core.ShapedArray(output.shape, dtype) for output, dtype in zip(outputs, dtypes, strict=True)]


def _no_derivative(_: Any, __: Any, *, site: Site) -> NoReturn:
    fail("ONKI621", at=site.location, label="differentiated", kernel=site.bound.kernel.name)


def _no_batch(_: Any, __: Any, *, site: Site) -> NoReturn:
    fail("ONKI620", at=site.location, label="called under `jax.vmap`", kernel=site.bound.kernel.name)


def _baked(context: Any, site: Site) -> BakedCall:
    """Return the call as its graph has it; all calls of the graph are baked at the first one."""
    known = kept(context, _Baked)
    settings = settings_of_graph()
    if site not in known:
        known.update(settings.calls)
    if site not in known:
        graph = graph_of(context)
        sites = list(dict.fromkeys([] if graph is None else sites_in(graph)))
        if site not in sites:
            sites = [site]
        executable = bake_sites(sites, settings)
        known.update(zip(sites, executable.calls, strict=True))
        warn(executable.findings)
    return known[site]


def _lower_cpu(context: Any, *operands: Any, site: Site) -> Any:
    if is_exported(context):
        return _lower_neuron(context, *operands, site=site)
    call = None if simulator_requested() else _baked(context, site)
    return lower_callback(context, operands, callback(site, call, settings_of_graph().problems))


def _lower_neuron(context: Any, *operands: Any, site: Site) -> Any:
    artifact = _baked(context, site).artifact
    aliases = whole_aliases(artifact)
    config = call_config(artifact, sha256(artifact_bytes(artifact)).hexdigest(), aliases)
    written = {i: o for i, o in aliases.items() if artifact.signature.inputs[i].is_written}
    return lower_neuron(context, operands, CALL_TARGET, config, written)


nki_call.def_impl(_run)
nki_call.def_abstract_eval(_shapes)
set_rules(nki_call, _no_derivative, _no_batch, _lower_cpu, _lower_neuron)

"""What a kernel call in a graph says of itself, and the artifacts that this process knows by digest.

The text is all that a graph keeps of a call. It holds no path of a machine and is the same in each process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from msgspec import MsgspecError, Struct, json
from msgspec.structs import replace

from opennki.diag import Location, fail
from opennki.graph import KernelCall
from opennki.ir.codec import encode_artifact
from opennki.ir.types import KernelArtifact
from opennki.settings import Kind, Setting
from opennki.targets import Target

__all__ = [
    "CallConfig",
    "Recipe",
    "artifact_of",
    "config_of",
    "digest_of",
    "forget",
    "kernel_call",
    "parse_config",
    "recipe_of",
    "register_artifact",
    "register_recipe",
]

_FORMAT = "opennki"


class Recipe(Protocol):
    """A call whose kernel is at hand, and not its artifact alone."""

    def trace(self, target: Setting[Target], graph: Setting[int]) -> KernelCall:
        """Trace the kernel again, for the target and under the degree of its graph."""

    def simulate(self, arrays: Sequence[Any]) -> list[Any]:
        """Simulate the kernel on the arrays of its signature and return its outputs, in order."""


class CallDegree(Struct, frozen=True, array_like=True):
    """Where a kernel's degree came from: a `Setting` of its value."""

    value: int
    origin: str
    kind: Kind
    change: str = ""


class CallConfig(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kernel call: the fields of the vendor's config that we have, its line and its degree beside them.

    `binary` is the digest of an artifact: see `digest_of`. `variant` tells calls apart that are equal in all
    else and made by different functions.
    """

    func_name: str
    kernel_format: str = _FORMAT
    grid: tuple[int, ...]
    binary: str
    degree: CallDegree | None = None
    location: Location | None = None
    variant: int = 0

    @property
    def text(self) -> str:
        """The config as it stands in a graph."""
        return json.encode(self, order="deterministic").decode()


_ARTIFACTS: dict[str, KernelArtifact] = {}
_RECIPES: dict[str, tuple[object, Recipe]] = {}
_MAX_RECIPES = 4096


def digest_of(artifact: KernelArtifact) -> str:
    """Return the name of an artifact: a digest of its content, the same with every version of zlib."""
    digest = hashlib.sha256()
    for name, data in sorted(encode_artifact(artifact).items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return f"sha256:{digest.hexdigest()}"


def register_artifact(artifact: KernelArtifact, digest: str | None = None) -> str:
    """Make an artifact known to graphs of this process and return its digest. It stays known."""
    name = digest or digest_of(artifact)
    _ARTIFACTS.setdefault(name, artifact)
    return name


def artifact_of(config: CallConfig) -> KernelArtifact:
    """Return the artifact that a call names. Errors: NCC_EVRF059."""
    found = _ARTIFACTS.get(config.binary)
    if found is None:
        file = f"{config.binary.removeprefix('sha256:')}.nka"
        fail(
            "NCC_EVRF059",
            at=config.location,
            path=file,
            notes=[
                f"the graph names the artifact of kernel `{config.func_name}` by its digest, "
                "and does not hold it"
            ],
            help=[
                "load the graph with `opennki.frameworks.torch.load`: it reads artifacts in and beside it",
                "save it with `opennki.frameworks.torch.save`: then its artifacts are in it",
                f"put `{file}` into the folder of the graph",
            ],
            data={"kernel": config.func_name, "binary": config.binary},
        )
    return found


def is_known(binary: str) -> bool:
    """True if the artifact of that digest is registered."""
    return binary in _ARTIFACTS


def forget() -> None:
    """Forget all artifacts, as a new process would; compiled graphs keep theirs."""
    _ARTIFACTS.clear()
    _RECIPES.clear()


def config_of(call: KernelCall, binary: str | None = None) -> CallConfig:
    """Return the config of a call, its artifact registered."""
    degree = call.degree
    return CallConfig(
        func_name=call.name,
        grid=(len(call.artifact.programs),),
        binary=binary or register_artifact(call.artifact),
        degree=None
        if degree is None
        else CallDegree(degree.value, degree.origin, degree.kind, degree.change),
        location=call.location,
    )


@lru_cache(maxsize=4096)
def parse_config(text: str) -> CallConfig:
    """Return the config that stands in a graph. Errors: NCC_EVRF065 for one of another toolchain or time."""
    try:
        found = json.decode(text, type=CallConfig)
    except (MsgspecError, ValueError, RecursionError) as problem:
        fail("NCC_EVRF065", kernel="?", notes=[f"the config of the call cannot be read: {problem}"])
    if found.kernel_format != _FORMAT:
        note = f"its artifact is in the format `{found.kernel_format}`, OpenNKI reads `{_FORMAT}`"
        fail("NCC_EVRF065", at=found.location, kernel=found.func_name, notes=[note])
    return found


def kernel_call(config: CallConfig) -> KernelCall:
    """Return the kernel call of a config, its claim beside its artifact. Errors: NCC_EVRF059."""
    degree = config.degree
    return KernelCall(
        artifact=artifact_of(config),
        degree=None if degree is None else Setting(degree.value, degree.origin, degree.kind, degree.change),
        claimed=config.grid[0] if config.grid else None,
        location=config.location,
    )


def register_recipe(config: CallConfig, function: object, recipe: Recipe) -> CallConfig:
    """Keep how a call is traced again; the returned config is the call's own among its equals."""
    while True:
        known = _RECIPES.get(config.text)
        if known is None or known[0] is function:
            break
        config = replace(config, variant=config.variant + 1)
    _RECIPES[config.text] = (function, recipe)
    while len(_RECIPES) > _MAX_RECIPES:
        _RECIPES.pop(next(iter(_RECIPES)), None)
    return config


def recipe_of(config: CallConfig) -> Recipe | None:
    """Return how a call is traced again, None for a call from a file."""
    known = _RECIPES.get(config.text)
    return None if known is None else known[1]

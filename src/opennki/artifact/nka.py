"""Artifacts as `.nka` files and bytes: saving, loading, and the gate that a loaded one passes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from opennki.artifact.container import Manifest, pack, unpack
from opennki.artifact.files import read_bounded, write_container
from opennki.diag import fail
from opennki.ir.codec import MalformedBytes, decode_artifact, encode_artifact
from opennki.ir.program import Facts
from opennki.ir.types import KernelArtifact
from opennki.ir.verify import MAX_VIOLATIONS, Violation, verify
from opennki.targets import TARGETS

__all__ = ["artifact_bytes", "artifact_of", "load_artifact", "save_artifact"]

_KIND = "nka"


def save_artifact(artifact: KernelArtifact, path: str | Path) -> Path:
    """Write an artifact as a `.nka` file and return its path. Errors: ONKI504."""
    return write_container(path, _KIND, _described(artifact), encode_artifact(artifact))


def load_artifact(path: str | Path, facts: Facts | None = None) -> KernelArtifact:
    """Return the artifact of a `.nka` file, its invariants and the rules of its instructions checked.

    `facts` of other rows than the table's have the invariants checked alone. Errors: ONKI005, ONKI501 to
    ONKI503, NCC_EVRF065.
    """
    return artifact_of(read_bounded(path), str(path), facts)


def artifact_bytes(artifact: KernelArtifact) -> bytes:
    """Return what a `.nka` file of the artifact holds: equal for equal artifacts. Findings are left out."""
    return pack(_KIND, _described(artifact), encode_artifact(artifact))


def artifact_of(data: bytes, file: str, facts: Facts | None = None) -> KernelArtifact:
    """Return the artifact that `data` holds, checked as `load_artifact` does; `file` is for messages.

    Errors: ONKI501 to ONKI503, NCC_EVRF065.
    """
    manifest, entries = unpack(data, _KIND, file)
    try:
        artifact = decode_artifact(entries)
    except MalformedBytes as problem:
        fail("ONKI502", file=file, reason=str(problem))
    _check(artifact, manifest, file, facts)
    return artifact


def _described(artifact: KernelArtifact) -> dict[str, object]:
    return {"kernel": artifact.kernel, "lnc": artifact.lnc, "target": artifact.target}


def _check(artifact: KernelArtifact, manifest: Manifest, file: str, facts: Facts | None) -> None:
    """Refuse an artifact that contradicts its manifest, or that no trace can have made."""
    for name, value in _described(artifact).items():
        if manifest.get(name) != value:
            reason = f"its manifest says {name} {manifest.get(name)!r}, its content {value!r}"
            fail("ONKI502", file=file, reason=reason)
    target = TARGETS.get(artifact.target)
    if target is None:
        fail("ONKI502", file=file, reason=f"`{artifact.target}` is no target")
    if artifact.lnc not in target.lnc_allowed:
        fail("ONKI502", file=file, reason=f"{artifact.target} has no LNC={artifact.lnc}")
    violations = verify(artifact, facts) if facts is not None else _all_violations(artifact)
    if violations:
        first = violations[0]
        core = f"core {first.core}: " if first.core >= 0 else ""
        more = [f"also: {other.says}" for other in violations[1:4]]
        data = {"invariant": first.invariant, "core": first.core, "where": first.where}
        fail("ONKI502", file=file, reason=f"{core}{first.says}", rule=first.invariant, notes=more, data=data)


def _all_violations(artifact: KernelArtifact) -> list[Violation]:
    """Return what breaks the invariants or, where these hold, the checks of the instruction table."""
    from opennki.artifact.rows import broken_rules
    from opennki.isa.table import ROW_FACTS

    return verify(artifact, ROW_FACTS) or list(islice(broken_rules(artifact), MAX_VIOLATIONS))

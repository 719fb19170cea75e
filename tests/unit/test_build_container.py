"""Executable files that no compilation has written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

import opennki
from opennki.artifact import artifact_bytes, pack
from opennki.build.container import executable_of
from opennki.diag import OpenNkiError
from tests.unit.kernels import halve

SPEC = "float32[128,16]"


def contents(lnc: int = 2, target: str = "trn2") -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return manifest and entries of a sound executable."""
    data = artifact_bytes(opennki.trace(halve, SPEC, lnc=lnc, target=target))
    digest = hashlib.sha256(data).hexdigest()
    manifest = {"lnc": lnc, "target": target, "calls": [{"kernel": "halve", "artifact": digest}]}
    return manifest, {f"artifacts/{digest}.nka": data}


def test_the_sound_one_loads() -> None:
    manifest, entries = contents()
    assert executable_of(pack("nkx", manifest, entries), "f.nkx").lnc == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.update(lnc=1), "`halve` has 2 programs in an executable for LNC=1"),
        (lambda m: m.update(lnc=8), "trn2 has no LNC=8"),
        (lambda m: m.update(lnc="2"), "its manifest is malformed"),
        (lambda m: m.update(target="trn3"), "`halve` is for trn2 in an executable for trn3"),
        (lambda m: m.update(target="trn9"), "`trn9` is no target"),
        (lambda m: m.update(calls=[]), "it has no kernel call"),
        (lambda m: m.pop("calls"), "its manifest is malformed"),
        (lambda m: m["calls"][0].update(kernel="other"), "the artifact of call `other` is of `halve`"),
        (lambda m: m["calls"][0].update(artifact="0" * 64), "not in both"),
    ],
)
def test_a_manifest_that_lies_is_damage(change: Callable[[dict[str, Any]], object], reason: str) -> None:
    manifest, entries = contents()
    change(manifest)
    with pytest.raises(OpenNkiError) as caught:
        executable_of(pack("nkx", manifest, entries), "f.nkx")
    (found,) = caught.value.diagnostics
    assert found.code == "ONKI502"
    assert reason in found.message


def test_an_artifact_is_no_executable() -> None:
    data = artifact_bytes(opennki.trace(halve, SPEC, lnc=1, target="trn2"))
    with pytest.raises(OpenNkiError) as caught:
        executable_of(data, "f.nkx")
    assert caught.value.code == "ONKI501"


def test_damage_in_an_embedded_artifact_names_the_entry() -> None:
    _, entries = contents()
    (data,) = entries.values()
    broken = data[:-1]
    digest = hashlib.sha256(broken).hexdigest()
    manifest = {"lnc": 2, "target": "trn2", "calls": [{"kernel": "halve", "artifact": digest}]}
    with pytest.raises(OpenNkiError) as caught:
        executable_of(pack("nkx", manifest, {f"artifacts/{digest}.nka": broken}), "f.nkx")
    (found,) = caught.value.diagnostics
    assert found.code == "ONKI502"
    assert f"f.nkx:artifacts/{digest}.nka" in found.message

"""Artifact files: `.nka`, and the container that executables (`.nkx`) share with them."""

from __future__ import annotations

from opennki.artifact.container import FORMATS, Manifest, pack, unpack
from opennki.artifact.files import (
    check_regular,
    read_bounded,
    read_container,
    write_atomically,
    write_container,
    write_together,
)
from opennki.artifact.nka import artifact_bytes, artifact_of, load_artifact, save_artifact
from opennki.ir.types import register_save

__all__ = [
    "FORMATS",
    "Manifest",
    "artifact_bytes",
    "artifact_of",
    "check_regular",
    "load_artifact",
    "pack",
    "read_bounded",
    "read_container",
    "save_artifact",
    "unpack",
    "write_atomically",
    "write_container",
    "write_together",
]

register_save(save_artifact)

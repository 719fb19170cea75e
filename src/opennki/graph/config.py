"""The config of a kernel call in HLO and StableHLO, as the Neuron stack writes it: base64 of JSON."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

import msgspec

from opennki.ir.types import KernelArtifact

__all__ = ["CALL_TARGET", "FORMAT", "call_config"]

CALL_TARGET = "AwsNeuronCustomNativeKernel"
"""The name of the custom call. Source: SDK 2.32, NCC_EHCA005."""

FORMAT = "opennki"


def call_config(artifact: KernelArtifact, digest: str, aliases: Mapping[int, int]) -> str:
    """Return the config of a call: the artifact by the SHA-256 of its `.nka` bytes, one grid entry.

    `aliases` are outputs by the number of the input that they are.
    """
    signature = artifact.signature
    fields = {
        "func_name": artifact.kernel,
        "kernel_format": FORMAT,
        "kernel_version": 1,
        "platform_target": artifact.target,
        "grid": [artifact.lnc],
        "klir_binary": {
            "binary": f"sha256:{digest}",
            "input_names": [tensor.name for tensor in signature.inputs],
            "output_names": [tensor.name for tensor in signature.outputs],
            "version_identifier": "",
        },
        "aliases": sorted([source, output] for source, output in aliases.items()),
        "has_collectives": False,
        "mac_count": 0,
    }
    return b64encode(msgspec.json.encode(fields)).decode()

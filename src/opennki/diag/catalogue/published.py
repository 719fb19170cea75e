"""Codes that the vendor's compiler publishes, with its spelling and meaning."""

from __future__ import annotations

from opennki.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="NCC_ENKI003",
        title="traced for more cores than the graph has",
        template=(
            "NKI kernel {kernel} was traced for {num_funcs} NeuronCores but the graph is compiled for "
            "LNC={lnc_count}; baking only core 0's function would silently produce a partial output."
        ),
        stage="bake",
        cause=(
            "The artifact holds a program for each of more NeuronCores than the graph's LNC degree has. "
            "Only core 0's could be baked, and what the others write would be missing from the output."
        ),
        fix=(
            "trace the kernel for LNC={lnc_count}: `export NEURON_LOGICAL_NC_CONFIG={lnc_count}`, or "
            "`{kernel}[{lnc_count}](…)`\n"
            "compile the graph for LNC={num_funcs}: `--lnc {num_funcs}`"
        ),
        source="seed/ncc_enki003",
        related=("NCC_EVRF066",),
    ),
    Entry(
        code="NCC_EVRF066",
        title="traced for fewer cores than the graph has",
        template=(
            "NKI kernel '{kernel}' is configured with LNC={kernel_lnc}, but neuronx-cc is using "
            "LNC={compiler_lnc}."
        ),
        stage="bake",
        cause=(
            "The kernel was traced for a lower LNC degree than the graph is compiled for, often because it "
            "is launched without a bracket (LNC=1) while trn2 and trn3 graphs default to LNC=2."
        ),
        fix=(
            "trace the kernel for LNC={compiler_lnc}: `export NEURON_LOGICAL_NC_CONFIG={compiler_lnc}`, or "
            "`{kernel}[{compiler_lnc}](…)`\n"
            "compile the graph for LNC={kernel_lnc}: `--lnc {kernel_lnc}`"
        ),
        source="compiler/error-codes/EVRF066 (SDK 2.33)",
    ),
    Entry(
        code="NCC_EARG001",
        title="degree that the target lacks",
        template="LNC={lnc} does not exist on {target}, which supports LNC={supported}",
        stage="launch",
        cause=(
            "The LNC degree asked for does not exist on the target: trn1 and inf2 have physical cores only "
            "(LNC=1), trn2 and trn3 group one or two of them (LNC=1 or 2)."
        ),
        fix="use LNC={supported} on {target}, or choose a target that has LNC={lnc}",
        source="compiler/error-codes/EARG001.rst",
    ),
    Entry(
        code="NCC_EVRF065",
        title="artifact of an older, incompatible format",
        template="NKI kernel '{kernel}' was traced with an unsupported NKI version.",
        stage="file",
        cause=(
            "The artifact was written in a format that is no longer read: the kernel was traced by an older "
            "version, and what this one needs is not in the file."
        ),
        fix="trace the kernel again with this version, and clear caches that keep the old artifact",
        source="compiler/error-codes/EVRF065.rst (2.32)",
    ),
    Entry(
        code="NCC_EVRF059",
        title="artifact that is not found",
        template=(
            "Kernel file '{path}' referenced by AwsNeuronCustomNativeKernel instruction does not exist on "
            "the host."
        ),
        stage="load",
        cause=(
            "A kernel call in a graph names its artifact and does not hold it. The file is not where the "
            "call says, nor beside the graph."
        ),
        fix=(
            "save the graph together with its artifacts\n"
            "put the file of the artifact beside the graph, under the name that the message gives"
        ),
        source="compiler/error-codes/EVRF059.rst (2.32)",
    ),
)

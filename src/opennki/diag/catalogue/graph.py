"""Family 6: graphs and frameworks."""

from __future__ import annotations

from opennki.diag.catalogue.entry import Entry
from opennki.diag.records import Severity

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="ONKI601",
        title="graph of a kind that comes later",
        template="`{graph}` is a graph of {kind}, which OpenNKI does not compile yet",
        stage="compile",
        cause="This version compiles artifacts, kernels and graphs of frameworks; HLO files come later.",
        fix="trace its kernels and compile their artifacts: `opennki trace`, then `opennki compile NAME.nka`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI602",
        title="no graph",
        template="`{graph}` is no graph to compile: {reason}",
        stage="compile",
        cause=(
            "A graph is an artifact, a list of artifacts, the path of a `.nka` or `.pt2` file, an exported "
            "program, or a kernel, a module or a function with examples of its arguments."
        ),
        fix="give an artifact or a kernel",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI603",
        title="tensors of two frameworks",
        template="kernel `{kernel}` is called with tensors of {first} and of {second}",
        stage="launch",
        cause=(
            "A kernel runs in the framework of its tensors, and what it writes in place is the caller's own "
            "tensor: of two frameworks neither can hold the other's."
        ),
        fix="convert them to one: `torch.from_numpy(x)`, `jnp.asarray(x)`, `np.asarray(x)`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI611",
        title="tensor that no kernel takes",
        template="argument `{argument}` of kernel `{kernel}` is {what}",
        stage="launch",
        cause=(
            "A kernel runs on the memory of its tensors. This one has no memory on the CPU with a stride for "
            "each axis, or has no axes, or is to be written where several of its elements share their memory."
        ),
        fix="pass a dense tensor on the CPU: `{argument}.cpu()`, `{argument}.to_dense()`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI612",
        title="kernel without a gradient",
        template="kernel `{kernel}` has no gradient but argument `{argument}` requires one",
        stage="launch",
        cause=(
            "PyTorch differentiates what it knows a formula for. A kernel has none of its own, so the "
            "gradient would be lost without a word."
        ),
        fix=(
            "give it a formula: `nki_op(…)` and `register_autograd`, or a `torch.autograd.Function`\n"
            "pass `{argument}.detach()`, or call the kernel under `torch.no_grad()`"
        ),
        source="OpenNKI",
    ),
    Entry(
        code="ONKI613",
        title="graph break",
        template="the compiled graph ends at {where}: {reason}",
        stage="compile",
        cause=(
            "`torch.compile` cannot follow a line of Python, so it compiles what stands before and behind it "
            "as graphs of their own. A kernel that is called in the gap takes the eager path, with LNC=1."
        ),
        fix="take the line out of the compiled function; `fullgraph=True` makes an error of it",
        source="OpenNKI",
        severity=Severity.warning,
    ),
    Entry(
        code="ONKI614",
        title="no exported program",
        template="`{file}` is no exported program that OpenNKI reads: {reason}",
        stage="file",
        cause=(
            "A `.pt2` file is a zip of PyTorch's with a graph in JSON and weights as raw bytes. This one is "
            "something else, is damaged, or holds what runs code when it is loaded."
        ),
        fix='export and save the model again: `torch.export.save(program, "model.pt2")`',
        source="OpenNKI",
    ),
    Entry(
        code="ONKI615",
        title="kernel that differs by target",
        template="{says}",
        stage="compile",
        cause=(
            "A kernel is traced again for the target of its graph. There it takes or gives other tensors "
            "than on the target that the graph was built for."
        ),
        fix="set the target before the graph is built: `export NEURON_PLATFORM_TARGET_OVERRIDE=…`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI616",
        title="inner degree that the vendor drops",
        template="`wrap_nki({kernel}[{degree}])` runs at LNC={degree} here and at LNC=1 with torch-neuronx",
        stage="launch",
        cause=(
            "The wrapper of torch-neuronx takes the degree from its own bracket. One inside of it is dropped "
            "there without a word; OpenNKI keeps it."
        ),
        fix="put the bracket on the wrapper: `wrap_nki({kernel})[{degree}]`",
        source="notes of users of torch-neuronx (nki-0.7 §7)",
        severity=Severity.warning,
    ),
)

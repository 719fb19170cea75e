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
        code="ONKI604",
        title="framework not installed",
        template="this graph is one of {framework}, which is not installed",
        stage="compile",
        cause="A framework's graph is read by the framework itself. OpenNKI has each as an extra.",
        fix="install {framework}, which is an extra of OpenNKI",
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
    Entry(
        code="ONKI620",
        title="kernel under vmap",
        template="kernel `{kernel}` is called under `jax.vmap`, which cannot add an axis to a kernel",
        stage="trace",
        cause="A kernel is a fixed program for the shapes of its trace; nothing says how to batch it.",
        fix="loop over the axis: `jax.lax.map({kernel}, xs)` instead of `jax.vmap({kernel})(xs)`\n"
        "or give the kernel the whole array and loop in it\n"
        "or give it a rule of your own: `jax.custom_batching.custom_vmap`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI621",
        title="kernel without derivative",
        template="kernel `{kernel}` is differentiated, and a kernel has no derivative of its own",
        stage="trace",
        cause="JAX cannot look into a kernel. Its gradient is another computation, often another kernel.",
        fix="wrap the call in `jax.custom_vjp` and define its forward and backward: docs/jax.md\n"
        "or cut it off from the gradient: `jax.lax.stop_gradient` around the arguments",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI622",
        title="symbolic shape",
        template="argument `{argument}` of kernel `{kernel}` has the size `{size}`, which is not known yet",
        stage="launch",
        cause="A kernel is traced for sizes in numbers; `jax.export` with symbolic shapes has none.",
        fix="export once for each size, with `jax.ShapeDtypeStruct` of numbers",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI623",
        title="written input not returned",
        template="kernel `{kernel}` writes its input `{argument}` and does not return it",
        stage="launch",
        cause=(
            "JAX's arrays never change, so what a kernel writes in place reaches the program only as a "
            "result. A part of the input is not enough: the rest could not be told from the old value."
        ),
        fix="return it whole from the kernel: `return {argument}`, beside its other outputs",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI624",
        title="traced number",
        template="argument `{argument}` of kernel `{kernel}` is a number that JAX is tracing",
        stage="launch",
        cause=(
            "A plain argument is known when the kernel is traced and becomes part of the program. "
            "Inside `jax.jit` a number that comes as an argument has no value yet."
        ),
        fix="make it static: `jax.jit(f, static_argnames=…)`\n"
        "or pass a tensor, `{argument}.reshape(1, 1)`, and have the kernel load it",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI625",
        title="64-bit elements",
        template="{tensor} of kernel `{kernel}` is {dtype}, and JAX runs with 32-bit elements",
        stage="launch",
        cause="Unless `jax_enable_x64` is set JAX cuts 64-bit elements to 32 bits, without a word.",
        fix='use 32 bits, `.astype("int32")`, or `jax.config.update("jax_enable_x64", True)` at the start',
        source="OpenNKI",
    ),
    Entry(
        code="ONKI626",
        title="executable of a function",
        template="the executable of `{function}`, a function of JAX, cannot be saved",
        stage="compile",
        cause="It holds JAX's own program beside the kernels, for which `.nkx` files have no form yet.",
        fix="save its kernels, `opennki.compile(artifact, …).save(…)`; compile the function in each process",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI627",
        title="outputs that depend on the graph",
        template="kernel `{kernel}` gives other outputs for {after} than for {before}, which JAX has traced",
        stage="compile",
        cause=(
            "A graph of JAX has its shapes before it has a target. A kernel is traced again for the target "
            "of its graph; then shapes and dtypes of its outputs must be the same."
        ),
        fix="set the target before the graph is traced: `export NEURON_PLATFORM_TARGET_OVERRIDE=…`",
        source="OpenNKI",
    ),
)

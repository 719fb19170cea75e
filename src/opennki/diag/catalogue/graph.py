"""Family 6: graphs and frameworks."""

from __future__ import annotations

from opennki.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="ONKI601",
        title="graph of a kind that comes later",
        template="`{graph}` is a graph of {kind}, which OpenNKI does not compile yet",
        stage="compile",
        cause="This version compiles artifacts and kernels; graphs of frameworks and HLO come later.",
        fix="trace its kernels and compile their artifacts: `opennki trace`, then `opennki compile NAME.nka`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI602",
        title="no graph",
        template="`{graph}` is no graph to compile: {reason}",
        stage="compile",
        cause=(
            "A graph is an artifact, a list of artifacts, the path of a `.nka` file, or a kernel with "
            "examples of its arguments."
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
)

"""Family 3: LNC and cores."""

from __future__ import annotations

from opennki.diag.catalogue.entry import Entry
from opennki.diag.records import Severity

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="ONKI301",
        title="two degrees for one kernel",
        template=(
            "kernel `{kernel}` is launched with LNC={bracket} by its bracket but {other} asks for "
            "LNC={option}"
        ),
        stage="launch",
        cause="The launch says its degree twice, and differently: a bracket and an option, or two brackets.",
        fix="drop one of the two",
        source="facts/constraints.csv KERNEL_LNC-05",
    ),
    Entry(
        code="ONKI302",
        title="artifact of another target",
        template="kernel `{kernel}` was traced for {traced} but the graph is compiled for {compiled}",
        stage="bake",
        cause=(
            "A kernel is traced for one generation of the hardware: engines, limits and legal dtypes "
            "differ. The graph is compiled for another one."
        ),
        fix=(
            "trace the kernel for {compiled}: `opennki trace … --target {compiled}`\n"
            "compile the graph for {traced}: `opennki compile … --target {traced}`"
        ),
        source="OpenNKI",
    ),
    Entry(
        code="ONKI303",
        title="call and artifact disagree",
        template="the call of `{kernel}` claims {claimed} programs but its artifact holds {held}",
        stage="bake",
        cause=(
            "What the kernel call in the graph claims about the number of programs is not what its "
            "artifact holds: one of the two was changed or is left over from an earlier trace."
        ),
        fix="trace the kernel again and rebuild the graph",
        source="seed/ncc_enki003, Common causes",
    ),
    Entry(
        code="ONKI304",
        title="another runtime degree",
        template="the executable was compiled for LNC={compiled} but the runtime is set to LNC={runtime}",
        stage="load",
        cause=(
            "The runtime groups the physical cores by another degree than the executable was compiled for, "
            "so its programs would run on the wrong cores."
        ),
        fix=(
            "run with LNC={compiled}: `export NEURON_LOGICAL_NC_CONFIG={compiled}`\n"
            "compile for LNC={runtime}: `--lnc {runtime}`"
        ),
        source="facts/constraints.csv KERNEL_LNC-08",
    ),
    Entry(
        code="ONKI305",
        title="outputs differ between cores",
        template="{says}",
        stage="trace end",
        cause=(
            "Every core must return the same tensors in the same structure. A return that depends on "
            "`nl.program_id` gives the caller no single result."
        ),
        fix="allocate the outputs before any branch on `nl.program_id`, and return them on every core",
        source="facts/constraints.csv KERNEL_LNC-03, KERNEL_LNC-04",
    ),
    Entry(
        code="ONKI306",
        title="shared tensor differs between cores",
        template="{says}",
        stage="trace end",
        cause=(
            "A shared HBM tensor is one buffer for both cores, so both must allocate it on the same line "
            "with the same shape and dtype. Here they depend on `nl.program_id`."
        ),
        fix="allocate the whole tensor on every core, and slice it by `nl.program_id` where it is used",
        source="facts/constraints.csv KERNEL_LNC-03, KERNEL_LNC-09",
    ),
    Entry(
        code="ONKI307",
        title="cores diverge",
        template="{says}",
        stage="trace end",
        cause=(
            "The programs of the two cores must have the same barriers and the same dynamic loops in the "
            "same order. A branch on `nl.program_id` around one of them sets the cores apart, and the "
            "device would wait for ever."
        ),
        fix="move barriers and dynamic loops out of branches on `nl.program_id`",
        source="facts/constraints.csv KERNEL_LNC-03",
    ),
    Entry(
        code="ONKI308",
        title="launch grid",
        template="the launch grid of `{kernel}` must hold one number, got `{grid}`",
        stage="launch",
        cause=(
            "The bracket of a launch holds one number, the LNC degree. Grids of several axes belong to NKI "
            "before 0.3."
        ),
        fix="write `{kernel}[2](…)`",
        source="facts/constraints.csv KERNEL_LNC-02",
    ),
    Entry(
        code="ONKI309",
        title="nested kernel with another degree",
        template="kernel `{kernel}[{inner}]` is called inside a kernel that runs at LNC={outer}",
        stage="trace",
        cause=(
            "A kernel that is called inside another one becomes part of it and runs at the outer degree, "
            "so a bracket that asks for another degree cannot be obeyed."
        ),
        fix="drop the inner bracket: call `{kernel}(…)`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI310",
        title="constant differs between cores",
        template="{says}",
        stage="trace end",
        cause=(
            "Both cores share the constants of `nl.shared_constant`. The array that a line gives depends on "
            "`nl.program_id` here."
        ),
        fix="make one constant that holds both parts, and slice it by `nl.program_id` where it is read",
        source="facts/constraints.csv KERNEL_LNC-09",
    ),
    Entry(
        code="ONKI311",
        title="trip counts differ between cores",
        template="{says}",
        stage="trace end",
        cause=(
            "The bound of a dynamic loop depends on the core. Both cores must have the same loops; whether "
            "they may turn differently often is not documented, and one report tells of a hung device."
        ),
        fix="give the loop one bound on every core, and leave out what a core has nothing to do for by data",
        source="facts/constraints.csv KERNEL_LNC-03",
        severity=Severity.warning,
    ),
)

"""Family 4: checks."""

from __future__ import annotations

from opennki.diag.catalogue.entry import Entry
from opennki.diag.records import Severity

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="ONKI401",
        title="elements never written",
        template="{says}",
        stage="check",
        cause=(
            "No instruction on any core writes these elements of an output, so they keep what the memory "
            "held before. Often the kernel splits its rows for two cores and was launched on one."
        ),
        fix=(
            "write every element of the output, or launch on as many cores as the split assumes: derive it "
            "from `nl.num_programs(0)`"
        ),
        source="OpenNKI",
    ),
    Entry(
        code="ONKI403",
        title="offset on a view of its own offset",
        template="{says}",
        stage="trace",
        cause=(
            "`.ap(offset=…)` is called on a view that does not start at its tensor's first element. The "
            "documents contradict each other: one counts the offset from the tensor's start, one from the "
            "view's. OpenNKI counts from the tensor's start."
        ),
        fix="call `.ap()` on the whole tensor and give the full offset",
        source="facts/constraints.csv AP-90",
        severity=Severity.warning,
    ),
    Entry(
        code="ONKI404",
        title="documents or hardware leave this open",
        template="{says}",
        stage="trace",
        cause="The vendor's documents contradict each other here, or say that the result is not exact.",
        fix="check on hardware",
        source="facts/constraints.csv",
        severity=Severity.warning,
    ),
    Entry(
        code="ONKI405",
        title="several cores write the same elements",
        template="{says}",
        stage="check",
        cause=(
            "The cores of the launch store the same elements of an output. A kernel that ignores "
            "`nl.program_id` does all of its work once on each core, which is legal and costs a core; where "
            "the shares of the cores overlap, whichever store comes last wins."
        ),
        fix="give each core a share of its own, worked out from `nl.program_id(0)` and `nl.num_programs(0)`",
        source="OpenNKI",
        severity=Severity.warning,
    ),
    Entry(
        code="ONKI406",
        title="output in too many pieces to check",
        template="`{tensor}` is stored in {pieces} pieces, of which a check can tell at most {most} apart",
        stage="check",
        cause=(
            "The check for elements never written keeps one byte for each piece of an output. Stores that "
            "start and end on rows or tiles make large pieces; stores that start anywhere make pieces of one "
            "element, and this output has too many of those."
        ),
        fix="check the kernel on a smaller shape, which it treats in the same way",
        source="OpenNKI",
        severity=Severity.warning,
    ),
    Entry(
        code="ONKI407",
        title="function that only a simulator runs",
        template="{says}",
        stage="trace",
        cause=(
            "The vendor's documents list the function, but its compiler has no hardware form of it, only its "
            "simulator runs it. OpenNKI makes it of several instructions."
        ),
        fix=(
            "write the remainder with instructions that the hardware has: multiply by the reciprocal, "
            "`nl.floor`, multiply, subtract"
        ),
        source="nki/migration (SDK 2.32), 0.3 and 0.4",
        severity=Severity.warning,
    ),
    Entry(
        code="ONKI408",
        title="print that a compiled kernel leaves out",
        template="{says}",
        stage="trace",
        cause=(
            "On the device, the runtime's debug stream carries what `nl.device_print` prints. OpenNKI prints "
            "while it simulates a kernel; a traced and compiled one runs without."
        ),
        fix="look at the values with `nki.simulate(kernel)(…)`, or return the tensor as an output",
        source="nki/api/nki/language/__init__.py:2660",
        severity=Severity.warning,
    ),
)

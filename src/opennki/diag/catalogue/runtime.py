"""Family 7: run time."""

from __future__ import annotations

from opennki.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="ONKI701",
        title="cores wait for ever",
        template="{says}",
        stage="run",
        cause=(
            "Every core has finished or waits, and no two waits match: one core stands at a barrier or an "
            "exchange that the other never reaches. On the device this hangs."
        ),
        fix="let every core reach the same barriers in the same order",
        source="facts/constraints.csv KERNEL_LNC-03",
    ),
    Entry(
        code="ONKI702",
        title="input does not fit",
        template="input `{name}` is {got}, the kernel was traced for {expected}",
        stage="run",
        cause=(
            "An executable is compiled for fixed shapes and dtypes. The array given for an input has "
            "another one."
        ),
        fix="pass {expected}, or trace and compile again for {got}",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI703",
        title="read-only input",
        template="input `{name}` is written by the kernel but the array is read-only",
        stage="run",
        cause=(
            "The kernel writes into this input in place, and NumPy marks the array as read-only, as "
            "broadcasts and memory-mapped files are."
        ),
        fix="pass a writable copy: `{name}.copy()`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI704",
        title="run-time index out of range",
        template=(
            "run-time index {value} of `{instruction}` leaves an axis of {extent}, legal are 0 to {last}"
        ),
        stage="run",
        cause="An index that the program read from a tile or a register points outside of the tensor.",
        fix=(
            "keep the index between 0 and {last}\n"
            "let a DMA leave out what such an index picks: `oob_mode=nisa.oob_mode.skip`"
        ),
        source="nki/api/nki/isa/__init__.py:265",
    ),
    Entry(
        code="ONKI705",
        title="memory of this machine",
        template=(
            "`{tensor}` needs {bytes} bytes beside {held} that the run holds, this machine has {limit} for it"
        ),
        stage="run",
        cause=(
            "The tensors of a run lie in this machine's memory, of which a run takes three quarters at most, "
            "shared by its cores. A tensor's memory is free again when nothing refers to the tensor: a loop "
            "that allocates and keeps what it allocates grows until it ends."
        ),
        fix=(
            "let the loop end, and let go of tensors that are done with\n"
            "run the kernel on smaller tensors: its tiles do the same work"
        ),
        source="OpenNKI",
    ),
)

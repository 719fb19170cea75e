"""Family 1: the front end."""

from __future__ import annotations

from opennki.diag.catalogue.entry import Entry
from opennki.diag.records import Severity

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="ONKI101",
        title="instruction argument of a wrong kind",
        template="`{instruction}` needs {expected} for `{role}`, got {got}",
        stage="trace",
        cause=(
            "An argument has a kind that the instruction does not take there: a number where a tile is "
            "due, a string where an enum is due, a NumPy array instead of a tensor of the kernel."
        ),
        fix="pass {expected} for `{role}`",
        source="nki/api/nki/isa/__init__.py",
        validation=True,
        type_error=True,
    ),
    Entry(
        code="ONKI102",
        title="not yet in OpenNKI",
        template="`{name}` is documented but not yet in OpenNKI",
        stage="trace",
        cause=(
            "The name is part of the documented NKI interface, but this version of OpenNKI has no "
            "definition of it."
        ),
        fix="write it with other instructions: `opennki isa` lists those that are defined",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI103",
        title="called outside of a kernel",
        template="`{name}` is called outside of a kernel",
        stage="trace",
        cause=(
            "Instructions, allocations and queries of the launch record into the kernel that is being "
            "traced or simulated. No kernel is running here."
        ),
        fix="call it in a function decorated with `@nki.jit`",
        source="nki/api/nki/__init__.py",
    ),
    Entry(
        code="ONKI104",
        title="argument that a direct call cannot take",
        template="kernel `{kernel}` cannot take {got} for `{argument}`",
        stage="launch",
        cause=(
            "A direct call runs the kernel, so each tensor argument must be a NumPy array. A spec has no "
            "data, and what the kernel writes into a copy of another library's array would be lost."
        ),
        fix="pass a NumPy array; a spec goes to `opennki.trace`",
        source="nki/api/nki/__init__.py",
    ),
    Entry(
        code="ONKI105",
        title="return value that is no output",
        template="kernel `{kernel}` returns {got}, which is no output",
        stage="trace end",
        cause=(
            "A kernel returns tensors in shared HBM, alone or nested in tuples, lists and dictionaries. A "
            "tile on the chip, a private tensor or a Python value cannot leave the kernel."
        ),
        fix=(
            "allocate the tensor with `buffer=nl.shared_hbm`, copy the tile into it with `nisa.dma_copy`, "
            "and return it"
        ),
        source="facts/constraints.csv GEN-35, GEN-36",
    ),
    Entry(
        code="ONKI106",
        title="no output",
        template="kernel `{kernel}` returns nothing and writes no input",
        stage="trace end",
        cause=(
            "The kernel neither returns a tensor nor writes one of its inputs, so nothing of what it "
            "computes could be seen."
        ),
        fix="return the `nl.shared_hbm` tensor that the kernel writes",
        source="facts/constraints.csv GEN-36",
    ),
    Entry(
        code="ONKI107",
        title="removed argument of nki.jit",
        template="`nki.jit({argument}=…)` is not supported",
        stage="decorate",
        cause=(
            "The argument was part of `nki.jit` before NKI 0.3. The target is now a matter of the launch, "
            "not of the kernel."
        ),
        fix=(
            "drop `{argument}` and set the target where the kernel is used: "
            '`NEURON_PLATFORM_TARGET_OVERRIDE=trn2`, `target="trn2"` or `--target trn2`'
        ),
        source="nki/migration (SDK 2.32), 0.3",
    ),
    Entry(
        code="ONKI108",
        title="name used twice",
        template="the name `{name}` is used for two {what} of one core",
        stage="trace",
        cause=(
            "A name given with `name=` identifies a tensor or an instruction on every core, so it may "
            "occur once a core."
        ),
        fix='give each its own name, in a loop for instance `name=f"{name}_{{i}}"`',
        source="nki/api/nki/language/__init__.py",
    ),
    Entry(
        code="ONKI109",
        title="tensor of another launch",
        template="tensor `{tensor}` belongs to another launch",
        stage="trace",
        cause=(
            "A tensor lives as long as the launch that made it. This one was kept, in a global or a "
            "default argument, and used in a later launch or on the other core."
        ),
        fix="allocate `{tensor}` in the kernel, or return its value from one launch and pass it to the next",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI110",
        title="kernel that raises",
        template="kernel `{kernel}` raised {raised}",
        stage="trace",
        cause=(
            "A kernel is a Python function that runs once a core while it is traced. Its own code raised an "
            "exception. Python gets that exception unchanged; the command line and `check` report this code."
        ),
        fix="correct the line, or call the kernel with arguments that it takes",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI111",
        title="run-time value where Python needs one",
        template="{what} is not possible in a kernel",
        stage="trace",
        cause=(
            "A tensor, register or scalar gets its value when the program runs; Python runs before that. A "
            "scalar has only the documented arithmetic, a tensor has none: instructions compute."
        ),
        fix=(
            "use `nl.fori_loop` or `nl.while_loop` for a loop, `nisa.tensor_copy_predicated` for a choice\n"
            "pass it as `scalar_offset` to index a tensor"
        ),
        source="nki/deep-dives/nki-dynamic-loops.rst",
        type_error=True,
    ),
    Entry(
        code="ONKI112",
        title="dynamic loop that cannot be recorded",
        template="{what} cannot be recorded",
        stage="trace",
        cause=(
            "The body of a dynamic loop is recorded once and turns on the device, so Python cannot leave it."
        ),
        fix=(
            "let the loop end by its bound or by its register\n"
            "write `nl.fori_loop` or `nl.while_loop` with a function as body"
        ),
        source="nki/deep-dives/nki-dynamic-loops.rst",
    ),
    Entry(
        code="ONKI113",
        title="tensor that outlives its loop",
        template="`{tensor}` is allocated in a dynamic loop's body and used after the loop",
        stage="trace",
        cause="A tensor that the body allocates is a fresh one in each turn and ends with it.",
        fix="allocate `{tensor}` before the loop and write it in the body",
        source="nki/deep-dives/nki-dynamic-loops.rst",
    ),
    Entry(
        code="ONKI114",
        title="loop body with a wrong return value",
        template="the body of `{loop}` returns {got}, it must return {expected}",
        stage="trace",
        cause=(
            "The body of `nl.fori_loop` returns nothing; that of `nl.while_loop` returns the register that "
            "is tested next."
        ),
        fix="return {expected}, and keep what the next turn needs in SBUF or HBM",
        source="nki/deep-dives/nki-dynamic-loops.rst",
    ),
    Entry(
        code="ONKI115",
        title="construct that NKI 0.7 no longer has",
        template="{what} is gone in NKI 0.7, replaced by `{instead}`",
        stage="trace",
        cause="The vendor's tracer of NKI 0.7 refuses this construct; OpenNKI still takes it.",
        fix="write the loop's body as a function and call `{instead}`",
        source="nki/deep-dives/nki-dynamic-loops.rst",
        severity=Severity.warning,
    ),
    Entry(
        code="ONKI116",
        title="dependency across a loop's edge",
        template="`depends_on` cannot name an instruction of a dynamic loop from outside of its body",
        stage="trace",
        cause=(
            "A dependency is a semaphore that the device waits for. That of an instruction in a loop's body "
            "is signalled in every turn, or never if the loop makes none, so a wait elsewhere may hang."
        ),
        fix=(
            "depend on an instruction of the same body or of what encloses it\n"
            "leave `depends_on` out where the order follows from the data"
        ),
        source="nki/deep-dives/nki-dynamic-loops.rst",
        validation=True,
    ),
)

"""Family 2: memory and shapes. A row's check takes its code by kind of rule."""

from __future__ import annotations

from opennki.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="ONKI201",
        title="memory space",
        template="{says}",
        stage="trace",
        cause=(
            "An operand lies in a memory that the instruction or the engine does not reach: the tensor "
            "engine reads SBUF and writes PSUM, GpSimd has no port to PSUM, DMA moves between HBM and SBUF."
        ),
        fix=(
            "move the data first: `nisa.dma_copy` between HBM and SBUF, `nisa.tensor_copy` between PSUM "
            "and SBUF"
        ),
        source="facts/constraints.csv GEN-14, GEN-15, DMA_COPY-02, NC_MATMUL-01",
        validation=True,
    ),
    Entry(
        code="ONKI202",
        title="dtype",
        template="{says}",
        stage="trace",
        cause=(
            "An operand has a dtype that the instruction does not take, or dtypes that may not be "
            "combined: bitwise operators need integers, transposes keep the dtype, products accumulate in "
            "float32 before trn3."
        ),
        fix="allocate the tile with a dtype that the instruction takes, and convert with `nisa.tensor_copy`",
        source=(
            "facts/constraints.csv GEN-24, NC_MATMUL-02 to NC_MATMUL-05, TENSOR_TENSOR-03, NC_TRANSPOSE-02"
        ),
        validation=True,
    ),
    Entry(
        code="ONKI203",
        title="partitions",
        template="{says}",
        stage="trace",
        cause=(
            "SBUF and PSUM have 128 partitions, and an engine starts at partition 0, 32, 64 or 96, "
            "depending on how many partitions it touches. The tile has more, or starts elsewhere."
        ),
        fix="split the tile along its partition axis: `for i in range(0, rows, 128): … [i:i + 128]`",
        source="facts/constraints.csv GEN-01, GEN-02, GEN-06 to GEN-08",
        validation=True,
    ),
    Entry(
        code="ONKI204",
        title="free size",
        template="{says}",
        stage="trace",
        cause=(
            "The free axes of an operand hold more elements than the instruction or the memory takes at "
            "once: 512 float32 in a PSUM bank, 128 columns of a stationary and 512 of a moving matrix."
        ),
        fix="split the tile along its free axes and issue one instruction for each part",
        source="facts/constraints.csv GEN-03, GEN-04, GEN-13, NC_MATMUL-08, NC_MATMUL-09",
        validation=True,
    ),
    Entry(
        code="ONKI205",
        title="shapes disagree",
        template="{says}",
        stage="trace",
        cause=(
            "Operands that are worked through together have different partition counts or different "
            "numbers of elements per partition. Instructions do not broadcast."
        ),
        fix="give the operands one shape: slice the larger, or broadcast the smaller with a view",
        source=(
            "facts/constraints.csv DMA_COPY-01, TENSOR_TENSOR-01, TENSOR_COPY-01, NC_MATMUL-06, NC_MATMUL-11"
        ),
        validation=True,
    ),
    Entry(
        code="ONKI206",
        title="option",
        template="{says}",
        stage="trace",
        cause="An option has a value that the instruction does not take, or two options exclude each other.",
        fix="use one of the values that the message names",
        source="facts/constraints.csv NC_MATMUL-16 to NC_MATMUL-20, TENSOR_SCALAR-03, DMA_COPY-07",
        validation=True,
    ),
    Entry(
        code="ONKI207",
        title="not on this target",
        template="{says}",
        stage="trace",
        cause=(
            "The instruction, or this use of it, came with a later generation of the hardware than the "
            "target is."
        ),
        fix="trace for a target that has it, or take the way round that the message names",
        source="facts/hardware.toml instruction_min_gen; facts/constraints.csv CORE_BARRIER-01, NC_MATMUL-13",
        validation=True,
    ),
    Entry(
        code="ONKI208",
        title="index out of range",
        template="{says}",
        stage="trace",
        cause=(
            "A slice or an index reaches past the end of its axis. Slices of tensors do not clamp as "
            "NumPy's do, since a shorter tile would leave the rest of the destination unwritten."
        ),
        fix="shorten the last tile: `rows = min(128, x.shape[0] - i * 128)`",
        source="nki/get-started/nki-language-guide.rst",
        validation=True,
    ),
    Entry(
        code="ONKI209",
        title="view that is not contiguous",
        template="{says}",
        stage="trace",
        cause=(
            "A view over gaps has no other shape over the same bytes, so it can be neither reshaped nor "
            "read as another dtype."
        ),
        fix="copy the window into an SBUF tile first, then reshape the tile",
        source="nki/deep-dives/nki-aps.rst",
        validation=True,
    ),
    Entry(
        code="ONKI210",
        title="view operation",
        template="{says}",
        stage="trace",
        cause=(
            "A view method was called with arguments that give no legal access pattern: an axis that does "
            "not exist, a step on the partition axis, a fifth free dimension, a second dynamic select, an "
            "index that does not hold the offsets, an operand that takes no such view."
        ),
        fix=(
            "keep to the documented constraints of the method: at most 4 free dimensions, no stride on the "
            "partition axis"
        ),
        source="facts/constraints.csv GEN-05, GEN-09, GEN-10, GEN-28 to GEN-33",
        validation=True,
    ),
    Entry(
        code="ONKI211",
        title="address outside of the memory",
        template="{says}",
        stage="trace",
        cause=(
            "A tile placed by hand with `address=` ends beyond the last byte of its partition or beyond "
            "the last partition, or is not aligned as its memory wants."
        ),
        fix="place the tile lower, or drop `address=` and let the toolchain place it",
        source=(
            "facts/hardware.toml sbuf_bytes_per_partition, psum_bytes_per_partition; facts/constraints.csv "
            "GEN-37"
        ),
        validation=True,
    ),
    Entry(
        code="ONKI212",
        title="allocation",
        template="{says}",
        stage="trace",
        cause=(
            "A tensor was asked for with a shape that cannot exist: no axis, an extent that is not a "
            "positive integer, more than 128 partitions on the chip, or more bytes per partition than the "
            "memory has."
        ),
        fix="allocate tiles of at most 128 partitions and loop over them",
        source="facts/constraints.csv GEN-01, GEN-02, GEN-40",
        validation=True,
    ),
    Entry(
        code="ONKI213",
        title="element count",
        template="{says}",
        stage="trace",
        cause="`reshape` arranges the same elements anew. The two shapes hold different numbers of them.",
        fix="choose a shape with as many elements as the tensor has",
        source="facts/constraints.csv GEN-34",
        validation=True,
    ),
    Entry(
        code="ONKI214",
        title="dtype that the hardware lacks",
        template="{says}",
        stage="launch",
        cause=(
            "The array has a dtype that no engine and no memory of a NeuronCore knows: float64, complex, "
            "strings, objects. NumPy makes float64 by default."
        ),
        fix="convert with `.astype(np.float32)` first",
        source="nki/api/nki.api.shared.rst, Supported Data Types",
    ),
)

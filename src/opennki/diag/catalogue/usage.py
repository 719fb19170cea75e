"""Family 0: the call itself is wrong; exit status 2."""

from __future__ import annotations

from opennki.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="ONKI001",
        title="degree that is no positive integer",
        template="the LNC degree must be a positive integer, got `{value}` from {origin}",
        stage="usage",
        cause=(
            "An LNC degree was given as something other than an integer of at least 1, in a bracket, an "
            "option, a compiler flag or an environment variable."
        ),
        fix="give 1 or 2, or leave it out",
        source="nki/get-started/about/lnc.rst:44",
    ),
    Entry(
        code="ONKI002",
        title="unknown target",
        template="unknown target `{value}` from {origin}",
        stage="usage",
        cause="A target was named, by option or environment variable, that is none of the documented ones.",
        fix="use one of trn1, inf2, trn2, trn3, gen2, gen3, gen4",
        source="nki.jit (SDK 2.33), NEURON_PLATFORM_TARGET_OVERRIDE",
    ),
    Entry(
        code="ONKI003",
        title="malformed tensor spec",
        template="`{text}` is no tensor spec",
        stage="usage",
        cause=(
            "A tensor spec is a dtype that NKI has and, in brackets, a shape of positive integers. The "
            "text is something else."
        ),
        fix="write a dtype and a shape: `float32[512,64]`, on the command line `name=float32[512,64]`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI004",
        title="no such kernel",
        template="`{file}` has no kernel `{name}`",
        stage="usage",
        cause=(
            "The file or module was read, but it has no function decorated with `@nki.jit` of that name, "
            "or it has several and no name was given."
        ),
        fix="name a function decorated with `@nki.jit`: `{file}:<kernel>`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI005",
        title="file cannot be read",
        template="cannot read `{file}`: {reason}",
        stage="usage",
        cause="The file does not exist, is a folder, or may not be read by this user.",
        fix="check the path and its permissions: `ls -l {file}`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI006",
        title="wrong arguments",
        template="{problem}",
        stage="usage",
        cause=(
            "The number or the names of the arguments do not fit the signature of the kernel or of the "
            "executable, or options of the command line contradict each other."
        ),
        fix="compare the call with the signature of the kernel: `opennki inspect` prints it",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI007",
        title="unknown code",
        template="no diagnostic has the code `{asked}`",
        stage="usage",
        cause="The code is misspelt, or it is one of the vendor's that OpenNKI never raises.",
        fix="list all codes with `opennki explain`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI008",
        title="environment variable that cannot be read",
        template="cannot read {variable}=`{value}`: {reason}",
        stage="usage",
        cause=(
            "A variable that OpenNKI reads has a value outside the documented ones, or NEURON_CC_FLAGS has a "
            "quotation mark that is never closed."
        ),
        fix="correct {variable}, or `unset {variable}`; `opennki doctor` lists all variables",
        source="nki.jit (SDK 2.33) and the simulator guide; OPENNKI_KERNEL_LNC: OpenNKI",
    ),
    Entry(
        code="ONKI009",
        title="kernel file that raises",
        template="`{file}` raised {raised}",
        stage="usage",
        cause=(
            "A kernel file is run as a Python module before a kernel is taken from it. Its own code, or a "
            "module that it imports, raised an exception, or it is no Python."
        ),
        fix="run `python {file}` and correct what it reports",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI010",
        title="package of an extra missing",
        template="{what} needs `{package}` of the extra `{extra}`, which is not installed",
        stage="usage",
        cause=(
            "OpenNKI itself needs few packages. What only some uses need comes with an extra of its own, "
            "and this one is not installed."
        ),
        fix="install it: `pip install 'opennki[{extra}]'`",
        source="OpenNKI",
    ),
)

"""Family 5: artifacts and cache."""

from __future__ import annotations

from opennki.diag.catalogue.entry import Entry
from opennki.diag.records import Severity

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="ONKI501",
        title="not an OpenNKI file",
        template="`{file}` is no OpenNKI {kind}: {reason}",
        stage="file",
        cause=(
            "The file is no artifact (`.nka`) or executable (`.nkx`), or it is one where the other is needed."
        ),
        fix="make the file with `opennki trace` (`.nka`) or `opennki compile` (`.nkx`)",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI502",
        title="damaged file",
        template="`{file}` is damaged: {reason}",
        stage="file",
        cause=(
            "The file's content is not what was written: it is cut short, a digest differs, or a table "
            "holds what no trace produces."
        ),
        fix="copy the file again, or trace and compile again",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI503",
        title="newer format",
        template="`{file}` has format {found}, this OpenNKI reads up to {known}",
        stage="file",
        cause="The file was written by a later version of OpenNKI, whose format this version does not know.",
        fix="upgrade: `pip install --upgrade opennki`, or trace and compile again with this version",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI504",
        title="file cannot be written",
        template="cannot write `{file}`: {reason}",
        stage="file",
        cause=(
            "The destination's folder does not exist, may not be written by this user, or the disk is full."
        ),
        fix="choose a folder that exists and can be written",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI505",
        title="malformed IR text",
        template="malformed IR text at line {line}, column {column}: {reason}",
        stage="file",
        cause="The text is not in the form that `opennki inspect` prints, or it contradicts itself.",
        fix="mend the line, or print the artifact again with `opennki inspect`",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI506",
        title="kernel that cannot be cached",
        template="kernel `{kernel}` is traced at each call: {reason}",
        stage="trace",
        severity=Severity.warning,
        cause=(
            "A trace is kept for as long as everything that the kernel can reach is unchanged. Something "
            "that it reaches cannot be compared: it keeps its state out of sight, comes from outside of the "
            "program, or changes while the kernel is traced."
        ),
        fix="pass what the kernel needs as an argument, or keep it in globals as plain values",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI507",
        title="damaged cache entry",
        template="the cache entry of kernel `{kernel}` was damaged and is removed: {reason}",
        stage="trace",
        severity=Severity.warning,
        cause=(
            "An entry of the cache is not what was written, after a crash of the machine or an edit. The "
            "kernel was traced again, so the result is right."
        ),
        fix="nothing needs to be done; if it happens again, look after the disk",
        source="OpenNKI",
    ),
    Entry(
        code="ONKI508",
        title="cache folder that cannot be used",
        template="the cache folder `{folder}` cannot be used: {reason}",
        stage="trace",
        severity=Severity.warning,
        cause=(
            "The folder of the cache may not be written by this user, is no folder, or its disk is full. "
            "Kernels are traced in each process."
        ),
        fix="set OPENNKI_CACHE_DIR to a folder that can be written, or OPENNKI_CACHE_LIMIT=0 to do without",
        source="OpenNKI",
    ),
)

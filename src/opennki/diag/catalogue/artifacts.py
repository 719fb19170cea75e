"""Family 5: artifacts and cache."""

from __future__ import annotations

from opennki.diag.catalogue.entry import Entry

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
)

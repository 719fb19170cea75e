"""The four forms of a diagnostic: text, JSON, GitHub workflow commands, SARIF."""

from __future__ import annotations

import json
import unicodedata
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opennki.diag import Diagnostic, Label, Location, OpenNkiError, Severity
from opennki.diag.render import Form, render, render_github, render_json, render_sarif, render_text, to_dict
from tests.golden_file import Golden


def place(
    text: str, marked: str, *, file: str = "model.py", line: int = 31, function: str = "main"
) -> Location:
    """Return the location of `marked` in the source line `text`."""
    column = text.index(marked)
    return Location(file, line, line, column, column + len(marked), function, text)


CALL = place("    y = add_one(x)", "add_one")

MISMATCH = Diagnostic(
    code="NCC_EVRF066",
    severity=Severity.error,
    message="NKI kernel 'add_one' is configured with LNC=1, but neuronx-cc is using LNC=2.",
    labels=(Label(CALL, "launched without brackets, so LNC=1 (default)"),),
    notes=("LNC=2 comes from the default of trn2",),
    help=("launch `add_one[2](x)`, or compile the graph with `--lnc 1`",),
)

TRANSFER = Diagnostic(
    code="ONKI205",
    severity=Severity.error,
    message="`dma_copy` has 65536 elements in `src` but 32768 in `dst`",
    labels=(
        Label(place("    nisa.dma_copy(dst=t, src=a)", "dst=t", file="k.py", line=9), "float32[128, 256]"),
        Label(place("    nisa.dma_copy(dst=t, src=a)", "src=a", file="k.py", line=9), "float32[128, 512]"),
        Label(place("    t = nl.ndarray((128, 256))", "nl.ndarray", file="k.py", line=7), "allocated here"),
        Label(place("def load(a):", "load", file="shapes.py", line=2)),
    ),
    callers=(
        place("    load(a)", "load(a)", file="k.py", line=12, function="helper"),
        place("helper(x)", "helper(x)", file="k.py", line=20, function="kernel"),
    ),
    notes=("`src` is 128 x 512\n`dst` is 128 x 256",),
    help=("slice `src`", "widen `dst`"),
    related=("NCC_EVRF064", "NCC_IBIR243"),
    rule="DMA_COPY-01",
    core=1,
    data={"elements": (65536, np.int64(32768))},
)

HINT = Diagnostic(code="ONKI403", severity=Severity.warning, message="`.ap(offset=0)` on a view at column 4")


def test_text_is_the_shape_that_the_style_shows() -> None:
    assert render_text([MISMATCH]) == (
        "error[NCC_EVRF066]: NKI kernel 'add_one' is configured with LNC=1, but neuronx-cc is using LNC=2.\n"
        "  model.py:31:9\n"
        "      y = add_one(x)\n"
        "          ^^^^^^^ launched without brackets, so LNC=1 (default)\n"
        "  note: LNC=2 comes from the default of trn2\n"
        "  help: launch `add_one[2](x)`, or compile the graph with `--lnc 1`\n"
        "  more: opennki explain NCC_EVRF066"
    )


def test_text_of_everything(golden: Golden) -> None:
    golden(render_text([TRANSFER, MISMATCH, HINT]))


def test_text_of_nothing_is_empty() -> None:
    assert render_text([]) == ""


def test_one_diagnostic_is_not_counted() -> None:
    assert render_text([HINT]) == (
        "warning[ONKI403]: `.ap(offset=0)` on a view at column 4\n  more: opennki explain ONKI403"
    )


@pytest.mark.parametrize(
    ("severities", "line"),
    [
        (["error", "error", "warning"], "2 errors, 1 warning"),
        (["error", "hint"], "1 error, 1 hint"),
        (["warning", "warning"], "2 warnings"),
    ],
)
def test_several_are_set_apart_and_counted(severities: list[str], line: str) -> None:
    found = [Diagnostic(code="ONKI401", severity=Severity(s), message="m") for s in severities]
    blocks = render_text(found).split("\n\n")
    assert blocks[:-1] == [f"{s}[ONKI401]: m\n  more: opennki explain ONKI401" for s in severities]
    assert blocks[-1] == line


def test_the_exception_prints_as_text() -> None:
    assert str(OpenNkiError(MISMATCH)) == render_text([MISMATCH])


def carets(location: Location, label: str = "") -> list[str]:
    """Return the source line and the caret line of a diagnostic at `location`."""
    diagnostic = Diagnostic(
        code="ONKI401", severity=Severity.error, message="m", labels=(Label(location, label),)
    )
    return render_text([diagnostic]).split("\n")[2:-1]


def columns(text: str) -> int:
    """Count terminal columns by another rule than the renderer's, good for the characters of these tests."""
    return sum(0 if unicodedata.combining(c) else 2 if ord(c) >= 0x1100 else 1 for c in text)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("    f(x)", "f"),
        ("\tf(x, y)", "y"),
        ("\tname\t=\tf(x)", "f(x)"),
        ('    f("日本語", x)', "x"),
        ('    f("日本語", x)', '"日本語"'),
        ("    résumé = f(x)", "f(x)"),
        ("    e\N{COMBINING ACUTE ACCENT}te\N{COMBINING ACUTE ACCENT} = f(x)", "f(x)"),
        ('    f("\N{GRINNING FACE}", x)', "x"),
        ("    # \N{BELL} f(x)", "f(x)"),
    ],
)
def test_the_caret_stands_under_what_it_marks(text: str, marked: str) -> None:
    source, run = carets(place(text, marked))
    shown = marked.replace("\t", "    ")
    assert columns(source[: source.index(shown)]) == len(run) - len(run.lstrip())
    assert run.strip() == "^" * columns(shown)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (Location("k.py", 3, 5, 4, 2, "f", "    y = f(x,"), ["      y = f(x,", "      ^^^^^^^^"]),
        (Location("k.py", 3, 3, 8, 8, "f", "    y = f(x)"), ["      y = f(x)", "          ^"]),
        (Location("k.py", 3, 3, 8, 90, "f", "    y = f(x)"), ["      y = f(x)", "          ^^^^"]),
        (Location("k.py", 3, 3, 90, 95, "f", "    y = f(x)"), ["      y = f(x)", "              ^"]),
        (Location("k.py", 3, 3, 0, 12, "f", "    y = f(x)"), ["      y = f(x)", "      ^^^^^^^^"]),
        (Location("k.py", 3, 3, 0, 0, "f", "    y = f(x)"), ["      y = f(x)", "      ^^^^^^^^"]),
        (Location("k.py", 3, 3, 4, 9, "f", ""), []),
    ],
    ids=[
        "several lines",
        "empty span",
        "past the end",
        "behind the end",
        "with indent",
        "no columns",
        "no source",
    ],
)
def test_spans(location: Location, expected: list[str]) -> None:
    assert carets(location) == expected


@pytest.mark.parametrize(
    ("location", "position"),
    [
        (Location("k.py", 3, 3, 8, 9, "f", ""), "k.py:3:9"),
        (Location("k.py", 3, 3, 0, 4, "f", ""), "k.py:3:1"),
        (Location("k.py", 3, 3, 0, 0, "f", ""), "k.py:3"),
        (Location("k.py", 0, 0, 0, 0, "f", ""), "k.py"),
    ],
)
def test_positions_say_what_is_known(location: Location, position: str) -> None:
    diagnostic = Diagnostic(
        code="ONKI401", severity=Severity.error, message="m", labels=(Label(location, "here"),)
    )
    assert render_text([diagnostic]).split("\n")[1:-1] == [f"  {position}", "      here"]


def test_foreign_text_cannot_break_the_form() -> None:
    diagnostic = Diagnostic(
        code="ONKI501",
        severity=Severity.error,
        message="`a\nb\x1b[31m\udcff\u2028` is no OpenNKI artifact",
        labels=(Label(Location("a\nb.py", 1, 1, 0, 1, "f", "x")),),
    )
    first, second, *_ = render_text([diagnostic]).split("\n")
    assert first == r"error[ONKI501]: `a\nb\x1b[31m\udcff\u2028` is no OpenNKI artifact"
    assert second == r"  a\nb.py:1:1"


def test_colour_adds_escapes_and_nothing_else() -> None:
    coloured = render_text([TRANSFER, MISMATCH, HINT], color=True)
    assert coloured.startswith("\x1b[1;31merror[ONKI205]\x1b[0m: ")
    assert "\x1b[1;33mwarning[ONKI403]\x1b[0m: " in coloured
    plain = coloured
    for escape in ("\x1b[1;31m", "\x1b[1;33m", "\x1b[1m", "\x1b[0m"):
        plain = plain.replace(escape, "")
    assert plain == render_text([TRANSFER, MISMATCH, HINT])


def test_json_has_the_designed_keys() -> None:
    document = json.loads(render_json([MISMATCH]))
    assert document == {
        "schema": 1,
        "findings": [
            {
                "code": "NCC_EVRF066",
                "severity": "error",
                "message": MISMATCH.message,
                "rule": None,
                "location": {
                    "file": "model.py",
                    "line": 31,
                    "column": 9,
                    "end_line": 31,
                    "end_column": 16,
                    "function": "main",
                    "text": "    y = add_one(x)",
                    "label": "launched without brackets, so LNC=1 (default)",
                },
                "notes": list(MISMATCH.notes),
                "help": list(MISMATCH.help),
                "related": [],
                "data": {},
            }
        ],
    }


def test_json_carries_further_places_callers_and_core() -> None:
    finding = json.loads(render_json([TRANSFER]))["findings"][0]
    assert [label["label"] for label in finding["labels"]] == ["float32[128, 512]", "allocated here", ""]
    assert [(c["function"], c["line"]) for c in finding["callers"]] == [("helper", 12), ("kernel", 20)]
    assert finding["core"] == 1
    assert finding["rule"] == "DMA_COPY-01"
    assert finding["data"] == {"elements": [65536, 32768]}


def test_a_place_without_a_line_has_no_numbers() -> None:
    nowhere = Location("k.py", 0, 0, 0, 0, "f", "")
    diagnostic = Diagnostic(
        code="ONKI401", severity=Severity.error, message="m", labels=(Label(nowhere, "t"),)
    )
    assert to_dict(diagnostic)["location"] == {"file": "k.py", "function": "f", "label": "t"}


class Colour(Enum):
    red = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(2**40), 2**40),
        (np.bool_(True), True),
        (True, True),
        (ml_dtypes.bfloat16(1.5), 1.5),
        (np.array([[1, 2], [3, 4]], np.int8), [[1, 2], [3, 4]]),
        (np.dtype("float32"), "float32"),
        (float("nan"), "NaN"),
        (np.float32("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (-0.0, -0.0),
        ((1, (2, "a")), [1, [2, "a"]]),
        ({3, 1, 2}, [1, 2, 3]),
        ({"b": 1, 2: Colour.red}, {"b": 1, "2": "red"}),
        (Severity.hint, "hint"),
        (b"\x00\xff", "00ff"),
        (PurePosixPath("a/b"), "a/b"),
        (CALL, {**{f: getattr(CALL, f) for f in CALL.__struct_fields__}}),
        (1 + 2j, "(1+2j)"),
        (None, None),
    ],
    ids=repr,
)
def test_data_is_made_json_safe(value: Any, expected: Any) -> None:
    diagnostic = Diagnostic(code="ONKI401", severity=Severity.error, message="m", data={"value": value})
    got = json.loads(render_json([diagnostic]))["findings"][0]["data"]["value"]
    assert got == expected
    assert type(got) is type(expected)


def test_json_holds_no_addresses() -> None:
    first, second = (
        render_json([Diagnostic(code="ONKI401", severity=Severity.error, message="m", data={"v": object()})])
        for _ in range(2)
    )
    assert first == second
    assert json.loads(first)["findings"][0]["data"] == {"v": "<object object>"}


def test_github_commands() -> None:
    assert render_github([MISMATCH, HINT]) == (
        "::error file=model.py,line=31,col=9,title=NCC_EVRF066::"
        "NKI kernel 'add_one' is configured with LNC=1, but neuronx-cc is using LNC=2."
        "%0Alaunched without brackets, so LNC=1 (default)"
        "%0Anote: LNC=2 comes from the default of trn2"
        "%0Ahelp: launch `add_one[2](x)`, or compile the graph with `--lnc 1`\n"
        "::warning title=ONKI403::`.ap(offset=0)` on a view at column 4"
    )


def test_github_escapes() -> None:
    diagnostic = Diagnostic(
        code="ONKI401",
        severity=Severity.hint,
        message="50% of `a`,\r\n::error::b",
        labels=(Label(Location("a,b:c%.py", 0, 0, 0, 0, "f", "")),),
    )
    assert render_github([diagnostic]) == (
        "::notice file=a%2Cb%3Ac%25.py,title=ONKI401::50%25 of `a`,%0D%0A::error::b"
    )


def test_sarif() -> None:
    document = json.loads(render_sarif([TRANSFER, MISMATCH, HINT, MISMATCH]))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["NCC_EVRF066", "ONKI205", "ONKI403"]
    assert [rule["defaultConfiguration"]["level"] for rule in rules] == ["error", "error", "warning"]
    assert [result["ruleId"] for result in run["results"]] == [
        "ONKI205",
        "NCC_EVRF066",
        "ONKI403",
        "NCC_EVRF066",
    ]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    transfer, mismatch, hint, _ = run["results"]
    assert mismatch["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "model.py"},
                "region": {"startLine": 31, "startColumn": 9, "endLine": 31, "endColumn": 16},
            }
        }
    ]
    assert [place.get("message", {}).get("text") for place in transfer["relatedLocations"]] == [
        "float32[128, 512]",
        "allocated here",
        None,
        "called from here, in `helper`",
        "called from here, in `kernel`",
    ]
    assert transfer["properties"]["rule"] == "DMA_COPY-01"
    assert hint["level"] == "warning"
    assert "locations" not in hint


def test_sarif_file_names_are_uris() -> None:
    odd = Location("my kernels\\k#1.py", 4, 4, 0, 0, "f", "")
    diagnostic = Diagnostic(code="ONKI401", severity=Severity.error, message="m", labels=(Label(odd),))
    (result,) = json.loads(render_sarif([diagnostic]))["runs"][0]["results"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "my%20kernels/k%231.py"
    assert physical["region"] == {"startLine": 4, "startColumn": 1}


@pytest.mark.parametrize(
    ("form", "function"),
    [("text", render_text), ("json", render_json), ("github", render_github), ("sarif", render_sarif)],
)
def test_render_chooses_the_form(form: Form, function: Any) -> None:
    assert render(iter([TRANSFER, MISMATCH]), form) == function([TRANSFER, MISMATCH])

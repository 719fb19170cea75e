"""The catalogue is whole: each entry says why and what to do, each code has its page and is raised."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from inspect import signature
from string import Formatter

import pytest

import opennki.diag.catalogue as catalogue
from opennki.diag import CATALOGUE, Entry, InternalError, OpenNkiUsageError, diagnostic
from opennki.diag.explain import codes_table, explain, page_path
from tests.house.sources import PACKAGE, package_sources

FAMILIES = {
    "usage": "0",
    "frontend": "1",
    "memory": "2",
    "lnc": "3",
    "checks": "4",
    "artifacts": "5",
    "graph": "6",
    "runtime": "7",
}
"""The module of each family of ours and its digit; published codes are in `published`."""

PUBLISHED = {
    "NCC_ENKI003": (
        "NKI kernel {kernel} was traced for {num_funcs} NeuronCores but the graph is compiled for "
        "LNC={lnc_count}; baking only core 0's function would silently produce a partial output."
    ),
    "NCC_EVRF066": (
        "NKI kernel '{kernel}' is configured with LNC={kernel_lnc}, but neuronx-cc is using "
        "LNC={compiler_lnc}."
    ),
    "NCC_EVRF059": (
        "Kernel file '{path}' referenced by AwsNeuronCustomNativeKernel instruction does not exist on "
        "the host."
    ),
    "NCC_EVRF065": "NKI kernel '{kernel}' was traced with an unsupported NKI version.",
}
"""Headlines kept exactly as published: design §3, EVRF059.rst and EVRF065.rst."""

DOCUMENTED_NAMES = ("LNC=", "NKI kernel", "NCC_", "PSUM", "SBUF", "HBM", "DMA")
"""What a headline of ours may start with although it is no lower-case word."""

ENTRIES = [pytest.param(entry, id=entry.code) for entry in CATALOGUE.values()]


def fields(template: str) -> set[str]:
    """Return the names in the braces of `template`."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def test_codes_are_unique() -> None:
    codes = [
        entry.code for family in (*FAMILIES, "published") for entry in getattr(catalogue, family).ENTRIES
    ]
    assert [code for code, count in Counter(codes).items() if count > 1] == []
    assert set(codes) == set(CATALOGUE)


@pytest.mark.parametrize(("family", "digit"), FAMILIES.items())
def test_our_codes_stand_in_their_family(family: str, digit: str) -> None:
    codes = [entry.code for entry in getattr(catalogue, family).ENTRIES]
    assert [code for code in codes if not re.fullmatch(rf"ONKI{digit}\d\d", code)] == []
    assert codes == sorted(codes)


def test_published_codes_are_spelled_as_published() -> None:
    codes = [entry.code for entry in catalogue.published.ENTRIES]
    assert [code for code in codes if not re.fullmatch(r"NCC_[EIW][A-Z]{3}\d{3}", code)] == []


@pytest.mark.parametrize(("code", "template"), PUBLISHED.items())
def test_published_headlines_are_kept(code: str, template: str) -> None:
    assert CATALOGUE[code].template == template
    assert template.isascii()


def test_a_published_headline_filled() -> None:
    found = diagnostic("NCC_ENKI003", kernel="fold", num_funcs=2, lnc_count=1)
    assert found.message == (
        "NKI kernel fold was traced for 2 NeuronCores but the graph is compiled for LNC=1; baking only "
        "core 0's function would silently produce a partial output."
    )
    assert found.related == ("NCC_EVRF066",)


@pytest.mark.parametrize("entry", ENTRIES)
def test_headlines_are_in_style(entry: Entry) -> None:
    template = entry.template
    assert "\n" not in template
    assert not template.startswith(" ")
    if entry.code in PUBLISHED:
        return
    assert not template.endswith((".", "!")), "no full stop, no exclamation mark"
    first = template[0]
    assert first in "`{" or first.islower() or template.startswith(DOCUMENTED_NAMES)


@pytest.mark.parametrize("entry", ENTRIES)
def test_entries_say_why_and_what_to_do(entry: Entry) -> None:
    assert re.fullmatch(r"[^\n]+[.]", entry.cause), "the cause is one or more whole sentences"
    assert entry.cause[0].isupper() or entry.cause[0] == "`"
    assert entry.title
    assert "\n" not in entry.title
    assert not entry.title.endswith((".", "!"))
    for line in entry.fix.splitlines():
        assert line
        assert not line[0].isupper(), "a fix starts with a verb in lower case, or with code"
        assert not line.endswith((".", "!"))
    assert entry.fix
    assert entry.source
    assert entry.source != "OpenNKI design"


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_fix_uses_the_fields_of_its_headline(entry: Entry) -> None:
    assert fields(entry.fix) <= fields(entry.template)


@pytest.mark.parametrize("entry", ENTRIES)
def test_related_codes_are_codes(entry: Entry) -> None:
    assert [
        code for code in entry.related if not re.fullmatch(r"NCC_[EIW][A-Z]{3}\d{3}|ONKI\d{3}", code)
    ] == []
    assert entry.code not in entry.related


def test_the_fix_is_filled_from_the_fields() -> None:
    found = diagnostic("ONKI304", compiled=2, runtime=1)
    assert found.help == (
        "run with LNC=2: `export NEURON_LOGICAL_NC_CONFIG=2`",
        "compile for LNC=1: `--lnc 1`",
    )
    assert found.data == {"compiled": 2, "runtime": 1}


def test_a_field_of_the_fix_that_is_not_given_is_named() -> None:
    found = diagnostic("ONKI703", name="x")
    assert found.help == ("pass a writable copy: `x.copy()`",)
    braces = diagnostic("ONKI108", name="t", what="tensors")
    assert braces.help == ('give each its own name, in a loop for instance `name=f"t_{i}"`',)


def test_own_help_replaces_the_fix() -> None:
    assert diagnostic("ONKI703", name="x", help=["say so"]).help == ("say so",)


def test_an_unknown_code_is_our_mistake() -> None:
    with pytest.raises(InternalError, match="ONKI999 is not in the catalogue"):
        diagnostic("ONKI999")


CODE = re.compile(r"\b(?:ONKI\d{3}|NCC_[A-Z]+\d{3})\b")


@cache
def named_codes() -> dict[str, str]:
    """Return every code that the package names outside of the catalogue, and a file that does."""
    return {
        code: path.relative_to(PACKAGE).as_posix()
        for path in sorted(PACKAGE.rglob("*.py"))
        if "catalogue" not in path.relative_to(PACKAGE).parts
        for code in CODE.findall(path.read_text(encoding="utf-8"))
    }


def test_every_code_is_raised_somewhere() -> None:
    missing = [code for code in CATALOGUE if code not in named_codes()]
    assert missing == [], f"in the catalogue and raised nowhere: {', '.join(missing)}"


def test_every_code_named_in_the_source_is_in_the_catalogue() -> None:
    known = set(CATALOGUE) | {code for entry in CATALOGUE.values() for code in entry.related}
    ours = {code: file for code, file in named_codes().items() if code.startswith("ONKI")}
    assert {code: file for code, file in ours.items() if code not in known} == {}


NOT_FIELDS = {name for name in signature(diagnostic).parameters if name not in ("code", "fields")}


def calls_of_codes() -> Iterator[tuple[str, str, set[str], bool]]:
    """Yield place, code and field names of each `fail("CODE", …)` and `diagnostic("CODE", …)` in the package.

    The last item tells whether the call passes further names on with `**`.
    """
    for source in package_sources():
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            code = node.args[0].value
            is_raised = ast.unparse(node.func).split(".")[-1] in ("fail", "diagnostic")
            if is_raised and isinstance(code, str):
                names = {keyword.arg for keyword in node.keywords}
                given = {name for name in names if name is not None} - NOT_FIELDS
                yield f"{source.shown}:{node.lineno}", code, given, None in names


def test_calls_give_the_fields_of_their_headline() -> None:
    wrong = [
        f"{place}: {code} needs {sorted(fields(CATALOGUE[code].template))}, is given {sorted(given)}"
        for place, code, given, is_open in calls_of_codes()
        if code in CATALOGUE and not is_open and not fields(CATALOGUE[code].template) <= given
    ]
    assert wrong == []


def test_every_code_has_its_page() -> None:
    assert [code for code in CATALOGUE if not page_path(code).is_file()] == []


def test_every_page_has_its_code() -> None:
    pages = sorted(path.stem for path in page_path("X").parent.iterdir())
    assert [name for name in pages if name not in CATALOGUE] == []


def test_the_table_lists_every_code_once() -> None:
    assert [entry.code for entry in codes_table()] == sorted(CATALOGUE)


@pytest.mark.parametrize(
    "asked",
    [
        "NCC_ENKI003",
        "ncc_enki003",
        "ENKI003",
        " NCC_ENKI003\n",
        "error[NCC_ENKI003]: NKI kernel fold was traced for 2 NeuronCores",
    ],
)
def test_explain_finds_the_page(asked: str) -> None:
    assert explain(asked) == page_path("NCC_ENKI003").read_text(encoding="utf-8")


def test_explain_finds_ours_by_number() -> None:
    assert explain("401").startswith("# ONKI401: ")


@pytest.mark.parametrize(
    ("asked", "help"),
    [
        ("NCC_ENKI030", "did you mean `opennki explain NCC_ENKI003`"),
        ("ONKI999", "list all codes with `opennki explain`"),
    ],
)
def test_an_unknown_code_is_a_usage_error(asked: str, help: str) -> None:
    with pytest.raises(OpenNkiUsageError) as caught:
        explain(asked)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("ONKI007", f"no diagnostic has the code `{asked}`")
    assert any(line.startswith(help) for line in found.help)

"""Settings: who wins, where each value comes from, what cannot be read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from opennki.diag import Diagnostic, Location, OpenNkiError, OpenNkiUsageError
from opennki.settings import (
    VARIABLES,
    Setting,
    check_degree,
    degree_diagnostic,
    describe_settings,
    direct_call_degree,
    eager_degree,
    explicit_graph_degree,
    graph_degree,
    kernel_degree,
    kernel_lnc_from_graph,
    parse_degree,
    precise_fp,
    runtime_degree,
    simulator_requested,
    supported_degrees,
    target_setting,
)
from opennki.targets import TARGETS, Target

TRN1 = Setting(TARGETS["trn1"], "the option `target=trn1`", "option", "give `target={}`")
TRN2 = Setting(TARGETS["trn2"], "the option `target=trn2`", "option", "give `target={}`")


def refused(action: Callable[[], object], code: str) -> Diagnostic:
    """Return the one diagnostic of `code` that `action` raises; family 0 must be a usage error."""
    with pytest.raises(OpenNkiError) as raised:
        action()
    (found,) = raised.value.diagnostics
    assert found.code == code
    assert isinstance(raised.value, OpenNkiUsageError) == code.startswith("ONKI0")
    assert isinstance(raised.value, ValueError) == code.startswith("ONKI0")
    return found


def shown(setting: Setting[Any]) -> tuple[Any, str, str]:
    value = setting.value.name if isinstance(setting.value, Target) else setting.value
    return value, setting.kind, setting.origin


# The degree rules against the table of the design, written down a second time.

LNC = {"trn1": {1}, "inf2": {1}, "trn2": {1, 2}, "trn3": {1, 2}}
GRAPH_DEFAULT = {"trn1": 1, "inf2": 1, "trn2": 2, "trn3": 2}
FLAGS = {  # NEURON_CC_FLAGS: the degree it sets and how a message shows the flag
    None: None,
    "-O1 --verbose=info": None,
    "--lnc=1": ("1", "--lnc=1"),
    "-lnc 2 -O1": ("2", "-lnc 2"),
    "--lnc 2 --logical-nc-config=1": ("1", "--logical-nc-config=1"),
    "--lnc=0": ("0", "--lnc=0"),
}


def first_set(*rows: tuple[object, str]) -> tuple[int, str] | str:
    value, origin = next(row for row in rows if row[0] is not None)
    return (int(str(value)), origin) if str(value) in ("1", "2", "8") else f"ONKI001 from {origin}"


def oracle(
    target: str,
    bracket: object,
    option: object,
    graph: object,
    flags: str | None,
    env: str | None,
    size: str | None,
) -> list[object]:
    """Return kernel's, graph's, direct call's and runtime's (value, origin), or what is raised instead."""
    flag = FLAGS[flags]
    from_env = (env or None, f"NEURON_LOGICAL_NC_CONFIG={env}")
    from_bracket = (bracket, f"the bracket of `k[{bracket}]`")
    from_option = (option, f"the option `lnc={option}`")
    from_flag = (flag[0], f"the flag `{flag[1]}` in NEURON_CC_FLAGS") if flag else (None, "")
    kernel = first_set(from_bracket, from_option, from_env, (1, "the default of a kernel"))
    if bracket is not None and option is not None and str(bracket) != str(option):
        bad = [f"ONKI001 from {o}" for v, o in (from_bracket, from_option) if v not in (1, 2, 8)]
        bad += ["NCC_EARG001" for v, _ in (from_bracket, from_option) if v not in LNC[target]]
        kernel = [*bad, "ONKI301"][0]
    own = (graph, f"the option `lnc={graph}`"), from_flag, from_env
    of_graph = first_set(*own, (GRAPH_DEFAULT[target], f"the default of {target}"))
    if isinstance(kernel, tuple):
        direct = first_set(*own, (kernel[0], f"the kernel's own degree, from {kernel[1]}"))
    else:
        direct = kernel
    from_size = (size or None, f"NEURON_RT_VIRTUAL_CORE_SIZE={size}")
    runtime = first_set(from_env, from_size, (1, "the executable, which was compiled for it"))
    return [
        "NCC_EARG001" if isinstance(found, tuple) and found[0] not in LNC[target] else found
        for found in (kernel, of_graph, direct, runtime)
    ]


def resolved(resolve: Callable[[], Setting[int]], target: Setting[Target]) -> object:
    try:
        found = resolve()
        check_degree(found, target)
    except OpenNkiError as problem:
        code = problem.code
        return f"{code} from {problem.diagnostics[0].data['origin']}" if code == "ONKI001" else code
    return found.value, found.origin


def all_degrees(target: str, bracket: object, option: object, graph: object) -> list[object]:
    chip = target_setting(target)

    def kernel() -> Setting[int]:
        return kernel_degree(bracket, option, chip, "k")

    return [
        resolved(kernel, chip),
        resolved(lambda: graph_degree(graph, chip), chip),
        resolved(lambda: direct_call_degree(kernel(), graph, spelled="lnc="), chip),
        resolved(lambda: runtime_degree(1), chip),
    ]


def test_degrees_against_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 0
    environments = itertools.product(FLAGS, (None, "", "1", "2", "8", "two"), (None, "1", "2"))
    for flags, env, size in environments:
        with monkeypatch.context() as patch:
            for variable, value in (
                ("NEURON_CC_FLAGS", flags),
                ("NEURON_LOGICAL_NC_CONFIG", env),
                ("NEURON_RT_VIRTUAL_CORE_SIZE", size),
            ):
                if value is not None:
                    patch.setenv(variable, value)
            for target, bracket, option, graph in table_rows(is_wide=size is None):
                row = (target, bracket, option, graph, flags, env, size)
                assert all_degrees(target, bracket, option, graph) == oracle(*row), row
                rows += 1
    assert rows == 36 * (4 * 5 * 3 * 3) + 72 * (2 * 2)


def table_rows(*, is_wide: bool) -> Iterator[tuple[str, int | None, int | None, int | None]]:
    """All of target x bracket x option x graph's option; few where only the runtime's variables vary."""
    if is_wide:
        return itertools.product(LNC, (None, 1, 2, 8, 0), (None, 1, 2), (None, 1, 2))
    return itertools.product(("trn1", "trn2"), (None, 2), (None,), (None,))


@pytest.mark.parametrize(
    ("environment", "option", "artifacts", "expected"),
    [
        ({}, None, (), ("trn3", "default", "the default")),
        ({}, None, ("inf2", "trn1"), ("inf2", "artifact", "the artifact, which was traced for it")),
        ({"NKI_NC_VERSION": "gen3"}, None, ("trn1",), ("trn2", "environment", "NKI_NC_VERSION=gen3")),
        (
            {"NKI_NC_VERSION": "gen3", "NEURON_PLATFORM_TARGET_OVERRIDE": "inf2"},
            None,
            ("trn3",),
            ("inf2", "environment", "NEURON_PLATFORM_TARGET_OVERRIDE=inf2"),
        ),
        (
            {"NKI_NC_VERSION": "gen3", "NEURON_PLATFORM_TARGET_OVERRIDE": ""},
            None,
            (),
            ("trn2", "environment", "NKI_NC_VERSION=gen3"),
        ),
        (
            {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn9"},
            "GEN2",
            ("trn3",),
            ("trn1", "option", "the option `target=GEN2`"),
        ),
    ],
)
def test_target(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    option: str | None,
    artifacts: tuple[str, ...],
    expected: tuple[str, str, str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert shown(target_setting(option, artifacts)) == expected


def test_unknown_targets_name_their_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    found = refused(lambda: target_setting("trn9", spelled="--target "), "ONKI002")
    assert found.message == "unknown target `trn9` from the option `--target trn9`"
    found = refused(lambda: target_setting(None, ["v9"]), "ONKI002")
    assert found.message == "unknown target `v9` from the artifact, which was traced for it"
    assert (
        refused(lambda: target_setting(""), "ONKI002").message
        == "unknown target `` from the option `target=`"
    )
    monkeypatch.setenv("NKI_NC_VERSION", "3")
    assert refused(target_setting, "ONKI002").message == "unknown target `3` from NKI_NC_VERSION=3"


@pytest.mark.parametrize(
    "value", [2, "2", " 2 ", "+2", "02", np.int64(2), np.uint8(2), np.array(2)], ids=repr
)
def test_what_is_a_degree(value: object) -> None:
    degree = parse_degree(value, "here")
    assert degree == 2
    assert type(degree) is int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-1, "-1"),
        ("-1", "-1"),
        (1.5, "1.5"),
        (2.0, "2.0"),
        ("1.5", "1.5"),
        ("two", "two"),
        ("2x", "2x"),
        ("1_0", "1_0"),
        ("２", "２"),
        ("", '""'),
        (True, "True"),
        (False, "False"),
        (np.True_, "np.True_"),
        (np.float32(2), "np.float32(2.0)"),
        (np.int32(-3), "-3"),
        ((2,), "(2,)"),
        ("9" * 5000, "9" * 60 + "…"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_degree(value: object, text: str) -> None:
    found = refused(lambda: parse_degree(value, "the option `lnc=…`"), "ONKI001")
    assert found.message == (
        f"the LNC degree must be a positive integer, got `{text}` from the option `lnc=…`"
    )
    assert found.data == {"value": text, "origin": "the option `lnc=…`"}


PLACE = Location("k.py", 9, 9, 4, 10, "main", "    k[0](x)")


def test_a_bad_degree_is_shown_at_its_launch() -> None:
    found = refused(lambda: kernel_degree(0, None, TRN2, "k", at=PLACE), "ONKI001")
    assert found.message == "the LNC degree must be a positive integer, got `0` from the bracket of `k[0]`"
    assert found.location == PLACE


def test_bracket_against_option() -> None:
    assert shown(kernel_degree(2, 2, TRN2, "k")) == (2, "bracket", "the bracket of `k[2]`")
    found = refused(lambda: kernel_degree(2, "1", TRN2, "row_half", spelled="--lnc ", at=PLACE), "ONKI301")
    assert found.message == (
        "kernel `row_half` is launched with LNC=2 by its bracket but the option `--lnc 1` asks for LNC=1"
    )
    assert found.help == ("drop the bracket, or launch `row_half[1](…)`", "drop the option `--lnc 1`")
    assert found.location == PLACE
    assert found.data == {
        "kernel": "row_half",
        "bracket": 2,
        "other": "the option `--lnc 1`",
        "option": 1,
        "bracket_origin": "the bracket of `row_half[2]`",
        "option_origin": "the option `--lnc 1`",
    }


def test_usage_before_unsupported_before_disagreement() -> None:
    assert refused(lambda: kernel_degree(8, 0, TRN2, "k"), "ONKI001").data["origin"] == "the option `lnc=0`"
    found = refused(lambda: kernel_degree(2, 1, TRN1, "k"), "NCC_EARG001")
    assert found.data["degree_origin"] == "the bracket of `k[2]`"
    found = refused(lambda: kernel_degree(1, 8, TRN2, "k"), "NCC_EARG001")
    assert found.data["degree_origin"] == "the option `lnc=8`"


def test_kernels_may_follow_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_degree(None, TRN2)
    assert shown(kernel_degree(None, None, TRN2, "k", graph=graph)) == (
        1,
        "default",
        "the default of a kernel",
    )
    monkeypatch.setenv("OPENNKI_KERNEL_LNC", "graph")
    followed = (2, "default", "the graph, by OPENNKI_KERNEL_LNC=graph")
    assert shown(kernel_degree(None, None, TRN2, "k", graph=graph)) == followed
    assert shown(kernel_degree(1, None, TRN2, "k", graph=graph)) == (1, "bracket", "the bracket of `k[1]`")
    assert shown(kernel_degree(None, 1, TRN2, "k", graph=graph)) == (1, "option", "the option `lnc=1`")
    assert kernel_degree(None, None, TRN2, "k").value == 1
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert shown(kernel_degree(None, None, TRN2, "k", graph=graph)) == followed
    monkeypatch.setenv("OPENNKI_KERNEL_LNC", "kernel")
    found = refused(lambda: kernel_degree(None, None, TRN2, "k", graph=graph), "ONKI008")
    assert found.message == "cannot read OPENNKI_KERNEL_LNC=`kernel`: expected `graph`"


@pytest.mark.parametrize(
    ("tokens", "degree", "typed"),
    [
        (["--lnc", "2"], 2, "--lnc 2"),
        (["--lnc=2"], 2, "--lnc=2"),
        (["-lnc", "2"], 2, "-lnc 2"),
        (["-lnc=2"], 2, "-lnc=2"),
        (["--logical-nc-config", "2"], 2, "--logical-nc-config 2"),
        (["--logical-nc-config=2"], 2, "--logical-nc-config=2"),
        (["--lnc=2", "-O1", "-lnc", "1"], 1, "-lnc 1"),
        (["--logical-nc-config", "1", "--lnc", "2", "--verbose", "info"], 2, "--lnc 2"),
        ("-O1 --lnc 1 --lnc='2'", 2, "--lnc=2"),
    ],
    ids=str,
)
def test_every_spelling_of_the_option(tokens: list[str] | str, degree: int, typed: str) -> None:
    assert shown(graph_degree(None, TRN2, flags=tokens)) == (degree, "option", f"the option `{typed}`")


def test_flags_without_a_degree_leave_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["-O1", "--lncx=2", "--tensorizer-options=--lnc=2", "x--lnc"]
    assert explicit_graph_degree(None, flags=flags) is None
    assert explicit_graph_degree(None) is None
    assert shown(graph_degree(None, TRN2, flags=flags)) == (2, "default", "the default of trn2")
    monkeypatch.setenv("NEURON_CC_FLAGS", "-O1 '--lnc' \"1\"")
    expected = (1, "flag", "the flag `--lnc 1` in NEURON_CC_FLAGS")
    assert shown(graph_degree(None, TRN2, flags=flags)) == expected
    assert shown(graph_degree(np.int64(2), TRN2)) == (2, "option", "the option `lnc=2`")
    assert shown(graph_degree(2, TRN2, flags=["--lnc=1"])) == (2, "option", "the option `lnc=2`")


@pytest.mark.parametrize(
    ("flags", "value", "typed"),
    [
        ("--lnc", '""', "--lnc"),
        ("--lnc=", '""', "--lnc="),
        ("--lnc --verbose", "--verbose", "--lnc --verbose"),
        ("--lnc=two", "two", "--lnc=two"),
        ("--lnc=1.5", "1.5", "--lnc=1.5"),
    ],
)
def test_flags_that_are_no_degree(
    monkeypatch: pytest.MonkeyPatch, flags: str, value: str, typed: str
) -> None:
    monkeypatch.setenv("NEURON_CC_FLAGS", flags)
    found = refused(lambda: graph_degree(None, TRN2), "ONKI001")
    assert found.message == (
        f"the LNC degree must be a positive integer, got `{value}` from the flag `{typed}` in NEURON_CC_FLAGS"
    )


@pytest.mark.parametrize(
    ("flags", "reason"), [("--lnc='2", "no closing quotation"), ("--lnc=2 \\", "no escaped character")]
)
def test_malformed_quoting(monkeypatch: pytest.MonkeyPatch, flags: str, reason: str) -> None:
    monkeypatch.setenv("NEURON_CC_FLAGS", flags)
    found = refused(lambda: graph_degree(None, TRN2), "ONKI008")
    assert found.message == f"cannot read NEURON_CC_FLAGS=`{flags}`: {reason}"
    assert graph_degree(2, TRN2).value == 2, "an option wins, so the variable is not read"
    monkeypatch.delenv("NEURON_CC_FLAGS")
    found = refused(lambda: graph_degree(None, TRN2, flags=flags), "ONKI008")
    assert found.message == f"cannot read flags=`{flags}`: {reason}"


def test_settings_are_read_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    values = []
    for degree in ("1", "2", "1"):
        monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", degree)
        values.append(kernel_degree(None, None, TRN2, "k").value)
    assert values == [1, 2, 1]


def test_eager_is_always_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=2")
    assert shown(eager_degree()) == (1, "eager", "the eager path, which always compiles for LNC=1")


def test_how_to_change_a_setting() -> None:
    settings = (
        (kernel_degree(2, None, TRN2, "k"), "launch `k[1](…)`"),
        (kernel_degree(None, 2, TRN2, "k"), "give `lnc=1`"),
        (kernel_degree(None, None, TRN2, "k"), "launch `k[1](…)`"),
        (graph_degree(2, TRN2, spelled="--lnc "), "give `--lnc 1`"),
        (graph_degree(None, TRN2, flags=["-lnc", "2"]), "give `-lnc 1`"),
        (graph_degree(None, TRN2, flags=["--logical-nc-config=2"]), "give `--logical-nc-config=1`"),
        (graph_degree(None, TRN2), "compile the graph with `--lnc 1`"),
        (direct_call_degree(kernel_degree(2, None, TRN2, "k")), "launch `k[1](…)`"),
        (eager_degree(), ""),
    )
    for setting, edit in settings:
        assert setting.edit(1) == edit


def test_how_to_change_what_the_environment_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_RT_VIRTUAL_CORE_SIZE", "2")
    assert runtime_degree(1).edit(1) == "`export NEURON_RT_VIRTUAL_CORE_SIZE=1`"
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", " 2 ")
    assert shown(runtime_degree(1)) == (2, "environment", "NEURON_LOGICAL_NC_CONFIG=2")
    assert runtime_degree(1).edit(1) == "`export NEURON_LOGICAL_NC_CONFIG=1`"
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc 2")
    change = graph_degree(None, TRN2).edit(1)
    assert change == "change `--lnc 2` to `--lnc 1` in NEURON_CC_FLAGS"


def test_unsupported_degree_names_degrees_target_and_both_origins() -> None:
    degree = kernel_degree(2, None, TRN1, "scale2")
    found = refused(lambda: check_degree(degree, TRN1, at=PLACE, label="launched here"), "NCC_EARG001")
    assert found.message == "LNC=2 does not exist on trn1, which supports LNC=1"
    assert found.notes == (
        "LNC=2 comes from the bracket of `scale2[2]`",
        "the target trn1 comes from the option `target=trn1`",
    )
    assert found.help == (
        "use LNC=1: launch `scale2[1](…)`",
        "choose a target that has LNC=2 (trn2, trn3): give `target=trn2`",
    )
    assert [(label.location, label.text) for label in found.labels] == [(PLACE, "launched here")]
    assert found.data == {
        "lnc": 2,
        "target": "trn1",
        "supported": "1",
        "allowed": [1],
        "degree_origin": "the bracket of `scale2[2]`",
        "degree_kind": "bracket",
        "target_origin": "the option `target=trn1`",
        "target_kind": "option",
    }


def test_a_degree_that_no_target_has() -> None:
    found = degree_diagnostic(graph_degree(8, TRN2), TRN2)
    assert found is not None
    assert found.message == "LNC=8 does not exist on trn2, which supports LNC=1 or 2"
    assert found.help == ("use LNC=1 or 2: give `lnc=2`",)


def test_supported_degrees() -> None:
    texts = [supported_degrees(target) for target in TARGETS.values()]
    assert texts == ["1", "1", "1 or 2", "1 or 2"]
    for target in TARGETS.values():
        for degree in (1, 2, 3):
            found = degree_diagnostic(Setting(degree, "here", "option"), Setting(target, "there", "default"))
            assert (found is None) == (degree in LNC[target.name])


@pytest.mark.parametrize(
    ("variable", "read", "values"),
    [
        ("NKI_PRECISE_FP", precise_fp, {None: True, "": True, "1": True, "0": False, " 0 ": False}),
        ("NKI_SIMULATOR", simulator_requested, {None: False, "": False, "1": True, "0": False}),
        ("OPENNKI_KERNEL_LNC", kernel_lnc_from_graph, {None: False, "": False, "graph": True}),
    ],
)
def test_switches(
    monkeypatch: pytest.MonkeyPatch, variable: str, read: Callable[[], bool], values: dict[str | None, bool]
) -> None:
    for text, expected in values.items():
        if text is not None:
            monkeypatch.setenv(variable, text)
        assert read() is expected
    monkeypatch.setenv(variable, "maybe")
    found = refused(read, "ONKI008")
    assert found.message.startswith(f"cannot read {variable}=`maybe`: expected `")
    assert f"`unset {variable}`" in found.help[0]


def test_doctor_without_any_variable() -> None:
    rows = {row.name: row for row in describe_settings()}
    resolved_rows = [(row.name, row.value, row.origin) for row in list(rows.values())[:4]]
    assert resolved_rows == [
        ("target", "trn3", "the default"),
        ("kernel's degree", "1", "the default of a kernel"),
        ("graph's degree", "2", "the default of trn3"),
        ("runtime's degree", None, "the executable, which was compiled for it"),
    ]
    assert list(rows)[4:] == list(VARIABLES)
    assert all(rows[name].value is None and rows[name].origin == "not set" for name in VARIABLES)
    assert all(row.effect and row.problem is None for row in rows.values())


def test_doctor_tells_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "inf2")
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc='1")
    rows = {row.name: row for row in describe_settings()}
    assert rows["target"].value == "inf2"
    kernel, graph = rows["kernel's degree"], rows["graph's degree"]
    assert (kernel.value, kernel.origin) == ("2", "NEURON_LOGICAL_NC_CONFIG=2")
    assert kernel.problem == "LNC=2 does not exist on inf2, which supports LNC=1"
    assert (graph.value, graph.origin) == (None, "NEURON_CC_FLAGS")
    assert graph.problem == "cannot read NEURON_CC_FLAGS=`--lnc='1`: no closing quotation"
    assert (rows["NEURON_CC_FLAGS"].value, rows["NEURON_CC_FLAGS"].origin) == ("--lnc='1", "environment")
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "two")
    rows = {row.name: row for row in describe_settings()}
    assert rows["target"].problem == "unknown target `trn9` from NEURON_PLATFORM_TARGET_OVERRIDE=trn9"
    assert rows["kernel's degree"].problem == (
        "the LNC degree must be a positive integer, got `two` from NEURON_LOGICAL_NC_CONFIG=two"
    )

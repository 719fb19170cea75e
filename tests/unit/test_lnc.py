"""Baking's rules: which calls are refused, with which code, and what the message carries."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from opennki.diag import Diagnostic, Location, OpenNkiError, render_json, render_text
from opennki.lnc import CallFacts, check_calls, check_runtime
from opennki.settings import (
    Setting,
    direct_call_degree,
    eager_degree,
    graph_degree,
    kernel_degree,
    target_setting,
)
from opennki.targets import TARGETS
from tests.golden_file import Golden

KERNEL = Location("kernels.py", 4, 4, 4, 12, "<module>", "def row_half(x):")
CALL = Location("model.py", 31, 31, 8, 19, "forward", "    y = row_half[2](x)")
UNBRACKETED = Location("model.py", 7, 7, 8, 16, "forward", "    y = row_half(x)")
ADD_ONE = Location("kernels.py", 12, 12, 4, 11, "<module>", "def add_one(x):")
LOST = ("core 1 alone writes rows 64..127 of `out`, 50 % of it",)


def call(kernel: str, num_funcs: int, target: str = "trn2", **facts: Any) -> CallFacts:
    return CallFacts(kernel=kernel, num_funcs=num_funcs, target=target, **facts)


def only(found: list[Diagnostic]) -> Diagnostic:
    (diagnostic,) = found
    return diagnostic


LNC = {"trn1": {1}, "inf2": {1}, "trn2": {1, 2}, "trn3": {1, 2}}
CHIP = {"trn1": "v2", "inf2": "v2", "trn2": "v3", "trn3": "v4"}


def verdict(claimed: int | None, held: int, traced: str, lnc: int, target: str) -> str | None:
    """The rules of baking, written down a second time."""
    if lnc not in LNC[target]:
        return "NCC_EARG001"
    if claimed not in (None, held):
        return "ONKI303"
    if CHIP[traced] != CHIP[target]:
        return "ONKI302"
    return "NCC_ENKI003" if held > lnc else "NCC_EVRF066" if held < lnc else None


def test_the_verdict_of_every_combination() -> None:
    combinations = itertools.product((None, 1, 2), (1, 2, 3), CHIP, (1, 2, 8), CHIP)
    seen = set()
    for claimed, held, traced, lnc, target in combinations:
        chip = target_setting(target)
        found = check_calls([call("k", held, traced, claimed=claimed)], graph_degree(lnc, chip), chip)
        expected = verdict(claimed, held, traced, lnc, target)
        assert [f.code for f in found] == ([] if expected is None else [expected])
        seen.add(expected)
    assert seen == {None, "NCC_EARG001", "ONKI303", "ONKI302", "NCC_ENKI003", "NCC_EVRF066"}


def test_headlines() -> None:
    trn2 = target_setting("trn2")
    one, two = graph_degree(1, trn2), graph_degree(2, trn2)
    assert only(check_calls([call("row_half", 2)], one, trn2)).message == (
        "NKI kernel row_half was traced for 2 NeuronCores but the graph is compiled for LNC=1; "
        "baking only core 0's function would silently produce a partial output."
    )
    assert only(check_calls([call("add_one", 1)], two, trn2)).message == (
        "NKI kernel 'add_one' is configured with LNC=1, but neuronx-cc is using LNC=2."
    )
    assert only(check_calls([call("k", 2, "trn3")], two, trn2)).message == (
        "kernel `k` was traced for trn3 but the graph is compiled for trn2"
    )
    assert only(check_calls([call("k", 2, claimed=1)], two, trn2)).message == (
        "the call of `k` claims 1 programs but its artifact holds 2"
    )


def test_partial_output_in_full(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    """Case 02: the environment asks kernels for 2, NEURON_CC_FLAGS asks the graph for 1."""
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=1")
    target = target_setting("trn2")
    degree = kernel_degree(None, None, target, "row_half")
    facts = call("row_half", 2, degree=degree, call_location=UNBRACKETED, kernel_location=KERNEL, lost=LOST)
    found = only(check_calls([facts], direct_call_degree(degree), target))
    assert found.code == "NCC_ENKI003"
    assert found.related == ("NCC_EVRF066",)
    assert found.data == {
        "kernel": "row_half",
        "num_funcs": 2,
        "lnc_count": 1,
        "kernel_origin": "NEURON_LOGICAL_NC_CONFIG=2",
        "kernel_kind": "environment",
        "graph_origin": "the flag `--lnc=1` in NEURON_CC_FLAGS",
        "graph_kind": "flag",
        "target": "trn2",
        "target_origin": "the option `target=trn2`",
        "lost": list(LOST),
        "related": ["NCC_EVRF066"],
    }
    golden(render_text([found]))


def test_too_few_programs_in_full(golden: Golden) -> None:
    """Case 01: a kernel without bracket in a graph of trn2, nothing set."""
    target = target_setting("trn2")
    degree = kernel_degree(None, None, target, "add_one")
    place = Location("model.py", 31, 31, 8, 15, "forward", "    y = add_one(x)")
    facts = call("add_one", 1, degree=degree, call_location=place, kernel_location=ADD_ONE)
    found = only(check_calls([facts], graph_degree(None, target), target))
    assert found.code == "NCC_EVRF066"
    assert found.data == {
        "kernel": "add_one",
        "kernel_lnc": 1,
        "compiler_lnc": 2,
        "num_funcs": 1,
        "lnc_count": 2,
        "kernel_origin": "the default of a kernel",
        "kernel_kind": "default",
        "graph_origin": "the default of trn2",
        "graph_kind": "default",
        "target": "trn2",
        "target_origin": "the option `target=trn2`",
        "related": [],
    }
    golden(render_text([found]))


def test_all_disagreeing_calls_in_one_report(golden: Golden) -> None:
    target = target_setting("trn2")
    bracket = kernel_degree(2, None, target, "row_half")
    calls = [
        call("row_half", 2, degree=bracket, call_location=CALL, kernel_location=KERNEL),
        call("fits", 1),
        call("older", 1, "inf2"),
        call("edited", 1, claimed=2),
        call("from_file", 2, kernel_location=KERNEL),
    ]
    found = check_calls(calls, graph_degree(1, target, spelled="--lnc "), target)
    assert [f.code for f in found] == ["NCC_ENKI003", "ONKI302", "ONKI303", "NCC_ENKI003"]
    golden(render_text(found))


def test_agreeing_calls_give_nothing() -> None:
    target = target_setting("trn3")
    assert check_calls([], graph_degree(None, target), target) == []
    calls = [call("a", 2, "trn3"), call("b", 2, "trn3", claimed=2)]
    assert check_calls(calls, graph_degree(None, target), target) == []
    inf2 = target_setting("inf2")
    assert check_calls([call("a", 1, "trn1")], graph_degree(None, inf2), inf2) == []


def test_what_would_be_lost_is_asked_for_the_programs_kept() -> None:
    asked = []

    def lost(kept: int) -> list[str]:
        asked.append(kept)
        return ["core 1 alone writes rows 0..3 of `a`, 25 % of it", "nothing of `b`"]

    target = target_setting("trn2")
    found = only(check_calls([call("k", 2, lost=lost)], graph_degree(1, target), target))
    assert asked == [1]
    assert found.notes[2:4] == (
        "what would be lost: core 1 alone writes rows 0..3 of `a`, 25 % of it",
        "what would be lost: nothing of `b`",
    )
    assert found.data["lost"] == ["core 1 alone writes rows 0..3 of `a`, 25 % of it", "nothing of `b`"]
    assert check_calls([call("k", 1, lost=lost)], graph_degree(1, target), target) == []
    check_calls([call("k", 1, lost=lost)], graph_degree(2, target), target)
    assert asked == [1], "nothing is lost, so nothing is computed"


def helps(graph: Setting[int], *facts: CallFacts, target: str = "trn2") -> tuple[str, ...]:
    return check_calls(facts, graph, target_setting(target))[0].help


def test_ways_out_by_the_kernels_origin() -> None:
    target = target_setting("trn2")
    graph = graph_degree(1, target, spelled="--lnc ")

    def retrace(degree: Setting[int] | None) -> str:
        return helps(graph, call("k", 2, degree=degree))[0].removeprefix(
            "trace the kernel for the graph's LNC=1: "
        )

    assert retrace(kernel_degree(2, None, target, "k")) == (
        "launch `k[1](…)`, or drop the bracket and `export NEURON_LOGICAL_NC_CONFIG=1`"
    )
    assert retrace(kernel_degree(None, 2, target, "k")) == (
        "give `lnc=1`, or drop the option `lnc=2` and `export NEURON_LOGICAL_NC_CONFIG=1`"
    )
    assert retrace(Setting(2, "NEURON_LOGICAL_NC_CONFIG=2", "environment")) == (
        "launch `k[1](…)`, or `export NEURON_LOGICAL_NC_CONFIG=1`"
    )
    assert retrace(None) == (
        "`opennki trace … --lnc 1`, or `export NEURON_LOGICAL_NC_CONFIG=1` and call `k` without a bracket"
    )


def test_ways_out_by_the_graphs_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_setting("trn2")

    def recompile(graph: Setting[int]) -> str:
        return helps(graph, call("k", 2))[1].removeprefix("compile the graph for the kernel's LNC=2: ")

    assert recompile(graph_degree(1, target)) == (
        "give `lnc=2`, or drop the option `lnc=1` and `export NEURON_LOGICAL_NC_CONFIG=2`"
    )
    assert recompile(graph_degree(None, target, flags=["-lnc", "1"])) == (
        "give `-lnc 2`, or drop the option `-lnc 1` and `export NEURON_LOGICAL_NC_CONFIG=2`"
    )
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert recompile(graph_degree(None, target)) == (
        "`--lnc 2` (in Python `lnc=2`), or `export NEURON_LOGICAL_NC_CONFIG=2`"
    )
    monkeypatch.setenv("NEURON_CC_FLAGS", "-O1 --logical-nc-config 1")
    assert recompile(graph_degree(None, target)) == (
        "change `--logical-nc-config 1` to `--logical-nc-config 2` in NEURON_CC_FLAGS, or drop the flag from "
        "NEURON_CC_FLAGS and `export NEURON_LOGICAL_NC_CONFIG=2`"
    )


def test_the_eager_path_leaves_one_way_out() -> None:
    target = target_setting("trn2")
    degree = kernel_degree(2, None, target, "k")
    found = only(check_calls([call("k", 2, degree=degree)], eager_degree(), target))
    assert found.notes[1] == "the graph's LNC=1 comes from the eager path, which always compiles for LNC=1"
    way = (
        "trace the kernel for the graph's LNC=1: launch `k[1](…)`, or drop the bracket and "
        "`export NEURON_LOGICAL_NC_CONFIG=1`"
    )
    assert found.help == (way,)
    assert helps(graph_degree(1, target), call("k", 2, degree=degree, eager=True)) == (way,)


def test_the_target_leaves_one_way_out() -> None:
    target = target_setting("inf2")
    found = only(check_calls([call("k", 2, "trn1")], graph_degree(None, target), target))
    assert found.code == "NCC_ENKI003"
    assert len(found.help) == 1
    assert found.help[0].startswith("trace the kernel for the graph's LNC=1: ")
    assert "the graph cannot follow the kernel: inf2 supports LNC=1 (NCC_EARG001)" in found.notes
    three = only(check_calls([call("k", 3)], graph_degree(2, target_setting("trn2")), target_setting("trn2")))
    assert three.code == "NCC_ENKI003"
    assert len(three.help) == 1
    assert "the graph cannot follow the kernel: trn2 supports LNC=1 or 2 (NCC_EARG001)" in three.notes


def test_other_kernels_would_have_to_follow() -> None:
    target = target_setting("trn2")
    graph = graph_degree(1, target)
    fits = [call(name, 1) for name in ("e", "b", "b", "d", "c")]
    assert helps(graph, call("a", 2), *fits[:2])[1].endswith("; then also trace `b`, `e` for LNC=2")
    assert helps(graph, call("a", 2), *fits)[1].endswith(
        "; then also trace `b`, `c`, `d` and 1 more for LNC=2"
    )
    assert helps(graph, call("a", 2), call("z", 2))[1].endswith("`export NEURON_LOGICAL_NC_CONFIG=2`")


def test_programs_are_counted_never_believed() -> None:
    """The call asks for 1, as the graph does, yet a stale artifact holds 2."""
    target = target_setting("trn2")
    degree = kernel_degree(1, None, target, "k")
    facts = call("k", 2, degree=degree, call_location=CALL)
    found = only(check_calls([facts], graph_degree(1, target), target))
    assert found.code == "NCC_ENKI003"
    assert found.notes[0] == ("the artifact holds 2 programs, though the bracket of `k[1]` asks for LNC=1")
    assert [label.text for label in found.labels] == ["the artifact holds 2 programs"]
    assert found.data["kernel_origin"] == "the programs in the artifact"
    assert (found.data["call_asks"], found.data["call_asks_origin"]) == (1, "the bracket of `k[1]`")


def test_places() -> None:
    target = target_setting("trn2")
    graph = graph_degree(1, target)
    bracket = kernel_degree(2, None, target, "row_half")

    def labels(**facts: Any) -> list[tuple[Location, str]]:
        found = only(check_calls([call("row_half", 2, **facts)], graph, target))
        return [(label.location, label.text) for label in found.labels]

    assert labels() == []
    assert labels(degree=bracket, call_location=CALL, kernel_location=KERNEL) == [
        (CALL, "launched with a bracket, so LNC=2"),
        (KERNEL, "`row_half` is defined here"),
    ]
    option = kernel_degree(None, 2, target, "row_half")
    assert labels(degree=option, call_location=CALL) == [(CALL, "traced with the option `lnc=2`, so LNC=2")]
    assert labels(kernel_location=KERNEL) == [
        (KERNEL, "`row_half` is defined here, the artifact holds 2 programs")
    ]


def test_an_unsupported_graph_is_reported_alone() -> None:
    target = target_setting("trn1")
    found = check_calls([call("a", 2, "trn1"), call("b", 2, "trn2")], graph_degree(2, target), target)
    assert only(found).message == "LNC=2 does not exist on trn1, which supports LNC=1"


def test_another_target_offers_what_the_degree_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    target = target_setting()
    found = only(check_calls([call("k", 2, "trn3")], graph_degree(2, target), target))
    assert found.notes == (
        "the kernel's target trn3 is the one that its artifact names",
        "the graph's target trn2 comes from NEURON_PLATFORM_TARGET_OVERRIDE=trn2",
    )
    assert found.help == (
        "trace the kernel for trn2: `opennki trace … --target trn2`",
        "compile the graph for trn3: `export NEURON_PLATFORM_TARGET_OVERRIDE=trn3`",
    )
    of_trn1 = call("k", 1, "trn1")
    assert len(only(check_calls([of_trn1], graph_degree(2, target), target)).help) == 1
    assert len(only(check_calls([of_trn1], graph_degree(None, target), target)).help) == 2
    assert len(only(check_calls([call("k", 1, "trn9")], graph_degree(1, target), target)).help) == 1
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE")
    mixed = target_setting(None, ["trn2", "trn3"])
    found = only(check_calls([call("a", 2), call("b", 2, "trn3")], graph_degree(2, mixed), mixed))
    assert found.help[1] == "compile the graph for trn3: `--target trn3`"


def test_json_carries_both_origins() -> None:
    target = target_setting("trn2")
    degree = kernel_degree(2, None, target, "k")
    text = render_json(check_calls([call("k", 2, degree=degree)], graph_degree(1, target), target))
    assert '"kernel_origin"' in text
    assert "the bracket of `k[2]`" in text
    assert '"graph_origin"' in text
    assert "the option `lnc=1`" in text
    assert "NCC_EVRF066" in text


def runtime_error(compiled: int, target: str) -> Diagnostic:
    with pytest.raises(OpenNkiError) as raised:
        check_runtime(compiled, TARGETS[target])
    return only(list(raised.value.diagnostics))


def test_runtime_of_another_degree(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    assert check_runtime(1, TARGETS["trn2"]) == Setting(
        1, "the executable, which was compiled for it", "artifact", "compile the graph for LNC={}"
    )
    monkeypatch.setenv("NEURON_RT_VIRTUAL_CORE_SIZE", "2")
    found = runtime_error(1, "trn2")
    assert found.data == {
        "compiled": 1,
        "runtime": 2,
        "runtime_origin": "NEURON_RT_VIRTUAL_CORE_SIZE=2",
        "runtime_kind": "environment",
        "target": "trn2",
    }
    golden(render_text([found]))
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert check_runtime(1, TARGETS["trn2"]).origin == "NEURON_LOGICAL_NC_CONFIG=1"
    assert runtime_error(2, "trn2").message == (
        "the executable was compiled for LNC=2 but the runtime is set to LNC=1"
    )


def test_runtime_of_no_degree_or_one_that_the_target_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    found = runtime_error(1, "inf2")
    assert (found.code, found.message) == (
        "NCC_EARG001",
        "LNC=2 does not exist on inf2, which supports LNC=1",
    )
    assert found.notes[1] == "the target inf2 comes from the executable, which was compiled for it"
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "half")
    assert runtime_error(1, "inf2").message == (
        "the LNC degree must be a positive integer, got `half` from NEURON_LOGICAL_NC_CONFIG=half"
    )

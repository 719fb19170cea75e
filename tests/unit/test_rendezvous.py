"""Where cores meet, alone: matching waits, waits without hope, aborts, turns. No clocks in what is tested."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from opennki.execute.rendezvous import Aborted, Hopeless, Rendezvous

PATIENCE = 20.0
"""Seconds after which a thread that should have ended is taken for one that hangs."""


def run(meeting: Rendezvous, *cores: Callable[[], object]) -> list[Any]:
    """Run one function a core in its own thread; return what each returned or raised."""
    results: list[Any] = [None] * len(cores)

    def body(core: int) -> None:
        try:
            meeting.start(core)
            results[core] = cores[core]()
        except Exception as raised:
            results[core] = raised
        finally:
            meeting.finish(core)

    threads = [threading.Thread(target=body, args=(core,), daemon=True) for core in range(len(cores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a core hangs"
    return results


def kinds(results: Sequence[Any]) -> list[type]:
    return [type(result) for result in results]


TURNS = [pytest.param(False, id="free"), pytest.param(True, id="turns")]


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("cores", [1, 2, 3])
def test_matching_waits_pass_as_often_as_they_come(cores: int, turns: bool) -> None:
    meeting = Rendezvous(cores, turns=turns)
    passed: list[list[int]] = [[] for _ in range(cores)]

    def core(number: int) -> str:
        for turn in range(50):
            meeting.barrier(number, "b", f"line {turn}")
            passed[number].append(turn)
            assert all(abs(len(other) - len(passed[number])) <= 1 for other in passed)
        return "done"

    assert run(meeting, *[partial(core, n) for n in range(cores)]) == ["done"] * cores
    assert passed == [list(range(50))] * cores


@pytest.mark.parametrize("turns", TURNS)
def test_no_core_goes_on_before_the_last_one_comes(turns: bool) -> None:
    meeting = Rendezvous(2, turns=turns)
    order: list[str] = []

    def core(number: int) -> None:
        order.append(f"before {number}")
        meeting.barrier(number, "b", None)
        order.append(f"after {number}")

    run(meeting, lambda: core(0), lambda: core(1))
    assert sorted(order[:2]) == ["before 0", "before 1"]
    assert sorted(order[2:]) == ["after 0", "after 1"]


@pytest.mark.parametrize("turns", TURNS)
def test_waits_on_two_channels_are_hopeless_for_both(turns: bool) -> None:
    meeting = Rendezvous(2, turns=turns)
    first, second = run(
        meeting, lambda: meeting.barrier(0, "red", "line 1"), lambda: meeting.barrier(1, "blue", "line 2")
    )
    assert kinds([first, second]) == [Hopeless, Hopeless]
    assert [first.core, second.core] == [0, 1]
    assert first.waiting == second.waiting == {0: "line 1", 1: "line 2"}


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("waits", [0, 1])
def test_a_wait_for_a_core_that_has_finished_is_hopeless(waits: int, turns: bool) -> None:
    meeting = Rendezvous(2, turns=turns)
    cores: list[Callable[[], object]] = [lambda: "done", lambda: "done"]
    cores[waits] = lambda: meeting.barrier(waits, "b", "here")
    results = run(meeting, *cores)
    assert results[1 - waits] == "done"
    assert isinstance(results[waits], Hopeless)
    assert results[waits].waiting == {waits: "here", 1 - waits: None}
    assert str(results[waits]) == f"core {waits} waits for ever"


@pytest.mark.parametrize("turns", TURNS)
def test_one_barrier_more_on_one_core(turns: bool) -> None:
    meeting = Rendezvous(2, turns=turns)

    def core(number: int, times: int) -> str:
        for turn in range(times):
            meeting.barrier(number, "b", turn)
        return "done"

    short, long = run(meeting, lambda: core(0, 2), lambda: core(1, 3))
    assert short == "done"
    assert isinstance(long, Hopeless)
    assert long.waiting == {0: None, 1: 2}


def test_two_of_three_meet_in_vain() -> None:
    meeting = Rendezvous(3)
    results = run(
        meeting,
        lambda: meeting.barrier(0, "b", "a"),
        lambda: meeting.barrier(1, "b", "b"),
        lambda: "done",
    )
    assert kinds(results) == [Hopeless, Hopeless, str]
    assert results[0].waiting == {0: "a", 1: "b", 2: None}


def test_a_single_core_meets_itself() -> None:
    meeting = Rendezvous(1)

    def core() -> str:
        for turn in range(3):
            meeting.barrier(0, "b", turn)
        return "done"

    assert run(meeting, core) == ["done"]


@pytest.mark.parametrize("turns", TURNS)
def test_an_abort_wakes_who_waits(turns: bool) -> None:
    meeting = Rendezvous(2, turns=turns)

    def fails() -> None:
        meeting.abort()
        raise ValueError("own")

    first, second = run(meeting, lambda: meeting.barrier(0, "b", "here"), fails)
    assert kinds([first, second]) == [Aborted, ValueError]
    assert meeting.is_aborted
    with pytest.raises(Aborted):
        meeting.check()


def test_no_core_gets_a_turn_after_an_abort() -> None:
    meeting = Rendezvous(2, turns=True)
    meeting.start(0)
    meeting.abort()
    meeting.finish(0)
    with pytest.raises(Aborted):
        meeting.start(1)


def test_a_check_passes_while_nobody_has_failed() -> None:
    meeting = Rendezvous(2)
    meeting.check()
    assert not meeting.is_aborted


def test_a_wait_after_an_abort_ends_at_once() -> None:
    meeting = Rendezvous(2)
    meeting.abort()
    with pytest.raises(Aborted):
        meeting.barrier(0, "b", None)


def test_hopeless_is_for_every_core_even_if_one_aborts_when_it_sees_it() -> None:
    for _ in range(50):
        meeting = Rendezvous(2)

        def core(number: int, meeting: Rendezvous = meeting) -> None:
            try:
                meeting.barrier(number, number, None)
            except Hopeless:
                meeting.abort()  # as a launch does for any failure
                raise

        assert kinds(run(meeting, lambda: core(0), lambda: core(1))) == [Hopeless, Hopeless]


# ------------------------------------------------------------------------------------------------ turns


def order_of(cores: int, barriers: int) -> list[str]:
    meeting = Rendezvous(cores, turns=True)
    order: list[str] = []

    def core(number: int) -> None:
        for turn in range(barriers):
            order.append(f"{number}{turn}")
            meeting.barrier(number, "b", None)
        order.append(f"{number}{barriers}")

    run(meeting, *[partial(core, n) for n in range(cores)])
    return order


@pytest.mark.parametrize(
    ("cores", "barriers", "expected"),
    [
        (2, 0, ["00", "10"]),
        (2, 1, ["00", "10", "11", "01"]),  # who comes last goes on
        (2, 3, ["00", "10", "11", "01", "02", "12", "13", "03"]),
        (3, 1, ["00", "10", "20", "21", "01", "11"]),
    ],
)
def test_turns_change_only_at_a_meeting_and_always_alike(
    cores: int, barriers: int, expected: list[str]
) -> None:
    for _ in range(10):
        assert order_of(cores, barriers) == expected


def test_one_core_runs_at_a_time() -> None:
    meeting = Rendezvous(2, turns=True)
    running: list[int] = []
    most: list[int] = []

    def core(number: int) -> None:
        for turn in range(20):
            running.append(number)
            most.append(len(running))
            running.remove(number)
            meeting.barrier(number, turn % 3, None)

    assert kinds(run(meeting, lambda: core(0), lambda: core(1))) == [type(None)] * 2
    assert max(most) == 1


# ---------------------------------------------------------------------------------------------- exchanges


@pytest.mark.parametrize("turns", TURNS)
def test_an_exchange_gives_each_core_what_the_other_sent(turns: bool) -> None:
    meeting = Rendezvous(2, turns=turns)

    def core(number: int) -> list[str]:
        other = 1 - number
        return [meeting.exchange(number, "x", None, f"{number}:{i}", (other, other)) for i in range(20)]

    first, second = run(meeting, lambda: core(0), lambda: core(1))
    assert first == [f"1:{i}" for i in range(20)]
    assert second == [f"0:{i}" for i in range(20)]


@pytest.mark.parametrize("turns", TURNS)
def test_exchanges_and_barriers_follow_each_other(turns: bool) -> None:
    meeting = Rendezvous(2, turns=turns)

    def core(number: int) -> list[int]:
        found = []
        for i in range(10):
            meeting.barrier(number, "b", None)
            found.append(meeting.exchange(number, "x", None, 10 * number + i, (1 - number, 1 - number)))
        return found

    assert run(meeting, lambda: core(0), lambda: core(1)) == [list(range(10, 20)), list(range(10))]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("exchange", "x", (1, 1)), ("barrier", "x", None)),
        (("exchange", "x", (1, 1)), ("exchange", "y", (0, 0))),
        (("exchange", "x", (1, 1)), ("exchange", "x", (1, 1))),
        (("exchange", "x", (0, 1)), ("exchange", "x", (0, 0))),
    ],
    ids=["a barrier", "another pipe", "sends to itself", "receives nothing"],
)
def test_what_does_not_meet_is_hopeless(first: tuple[str, str, Any], second: tuple[str, str, Any]) -> None:
    meeting = Rendezvous(2)

    def core(number: int, what: tuple[str, str, Any]) -> None:
        kind, channel, peers = what
        if kind == "barrier":
            meeting.barrier(number, channel, number)
        else:
            meeting.exchange(number, channel, number, "tile", peers)

    results = run(meeting, lambda: core(0, first), lambda: core(1, second))
    assert kinds(results) == [Hopeless, Hopeless]
    assert results[0].waiting == {0: 0, 1: 1}

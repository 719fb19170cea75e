"""Where cores meet. A wait without hope is seen at once and exactly; there are no timeouts.

A wait is hopeless when every core has finished or waits and no two waits match: then all of them raise.
With turns, one core runs at a time and the turn changes only here, so that a simulation repeats itself and a
debugger stops in one core.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

__all__ = ["Aborted", "Hopeless", "Rendezvous"]


class Hopeless(Exception):
    """A wait that can never end. `waiting`: what each core waits for, None for one that has finished."""

    def __init__(self, core: int, waiting: dict[int, Any]) -> None:
        super().__init__(f"core {core} waits for ever")
        self.core = core
        self.waiting = waiting


class Aborted(Exception):
    """Another core has failed, so this one stops."""


class Rendezvous:
    """The meeting place of the cores of one launch. State: who waits for what, who is done, whose turn."""

    def __init__(self, cores: int, *, turns: bool = False) -> None:
        self.cores = cores
        self.is_aborted = False
        self._changed = threading.Condition()
        self._waiting: dict[int, tuple[Hashable, Any]] = {}
        self._sent: dict[int, tuple[Any, tuple[int, int]]] = {}
        self._received: dict[int, Any] = {}
        self._finished: set[int] = set()
        self._round = 0
        self._hopeless: dict[int, Any] | None = None
        self._turn: int | None = 0 if turns else None

    def start(self, core: int) -> None:
        """Wait for this core's turn."""
        with self._changed:
            self._await_turn(core)

    def barrier(self, core: int, channel: Hashable, where: Any) -> None:
        """Wait until all cores wait on `channel`. Raises `Hopeless` or `Aborted`."""
        with self._changed:
            self._meet(core, channel, where)

    def exchange(self, core: int, channel: Hashable, where: Any, value: Any, peers: tuple[int, int]) -> Any:
        """Wait until all cores wait on `channel`, each sending to who receives from it; return what was sent.

        `peers`: to whom this core sends, from whom it receives. Raises `Hopeless` or `Aborted`.
        """
        with self._changed:
            self._sent[core] = (value, peers)
            self._meet(core, channel, where)
            return self._received.pop(core)

    def _meet(self, core: int, channel: Hashable, where: Any) -> None:
        self._waiting[core] = (channel, where)
        mine = self._round
        if self._matches():
            self._received = {c: self._sent[peers[1]][0] for c, (_, peers) in self._sent.items()}
            self._sent.clear()
            self._waiting.clear()
            self._round += 1
            self._changed.notify_all()
            return
        self._look_for_hope()
        self._pass_turn(core)
        self._wait(lambda: self._round != mine)
        if self._round == mine:
            if self._hopeless is None:
                raise Aborted
            raise Hopeless(core, self._hopeless)
        self._await_turn(core)

    def _matches(self) -> bool:
        """True if all cores wait on one channel and, where tiles are swapped, name each other."""
        if len(self._waiting) < self.cores or len({c for c, _ in self._waiting.values()}) > 1:
            return False
        sent = self._sent
        return all(
            to in sent and source in sent and sent[to][1][1] == core and sent[source][1][0] == core
            for core, (_, (to, source)) in sent.items()
        )

    def finish(self, core: int) -> None:
        """Say that a core has come to its end."""
        with self._changed:
            self._finished.add(core)
            self._look_for_hope()
            self._pass_turn(core)
            self._changed.notify_all()

    def abort(self) -> None:
        """Wake all cores: one of them has failed, or the user has interrupted."""
        with self._changed:
            self.is_aborted = True
            self._changed.notify_all()

    def check(self) -> None:
        """Raise `Aborted` if another core has failed."""
        if self.is_aborted:
            raise Aborted

    def _wait(self, ready: Callable[[], bool]) -> None:
        while not ready() and self._hopeless is None and not self.is_aborted:
            self._changed.wait()

    def _look_for_hope(self) -> None:
        """Find out that nothing can happen any more: the last one to arrive sees it for all."""
        if self.is_aborted or not self._waiting or len(self._waiting) + len(self._finished) < self.cores:
            return
        self._hopeless = {
            core: self._waiting[core][1] if core in self._waiting else None for core in range(self.cores)
        }
        self._changed.notify_all()

    def _await_turn(self, core: int) -> None:
        while self._turn is not None and self._turn != core and not self.is_aborted:
            self._changed.wait()
        self.check()

    def _pass_turn(self, core: int) -> None:
        if self._turn != core:
            return
        for step in range(1, self.cores + 1):
            candidate = (core + step) % self.cores
            if candidate not in self._waiting and candidate not in self._finished:
                self._turn = candidate
                break
        self._changed.notify_all()

"""What a program knows of the machine: facts are served by name, and are never a divergence.

A fact is written aside, no position of its lane: what the program asks once more, or not any more,
changes nothing else. While recording it is always what it is. In a replay it is what was recorded in
this lane; else what this process was told before; else what it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from reenact.boundaries.callers import tier_of
from reenact.boundaries.processes.relay import relay_of
from reenact.engine.call import draw_call
from reenact.engine.draws import RecordedDraws
from reenact.engine.session.session import Session

__all__ = ["Numbers", "Pair", "Told", "as_written", "check_allowed", "tell", "told_in"]


class Numbers:
    """Which recorded numbers of processes stand for which present ones. ``has_started`` says of a
    present one whether the program has started that process: then it knows it by that number."""

    def __init__(self, has_started: Callable[[int], object] = relay_of) -> None:
        self._has_started = has_started
        self._now: dict[int, int] = {}
        self._then: dict[int, int] = {}

    def learn(self, then: Any, now: Any) -> None:
        """The program is told ``then`` where it is ``now``."""
        if isinstance(then, int) and isinstance(now, int) and then > 1:
            self._now[then], self._then[now] = now, then

    def now(self, number: Any) -> Any:
        """The present one that the program means. A group of processes is a negative number."""
        if not isinstance(number, int):
            return number
        if number < 0:
            return -self.now(-number)
        if self._has_started(number):
            return number
        return self._now.get(number, number)

    def is_known(self, now: int) -> bool:
        """Has the program started the present process ``now``, or learned its number?"""
        return now in self._then or bool(self._has_started(now))

    def then(self, number: int) -> int:
        """What the program calls it."""
        return self._then.get(number, number)


Pair = tuple[Any, Any]
"""What something was when the program was told, and what it was told."""


class Told:
    """What the program of one session knows, in this process, each by its name."""

    __slots__ = ("facts", "gone", "has_moved", "names", "others", "own", "pids", "variables")

    def __init__(self) -> None:
        self.variables: dict[str, Pair] = {}
        """Of the environment."""
        self.own: set[str] = set()
        """The variables that the program has set or taken away."""
        self.names: list[str] | None = None
        """The variables that there were when somebody asked for them all."""
        self.gone: set[str] = set()
        """Those that it has taken away since then, once or more: set again, they come last."""
        self.others: dict[str, Pair] = {}
        self.facts: dict[str, Any] = {}
        """What does not change while the program runs."""
        self.has_moved = False
        """Has it gone to another folder?"""
        self.pids = Numbers()


_ANY: Final = draw_call("env", "")


def check_allowed(session: Session, module: dict[str, Any]) -> None:
    """Raises what the policy refuses with, where the program may not ask the machine anything.
    Libraries, to which globals ``module`` may belong, ask all the same: they are not to blame."""
    if tier_of(module) != "user" or _ANY.source in session.free_draws:
        return
    with session.lock:
        refusal = session.machine.refusal_of(_ANY)
    if refusal is not None:
        raise refusal


def told_in(session: Session) -> Told:
    """What the program of ``session`` knows."""
    found: Told | None = session.host_facts
    if found is None:
        with session.lock:  # another thread may be first
            found = session.host_facts = session.host_facts or Told()
    return found


def tell(
    session: Session,
    kept: dict[str, Pair],
    name: str,
    now: Any,
    *,
    at_once: bool = False,
    fresh: bool = False,
) -> Any:
    """What the program is told of ``name``, which is ``now``; remembered in ``kept``. Written once
    in each lane, and again when it has changed; ``at_once``, before the program goes on. ``fresh``
    ignores the recorded value."""
    lane = session.lanes.current()
    here = lane.told
    if here is None:
        here = lane.told = {}
    pair = here.get(name)
    if pair is not None and pair[0] == now:
        return pair[1]

    draws = session.draws
    if type(draws) is RecordedDraws:  # without a recording to read, the current value counts
        draws.note_aside(lane, f"env {name}", now)
        here[name] = kept[name] = (now, now)
        if at_once:
            draws.end(lane)
        return now

    def live() -> Any:
        before = kept.get(name)
        return before[1] if before is not None and before[0] == now else now

    then = draws.draw_aside(f"env {name}", live, fresh=fresh)
    here[name] = kept[name] = (now, then)
    if at_once and session.writes:
        draws.end(lane)
    return then


def as_written(text: str) -> str | bytes:
    """A text of the system as it can stand in a recording: bytes where it is no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return os.fsencode(text)
    return text

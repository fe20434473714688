"""What a program draws of clock, chance and host, one value after the other.

Draws are positions of their lane like any call, but there may be millions of them. Those that come
one after the other are one event, a run, and most need neither the lock nor the log: a lane is run
by one thread or task at a time, so its run is that one's alone.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from reenact.engine.answers import Plain, owned
from reenact.engine.call import Call, Entry, Refuse, Serve, draw_call
from reenact.engine.derive import later
from reenact.engine.lanes import Lane
from reenact.engine.recorder import Opened
from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format.draws import LONGEST_RUN, MOST_NAMES, Name, Run, load_run
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["SAYS_DRAWS", "VALUE", "Draws", "draws_of"]

Live = Callable[[], Any]

_DRAWS: Final = "draws"
SAYS_DRAWS: Final = {_DRAWS: "clock rng"}
"""Stands in the environment of a manifest: these sources were recorded. Where it does not (net tapes,
recordings that were made by hand or came from elsewhere) the program draws what it draws."""

_ABSENT: Final = object()
_MOST_OPEN: Final = 64
"""Lanes of one thread whose runs are not written yet."""

_ident = threading.get_ident


def draws_of(session: Session) -> Draws:
    """How ``session``, which is being opened, keeps draws."""
    if session.mode == "off":
        return LiveDraws()
    if session.mode == "record_missing":
        return KeptDraws(session)
    return RecordedDraws(session) if session.writes else ReplayedDraws(session)


@cache
def _call_of(name: Name) -> Call:
    source, _, key = name.partition(" ")
    return draw_call(source, key)


class _Value(Plain):
    def dump(self, call: Call, result: Any) -> Data:
        return {"value": owned(result), "instant": True}


VALUE: Final = _Value()


class Draws(Protocol):
    """One per session."""

    def draw(self, name: Name, live: Live) -> Any:
        """What ``live`` gives, or gave in the recording. Raises what the policy refuses with."""

    def draw_aside(self, name: Name, live: Live) -> Any:
        """The same for a library: no position of its lane, and never a divergence. What is recorded
        is served while it lasts."""

    def end(self, lane: Lane) -> None:
        """The program goes on with something else: the run of ``lane`` is at its end."""

    def end_all(self) -> None:
        """The session ends."""

    def after_fork(self) -> None:
        """In a forked child: what its parent drew is none of its business."""


class LiveDraws:
    """Nothing is kept."""

    def draw(self, name: Name, live: Live) -> Any:
        return live()

    def draw_aside(self, name: Name, live: Live) -> Any:
        return live()

    def end(self, lane: Lane) -> None:
        pass

    def end_all(self) -> None:
        pass

    def after_fork(self) -> None:
        pass


class _Growing:
    """Draws that have been made and are not written yet."""

    __slots__ = ("_names", "drawn")

    def __init__(self) -> None:
        self.drawn: list[tuple[Name, Any]] = []
        self._names: set[Name] = set()

    def draw(self, name: Name, live: Live) -> Any:
        """``_ABSENT`` when it is full, or ``name`` has not been admitted."""
        if name not in self._names or len(self.drawn) >= LONGEST_RUN:
            return _ABSENT
        value = live()
        self.drawn.append((name, value))  # at once: a signal may come between any two steps
        return value

    def admit(self, name: Name) -> bool:
        """From now on ``name`` can be drawn. False when there are too many."""
        if len(self.drawn) >= LONGEST_RUN or len(self._names) >= MOST_NAMES:
            return False
        self._names.add(name)
        return True

    def whole(self) -> Run:
        """What there is of it."""
        columns: dict[Name, list[Any]] = {}
        for name, value in self.drawn:
            columns.setdefault(name, []).append(value)
        numbers = {name: number for number, name in enumerate(columns)}
        turns = [numbers[name] for name, _ in self.drawn]
        return Run(list(columns), turns, list(columns.values()))


class RecordedDraws:
    """Draws that are made and written down."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lane = session.lanes.current
        self._open: defaultdict[int, dict[Lane, None]] = defaultdict(dict)

    def draw(self, name: Name, live: Live) -> Any:
        lane = self._lane()
        run = lane.run
        value = _ABSENT if run is None else run.draw(name, live)
        return self._first(lane, name, live) if value is _ABSENT else value

    def _first(self, lane: Lane, name: Name, live: Live) -> Any:
        """The first of its name in a run."""
        session = self._session
        if not session.is_active:
            return live()
        call = _call_of(name)
        with session.lock:
            how = session.machine.draws_of(call)
        if how != "run" or session.recorder.room.full is not None:
            self._write(lane)
            return live() if how == "pass" else session.gateway.call(call, live, VALUE)
        if lane.run is None or not lane.run.admit(name):
            self._write(lane)
            lane.run = _Growing()
            lane.run.admit(name)
            self._opened(lane)
        return lane.run.draw(name, live)

    def draw_aside(self, name: Name, live: Live) -> Any:
        lane = self._lane()
        run = lane.side
        value = _ABSENT if run is None else run.draw(name, live)
        return self._first_aside(lane, name, live) if value is _ABSENT else value

    def _first_aside(self, lane: Lane, name: Name, live: Live) -> Any:
        session = self._session
        if not session.is_active:
            return live()
        with session.lock:
            free = session.machine.draws_of(_call_of(name)) == "run"
        if not free or session.recorder.room.full is not None:
            return live()
        if lane.side is None or not lane.side.admit(name):
            self._end_side(lane)
            lane.side = _Growing()
            lane.side.admit(name)
            self._opened(lane)
        return lane.side.draw(name, live)

    def _opened(self, lane: Lane) -> None:
        here = self._open[_ident()]
        if len(here) >= _MOST_OPEN:
            # Lanes of this very thread, so none of them is drawing: most belong to tasks that ended.
            for other in [one for one in here if one is not lane]:
                self._write(other)
        here[lane] = None

    def end(self, lane: Lane) -> None:
        self._write(lane)

    def _write(self, lane: Lane) -> None:
        run, lane.run = lane.run, None
        self._end_side(lane)
        with self._session.lock:
            for lanes in self._open.values():
                lanes.pop(lane, None)
            if run is not None and run.drawn:
                self._session.recorder.draws(lane, run.whole())

    def _end_side(self, lane: Lane) -> None:
        run, lane.side = lane.side, None
        if run is not None and run.drawn:
            with self._session.lock:
                self._session.recorder.draws(lane, run.whole(), aside=True)

    def end_all(self) -> None:
        for lanes in list(self._open.values()):
            for lane in list(lanes):
                self._write(lane)

    def after_fork(self) -> None:
        """In a forked child: what its parent drew is none of its business."""
        for lanes in self._open.values():
            for lane in lanes:
                lane.run = lane.side = None
        self._open.clear()


class KeptDraws(RecordedDraws):
    """Draws of a session that adds to a recording: served while there are recorded ones, then made;
    written anew, all of them."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._served: dict[Lane, _Served] = {}

    def draw(self, name: Name, live: Live) -> Any:
        lane = self._lane()
        value = self._recorded(lane, name)
        return super().draw(name, live if value is _ABSENT else lambda: value)

    def _recorded(self, lane: Lane, name: Name) -> Any:
        served = self._served.get(lane)
        value = _ABSENT if served is None else served.next(name)
        if value is not _ABSENT:
            return value
        session = self._session
        with session.lock:
            self._served.pop(lane, None)
            entry = session.machine.take_draws(name, lane.name)
            if entry is None:
                return _ABSENT
            session.leave_out(entry.seq)
        served = _Served(read_run(entry, session), entry, lambda: None)
        self._served[lane] = served
        return served.next(name)

    def end(self, lane: Lane) -> None:
        self._served.pop(lane, None)
        super().end(lane)


class _Served:
    """Recorded draws that are being handed over; ``done`` is called with the last one."""

    __slots__ = ("_done", "_drawn", "at", "entry")

    def __init__(self, run: Run, entry: Entry, done: Callable[[], None]) -> None:
        self.at = entry.start
        self.entry = entry
        columns = list(map(iter, run.columns))
        self._drawn = [(run.names[turn], next(columns[turn])) for turn in run.turns]
        self._done = done

    def next(self, name: Name) -> Any:
        """The next value, if it is ``name``'s; else ``_ABSENT``."""
        at = self.at
        if at == len(self._drawn):
            return _ABSENT
        asked, value = self._drawn[at]
        if asked != name:
            return _ABSENT
        self.at = at + 1
        if self.at == len(self._drawn):
            self._done()
        return value

    def last_values(self) -> dict[Name, Any]:
        """What was handed over last of each name."""
        return dict(self._drawn[: self.at])

    @property
    def following(self) -> Name | None:
        """What was asked for next; None at the end."""
        return None if self.at == len(self._drawn) else self._drawn[self.at][0]


def read_run(entry: Entry, session: Session) -> Run:
    """The draws of a recorded run. Raises :class:`RecordingDamaged`."""
    script = session.machine.script
    assert script is not None
    try:
        with session.lock:
            data = script.data_of(entry.opening)
        return load_run(data)
    except ValueRefused as error:
        raise RecordingDamaged(
            f"event {entry.seq} cannot be read: {error.message}", place=f"event {entry.seq}"
        ) from None


def recorded_draws(session: Session) -> frozenset[str]:
    """The sources of which the recording of ``session`` has every draw."""
    source = session.source
    said = "" if source is None else source.manifest().environment.get(_DRAWS, "")
    return frozenset(said.split())


class ReplayedDraws:
    """Draws that are served as they were recorded."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lane = session.lanes.current
        self._open: dict[Lane, None] = {}
        self._last: dict[Name, Any] = {}
        self._recorded = recorded_draws(session)

    def draw(self, name: Name, live: Live) -> Any:
        lane = self._lane()
        run = lane.run
        value = _ABSENT if run is None else run.next(name)
        return self._first(lane, name, live) if value is _ABSENT else value

    def _first(self, lane: Lane, name: Name, live: Live) -> Any:
        session = self._session
        call = _call_of(name)
        if call.source not in self._recorded or not session.is_active:
            return live()
        with session.lock:
            passes = session.machine.draws_of(call) == "pass"
        if passes:
            return live()
        decision, opened = session.decide(call, blocks=False)  # ends the run of the lane
        if isinstance(decision, Refuse) and decision.divergence is not None:
            decision = Refuse(divergence=session.located(decision.divergence))
        if isinstance(decision, Refuse) and decision.divergence and not session.machine.strict:
            return self._made_up(name, live, decision, opened)
        if not isinstance(decision, Serve) or "count" not in decision.entry.opening.data:
            value = session.gateway.carry_out(decision, opened, live, VALUE)
            self._last[name] = value
            return value
        entry = decision.entry
        run = read_run(entry, session)
        lane.calls += entry.count - 1
        lane.run = _Served(run, entry, lambda: self._done(lane, entry))
        self._open[lane] = None
        return lane.run.next(name)

    def _made_up(self, name: Name, live: Live, decision: Refuse, opened: Opened) -> Any:
        """In a lenient replay: a value that was not recorded. A clock goes on from its last one; one
        that was never read in the recording is the real one."""
        if not name.startswith("clock "):
            return self._session.gateway.carry_out(decision, opened, live, VALUE)
        last = self._last.get(name)
        value = live() if last is None else later(last)
        self._last[name] = value
        return value

    def draw_aside(self, name: Name, live: Live) -> Any:
        session = self._session
        if _call_of(name).source not in self._recorded or not session.is_active:
            return live()
        lane = self._lane()
        with session.lock:
            script = session.machine.script
            assert script is not None
            if session.machine.draws_of(_call_of(name)) == "run":
                while True:
                    queue = script.aside.get((lane.name, name))
                    if queue:
                        return queue.popleft()
                    if not script.read_aside(lane.name):
                        break
        return live()

    def _done(self, lane: Lane, entry: Entry) -> None:
        script = self._session.machine.script
        assert script is not None
        with self._session.lock:
            self._open.pop(lane, None)
            script.used_up(entry)

    def end(self, lane: Lane) -> None:
        run, lane.run = lane.run, None
        if run is None:
            return
        self._last.update(run.last_values())
        if run.following is None:
            return
        script = self._session.machine.script
        assert script is not None
        with self._session.lock:
            self._open.pop(lane, None)
            lane.calls -= run.entry.count - (run.at - run.entry.start)
            script.give_back(run.entry, run.at, run.following)

    def end_all(self) -> None:
        for lane in list(self._open):
            self.end(lane)

    def after_fork(self) -> None:
        """In a forked child: what its parent is served is none of its business."""
        for lane in self._open:
            lane.run = None
        self._open.clear()

"""Draws that are made and written down, many of them in one event."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Literal

from reenact.engine.drawing import ABSENT, VALUE, Live, call_of
from reenact.engine.lanes import Lane
from reenact.format.draws import LONGEST_RUN, MOST_NAMES, Mutation, Name, Run, mutation_of

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["Growing", "RecordedDraws"]

_MOST_OPEN: Final = 64
"""Lanes of one thread whose runs are not written yet."""

_ident = threading.get_ident


class Growing:
    """Draws that have been made and are not written yet: one event, so state mutations are apart
    from other draws, and have each name once."""

    __slots__ = ("_kind", "_names", "_once", "drawn")

    def __init__(self) -> None:
        self.drawn: list[tuple[Name, Any]] = []
        self._names: set[Name] = set()
        self._kind: Mutation = ""
        self._once: set[Name] = set()
        """Names that the open state mutation has already."""

    def draw(self, name: Name, live: Live) -> Any:
        """``ABSENT`` when it is full, or ``name`` has not been admitted."""
        if name not in self._names or len(self.drawn) >= LONGEST_RUN:
            return ABSENT
        value = live()
        self.drawn.append((name, value))  # at once: a signal may come between any two steps
        if self._kind:
            self._names.discard(name)
            self._once.add(name)
        return value

    def admit(self, name: Name) -> bool:
        """From now on ``name`` can be drawn. False when there are too many, or when it belongs to
        another event."""
        if len(self.drawn) >= LONGEST_RUN or len(self._names) >= MOST_NAMES:
            return False
        kind = mutation_of(name)
        if self.drawn and (kind != self._kind or kind == "cwd_change" or name in self._once):
            return False
        self._kind = kind
        self._names.add(name)
        return True

    def take(self, name: Name, value: Any) -> bool:
        """Add the first draw of ``name``, whose value is known. False where :meth:`admit` is."""
        kind, drawn = mutation_of(name), self.drawn
        if drawn:
            if kind != self._kind or kind == "cwd_change" or name in self._once:
                return False
            if len(drawn) >= LONGEST_RUN or len(self._names) >= MOST_NAMES:
                return False
        self._kind = kind
        drawn.append((name, value))
        (self._once if kind else self._names).add(name)
        return True

    @property
    def reads_environment(self) -> bool:
        """Are these environment variables, each of them once?"""
        return self._kind == "env_read"

    def whole(self) -> Run:
        """What there is of it."""
        if len(self._names) == 1 and not self._kind:
            [name] = self._names
            return Run([name], [0] * len(self.drawn), [[value for _, value in self.drawn]])
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
        self._free = session.free_draws
        """Sources whose draws are kept many in one event: that depends on nothing else."""

    def draw(self, name: Name, live: Live) -> Any:
        lane = self._lane()
        run = lane.run
        value = ABSENT if run is None else run.draw(name, live)
        return self._first(lane, name, live) if value is ABSENT else value

    def _first(self, lane: Lane, name: Name, live: Live) -> Any:
        """The first of its name in a run."""
        session = self._session
        if not session.is_active:
            return live()
        how = self._how(session, name)
        if how != "run" or session.recorder.room.full is not None:
            self._write(lane)
            return live() if how == "pass" else session.gateway.call(call_of(name), live, VALUE)
        if lane.run is None or not lane.run.admit(name):
            self._write(lane)
            lane.run = Growing()
            lane.run.admit(name)
            self._opened(lane)
        return lane.run.draw(name, live)

    def _how(self, session: Session, name: Name) -> Literal["run", "one", "pass"]:
        """See :meth:`reenact.engine.machine.Machine.draws_of`."""
        source = name.partition(" ")[0]
        if source in self._free:
            return "run"
        with session.lock:
            how = session.machine.draws_of(call_of(name))
        if how == "run":
            self._free.add(source)
        return how

    def draw_aside(self, name: Name, live: Live, *, fresh: bool = False) -> Any:
        lane = self._lane()
        run = lane.side
        value = ABSENT if run is None else run.draw(name, live)
        return self._first_aside(lane, name, live) if value is ABSENT else value

    def _first_aside(self, lane: Lane, name: Name, live: Live) -> Any:
        session = self._session
        if not session.is_active:
            return live()
        if self._how(session, name) != "run" or session.recorder.room.full is not None:
            return live()
        if lane.side is None or not lane.side.admit(name):
            self._end_side(lane)
            lane.side = Growing()
            lane.side.admit(name)
            self._opened(lane)
        return lane.side.draw(name, live)

    def note_aside(self, lane: Lane, name: Name, value: Any) -> None:
        """:meth:`draw_aside` in ``lane`` for a fact whose ``value`` is known. An app reads the same
        environment variables in every request, so this takes the shortest way."""
        session = self._session
        if not session.is_active or self._how(session, name) != "run":
            return
        if session.recorder.room.full is not None:
            return
        if lane.side is None or not lane.side.take(name, value):
            self._end_side(lane)
            lane.side = Growing()
            lane.side.take(name, value)
            self._opened(lane)

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
                if run.reads_environment:
                    self._session.recorder.reads(lane, run.drawn)
                else:
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

"""Draws of an update: served while there are recorded values, then made live.

A run of draws that is served completely stays unchanged. If the program pauses in the middle of a
run and continues later, so does the run. A clock without further recorded values continues from
the last one at the speed of the real clock, so the program sees one continuous time instead of a
mix of recorded and present times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reenact._system import monotonic
from reenact.engine.draws import (
    ABSENT,
    DrawSession,
    Live,
    RecordedDraws,
    ServedDraws,
    named_draw_call,
    read_draw_run,
    recorded_draws,
)
from reenact.engine.lanes import Lane
from reenact.format.draw_runs import Name, dump_aside

if TYPE_CHECKING:
    from reenact.store.sinks.copy import CopyOnWriteSink

__all__ = ["UpdateDraws"]

_CLOCK = "clock "
_NANO = 1_000_000_000
"""Clocks that count in whole numbers count these."""
_BOOKS = frozenset({"aside", "instant", "position", "redacted", "valueHash"})


class UpdateDraws(RecordedDraws):
    """See the module."""

    def __init__(self, session: DrawSession, copy_sink: CopyOnWriteSink) -> None:
        super().__init__(session)
        self._copy_sink = copy_sink
        self._recorded = None if session.source is None else recorded_draws(session)
        self._served: dict[Lane, ServedDraws] = {}
        self._sides: dict[Lane, set[int]] = {}
        """The events that the open run of draws aside has values of; 0 for values of today."""
        self._left_out: set[int] = set()
        self._in_runs: set[Name] = set()
        self._told: dict[Name, tuple[float, float]] = {}
        """Last value of each recorded clock, and when it was served."""

    def draw(self, name: Name, live: Live) -> Any:
        if not self._is_recorded(name):
            return live()
        lane = self._lane()
        if name not in self._in_runs and not self._is_in_runs(name):
            self._write(lane)
            return super().draw(name, live)
        served = self._served.get(lane)
        value = ABSENT if served is None else served.next(name)
        if value is not ABSENT:
            return self._draw_recorded(name, value)
        if not self._session.is_active:
            return live()
        if served is not None:
            self._write(lane)  # what follows is another run
        with self._session.lock:
            entry = self._session.machine.take_draws(name, lane.name)
        if entry is None:
            return super().draw(name, self._going_on(name, live))
        self._write(lane)
        served = ServedDraws(read_draw_run(entry, self._session), entry, lambda: None)
        value = self._draw_recorded(name, served.next(name))
        self._served[lane] = served  # not before the run is open: opening one ends the one before
        return value

    def _draw_recorded(self, name: Name, value: Any) -> Any:
        self._keep_time(name, value)
        return super().draw(name, lambda: value)

    def _is_in_runs(self, name: Name) -> bool:
        """Return whether draws of ``name`` are stored in runs. Others are stored as calls."""
        session = self._session
        if not session.is_active:
            return False
        with session.lock:
            call = named_draw_call(name)
            if session.machine.runs(call):
                self._in_runs.add(name)
        return name in self._in_runs

    def _is_recorded(self, name: Name) -> bool:
        """Return whether the recording has draws of the source of ``name``.

        A net tape or an imported recording can have none, and its update does not add any.
        """
        return self._recorded is None or named_draw_call(name).source in self._recorded

    def _keep_time(self, name: Name, value: Any) -> None:
        if name.startswith(_CLOCK) and isinstance(value, (int, float)):
            self._told[name] = value, monotonic()

    def _going_on(self, name: Name, live: Live) -> Live:
        """Return ``live``, or for a clock a reading that continues from the last recorded value."""
        told = self._told.get(name)
        if told is None:
            return live
        value, then = told

        def later() -> Any:
            live()  # what reading the clock does besides, it does
            passed = monotonic() - then
            return value + (int(passed * _NANO) if isinstance(value, int) else passed)

        return later

    def _write(self, lane: Lane) -> None:
        served = self._served.pop(lane, None)
        if served is None:
            self._tell_made(lane)
            super()._write(lane)
            return
        session, entry = self._session, served.entry
        with session.lock:
            if entry.start == 0 and served.following is None and lane.run is not None:
                lane.run = None
                super()._write(lane)
                session.recorder.keep_draws(lane, entry.seq, entry.count)
                return
            self._leave_out(entry.seq)
            script, following = session.machine.script, served.following
            if following is not None and script is not None:
                script.give_back(entry, served.at, following)
            super()._write(lane)

    def _tell_made(self, lane: Lane) -> None:
        if lane.run is not None and lane.run.drawn and self._recorded is not None:
            with self._session.lock:
                self._session.machine.made_draws(lane.run.drawn[0][0], lane.name)

    def _leave_out(self, seq: int) -> None:
        if seq not in self._left_out:
            self._left_out.add(seq)
            self._copy_sink.leave_out(seq)

    # Aside

    def draw_aside(self, name: Name, live: Live, *, fresh: bool = False) -> Any:
        if not self._is_recorded(name) or not self._session.is_active:
            return live()
        lane = self._lane()
        seq, value = self._next_aside(lane, name)
        if seq and not fresh:
            self._keep_time(name, value)
            live = _giving(value)
        elif not fresh:
            live = self._going_on(name, live)
        drawn = super().draw_aside(name, live)
        # With 0 besides it, the recorded event is left out, and a new one is written.
        self._sides.setdefault(lane, set()).update((seq, 0) if fresh else (seq,))
        return drawn

    def _next_aside(self, lane: Lane, name: Name) -> tuple[int, Any]:
        session = self._session
        with session.lock:
            script = session.machine.script
            found = None if script is None else script.next_aside(lane.name, name)
        return (0, ABSENT) if found is None else found

    def _end_side(self, lane: Lane) -> None:
        seqs = self._sides.pop(lane, set())
        with self._session.lock:
            if lane.side is not None and len(seqs) == 1 and self._is_whole(lane, *seqs):
                lane.side = None
                self._session.recorder.keep_aside(*seqs)
                return
            for seq in seqs - {0}:
                self._leave_out(seq)
            super()._end_side(lane)

    def _is_whole(self, lane: Lane, seq: int) -> bool:
        """Return whether the open run has exactly the values of event ``seq``."""
        script = self._session.machine.script
        if seq == 0 or seq in self._left_out or script is None or not lane.side.drawn:
            return False
        recorded = script.data_of(script.event(seq))
        return dump_aside(lane.side.whole()) == {
            field: item for field, item in recorded.items() if field not in _BOOKS
        }

    def after_fork(self) -> None:
        """Forget the draws that the parent of this forked child is served."""
        self._served.clear()
        self._sides.clear()
        super().after_fork()


def _giving(value: Any) -> Live:
    return lambda: value

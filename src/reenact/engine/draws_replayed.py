"""Draws that are served as they were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reenact.engine.call import Entry, Refuse, Serve
from reenact.engine.derive import later
from reenact.engine.drawing import (
    ABSENT,
    VALUE,
    Live,
    Served,
    ServedInPart,
    call_of,
    read_run,
    recorded_draws,
)
from reenact.engine.lanes import Lane
from reenact.engine.recorder import Opened
from reenact.format.draws import Name, Run

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["ReplayedDraws"]


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
        value = ABSENT if run is None else run.next(name)
        return self._first(lane, name, live) if value is ABSENT else value

    def _first(self, lane: Lane, name: Name, live: Live) -> Any:
        session = self._session
        call = call_of(name)
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
        lane.run = self._serving(run, entry, lane)
        self._open[lane] = None
        return lane.run.next(name)

    def _serving(self, run: Run, entry: Entry, lane: Lane) -> Served:
        script = self._session.machine.script
        let_by = None if script is None else script.let_by
        if let_by is None:
            return Served(run, entry, lambda: self._done(lane, entry))
        return ServedInPart(run, entry, lambda: self._done(lane, entry), let_by)

    def _made_up(self, name: Name, live: Live, decision: Refuse, opened: Opened) -> Any:
        """In a lenient replay: a value that was not recorded. A clock goes on from its last one; one
        that was never read in the recording is the real one."""
        if not name.startswith("clock "):
            return self._session.gateway.carry_out(decision, opened, live, VALUE)
        last = self._last.get(name)
        value = live() if last is None else later(last)
        self._last[name] = value
        return value

    def draw_aside(self, name: Name, live: Live, *, fresh: bool = False) -> Any:
        session = self._session
        if fresh or call_of(name).source not in self._recorded or not session.is_active:
            return live()
        with session.lock:
            script = session.machine.script
            assert script is not None
            free = session.machine.draws_of(call_of(name)) == "run"
            found = script.next_aside(self._lane().name, name) if free else None
        return live() if found is None else found[1]

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

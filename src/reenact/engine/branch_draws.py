"""Draws of a run that is forked: served up to the point, then made and written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reenact.engine.branching import Branching
from reenact.engine.call import Entry
from reenact.engine.drawing import ABSENT, Live, Served
from reenact.engine.draws_recorded import Growing, RecordedDraws
from reenact.engine.draws_replayed import ReplayedDraws
from reenact.engine.lanes import Lane
from reenact.format.draws import Name, Run

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["BranchDraws"]


class _Again(Served):
    """Draws that stand behind the point and were made before it: served, and written anew."""

    __slots__ = ("drawn",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.drawn = Growing()

    def next(self, name: Name) -> Any:
        value = super().next(name)
        if value is not ABSENT and self.drawn.admit(name):
            self.drawn.draw(name, lambda: value)
        return value


class BranchDraws(ReplayedDraws):
    """What a lane drew before the point is served; what comes after it is real."""

    def __init__(self, session: Session, branching: Branching) -> None:
        super().__init__(session)
        self._branching = branching
        self._cut = branching.branch.point.cut
        self._real = RecordedDraws(session)

    def draw(self, name: Name, live: Live) -> Any:
        if not self._is_recorded(name):
            return live()
        lane = self._lane()
        run = lane.run
        if isinstance(run, Served):
            value = run.next(name)
            if value is not ABSENT:
                return value
        elif run is not None:
            return self._real.draw(name, live)
        if not self._is_real(lane):
            return self._first(lane, name, live)
        self.end(lane)
        return self._real.draw(name, live)

    def _is_recorded(self, name: Name) -> bool:
        """What the forked recording does not hold, the new one does not, either."""
        return name.partition(" ")[0] in self._recorded

    def _is_real(self, lane: Lane) -> bool:
        session = self._session
        with session.lock:
            self._branching.count(lane)
            if not self._branching.turned:
                return False
            upcoming = session.machine.upcoming(lane.name)
        return upcoming is None or upcoming.seq >= self._cut

    def _serving(self, run: Run, entry: Entry, lane: Lane) -> Served:
        if entry.seq < self._cut:
            return super()._serving(run, entry, lane)
        return _Again(run, entry, lambda: None)

    def draw_aside(self, name: Name, live: Live, *, fresh: bool = False) -> Any:
        if not self._is_recorded(name):
            return live()
        if fresh:
            return self._real.draw_aside(name, live)
        session, lane = self._session, self._lane()
        with session.lock:
            self._branching.count(lane)
            script = session.machine.script
            before = self._cut if self._branching.turned else None
            found = None if script is None else script.next_aside(lane.name, name, before)
        if found is not None and found[0] < self._cut:
            return found[1]
        return self._real.draw_aside(name, live if found is None else lambda: found[1])

    def end(self, lane: Lane) -> None:
        run = lane.run
        if not isinstance(run, Served):
            self._real.end(lane)
            return
        super().end(lane)
        self._real.end(lane)
        if isinstance(run, _Again) and run.drawn.drawn:
            with self._session.lock:
                self._open.pop(lane, None)
                lane.calls -= len(run.drawn.drawn)
                self._session.recorder.draws(lane, run.drawn.whole())

    def end_all(self) -> None:
        super().end_all()
        self._real.end_all()

    def after_fork(self) -> None:
        super().after_fork()
        self._real.after_fork()

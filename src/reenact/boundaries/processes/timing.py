"""Time-outs that were over before a process had done: deliveries like any other.

They are numbered with the timed waits of threads, of which they are a kind.
"""

from __future__ import annotations

from collections.abc import Callable

from reenact.engine.scheduling.waiters import Waiter
from reenact.engine.session.session import Session

__all__ = ["InVain", "wait_in_vain", "was_in_vain"]


def _next(session: Session) -> tuple[str, str]:
    lane = session.lanes.current()
    return lane.name, f"wait:{lane.waits + 1}"


def was_in_vain(session: Session, still: Callable[[], bool]) -> bool:
    """While recording: the time of this thread is up. That is written when the program is at rest,
    if it is ``still`` true that it has waited in vain."""
    found: list[bool] = []

    def give_up() -> None:
        found.append(still())
        if found[0]:
            session.in_flight.record_delivery(*_next(session))
            session.lanes.current().waits += 1

    if session.tracks_order:
        session.scheduler.hand_over(session.runner(), give_up)
    else:
        give_up()
    return found[0]


def wait_in_vain(session: Session) -> None:
    """In a replay: until that comes next. Raises what a stall raises."""
    if session.tracks_order:
        token = _next(session)
        session.scheduler.wait(Waiter(token, token[0], session.runner()))
        session.lanes.current().waits += 1


class InVain:
    """The same for a thread that does something else meanwhile, and looks again and again."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._token = _next(session)
        self._before = session.scheduler.progress()

    def is_over(self) -> bool:
        """Does that come next? Then it has come, for good."""
        session, scheduler = self._session, self._session.scheduler
        if not session.tracks_order:
            return True
        with session.lock:
            if scheduler.try_now(session.runner(), self._token):
                session.lanes.current().waits += 1
                return True
            self._before = scheduler.look_for_stall(self._before)
            return scheduler.is_exhausted()

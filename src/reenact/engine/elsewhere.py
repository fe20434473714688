"""Jobs of process pools: each in a lane of its own, taken when it is submitted, and carried to
whichever worker gets the job. Which one that is differs in every run.

Covered are ``ProcessPoolExecutor`` (in :mod:`reenact.engine.executors`) and
``multiprocessing.Pool`` (in :mod:`reenact.engine.pools`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reenact.engine.arrivals import Arrival
from reenact.engine.current import current
from reenact.errors import DivergenceError

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["Elsewhere", "Failed", "Given", "in_lane", "taking_part"]


class Given:
    """A job, or many of them, that are given to a pool here: their ``lane``, and where what comes
    of them is expected."""

    __slots__ = ("arrival", "lane")

    def __init__(self, session: Session) -> None:
        with session.lock:
            home = session.lanes.current()
            lane = session.spawn_process()
            session.child_was_forked(lane)
        self.lane = lane.name
        # Not in the lane of the job, which is another process's.
        name = self.lane.removeprefix(f"{home.name}.")
        self.arrival = Arrival(session, self.lane, home.name, f"job:{name}")


class Elsewhere:
    """``fn`` in ``lane``, wherever it is called. It travels with what the program submits; the
    ``arrival`` stays at home."""

    __slots__ = ("arrival", "fn", "lane")

    def __init__(self, lane: str, fn: Callable[..., Any], arrival: Arrival | None = None) -> None:
        self.lane = lane
        self.fn = fn
        self.arrival = arrival

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return in_lane(self.lane, lambda: self.fn(*args, **kwargs))

    def __reduce__(self) -> Any:
        return Elsewhere, (self.lane, self.fn)


class Failed(Exception):
    """A job that diverged, where only ordinary exceptions find their way home."""

    def __init__(self, error: DivergenceError) -> None:
        super().__init__(error)
        self.error = error


def taking_part() -> Session | None:
    """The session that is in force here, if it does anything."""
    session = current()
    return session if session is not None and session.is_active else None


def in_lane(lane: str, act: Callable[[], Any]) -> Any:
    """Do the job of ``lane`` here."""
    session = taking_part()
    if session is None:
        return act()
    with session.doing_job(lane):
        return act()

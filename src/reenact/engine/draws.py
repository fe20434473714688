"""What a program draws of clock, chance and host, one value after the other.

Draws are positions of their lane like any call, but there may be millions of them. Those that come
one after the other are one event, a run, and most need neither the lock nor the log: a lane is run
by one thread or task at a time, so its run is that one's alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from reenact.engine.drawing import Live
from reenact.engine.draws_recorded import RecordedDraws
from reenact.engine.draws_replayed import ReplayedDraws
from reenact.engine.lanes import Lane
from reenact.engine.settings import ADDS
from reenact.format.draws import Name

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["Draws", "draws_of"]


def draws_of(session: Session) -> Draws:
    """How ``session``, which is being opened, keeps draws."""
    if session.mode == "off":
        return LiveDraws()
    if session.branching is not None:
        from reenact.engine.branch_draws import BranchDraws  # few runs are forked

        return BranchDraws(session, session.branching)
    if session.mode in ADDS:
        from reenact.engine.draws_kept import KeptDraws

        assert session.late is not None
        return KeptDraws(session, session.late)
    return RecordedDraws(session) if session.writes else ReplayedDraws(session)


class Draws(Protocol):
    """One per session."""

    def draw(self, name: Name, live: Live) -> Any:
        """What ``live`` gives, or gave in the recording. Raises what the policy refuses with."""

    def draw_aside(self, name: Name, live: Live, *, fresh: bool = False) -> Any:
        """The same for what a library draws, and for facts: no position of its lane, and never a
        divergence. What is recorded is served while it lasts; ``fresh`` ignores it."""

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

    def draw_aside(self, name: Name, live: Live, *, fresh: bool = False) -> Any:
        return live()

    def end(self, lane: Lane) -> None:
        pass

    def end_all(self) -> None:
        pass

    def after_fork(self) -> None:
        pass

"""Sessions across a fork: the child goes on in a lane of its own, its parent steps over it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakSet

from reenact.engine.current import current

if TYPE_CHECKING:
    from reenact.engine.lanes import Lane
    from reenact.engine.session import Session

__all__ = ["watch"]

_open: WeakSet[Session] = WeakSet()
_forking: list[tuple[Session, Lane | None]] = []
_hooked = False


def watch(session: Session) -> None:
    """Tell ``session`` about every fork while it is open."""
    global _hooked
    if not _hooked:
        _hooked = True
        os.register_at_fork(
            before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
        )
    _open.add(session)


def _before() -> None:
    """Nobody is in the middle of anything, and the child's lane is taken in program order."""
    here = current()
    for session in list(_open):
        session.lock.acquire()
        lane = session.lanes.spawn() if session is here and session.is_active else None
        _forking.append((session, lane))


def _after_in_parent() -> None:
    while _forking:
        session, lane = _forking.pop()
        if lane is not None:
            session.child_was_forked(lane)
        session.lock.release()


def _after_in_child() -> None:
    while _forking:
        session, lane = _forking.pop()
        session.became_child(lane)
        session.lock.release()

"""Sessions across a fork: the child goes on in a lane of its own, its parent steps over it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakSet

from reenact.engine.current import current
from reenact.store.log import forget_syncers, pause_syncers

if TYPE_CHECKING:
    from reenact.engine.lanes import Lane
    from reenact.engine.session import Session

__all__ = ["watch"]

_open: WeakSet[Session] = WeakSet()
_guard = threading.Lock()
_forking = threading.local()
"""What this thread, which is about to fork, holds: two threads may fork at the same time."""

_hooked = False


def watch(session: Session) -> None:
    """Tell ``session`` about every fork while it is open."""
    global _hooked
    if not _hooked:
        _hooked = True
        os.register_at_fork(
            before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
        )
    with _guard:
        _open.add(session)


def _before() -> None:
    """Nobody is in the middle of anything, and the child's lane is taken in program order."""
    here = current()
    held: list[tuple[Session, Lane | None]] = []
    _guard.acquire()
    for session in list(_open):
        session.lock.acquire()
        takes_part = session is here and session.is_active
        held.append((session, session.spawn_process() if takes_part else None))
    pause_syncers()
    _forking.held = held


def _held() -> list[tuple[Session, Lane | None]]:
    held: list[tuple[Session, Lane | None]] = _forking.held
    _forking.held = []
    _guard.release()
    return held


def _after_in_parent() -> None:
    for session, lane in _held():
        if lane is not None:
            session.child_was_forked(lane)
        session.lock.release()


def _after_in_child() -> None:
    forget_syncers()
    for session, lane in _held():
        session.became_child(lane)
        session.lock.release()

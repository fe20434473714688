"""Processes that work for a pool.

How many there are, when one is replaced, and which of them gets which job is another matter in
every run. So they are numbered below a lane of their pool, and none of them is expected in a
replay. What a worker does outside of jobs (its imports, an initializer) is the same for all of
them: in a replay each is served what was recorded of the one that did most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from reenact.engine.current import current, enter, leave
from reenact.engine.lanes import Lane, WorkersLane

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["founding", "hiring", "inside"]

Home = tuple["Session", WorkersLane]
"""Where the workers of a pool belong."""

_pools: WeakKeyDictionary[Any, Home] = WeakKeyDictionary()


def founding(original: Callable[..., None]) -> Callable[..., None]:
    """The constructor of a pool."""

    @wraps(original)
    def founded(self: Any, *args: Any, **kwargs: Any) -> None:
        home = _found()
        if home is not None:
            _pools[self] = home
        original(self, *args, **kwargs)

    return founded


def _found() -> Home | None:
    """A pool is made here: it takes a lane, as whatever the program starts does."""
    session = current()
    if session is None or not session.is_active:
        return None
    with session.lock:
        lane = WorkersLane(session.spawn_process().name)
        session.child_was_forked(lane)
        session.leave_to_workers(lane)
    return session, lane


def hiring(pool: Any) -> AbstractContextManager[None]:
    """Who is started in the block works for ``pool``, whichever thread starts it."""
    home = _pools.get(pool)
    return nullcontext() if home is None or not home[0].is_active else inside(*home)


@contextmanager
def inside(session: Session, lane: Lane) -> Iterator[None]:
    """What runs here is in ``lane`` of ``session``, whatever thread it is."""
    token = enter(session)
    try:
        with session.lanes.inside(lane):
            yield
    finally:
        leave(token)

"""Protocol of the session that patched functions report to, and the typed current session."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from reenact.engine.draws import Draws
from reenact.engine.lanes import Lane, Lanes
from reenact.engine.scheduling.delivery_order import DeliveryToken
from reenact.engine.scheduling.scheduler import Scheduler
from reenact.engine.scheduling.waiters import Runner
from reenact.engine.session import context

if TYPE_CHECKING:
    from reenact.engine.scheduling.loop_scheduler import LoopScheduler

__all__ = ["PatchedSession", "current"]


class Deliveries(Protocol):
    """Deliveries that patched functions make."""

    def is_now(self, token: DeliveryToken | None) -> bool: ...
    def record_delivery(self, lane: str, name: str) -> None: ...


class Children(Protocol):
    """Processes that patched functions start."""

    def spawn(self) -> Lane: ...
    def was_forked(self, lane: Lane) -> None: ...
    def leave_to_workers(self, lane: Lane) -> None: ...
    def doing_job(self, name: str) -> AbstractContextManager[None]: ...


class PatchedSession(Protocol):
    """Parts of a session that patched functions use."""

    draws: Draws
    lanes: Lanes
    lock: RLock
    scheduler: Scheduler
    tracks_order: bool
    writes: bool

    @property
    def children(self) -> Children: ...
    @property
    def in_flight(self) -> Deliveries: ...
    @property
    def is_active(self) -> bool: ...
    def loop_scheduler(self, loop: Any) -> LoopScheduler: ...
    def runner(self) -> Runner: ...


current: Callable[[], PatchedSession | None] = context.current
"""Return the innermost open session here, or None."""

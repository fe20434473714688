"""Recorded pace: no result or chunk is delivered earlier than in the recording.

The pace only delays the consumer. It does not change the delivery order, is not a timer of the
program, and never counts as a stall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reenact._system import monotonic, pause
from reenact.engine._lazy import lazy_module
from reenact.format.event import Data

if TYPE_CHECKING:
    from asyncio import Future

    from reenact.engine.execution.ports import ExecutingSession
    from reenact.engine.patches import unpatched_loop
else:
    unpatched_loop = lazy_module("reenact.engine.patches.unpatched_loop")

__all__ = ["RecordedPace"]

_LONGEST = 1.0
"""Longest single wait in seconds. The scheduler sees progress after each."""


class RecordedPace:
    """Recorded pace of one call, which begins now. ``data`` is its completing event.

    ``clock`` returns seconds and ``sleep`` waits for some.
    """

    def __init__(
        self,
        session: ExecutingSession,
        data: Data,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], None] = pause,
    ) -> None:
        self._session = session
        paced = session.mode == "replay" and session.settings.pace == "recorded"
        self._offsets = _offsets(data) if paced else []
        self._clock = clock
        self._sleep = sleep
        self._began = clock()
        self._longest = min(_LONGEST, session.scheduler.patience / 4)

    @property
    def is_recorded(self) -> bool:
        """True if a replay is to use the recorded times."""
        return bool(self._offsets)

    def wait(self, number: int = 0) -> None:
        """Wait until chunk ``number`` may be delivered; at once if it has no recorded time."""
        while (left := self._left(number)) > 0:
            self._session.scheduler.arrive(self._session.runner())
            with self._helped():
                self._sleep(min(left, self._longest))

    async def wait_async(self, number: int = 0) -> None:
        """Async variant of :meth:`wait`. Other tasks run meanwhile."""
        while (left := self._left(number)) > 0:
            with self._helped():
                await self._sleep_async(min(left, self._longest))

    def _left(self, number: int) -> float:
        if number >= len(self._offsets):
            return 0.0
        return self._began + self._offsets[number] / 1e3 - self._clock()

    async def _sleep_async(self, seconds: float) -> None:
        loop_scheduler = self._session.running_loop_scheduler()
        done: Future[None] = loop_scheduler.loop.create_future()
        when = loop_scheduler.loop.time() + seconds
        timer = unpatched_loop.call_at(
            loop_scheduler.loop, when, _wake, done, context=loop_scheduler.own_context
        )
        try:
            await done
        finally:
            timer.cancel()

    @contextmanager
    def _helped(self) -> Iterator[None]:
        """Register as a helper in the block, because this wait ends without the session."""
        scheduler = self._session.scheduler
        scheduler.helper_comes()
        try:
            yield
        finally:
            scheduler.helper_goes()


def _wake(done: Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _offsets(data: Data) -> list[int]:
    timing = data.get("timing")
    found: Any = timing.get("offsets") if isinstance(timing, dict) else None
    return [one if type(one) is int else 0 for one in found] if isinstance(found, list) else []

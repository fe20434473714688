"""Replays that take their time: nothing is handed over earlier than it came in the recording.

The order stays what it is; this only delays who asks. Waiting is no timer of the program, and no
standstill, however long it lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reenact._system import monotonic, pause
from reenact.engine.late import late_module
from reenact.format.event import Data

if TYPE_CHECKING:
    from asyncio import Future

    from reenact.engine import loops
    from reenact.engine.session import Session
else:
    loops = late_module("reenact.engine.loops")

__all__ = ["Pace"]

_LONGEST = 1.0
"""Seconds of waiting at a time, at most. After each it is said that we are still there."""


class Pace:
    """The pace of one recorded call, which begins now. ``data`` is its completing event.

    ``clock`` gives seconds and ``sleep`` waits for some.
    """

    def __init__(
        self,
        session: Session,
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
        self._longest = min(_LONGEST, session.conductor.patience / 4)

    def wait(self, number: int = 0) -> None:
        """Until piece ``number`` may come. One that has no recorded time may come at once."""
        while (left := self._left(number)) > 0:
            self._session.conductor.arrive(self._session.runner())
            with self._helped():
                self._sleep(min(left, self._longest))

    async def wait_async(self, number: int = 0) -> None:
        """The same in a task; others run meanwhile."""
        while (left := self._left(number)) > 0:
            with self._helped():
                await self._sleep_async(min(left, self._longest))

    def _left(self, number: int) -> float:
        if number >= len(self._offsets):
            return 0.0
        return self._began + self._offsets[number] / 1e3 - self._clock()

    async def _sleep_async(self, seconds: float) -> None:
        desk = self._session.running_desk()
        done: Future[None] = desk.loop.create_future()
        when = desk.loop.time() + seconds
        timer = loops.call_at(desk.loop, when, _wake, done, context=desk.own_context)
        try:
            await done
        finally:
            timer.cancel()

    @contextmanager
    def _helped(self) -> Iterator[None]:
        """We do nothing until it is time, and then we go on by ourselves."""
        conductor = self._session.conductor
        conductor.helper_comes()
        try:
            yield
        finally:
            conductor.helper_goes()


def _wake(done: Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _offsets(data: Data) -> list[int]:
    timing = data.get("timing")
    found: Any = timing.get("offsets") if isinstance(timing, dict) else None
    return [one if type(one) is int else 0 for one in found] if isinstance(found, list) else []

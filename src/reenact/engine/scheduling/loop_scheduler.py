"""Scheduler of deliveries to one asyncio loop: one per loop and session.

A loop is quiescent when nothing of the session is ready to run in it. A callback of the loop
scheduler checks that once per loop turn, until it is true, and then makes one delivery. A loop
that is not quiescent after ``MAX_TURNS`` turns gets its delivery anyway.

Invariants: used in the loop's own thread only, except for ``put``, ``run_in_loop`` and
``post_from_anywhere``. Callbacks run in ``own_context``, outside every session. Loaded together
with ``asyncio``.

::

    post ──next turn──> look ──busy──> look again (at most MAX_TURNS)
                          │ quiescent
                          ├─ recording: first submitted act that is still wanted
                          ├─ replay: waiter of the head, if it belongs to this loop
                          └─ nothing requests the head: release timers, watch, or stall

Relies on private details (CPython 3.11 to 3.14): ``_ready``, ``_scheduled``, ``_selector``,
``_stopping`` and ``_thread_id`` of ``BaseEventLoop``, and ``_cancelled`` and ``_context`` of a
handle. Without ``_ready`` (uvloop) the order is flagged as approximate.
``tests/unit/engine/test_loop_scheduler.py`` notices a change.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop, CancelledError, Future
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol

from reenact.engine.call import Call, Entry
from reenact.engine.lanes import Lanes
from reenact.engine.patches import unpatched_loop
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.scheduling.cpu_usage import Progress
from reenact.engine.scheduling.delivery_order import DeliveryToken
from reenact.engine.scheduling.scheduler import Scheduler
from reenact.engine.scheduling.waiters import Waiter
from reenact.engine.session.context import context_outside_sessions, session_in_context

__all__ = ["MAX_TURNS", "LoopScheduler"]

MAX_TURNS = 1_000
"""Turns after which a busy loop gets its delivery anyway."""

_ident = threading.get_ident
_QUICK_TURNS = 100
_UNWINDING = 0.01
"""Seconds between two looks at a loop in which a cancelled call takes long to end."""


class LoopDecisions(Protocol):
    """Fast case of the decision about a call."""

    def serve_now(self, call: Call) -> Entry | None: ...


class LoopReporter(Protocol):
    """Divergence of a call that was cancelled."""

    def cancelled_early(self, opened: InFlightCall, entry: Entry) -> None: ...


class LoopSession(Protocol):
    """Parts of a session that its loops use."""

    lanes: Lanes
    scheduler: Scheduler

    @property
    def decisions(self) -> LoopDecisions: ...
    @property
    def reporter(self) -> LoopReporter: ...
    def schedule_is_approximate(self, why: str) -> None: ...


class _AheadClock:
    """A loop's clock that runs ahead of the real one, never back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.clock() + self.seconds


class _Turn:
    """Awaitable that gives the loop one turn."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class LoopScheduler:
    """Deliveries of one session to one loop. Used in the loop's own thread, except ``post_…``."""

    def __init__(self, loop: AbstractEventLoop, session: LoopSession) -> None:
        self.loop: Any = loop
        self.ident: int = getattr(loop, "_thread_id", None) or 0
        """The thread that runs the loop; 0 before it runs."""
        self.unwinding = 0
        """Cancelled calls whose live half has not ended yet."""
        self.own_context = context_outside_sessions()
        """Context of Reenact's own callbacks, outside every session."""
        self._session = session
        self._scheduler: Scheduler = session.scheduler
        self._queue: deque[Callable[[], bool]] = deque()
        self._posted = False
        self._turns = 0
        self._ready: deque[Any] | None = getattr(loop, "_ready", None)
        self._watching: Progress | None = None
        self._later: Any = None

    # From other threads

    def put(self, act: Callable[[], None]) -> None:
        """Perform ``act``, which writes to a file that the loop reads.

        The loop counts as busy until it has polled its files.
        """
        act()
        unseen = object()
        with self._scheduler.lock:
            self._scheduler.given(self)
            self._scheduler.quiescence.add(unseen)
        unpatched_loop.post(self.loop, self._looks_at_files, unseen, context=self.own_context)

    def _looks_at_files(self, unseen: object) -> None:
        # The loop has polled its files before this turn, perhaps before ``act`` wrote. It polls
        # again before the next turn, so only then is the write certainly seen.
        self.loop.call_soon(self._has_looked, unseen, context=self.own_context)

    def _has_looked(self, unseen: object) -> None:
        with self._scheduler.lock:
            self._scheduler.quiescence.remove(unseen)
        self.post()

    # While recording

    def submit(self, act: Callable[[], bool]) -> None:
        """Perform ``act`` when the loop is quiescent. It returns False if it is no longer wanted."""
        self._queue.append(act)
        self.post()

    async def hand_over(self, act: Callable[[], Any]) -> Any:
        """Wait for the turn of this loop and perform ``act``, which writes the event, in it."""
        done: Future[None] = self.loop.create_future()
        result: list[Any] = []

        def take_turn() -> bool:
            if done.done():
                return False
            result.append(act())
            done.set_result(None)
            return True

        self.submit(take_turn)
        await done
        return result[0]

    # In a replay

    async def wait(self, waiter: Waiter) -> None:
        """Wait for ``waiter``'s turn. Raises what a stall raises."""
        if self._gives_now(waiter.token):
            await _Turn()
            return
        done: Future[None] = self.loop.create_future()

        def fire() -> bool:
            if done.done():
                return False
            done.set_result(None)
            return True

        waiter.fire, waiter.ident = fire, 0
        self.expect(waiter)
        try:
            await done
        finally:
            self._scheduler.forget(waiter)
        if waiter.error is not None:
            raise waiter.error

    async def serve_now(self, call: Call) -> Entry | None:
        """Return the recorded call that answers ``call`` right now, or None.

        The task gives its loop one turn before it continues, as after any delivery.
        """
        session = self._session
        entry = session.decisions.serve_now(call) if self._is_at_rest() else None
        if entry is not None:
            try:
                await _Turn()
            except CancelledError:
                opened = InFlightCall(call, entry.key, session.lanes.current(), entry.position)
                session.reporter.cancelled_early(opened, entry)
                raise
        return entry

    def _is_at_rest(self) -> bool:
        """Return whether the loop is quiescent apart from the calling task, which is about to wait.

        The task can then receive its delivery without a detour through a callback.
        """
        if self._queue or self.is_busy():
            return False
        self.ident = _ident()
        return True

    def _gives_now(self, token: DeliveryToken | None) -> bool:
        if token is None or not self._is_at_rest():
            return False
        with self._scheduler.lock:
            return self._scheduler.try_now(self, token)

    def expect(self, waiter: Waiter) -> None:
        """Register ``waiter``, and check for its turn when the loop is quiescent."""
        with self._scheduler.lock:
            self._scheduler.expect(waiter)
        self.post()

    def run_now(self, handle: Any) -> None:
        """Run ``handle`` in the next turn of the loop. In the loop's own thread."""
        self.loop._ready.append(handle)

    def run_in_loop(self, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback`` in the loop's own thread."""
        unpatched_loop.post(self.loop, callback, *args, context=self.own_context)

    def skip_to(self, when: float) -> None:
        """Advance the loop's clock to ``when`` permanently, so that a time-out is seen to be over."""
        ahead = when - self.loop.time()
        if ahead > 0:
            if not isinstance(self.loop.time, _AheadClock):
                self.loop.time = _AheadClock(self.loop.time)
            self.loop.time.seconds += ahead

    # Quiescence

    def post(self) -> None:
        """Check the state of the loop in its next turn."""
        if not self._posted:
            self._posted = True
            self.loop.call_soon(self._look, context=self.own_context)

    def post_from_anywhere(self) -> None:
        """Variant of :meth:`post` for any thread. A closed loop ignores it."""
        unpatched_loop.post(self.loop, self.post, context=self.own_context)

    def post_later(self, seconds: float) -> None:
        """Variant of :meth:`post` after some seconds, for the loop's own thread."""
        if self._later is None or self._later.cancelled() or self._later.when() < self.loop.time():
            when = self.loop.time() + seconds
            self._later = unpatched_loop.call_at(
                self.loop, when, self.post, context=self.own_context
            )

    def is_busy(self) -> bool:
        """Return whether the session has a ready callback, or a cancelled call still unwinds."""
        if self.unwinding:
            return True
        if self._ready is None:  # a loop that hides its callbacks, such as uvloop's
            self._session.schedule_is_approximate("the event loop does not show what is ready")
            return False
        session = self._session
        return any(
            not handle._cancelled and session_in_context(handle._context) is session
            for handle in self._ready
        )

    def _look(self) -> None:
        self._posted = False
        self.ident = _ident()
        if getattr(self.loop, "_stopping", False):
            self.post()  # look again when the loop runs again
            return
        if self.is_busy() and self._looks_again():
            return
        self._turns = 0
        # The lock is held from the arrival to the delivery, so the order cannot change in between.
        with self._scheduler.lock:
            self._scheduler.arrive(self)
            live = self._queue and self._scheduler.order is None
            more = self._serve_recording() if live else self._serve_replay()
            if self._queue and not live and not more:
                self._watch()
        if more:
            self.post()

    def _looks_again(self) -> bool:
        """Schedule another check of a busy loop. Return False if it was busy for too long."""
        self._turns += 1
        if self._turns >= MAX_TURNS:
            self._session.schedule_is_approximate(
                f"an event loop did not come to rest in {MAX_TURNS:,} turns"
            )
            return False
        if self.unwinding and self._turns > _QUICK_TURNS:
            self.post_later(
                _UNWINDING
            )  # it waits for the network, so turns without a pause would only use the processor
        else:
            self.post()
        return True

    def _serve_recording(self) -> bool:
        """Hand over the first wanted delivery. Return whether there can be more. Locked."""
        if not self._scheduler.holds_for(self):
            self._scheduler.quiescence.tell_later(self)
            return False
        while self._queue:
            act = self._queue.popleft()
            if act():
                self._scheduler.given(self)
                break
        return bool(self._queue)

    def _serve_replay(self) -> bool:
        """Deliver the head if it belongs to this loop. Return whether to check again. Locked."""
        scheduler = self._scheduler
        if scheduler.order is None:
            return False
        waiter = scheduler.next_waiter()
        if waiter is None:
            return self._nothing_to_do()
        if waiter.fire is None or waiter.runner is not self:
            scheduler.advance()
            return False
        if not scheduler.holds_for(self):
            scheduler.quiescence.tell_later(self)
            return False
        scheduler.deliver(waiter)
        return True

    # Stalls

    def _nothing_to_do(self) -> bool:
        """Handle an idle loop without a waiter for the head. Return whether to check again. Locked.

        This is the end of the recording, an unreachable head, or perhaps a stall.
        """
        scheduler = self._scheduler
        if scheduler.has_waiters() and scheduler.skip_unreachable():
            return True
        if scheduler.is_exhausted():
            if not scheduler.quiescence.is_complete():
                scheduler.quiescence.tell_later(self)
                return False
            scheduler.release_timers()
        if not scheduler.has_waiters():
            return False
        if not self._is_cut_off() or not scheduler.is_stuck(self):
            self._watch()
            return False
        return scheduler.stall()

    def _is_cut_off(self) -> bool:
        """Return whether nothing can wake the loop: no handle, no timer by the clock, no file."""
        handles = (*(self._ready or ()), *getattr(self.loop, "_scheduled", ()))
        if any(not one._cancelled and one._context is not self.own_context for one in handles):
            return False
        selector = getattr(self.loop, "_selector", None)
        files = selector.get_map() if selector is not None else None
        return files is not None and len(files) <= 1  # its own wake-up pipe

    def _watch(self) -> None:
        """Check for a stall later, because something outside can still wake the loop. Locked."""
        if self._watching is None:
            self._watching = self._scheduler.progress()
            unpatched_loop.call_at(
                self.loop,
                self.loop.time() + self._scheduler.patience,
                self._look_again,
                context=self.own_context,
            )

    def _look_again(self) -> None:
        # ``_watching`` is reset before the check, so that ``_watch`` can schedule the next one.
        with self._scheduler.lock:
            before, self._watching = self._watching, None
            quiet = before is not None and self._scheduler.is_quiet_since(before)
            nobody_asks = self._scheduler.next_waiter() is None and not self.is_busy()
            if quiet and nobody_asks and self._scheduler.has_waiters():
                self._scheduler.stall()
            elif before is not None and self._queue:
                self._scheduler.look_for_miss(before)
        self.post()

"""Calls in flight: calls of a session that have begun and are not completed.

::

    decided ──begin──> in flight ──complete──> written
                          │
                          └─ session ends ──end_all──> written as "unfinished"

Invariants: the session's lock covers the table of calls. A call is written at most once, because
``complete`` removes it from the table first. Callbacks of the garbage collector only use
``defer``, which takes no lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from reenact.engine.call import Entry
from reenact.engine.decision.machine import Machine
from reenact.engine.recording.recorder import InFlightCall, Recorder
from reenact.engine.scheduling.delivery_order import DeliveryToken
from reenact.engine.scheduling.scheduler import Scheduler
from reenact.engine.scheduling.waiters import Runner
from reenact.engine.session.divergences import DivergenceReporter
from reenact.engine.session.resources import SessionResources
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.update.merger import RecordingMerger

__all__ = ["InFlightCalls"]


class InFlightSession(Protocol):
    """Parts of a session that calls in flight use."""

    last_clock: float | None
    machine: Machine
    merger: RecordingMerger | None
    recorder: Recorder
    reporter: DivergenceReporter
    resources: SessionResources | None
    scheduler: Scheduler
    tracks_order: bool
    writes: bool

    @property
    def lock(self) -> AbstractContextManager[Any]: ...
    @property
    def is_active(self) -> bool: ...
    def check_open(self) -> None: ...
    def runner(self) -> Runner: ...
    def warn_once(self, text: str) -> None: ...


class InFlightCalls:
    """Table of the calls in flight, with the end of each. Thread-safe."""

    def __init__(self, session: InFlightSession) -> None:
        self._session = session
        self._calls: dict[int, tuple[InFlightCall, Callable[[], None] | None]] = {}
        self.deferred: deque[Callable[[], None]] = deque()
        """Actions to perform at the next call, see :meth:`defer`."""

    def __len__(self) -> int:
        return len(self._calls)

    def claim(
        self, opened: InFlightCall, entry: Entry, *, stub: bool = True
    ) -> tuple[Any, Data | None]:
        """Return the delivery token of the recorded result of ``entry``, and that result.

        Both are None for a call that the recorded program never received a result for. ``stub``
        skips the calls that were recorded inside a tool.
        """
        session = self._session
        script, resources = session.machine.script, session.resources
        assert script is not None
        assert resources is not None
        assert resources.source is not None
        with session.lock:
            closing = script.complete(entry)
            if opened.inner is not None:
                opened.inner = entry.inner or opened.inner
                if stub:
                    script.stub(opened.inner)
            if closing is None or entry.unanswered:
                if not session.tracks_order:
                    session.check_open()
                    reporter = session.reporter
                    raise reporter.diverged(reporter.never_answered(opened, entry))
                return None, None
            if opened.call.instant:
                script.order.drop(closing.seq)
            data = closing.data
            absent: tuple[str, ...] = ()
            if "redacted" in data:
                restored = resources.source.restored(closing, resources.seal)
                data, absent = restored.data, restored.absent
        if absent and entry.kind != "rng":  # a redacted random value is replaced with a warning
            session.warn_once(
                "a recorded answer has values that were redacted and cannot be opened here: the "
                "placeholder is served instead (a capture directory keeps them, sealed with a key)"
            )
        if entry.kind == "clock" and isinstance(data.get("value"), (int, float)):
            session.last_clock = data["value"]
        return closing.seq, data

    def is_now(self, token: DeliveryToken | None) -> bool:
        """Deliver ``token`` to this thread if its turn has come; return whether it has."""
        session = self._session
        with session.lock:
            return session.scheduler.try_now(session.runner(), token)

    def begin(
        self, opened: InFlightCall, ends: Callable[[], None] | None = None, *, brief: bool = False
    ) -> None:
        """Begin a call. ``ends`` completes it if the session ends first."""
        with self._session.lock:
            if self._is_written(opened):
                self._session.recorder.open(opened, brief=brief)
            self._calls[id(opened)] = opened, ends

    def _is_written(self, opened: InFlightCall) -> bool:
        return (self._session.writes or opened.fresh) and not opened.past

    def keep(self, opened: InFlightCall, data: Data) -> bool:
        """Begin a call that stays in the recording unchanged; return False for other calls."""
        if opened.entry is None:
            return False
        opened.answer = data
        self.begin(opened)
        return True

    def kept_or_new(self, opened: InFlightCall, fields: Data) -> Data:
        """Return the completing event of a kept call that was made again."""
        merger = self._session.merger
        assert merger is not None
        with self._session.lock:
            return merger.answer_or_new(opened, fields, self._session.recorder)

    def is_open(self, opened: InFlightCall) -> bool:
        """Return whether ``opened`` has begun and is not completed."""
        return id(opened) in self._calls

    def end(self, opened: InFlightCall) -> bool:
        """Remove ``opened``; return whether its completing event is to be written.

        The caller holds the lock until it has written the event.
        """
        session = self._session
        if self._calls.pop(id(opened), None) is None or not self._is_written(opened):
            return False
        if session.merger is not None and opened.entry is not None:
            session.merger.keep_inside(opened.entry)
        return True

    def complete(self, opened: InFlightCall, data: Data) -> None:
        """Write the completing event of ``opened``, once."""
        with self._session.lock:
            if self.end(opened):
                self._session.recorder.complete(opened, data)

    def cancel(self, opened: InFlightCall, *, turns: int = 0) -> None:
        """Complete ``opened``, which was cancelled. See :meth:`unanswered` for ``turns``."""
        self.complete(opened, self.unanswered(opened, "cancelled", turns=turns))

    def unanswered(self, opened: InFlightCall, why: str, *, turns: int = 0) -> Data:
        """Return the completing event of a call that never received a result.

        ``turns`` is the number of loop turns until its live half had unwound.
        """
        fields: Data = {why: True}
        if turns:
            fields["timing"] = {"turns": turns}
        if opened.call.type == "tool_call":
            fields["ok"] = False
        elif opened.call.type == "llm_request":
            fields |= {"stopReason": None, "usage": None}
        return self._session.recorder.completing(opened, fields)

    def end_all(self) -> None:
        """Complete every call, because the session or the process ends."""
        for opened, ends in list(self._calls.values()):
            if ends is not None:
                ends()
            else:
                self.complete(opened, self.unanswered(opened, "unfinished"))

    def defer(self, act: Callable[[], None]) -> None:
        """Perform ``act`` at the next call or at the end of the session.

        For finalizers: the garbage collector runs them at any time, also while a lock is held.
        """
        self.deferred.append(act)

    def flush(self) -> None:
        """Perform the deferred actions."""
        while self.deferred:
            self.deferred.popleft()()

    def forget(self) -> None:
        """Drop all calls in a forked child: they belong to its parent."""
        self._calls.clear()
        self.deferred.clear()

    def record_delivery(self, lane: str, name: str) -> None:
        """Write a delivery that is not a result, such as a timer or a chunk, while open."""
        with self._session.lock:
            if self._session.is_active:
                self._session.recorder.delivery(lane, name)

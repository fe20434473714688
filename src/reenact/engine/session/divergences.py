"""Divergences of a session: comparison with the recording, and the errors to raise.

In a strict session the first divergence is final: every later call raises it again, and so does
every call that waits for its turn. A lenient session only collects divergences.
"""

from __future__ import annotations

import io
import sys
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from reenact._system import thread_frames
from reenact.engine.call import Call, Entry
from reenact.engine.codecs import same_result
from reenact.engine.decision.machine import Machine
from reenact.engine.divergence.model import Divergence
from reenact.engine.lanes import Lanes
from reenact.engine.recording.recorder import InFlightCall, Recorder
from reenact.engine.scheduling.delivery_order import Delivery, DeliveryToken
from reenact.engine.scheduling.scheduler import Scheduler
from reenact.engine.scheduling.waiters import Waiter
from reenact.engine.session.settings import Settings
from reenact.errors import DivergenceError
from reenact.format.event import Data
from reenact.policy.matching import Comparer

if TYPE_CHECKING:
    from reenact.engine.update.merger import RecordingMerger

__all__ = ["DivergenceReporter", "caller_stack", "lane_stack"]

_NEAR = 3
_FRAMES = 12


def lane_stack(lanes: Lanes, name: str) -> str:
    """Return the stack of the task or thread in lane ``name``, or an empty text."""
    task = lanes.task_of(name)
    if task is not None:
        text = io.StringIO()
        task.print_stack(limit=_FRAMES, file=text)
        return text.getvalue()
    ident = lanes.thread_of(name)
    frame = thread_frames().get(ident) if ident is not None else None
    if frame is None:
        return ""
    import traceback

    return "".join(traceback.format_stack(frame, limit=_FRAMES))


def caller_stack() -> str:
    """Return the last frames of the program, without frames of Reenact."""
    import traceback

    frame: FrameType | None = sys._getframe(1)
    found: list[tuple[FrameType, int]] = []
    while frame is not None and len(found) < _NEAR:
        if not frame.f_globals.get("__name__", "").startswith("reenact."):
            found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return "".join(traceback.StackSummary.extract(reversed(found)).format())


class DivergingSession(Protocol):
    """Parts of a session that the comparison with the recording uses."""

    comparer: Comparer
    failed_with: Divergence | None
    lanes: Lanes
    machine: Machine
    merger: RecordingMerger | None
    recorder: Recorder
    scheduler: Scheduler
    settings: Settings
    writes: bool

    @property
    def lock(self) -> AbstractContextManager[Any]: ...
    def check_open(self) -> None: ...
    def redacted_text(self, text: str) -> str: ...


class DivergenceReporter:
    """Compares the program with the recording, and creates the errors of divergences."""

    def __init__(self, session: DivergingSession) -> None:
        self._session = session

    def observe_mark(self, call: Call) -> None:
        """Record or compare the start or the end of a run, stated by the program."""
        session = self._session
        session.check_open()
        lane = session.lanes.current().name
        if session.writes:
            with session.lock:
                recorded = session.merger.mark(call, lane) if session.merger is not None else None
                session.recorder.event(call.type, call.request, lane, recorded=recorded)
            return
        with session.lock:
            divergence = session.machine.observe_mark(call, lane)
        self._raise_if_strict(divergence)

    def observe_closing(self, entry: Entry, kind: str, data: Data) -> None:
        """Compare the result of a call that the program made itself with the recorded one."""
        with self._session.lock:
            divergence = self._session.machine.observe_closing(entry, kind, data)
        self._raise_if_strict(divergence)

    def _raise_if_strict(self, divergence: Divergence | None) -> None:
        if divergence is not None and self._session.machine.strict:
            raise self.diverged(divergence)

    def compare_result(
        self, opened: InFlightCall, entry: Entry, fields: Data, recorded: Data | None
    ) -> None:
        """Compare the result of a call that was made again with the recorded one."""
        machine = self._session.machine
        if not same_result(self._session.comparer, opened.call, fields, recorded or {}):
            asked = {name: recorded[name] for name in ("callId",) if recorded and name in recorded}
            found = machine.differs(
                entry, opened.call, opened.key, opened.lane.name, asked | fields
            )
            self._raise_if_strict(machine.note(found))

    def diverged(self, divergence: Divergence) -> DivergenceError:
        """Return the error to raise. A strict session fails permanently with it."""
        session = self._session
        from reenact.engine.divergence.text_renderer import render_divergence

        report = render_divergence(divergence)
        error = DivergenceError(divergence, report)
        if session.machine.strict and session.failed_with is None:
            session.failed_with = divergence
            session.settings.tell(error)
            with session.lock:
                session.scheduler.give_up(lambda: DivergenceError(divergence, report))
        return error

    def located(self, divergence: Divergence) -> Divergence:
        """Return ``divergence``, noted just before, with the stack of the program."""
        session = self._session
        found = msgspec.structs.replace(divergence, stack=session.redacted_text(caller_stack()))
        with session.lock:
            session.machine.divergences = [
                found if one is divergence else one for one in session.machine.divergences
            ]
        return found

    def cancelled_early(self, opened: InFlightCall, entry: Entry) -> None:
        """Note that a call was cancelled that received a result in the recording.

        A strict session raises at its next call, because this one has to raise its cancellation.
        """
        self.left_early(opened, entry, [])

    def left_early(self, opened: InFlightCall, entry: Entry, tokens: list[DeliveryToken]) -> None:
        """Note that the program stopped waiting for ``tokens``, and skip them."""
        session = self._session
        with session.lock:
            self.diverged(
                session.machine.cancelled(entry, opened.call, opened.key, opened.lane.name)
            )
            if entry.closing is not None:
                tokens.append(entry.closing.seq)
            session.scheduler.skip(*tokens)

    def wants_more(self, opened: InFlightCall, entry: Entry) -> DivergenceError:
        """Return the error for a program that reads past the end of a recorded stream."""
        with self._session.lock:
            return self.diverged(self.never_answered(opened, entry))

    def never_answered(self, opened: InFlightCall, entry: Entry) -> Divergence:
        """Note that a call waits for a result that is not in the recording."""
        machine = self._session.machine
        ask = machine.describe(opened.call, opened.key, opened.lane.name)
        why = "the recorded call was cancelled, or the recording ends before its answer"
        if entry.closing is not None and entry.closing.data.get("ended") == "unfinished":
            why = "the recorded program was killed here, in the middle of the answer"
        return machine.stalled(entry.seq, ask, stack="", why=why)

    def stalled(self, head: Delivery | None, waiter: Waiter | None) -> BaseException | None:
        """Handle a stall; return the error of the waiter, or None to skip the head."""
        session = self._session
        ask = waiter.describe() if waiter is not None and waiter.describe is not None else None
        why = "nobody asks for it, and nothing else can happen"
        stack = lane_stack(session.lanes, head.lane) if head is not None else ""
        divergence = session.machine.stalled(
            head.seq if head is not None else None, ask, stack=stack, why=why
        )
        error = self.diverged(divergence)
        return error if session.machine.strict or head is None else None

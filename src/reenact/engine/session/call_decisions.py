"""Decision about each call of a session: one path, from the call to what happens to it.

::

    call ─> serve_now: recorded, and its turn now? ──yes──────────────────> recorded result
              │ no
              v
            decide: machine ─> merger (update) ─> fork ─> budget ─> position ─> Serve | GoLive | …

``serve_now`` is the fast case of a replay. It serves a call only if the next recorded call of the
lane is the same byte for byte, was answered with a plain value, and is the next delivery. Every
other call is decided in detail, with the same result.

Invariants: the session's lock is held during each of the two steps, so positions of a lane are
numbered in the order of its calls. ``serve_now`` changes nothing if it returns None. Between the
two steps only this thread or task makes calls in its lane.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol

from reenact._system import pause
from reenact.engine.call import Call, Decision, Entry, GoLive, Pass, Refuse, Serve
from reenact.engine.decision.machine import Machine
from reenact.engine.draws import Draws
from reenact.engine.lanes import Lane, Lanes
from reenact.engine.recording.budget import repeat_refusal
from reenact.engine.recording.recorder import InFlightCall, Recorder
from reenact.engine.scheduling.scheduler import Scheduler
from reenact.engine.scheduling.waiters import Runner
from reenact.engine.session.in_flight import InFlightCalls
from reenact.engine.session.settings import Settings
from reenact.errors import BudgetExceeded, RecordingError

__all__ = ["CallDecisions"]

if TYPE_CHECKING:
    from reenact.engine.fork.forked_run import ForkedRun
    from reenact.engine.update.merger import RecordingMerger

_SPECIAL: Final = frozenset({"ended", "error", "redacted"})
"""Fields of results that are more than a value: streams, failures, and sealed values."""


class DecidingSession(Protocol):
    """Parts of a session that decisions about its calls use."""

    draws: Draws
    failed_with: Any
    fork: ForkedRun | None
    full: BudgetExceeded | None
    in_flight: InFlightCalls
    lanes: Lanes
    machine: Machine
    merger: RecordingMerger | None
    recorder: Recorder
    replays_order: bool
    scheduler: Scheduler
    settings: Settings
    tracks_order: bool
    writes: bool

    @property
    def lock(self) -> AbstractContextManager[Any]: ...
    def check_open(self) -> None: ...
    def runner(self) -> Runner: ...


class CallDecisions:
    """Decides what happens to each call of one session. Thread-safe."""

    def __init__(self, session: DecidingSession) -> None:
        self._session = session

    def decide(self, call: Call, *, blocks: bool) -> tuple[Decision, InFlightCall]:
        """Decide what happens to ``call``, and give it its lane and its position.

        ``blocks``: this thread waits for the result.
        """
        session = self._session
        session.check_open()
        lane = self._lane()
        with session.lock:
            if session.in_flight.deferred:
                session.in_flight.flush()
            if session.fork is not None:
                session.fork.count(lane)
            try:
                call = session.machine.form_of(call, lane.name)
                decision, key = self._ask_machine(call, lane.name)
            except RecordingError as error:
                session.settings.tell(error)
                raise
            opened = InFlightCall(call, key, lane, lane.calls)
            if session.merger is not None:
                decision = session.merger.decide(decision, opened)
            if session.fork is not None:
                decision = session.fork.decide(decision, opened)
            if session.writes and isinstance(decision, GoLive):
                refusal = session.recorder.budget.admit(call.request)
                decision = decision if refusal is None else Refuse(error=refusal)
            if isinstance(decision, Serve) or self.is_recorded(call, decision):
                lane.calls += 1  # a call that is not recorded has no position
            if call.nests and session.machine.covers(call):
                self._give_inner_lane(opened, lane, decision)
            if blocks and session.tracks_order and self._is_waited_for(call, decision):
                session.scheduler.arrive(session.runner())
        return decision, opened

    def serve_now(self, call: Call) -> Entry | None:
        """Return the recorded call that answers ``call`` right now, or None.

        ``call`` can be a sketch of a request. After None nothing has changed, and :meth:`decide`
        has to be called with the complete call.
        """
        session = self._session
        if not session.replays_order or session.settings.pace == "recorded":
            return None
        lane = self._lane()
        with session.lock:
            # A fork can have turned live since the check without the lock.
            if not session.replays_order:
                return None
            if session.in_flight.deferred:
                return None
            if session.failed_with is not None or session.full is not None:
                return None
            entry = session.machine.find_exact(call, lane.name)
            if entry is None:
                return None
            assert entry.closing is not None
            if not entry.answer and not _SPECIAL.isdisjoint(entry.closing.data):
                return None
            if not session.scheduler.try_now(session.runner(), entry.closing.seq):
                return None
            session.machine.take(entry, call)
            lane.calls += 1
            return entry

    def _lane(self) -> Lane:
        """Return the current lane, after its open run of draws has ended."""
        session = self._session
        lane = session.lanes.current()
        if lane.run is not None or lane.side is not None:
            session.draws.end(lane)
        return lane

    def _ask_machine(self, call: Call, lane: str) -> tuple[Decision, str]:
        """Return the decision of the machine, except where the recorded run never came here."""
        session = self._session
        script = session.machine.script
        if session.replays_order and script is not None:
            if script.never_began(lane):
                from concurrent.futures import CancelledError

                # The recorded job was cancelled before it began, so nothing waits for its result.
                raise CancelledError
            if script.was_stopped(lane):
                # The recorded program terminated this process here, and will do so again.
                pause(session.settings.patience)
        if session.full is not None and session.machine.covers(call):
            action = session.settings.policy.action_for(call.capability, call.operation)
            if action != "pass":
                return Refuse(error=repeat_refusal(session.full)), session.machine.key(call)
        return session.machine.decide(call, lane)

    def _give_inner_lane(self, opened: InFlightCall, lane: Lane, decision: Decision) -> None:
        """Give a tool call the lane of the calls that it makes itself."""
        session = self._session
        inner = lane.child().name
        if session.merger is not None:
            inner = session.merger.free_lane(inner)
        opened.inner = opened.inner or inner
        if session.fork is not None and isinstance(decision, GoLive):
            session.fork.tool_goes_live(opened)

    def _is_waited_for(self, call: Call, decision: Decision) -> bool:
        """Return whether this thread is idle until it gets the result.

        Code inside a tool call keeps running. In a replayed order, the thread reports itself that
        it waits, unless its turn comes at once.
        """
        if call.instant or call.observed:
            return False
        if isinstance(decision, Serve):
            return not self._session.replays_order
        return isinstance(decision, GoLive) and not call.nests

    def is_recorded(self, call: Call, decision: Decision) -> bool:
        """Return whether ``call`` has an event, or will have one."""
        session = self._session
        if not session.machine.covers(call):
            return False
        if isinstance(decision, Refuse) and decision.error is not None and decision.entry is None:
            return session.writes and session.recorder.budget.full in (None, decision.error)
        return not isinstance(decision, Pass)

    def is_next(self, call: Call) -> bool:
        """Return whether ``call`` is the next recorded call of the current lane."""
        lane = self._lane()
        with self._session.lock:
            return self._session.machine.is_next(call, lane.name)

    def upcoming(self) -> Entry | None:
        """Return the next recorded call of the current lane.

        None at the end of the lane, and where calls are not matched in their order.
        """
        lane = self._lane()
        with self._session.lock:
            return self._session.machine.upcoming(lane.name)

    def has_recorded(self, call: Call) -> bool:
        """Return whether there is a recorded result for ``call``."""
        session = self._session
        with session.lock:
            return session.machine.has_recorded(call, session.lanes.current().name)

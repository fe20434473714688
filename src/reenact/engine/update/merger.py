"""Merger of recorded and new calls: a recorded call that is requested again stays unchanged.

Such a session is a recording in which some results come from the old recording. Deliveries are
recorded again, at the positions where they happen now. Not thread-safe: the session's lock covers
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.engine.call import CUT_OFF, Call, Decision, Entry, GoLive, Pass
from reenact.engine.codecs import same_result
from reenact.engine.decision.machine import Machine
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.engine.divergence.model import Divergence
from reenact.engine.recording.recorder import InFlightCall, Recorder
from reenact.engine.request import request_of
from reenact.format.event import Data, Event
from reenact.policy.matching import Comparer

if TYPE_CHECKING:
    from reenact.store.sinks.copy import CopyOnWriteSink

__all__ = ["RecordingMerger"]


class RecordingMerger:
    """Decides which recorded calls stay. ``ordered``: the order of calls is compared.

    Not thread-safe: the session's lock covers it.
    """

    def __init__(
        self,
        script: RecordedCalls,
        copy_sink: CopyOnWriteSink,
        machine: Machine,
        comparer: Comparer,
        *,
        ordered: bool,
    ) -> None:
        self._script = script
        self._copy_sink = copy_sink
        self._machine = machine
        self._comparer = comparer
        self._ordered = ordered
        self._reached: dict[str, int] = {}
        self._has_moved = False

    def decide(self, decision: Decision, opened: InFlightCall) -> Decision:
        """Keep a recorded call, or repeat it if it has no result.

        The calls recorded inside a repeated call are still served.
        """
        entry = None if isinstance(decision, (GoLive, Pass)) else decision.entry
        if entry is None:
            return decision
        self._reach(entry)
        if self._is_answered(entry):
            opened.entry = entry
            return decision
        for event in dict.fromkeys((entry.opening, entry.closing)):
            if event is not None:
                self._copy_sink.leave_out(event.seq)
        opened.inner = entry.inner
        self._machine.served -= 1
        self._machine.live += 1
        if self._machine.changes is not None:
            why = "its answer is not in the recording"
            self._machine.changes.change(self._machine.made_again(entry, why))
        return GoLive()

    def _reach(self, entry: Entry) -> None:
        """Note a changed order of the calls of a lane, which changes the recording but no call."""
        if entry.seq < self._reached.get(entry.lane, 0):
            self._has_moved = True
        else:
            self._reached[entry.lane] = entry.seq

    def _is_answered(self, entry: Entry) -> bool:
        closing = self._script.complete(entry)
        if closing is None or entry.unanswered:
            return False
        return closing.data.get("ended") not in CUT_OFF

    def free_lane(self, name: str) -> str:
        """Return a lane without recorded events, for the calls inside a tool."""
        known = set(self._script.lane_names())
        while name in known:
            name = f"{name}.0"  # what is spawned there is numbered from 1
        return name

    def mark(self, call: Call, lane: str) -> Event | None:
        """Return the recorded start or end of the run in ``lane`` if it is equal."""
        entry = self._script.mark(call.type, lane)
        if entry is None:
            return None
        recorded = self._comparer.key(request_of(call.type, entry.opening.data))
        if recorded == self._machine.key(call):
            return entry.opening
        self._copy_sink.leave_out(entry.seq)
        return None

    def answer_or_new(self, opened: InFlightCall, fields: Data, recorder: Recorder) -> Data:
        """Return the completing event of a repeated call: the recorded one if it is equal."""
        recorded = opened.answer or {}
        if same_result(self._comparer, opened.call, fields, recorded):
            return recorded
        if self._machine.changes is not None and opened.entry is not None:
            self._machine.served -= 1
            self._machine.changes.change(self._difference(opened, opened.entry, fields, recorded))
        return recorder.completing(opened, fields)

    def _difference(
        self, opened: InFlightCall, entry: Entry, fields: Data, recorded: Data
    ) -> Divergence:
        told = {"callId": recorded["callId"]} if "callId" in recorded else {}
        lane = opened.lane.name
        return self._machine.differs(entry, opened.call, opened.key, lane, told | fields)

    def keep_inside(self, entry: Entry) -> None:
        """Keep the events inside ``entry``, a tool that did not run, at their positions."""
        if entry.inner is None or entry.closing is None:
            return
        if self._script.is_passed_over(entry.inner):
            self._copy_sink.copy_inside(entry.inner, entry.seq + 1, entry.closing.seq)

    def settle(self) -> None:
        """Drop unused recorded calls of an update, because no more calls come.

        Calls inside tools that were not run stay, and so do the events of ``reenact run``.
        """
        if self._machine.changes is None:
            return
        script, copy_sink = self._script, self._copy_sink
        dropped = next(iter(self._machine.unused()), None) is not None
        copy_sink.keep_of_rest(
            lambda event: event.type == "run_end" or script.is_passed_over(event.lane),
            counts=dropped or (self._has_moved and self._ordered),
        )

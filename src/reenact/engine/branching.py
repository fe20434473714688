"""A session that forks a run: it re-enacts what was recorded up to a point, and goes on live."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from reenact.engine.branch import Branch
from reenact.engine.branch_machine import BranchMachine
from reenact.engine.branch_point import Prefix
from reenact.engine.call import (
    CHUNK,
    CUT_OFF,
    PAIRS,
    Call,
    Decision,
    Entry,
    GoLive,
    Reexecute,
    Serve,
)
from reenact.engine.divergence import Divergence
from reenact.engine.lanes import Lane
from reenact.engine.recorder import Opened
from reenact.errors import UsageError

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["Branching"]

_SHOWN = 20


class Branching:
    """One per session that forks. Not thread-safe: the session's lock covers it.

    The recording that is written has what comes before the point from the start. What was under way
    there, asked before it and answered after it, is answered with what was recorded, after it.
    """

    def __init__(
        self, session: Session, branch: Branch, prefix: Prefix, machine: BranchMachine
    ) -> None:
        self.branch = branch
        self.reached = False
        """Has the call been made at which the run is forked?"""
        self._session = session
        self._prefix = prefix
        self._machine = machine

    @property
    def turned(self) -> bool:
        """Has everything before the point been enacted? Then the session records."""
        return self._machine.turned

    @property
    def goes_live(self) -> bool:
        """May anything have been called for real?"""
        return self.reached or self.turned

    def asks_otherwise(self, call: Call) -> bool:
        """Is ``call``, which is about to be made here, the one at the point, to be made otherwise?"""
        return bool(self.branch.asked) and self._is_at_point(call)

    def makes(self, call: Call) -> bool:
        """Will ``call``, which is about to be made here, be made for real?"""
        if self._is_at_point(call):
            return self.branch.answer is None
        return self._machine.makes(call, self._session.lanes.current().name)

    def _is_at_point(self, call: Call) -> bool:
        entry = self._session.upcoming()
        if entry is None or entry.seq != self.branch.point.seq:
            return False
        lane = self._session.lanes.current().name
        return self._session.is_next(self._machine.form_of(call, lane))

    def count(self, lane: Lane) -> None:
        """``lane`` does something: so much of it stands in the log already."""
        if not lane.counted:
            lane.counted = True
            lane.logged = self._prefix.counts[lane.name]
            lane.models = self._prefix.models[lane.name]

    # One call

    def decide(self, decision: Decision, opened: Opened) -> Decision:
        """What becomes of a call that the machine would serve."""
        if not isinstance(decision, (Serve, Reexecute)):
            return decision
        entry, point = decision.entry, self.branch.point
        if entry.seq == point.seq:
            return self._at_point(entry, opened)
        if point.is_inside(entry.inner) and not self.turned:
            opened.resumed = True
            return self._made(entry, opened)
        script = self._machine.script
        assert script is not None
        closing = script.complete(entry)
        if closing is not None and closing.seq < point.cut:
            opened.past = True
            return decision
        return self._under_way(decision, entry, opened)

    def _at_point(self, entry: Entry, opened: Opened) -> Decision:
        branch = self.branch
        call = opened.call
        if branch.asked and "changed" not in call.extra:
            raise UsageError(
                f"the call of event {entry.seq} cannot be made with another request: what makes it "
                "takes none",
                hint="change its answer instead: $.response… or $.result",
            )
        if branch.answer is not None:
            extra = {**call.extra, "changed": list(branch.changed)}
            opened.call = msgspec.structs.replace(call, extra=extra)
        self.reached = True
        if self._session.settings.ledger is not None:
            self._session.settings.ledger.reach()
        decision = self._made(entry, opened)
        if self._session.paces:
            self._session.conductor.look_for_limit()
        else:
            self.turn()
        if branch.answer is None:
            return decision
        self._machine.served += 1
        self._machine.live -= 1
        return GoLive(branch.answer)

    def _made(self, entry: Entry, opened: Opened) -> Decision:
        """The call is made, though it was recorded."""
        if self._machine.script is not None:
            self._machine.script.order.leave_out(entry.lane, f"{CHUNK}:{entry.position}")
        opened.inner = entry.inner
        opened.fresh = True
        self._machine.served -= 1
        self._machine.live += 1
        return GoLive()

    def _under_way(self, decision: Serve | Reexecute, entry: Entry, opened: Opened) -> Decision:
        """A call that was asked before the point and answered after it; or, after the point, one
        that does not go live."""
        opened.resumed = entry.type in PAIRS and entry.seq < self.branch.point.cut
        opened.fresh = True
        if (entry.lane, entry.position) in self._prefix.begun:
            opened.spans = True  # the program has got pieces of it
            return decision
        if isinstance(decision, Reexecute) or not _is_answered(entry):
            return self._made(entry, opened)
        opened.entry = entry
        return decision

    def tool_goes_live(self, opened: Opened) -> None:
        """The tool is called: what it does inside is a part of it, unless the point is there."""
        if opened.inner is not None and not opened.resumed:
            self._machine.tool_went_live(opened.inner)

    # Turning live

    def look(self) -> None:
        """All that is enacted has been handed over: is that the point? Locked."""
        if self.reached or self._is_elsewhere():
            self.turn()

    def expects_point(self) -> bool:
        """Is the call at the point still to be made, in this process?"""
        return not (self.reached or self.turned or self._is_elsewhere())

    def _is_elsewhere(self) -> bool:
        """Is the call at the point another process's?"""
        script = self._machine.script
        return script is not None and script.is_passed_over(self.branch.point.lane)

    def turn(self) -> None:
        """From here on calls are made and recorded. Locked."""
        if self.turned:
            return
        session = self._session
        self._machine.turned = True
        self._machine.mode = session.mode = "record"
        session.writes = True
        session.turns_live()

    def not_reached(self) -> Divergence:
        """The program has ended before the point."""
        script = self._machine.script
        assert script is not None
        return self._machine.missed(script.event(self.branch.point.seq))

    def left_behind(self) -> list[Divergence]:
        """The first calls before the point that the program has not made. Reads to the end."""
        cut = self.branch.point.cut
        with self._session.lock:
            left = [entry for entry in self._machine.unused() if entry.seq < cut]
            return [self._machine.unmade(entry) for entry in left[:_SHOWN]]


def _is_answered(entry: Entry) -> bool:
    if entry.closing is None or entry.unanswered:
        return False
    return entry.closing.data.get("ended") not in CUT_OFF

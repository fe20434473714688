"""Decisions, draws and live transition of a run that is forked.

Before the fork point, a call must match the recording, otherwise it is a divergence. After it,
calls are made live. Calls of kinds that do not go live are served with any matching recorded
call. Draws before the point are served; later ones are real and recorded. Draws that are stored
after the point but were made before it are served and written again. Not thread-safe: the
session's lock covers it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from reenact.engine.call import (
    CHUNK,
    CUT_OFF,
    PAIRS,
    Call,
    Decision,
    Entry,
    GoLive,
    Reexecute,
    Refuse,
    Serve,
)
from reenact.engine.codecs import copy_value
from reenact.engine.decision.machine import Machine
from reenact.engine.divergence.model import Divergence
from reenact.engine.draws import (
    ABSENT,
    DrawDecisions,
    DrawSession,
    Live,
    OpenDrawRun,
    RecordedDraws,
    ReplayedDraws,
    ServedDraws,
)
from reenact.engine.fork.plan import ForkPlan, ForkPoint, ForkPrefix, replace_at_path
from reenact.engine.lanes import Lane
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.scheduling.scheduler import Scheduler
from reenact.engine.session.settings import Settings
from reenact.errors import PolicyRefused, UsageError
from reenact.format.draw_runs import Name, Run
from reenact.format.event import Data, Event
from reenact.policy.model import SessionMode

if TYPE_CHECKING:
    import inspect

__all__ = [
    "ForkDraws",
    "ForkMachine",
    "ForkedRun",
]

_ALIASES = {"tools": "tool", "llms": "llm", "processes": "process", "net": "network"}
_REAL = frozenset({"clock", "rng", "env", "sleep"})
"""Sources that are always live after the fork point."""


class ForkDecisions(DrawDecisions, Protocol):
    """Recorded calls that a forked run compares with."""

    def is_next(self, call: Call) -> bool: ...
    def upcoming(self) -> Entry | None: ...


class ForkSession(DrawSession, Protocol):
    """Parts of a session that a forked run uses."""

    mode: SessionMode
    scheduler: Scheduler
    settings: Settings
    tracks_order: bool
    writes: bool

    @property
    def decisions(self) -> ForkDecisions: ...
    def turn_live(self) -> None: ...


class ForkMachine(Machine):
    """``live`` are the kinds of calls that are made after the point, None for all."""

    def __init__(
        self, point: ForkPoint, live: frozenset[str] | None, *args: Any, **kwargs: Any
    ) -> None:
        self.turned = False
        """True if everything before the point was replayed."""
        self._point = point
        self._live = None if live is None else frozenset(_ALIASES.get(one, one) for one in live)
        self._live_tools: set[str] = set()
        super().__init__(*args, **kwargs)

    def decide(self, call: Call, lane: str) -> tuple[Decision, str]:
        if not self.turned or not self.is_beyond(lane):
            return super().decide(call, lane)
        matcher, self._matcher = self._matcher, None
        try:
            decision, key = super().decide(call, lane)
        finally:
            self._matcher = matcher
        if isinstance(decision, GoLive) and not self._goes_live(call, lane):
            self.live -= 1
            return self._recorded_or_refused(call, key, lane), key
        return decision, key

    def is_beyond(self, lane: str) -> bool:
        """Return whether ``lane`` has made all its recorded calls before the point.

        The call at the point is compared in any case, because a worker process can have turned live
        before it.
        """
        entry = self.upcoming(lane)
        return entry is None or (entry.seq >= self._point.cut and entry.seq != self._point.seq)

    def missed(self, event: Event) -> Divergence:
        """Note that the program has ended before ``event``, the fork point."""
        why = "the run was to be forked here, and the program ended before that"
        return self.note(self._diagnosis.missing(event, why=why))

    def makes(self, call: Call, lane: str) -> bool:
        """Return whether ``call`` would be made live. Nothing is counted."""
        return self.turned and self.is_beyond(lane) and self._goes_live(call, lane)

    def tool_went_live(self, lane: str) -> None:
        """Note that calls inside a live tool are part of it, so they are live."""
        self._live_tools.add(lane)

    def _goes_live(self, call: Call, lane: str) -> bool:
        if self._live is None or call.kind in self._live or call.kind in _REAL:
            return True
        if call.type in ("state_mutation", "run_start", "run_end") or call.observed:
            return True
        return any(lane == one or lane.startswith(f"{one}.") for one in self._live_tools)

    def _recorded_or_refused(self, call: Call, key: str, lane: str) -> Decision:
        entry = self._anywhere(call, key, lane)
        if entry is not None:
            assert self._matcher is not None
            return self._serve(self._matcher, entry)
        name = f"{call.kind} {call.operation}".strip()
        return Refuse(
            error=PolicyRefused(
                f"after the fork point {name} is not live, and nothing like this call was recorded",
                hint=f"add {call.kind} to --live (live=), or leave that out",
            )
        )

    def _anywhere(self, call: Call, key: str, lane: str) -> Entry | None:
        """Return an equal recorded call after the point, preferably of this lane."""
        if self._matcher is None or self.script is None:
            return None
        names = [lane, *(name for name in self.script.lane_names() if name != lane)]
        for name in names:
            found = self._matcher.anywhere(call, key, name)
            if found is not None and found.seq >= self._point.cut:
                return found
        return None


_SHOWN = 20


class ForkedRun:
    """State of one forked run. Not thread-safe: the session's lock covers it.

    The new recording starts with all events before the point. A call that was in flight at the
    point, requested before it and answered after it, gets its recorded result after it.
    """

    def __init__(
        self, session: ForkSession, branch: ForkPlan, prefix: ForkPrefix, machine: ForkMachine
    ) -> None:
        self.branch = branch
        self.reached = False
        """True if the call at the fork point was made."""
        self._session = session
        self._prefix = prefix
        self._machine = machine

    @property
    def turned(self) -> bool:
        """True if everything before the point was replayed. The session records then."""
        return self._machine.turned

    @property
    def goes_live(self) -> bool:
        """True if a call can have been made live."""
        return self.reached or self.turned

    def override_arguments(
        self,
        call: Call,
        signature: inspect.Signature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[Call, tuple[tuple[Any, ...], dict[str, Any]]]:
        """Return ``call`` and the arguments to call the function with.

        At the fork point these are the overridden arguments. The original ones are compared, and
        the overridden ones are recorded as ``sent``.
        """
        if not self.is_overridden(call):
            return call, (args, kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        call, changed = self._override(call, copy_value(dict(bound.arguments)))
        bound.arguments.update(changed)
        return call, (bound.args, bound.kwargs)

    def override_tool_arguments(self, call: Call) -> tuple[Call, Data | None]:
        """Return ``call`` of a tool and its overridden arguments as plain data.

        They are None if the tool is called with its own arguments.
        """
        if not self.is_overridden(call):
            return call, None
        return self._override(call, call.request["args"])

    def is_overridden(self, call: Call) -> bool:
        """Return whether ``call``, made here next, is at the fork point with a changed request."""
        return bool(self.branch.asked) and self._is_at_point(call)

    def _override(self, call: Call, arguments: Data) -> tuple[Call, Data]:
        for path, value in self.branch.asked.items():
            arguments = replace_at_path(arguments, path[1:], value, path[:1])
        extra = {
            **call.extra,
            "sent": copy_value(arguments),
            "changed": list(self.branch.changed),
        }
        return msgspec.structs.replace(call, extra=extra), arguments

    def makes(self, call: Call) -> bool:
        """Return whether ``call``, made here next, would be made live."""
        if self._is_at_point(call):
            return self.branch.answer is None
        return self._machine.makes(call, self._session.lanes.current().name)

    def _is_at_point(self, call: Call) -> bool:
        entry = self._session.decisions.upcoming()
        if entry is None or entry.seq != self.branch.point.seq:
            return False
        lane = self._session.lanes.current().name
        return self._session.decisions.is_next(self._machine.form_of(call, lane))

    def count(self, lane: Lane) -> None:
        """Initialise the counters of ``lane`` with its events before the point."""
        if not lane.counted:
            lane.counted = True
            lane.logged = self._prefix.counts[lane.name]
            lane.models = self._prefix.models[lane.name]

    # One call

    def decide(self, decision: Decision, opened: InFlightCall) -> Decision:
        """Adjust the decision about a call that the machine would serve."""
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
        return self._in_flight(decision, entry, opened)

    def _at_point(self, entry: Entry, opened: InFlightCall) -> Decision:
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
        if self._session.tracks_order:
            self._session.scheduler.look_for_limit()
        else:
            self.turn()
        if branch.answer is None:
            return decision
        self._machine.served += 1
        self._machine.live -= 1
        return GoLive(branch.answer)

    def _made(self, entry: Entry, opened: InFlightCall) -> Decision:
        """Return the decision to make a call live although it was recorded."""
        if self._machine.script is not None:
            self._machine.script.order.leave_out(entry.lane, f"{CHUNK}:{entry.position}")
        opened.inner = entry.inner
        opened.fresh = True
        self._machine.served -= 1
        self._machine.live += 1
        return GoLive()

    def _in_flight(
        self, decision: Serve | Reexecute, entry: Entry, opened: InFlightCall
    ) -> Decision:
        """Decide about a call in flight at the point, or one that does not go live after it."""
        opened.resumed = entry.type in PAIRS and entry.seq < self.branch.point.cut
        opened.fresh = True
        if (entry.lane, entry.position) in self._prefix.begun:
            opened.spans = True  # the program has got pieces of it
            return decision
        if isinstance(decision, Reexecute) or not _is_answered(entry):
            return self._made(entry, opened)
        opened.entry = entry
        return decision

    def tool_goes_live(self, opened: InFlightCall) -> None:
        """Note that a tool runs live. The calls inside are live too, unless the point is there."""
        if opened.inner is not None and not opened.resumed:
            self._machine.tool_went_live(opened.inner)

    # Turning live

    def look(self) -> None:
        """Check whether the point is reached, because the recorded order has ended. Locked."""
        if self.reached or self._is_elsewhere():
            self.turn()

    def expects_point(self) -> bool:
        """Return whether this process has still to make the call at the point."""
        return not (self.reached or self.turned or self._is_elsewhere())

    def _is_elsewhere(self) -> bool:
        """Return whether a different process makes the call at the point."""
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
        session.turn_live()

    def not_reached(self) -> Divergence:
        """Note that the program has ended before the point."""
        script = self._machine.script
        assert script is not None
        return self._machine.missed(script.event(self.branch.point.seq))

    def left_behind(self) -> list[Divergence]:
        """Return the first calls before the point that were not made. Reads to the end."""
        cut = self.branch.point.cut
        with self._session.lock:
            left = [entry for entry in self._machine.unused() if entry.seq < cut]
            return [self._machine.unmade(entry) for entry in left[:_SHOWN]]


def _is_answered(entry: Entry) -> bool:
    if entry.closing is None or entry.unanswered:
        return False
    return entry.closing.data.get("ended") not in CUT_OFF


class _Again(ServedDraws):
    """Draws stored after the point and made before it: served, and written again."""

    __slots__ = ("drawn",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.drawn = OpenDrawRun()

    def next(self, name: Name) -> Any:
        value = super().next(name)
        if value is not ABSENT and self.drawn.admit(name):
            self.drawn.draw(name, lambda: value)
        return value


class ForkDraws(ReplayedDraws):
    """Draws of a forked run: recorded before the point, live after it."""

    def __init__(self, session: ForkSession, fork: ForkedRun) -> None:
        super().__init__(session)
        self._fork = fork
        self._cut = fork.branch.point.cut
        self._real = RecordedDraws(session)

    def draw(self, name: Name, live: Live) -> Any:
        if not self._is_recorded(name):
            return live()
        lane = self._lane()
        run = lane.run
        if isinstance(run, ServedDraws):
            value = run.next(name)
            if value is not ABSENT:
                return value
        elif run is not None:
            return self._real.draw(name, live)
        if not self._is_real(lane):
            return self._first(lane, name, live)
        self.end(lane)
        return self._real.draw(name, live)

    def _is_recorded(self, name: Name) -> bool:
        """Return whether the forked recording holds draws of this source."""
        return name.partition(" ")[0] in self._recorded

    def _is_real(self, lane: Lane) -> bool:
        session = self._session
        with session.lock:
            self._fork.count(lane)
            if not self._fork.turned:
                return False
            upcoming = session.machine.upcoming(lane.name)
        return upcoming is None or upcoming.seq >= self._cut

    def _serving(self, run: Run, entry: Entry, lane: Lane) -> ServedDraws:
        if entry.seq < self._cut:
            return super()._serving(run, entry, lane)
        return _Again(run, entry, lambda: None)

    def draw_aside(self, name: Name, live: Live, *, fresh: bool = False) -> Any:
        if not self._is_recorded(name):
            return live()
        if fresh:
            return self._real.draw_aside(name, live)
        session, lane = self._session, self._lane()
        with session.lock:
            self._fork.count(lane)
            script = session.machine.script
            before = self._cut if self._fork.turned else None
            found = None if script is None else script.next_aside(lane.name, name, before)
        if found is not None and found[0] < self._cut:
            return found[1]
        return self._real.draw_aside(name, live if found is None else lambda: found[1])

    def end(self, lane: Lane) -> None:
        run = lane.run
        if not isinstance(run, ServedDraws):
            self._real.end(lane)
            return
        super().end(lane)
        self._real.end(lane)
        if isinstance(run, _Again) and run.drawn.drawn:
            with self._session.lock:
                self._open.pop(lane, None)
                lane.calls -= len(run.drawn.drawn)
                self._session.recorder.draws(lane, run.drawn.whole())

    def end_all(self) -> None:
        super().end_all()
        self._real.end_all()

    def after_fork(self) -> None:
        super().after_fork()
        self._real.after_fork()

"""Session: the scope in which calls are recorded, replayed or refused.

Opened on entry and closed on exit of a ``with`` or ``async with`` block, however the body ends.
The parts of a session (gateway, machine, scheduler, recorder, draws) are created on first use.
The session's lock covers the machine, the recorded calls and the numbering of positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from reenact._system import pause, process_id
from reenact.engine.call import Call, Decision, Entry, GoLive, Pass, Refuse, Serve
from reenact.engine.decision.machine import Machine
from reenact.engine.draws import Draws, make_draws
from reenact.engine.execution.gateway import Gateway
from reenact.engine.lanes import Lane
from reenact.engine.recording.budget import repeat_refusal
from reenact.engine.recording.recorder import InFlightCall, Recorder
from reenact.engine.scheduling.scheduler import EndedLanes, Scheduler
from reenact.engine.session.child_processes import ProcessForks, watch_forks
from reenact.engine.session.context import VARIABLE, enter_session, set_process_session
from reenact.engine.session.resources import SessionResources as Parts
from reenact.engine.session.resources import (
    make_comparer,
    make_machine,
    make_script,
    open_resources,
)
from reenact.engine.session.settings import ADDING_MODES
from reenact.engine.update.merger import RecordingMerger
from reenact.errors import DivergenceError, RecordingError, ReenactError, UsageError
from reenact.format.manifest import Manifest

if TYPE_CHECKING:
    from reenact.engine.fork.plan import ForkPlan
    from reenact.store.copy_sink import LateSink

__all__ = ["Session"]

_SPECIAL: Final = frozenset({"ended", "error", "redacted"})
"""Answers that are more than a value: streams, failures, and what is sealed."""


class Session(ProcessForks):
    """Opens on entry and closes on exit, however the body leaves; ``with`` and ``async with``.

    Made by :func:`reenact.session`. Boundaries use ``gateway``; programs that make their calls by
    hand use the methods of :class:`Explicit`. Its layers are files: ``state``, ``complaints``,
    ``under_way``, ``forked``, each built on the one before.
    """

    # Opening and closing

    def __enter__(self) -> Self:
        if self._state != "new":
            raise UsageError("a session is opened once", hint="make a new one: reenact.session(…)")
        self._parts = self._given_parts or open_resources(self.settings)
        try:
            self._assemble(self._parts)
        except BaseException:  # a rule of the policy that cannot be read
            self._parts.give_up()
            raise
        self._state = "open"
        if self.mode != "off":
            for patches in self._patches():
                patches.acquire()
            watch_forks(self)
        if self.settings.lane is not None:
            lane, pool = Lane(self.settings.lane), self.settings.pool
            self.lanes.begin(lane if pool is None else self._as_worker(lane, pool))
        elif self._parts.root is not None:
            self.lanes.begin(self._parts.root)
        self.lanes.adopt()
        before = VARIABLE.get()
        self._before.append((enter_session(self), before))
        if self.fork is not None:
            self.look_for_point()
        if self.settings.whole_process:
            self._process_before = set_process_session(self)
        if self.settings.boundaries is not None and self.mode != "off":
            self.settings.boundaries.opened(self)
        return self

    def _assemble(self, parts: Parts) -> None:
        settings, policy = self.settings, self.settings.policy
        self.comparer = make_comparer(settings, parts)
        self.writes = self.mode not in ("off", "replay")
        self.tracks_order = policy.match == "lane" and self.mode != "off"
        self.replays_order = self.tracks_order and self.mode == "replay"
        self.run_seed = settings.run_seed
        if parts.is_brief:
            self._opener = get_ident()
            return
        script = make_script(settings, parts, settings.lane)
        self.machine = make_machine(settings, parts, self.comparer, script)
        if self.mode in ADDING_MODES and script is not None and parts.copy_sink is not None:
            ordered = policy.match != "lookup"
            self.merger = RecordingMerger(
                script, parts.copy_sink, self.machine, self.comparer, ordered=ordered
            )
        if parts.fork_plan is not None:
            self._begin_branch(parts, parts.fork_plan)
        order = script.order if script is not None and self.mode == "replay" else None
        self.scheduler = Scheduler(self.lock, order, self._stalled, patience=settings.patience)
        # A forked run has to make every call before its point, however late.
        if script is not None and order is not None and self.fork is None:
            self.scheduler.ended_lanes = EndedLanes(script.is_unused)
            fails = self.machine.strict and settings.unused == "error"
            self.scheduler.fails_without_calls = fails
        if self.fork is not None and self.tracks_order:
            self.scheduler.at_limit = self.fork.look
            self.scheduler.expects_point = self.fork.expects_point
        if parts.sink is not None:
            self.recorder = self._make_recorder(parts)
        self.draws = make_draws(self)
        if parts.source is not None and not self.run_seed:
            self.run_seed = parts.source.manifest().capture_id

    def __getattr__(self, name: str) -> Any:
        """Make a part of a brief session when it is first needed."""
        make = _LATER.get(name)
        if make is None or self._parts is None or not self._parts.is_brief:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with self.lock:
            if not self._has(name):  # another thread may have been first
                setattr(self, name, make(self, self._parts))
        return vars(self)[name]

    def _has(self, name: str) -> bool:
        """Return whether this part was made."""
        return name in vars(self)

    def _make_gateway(self, parts: Parts) -> Gateway:
        return Gateway(self)

    def _make_machine(self, parts: Parts) -> Machine:
        return make_machine(self.settings, parts, self.comparer, None)

    def _make_conductor(self, parts: Parts) -> Scheduler:
        scheduler = Scheduler(
            self.lock, None, self._stalled, patience=self.settings.patience, opener=self._opener
        )
        if self._state == "closed":
            scheduler.close(self._closed)
        return scheduler

    def _make_recorder(self, parts: Parts) -> Recorder:
        assert parts.sink is not None
        return Recorder(
            parts.sink,
            parts.clock,
            parts.redactor,
            parts.budget,
            copy_sink=parts.copy_sink or parts.forks_to,
            lock=self.lock,
        )

    def _make_draws(self, parts: Parts) -> Draws:
        return make_draws(self)

    def _begin_branch(self, parts: Parts, branch: ForkPlan) -> None:
        from reenact.engine.fork.forked_run import ForkedRun, ForkMachine
        from reenact.engine.fork.plan import survey_prefix

        assert isinstance(self.machine, ForkMachine)
        assert parts.source is not None
        with closing(parts.source.reopen()) as reader:
            prefix = survey_prefix(reader, branch.point.cut)
        self.fork = ForkedRun(self, branch, prefix, self.machine)

    def turns_live(self) -> None:
        """A run that is forked has come to the point: from here on it is recorded. Locked."""
        self.replays_order = False
        self.scheduler.go_live()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._state == "open":
            while self._before_close:
                self._before_close.pop()()
        self._restore()
        if self._state != "open":
            return
        try:
            self._close(error)
        except (DivergenceError, ReenactError) as problem:
            if error is None:
                raise
            if not isinstance(error, DivergenceError):
                self.warn(str(problem))  # never hides what the body raised

    def _restore(self) -> None:
        token, before = self._before.pop()
        try:
            VARIABLE.reset(token)
        except ValueError:  # left in another context than it was entered in, as fixtures do
            VARIABLE.set(before)
        if self.settings.whole_process:
            set_process_session(self._process_before)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def _close(self, error: BaseException | None) -> None:
        with self.lock:
            self._flush()
            if self._has("draws"):
                self.draws.end_all()
                if self._parts is not None and self._parts.is_brief:
                    # It refers to its session. A draw that comes too late makes another one.
                    del self.draws
            self._end_in_flight()
            self._state = "closed"
            self.tracks_order = self.replays_order = False
            if self._has("scheduler"):
                self.scheduler.close(self._closed)
        if self.mode != "off":
            for patches in reversed(self._patches()):
                patches.release()
        assert self._parts is not None
        away = self.settings.guest or process_id() != self._pid
        self._ending.come(self, self._parts, error, forked=away)

    def settle_kept(self) -> None:
        """Where a recording is added to: decide what becomes of what nobody asked for."""
        if self.merger is not None:
            with self.lock:
                self.merger.settle()

    @property
    def manifest(self) -> Manifest | None:
        """After the end: of what was written."""
        return self._ending.manifest

    # One call

    def decide(self, call: Call, *, blocks: bool) -> tuple[Decision, InFlightCall]:
        """What happens to ``call``. It has its lane and its position from now on."""
        self.check_open()
        lane = self.lanes.current()
        if lane.run is not None or lane.side is not None:
            self.draws.end(lane)
        with self.lock:
            if self._deferred:
                self._flush()
            if self.fork is not None:
                self.fork.count(lane)
            try:
                call = self.machine.form_of(call, lane.name)
                decision, key = self._decide(call, lane.name)
            except RecordingError as error:
                self.settings.tell(error)
                raise
            opened = InFlightCall(call, key, lane, lane.calls)
            if self.merger is not None:
                decision = self.merger.decide(decision, opened)
            if self.fork is not None:
                decision = self.fork.decide(decision, opened)
            if self.writes and isinstance(decision, GoLive):
                refusal = self.recorder.budget.admit(call.request)
                decision = decision if refusal is None else Refuse(error=refusal)
            if isinstance(decision, Serve) or self.is_recorded(call, decision):
                lane.calls += 1  # what is not recorded has no position
            if call.nests and self.machine.covers(call):
                inner = lane.child().name
                if self.merger is not None:
                    inner = self.merger.free_lane(inner)
                opened.inner = opened.inner or inner
                if self.fork is not None and isinstance(decision, GoLive):
                    self.fork.tool_goes_live(opened)
            if blocks and self.tracks_order and self._is_waited_for(call, decision):
                self.scheduler.arrive(self.runner())
        return decision, opened

    def at_once(self, call: Call) -> Entry | None:
        """The recorded call that answers ``call`` with a value, if everything is as it was: it is
        the next of this lane, the same to the letter, and it is its turn. Else None, and nothing
        has happened: :meth:`decide` says what is to be done."""
        if (
            not self.replays_order
            or self.failed_with is not None
            or self._deferred
            or self.full is not None
        ):
            return None
        lane = self.lanes.current()
        if lane.run is not None or lane.side is not None:
            self.draws.end(lane)
        with self.lock:
            entry = self.machine.express(call, lane.name)
            if entry is None:
                return None
            assert entry.closing is not None
            if not entry.answer and not _SPECIAL.isdisjoint(entry.closing.data):
                return None
            if not self.scheduler.try_now(self.runner(), entry.closing.seq):
                return None
            self.machine.take(entry, call)
            lane.calls += 1
            return entry

    def is_next(self, call: Call) -> bool:
        """Is ``call`` what the recorded program did next, here?"""
        lane = self.lanes.current()
        if lane.run is not None or lane.side is not None:
            self.draws.end(lane)
        with self.lock:
            return self.machine.is_next(call, lane.name)

    def upcoming(self) -> Entry | None:
        """What the recorded program did next, here; None where there is nothing, or where calls are
        not matched in their order."""
        lane = self.lanes.current()
        if lane.run is not None or lane.side is not None:
            self.draws.end(lane)
        with self.lock:
            return self.machine.upcoming(lane.name)

    @contextmanager
    def waiting_elsewhere(self) -> Iterator[None]:
        """This thread does nothing for some time, and then goes on by itself."""
        self.scheduler.arrive(self.runner())
        self.scheduler.helper_comes()
        try:
            yield
        finally:
            self.scheduler.helper_goes()

    @property
    def copy_sink(self) -> LateSink | None:
        """What is written to, where a recording is added to."""
        return None if self._parts is None else self._parts.copy_sink

    def _decide(self, call: Call, lane: str) -> tuple[Decision, str]:
        """What the machine says; but a recording that was full took no more calls."""
        script = self.machine.script
        if self.replays_order and script is not None and script.never_began(lane):
            from concurrent.futures import CancelledError

            # In the recording it was cancelled in time: nobody waits for what it would come to.
            raise CancelledError
        if self.replays_order and script is not None and script.was_stopped(lane):
            pause(self.settings.patience)  # by then the program has ended this process, as it did
        if self.full is not None and self.machine.covers(call):
            action = self.settings.policy.action_for(call.capability, call.operation)
            if action != "pass":
                return Refuse(error=repeat_refusal(self.full)), self.machine.key(call)
        return self.machine.decide(call, lane)

    def _is_waited_for(self, call: Call, decision: Decision) -> bool:
        """Does the thread do nothing until it gets the answer? Inside a tool it goes on; and where
        a recorded order is enacted, it says so itself if it is not its turn at once."""
        if call.instant or call.observed:
            return False
        if isinstance(decision, Serve):
            return not self.replays_order
        return isinstance(decision, GoLive) and not call.nests

    def is_recorded(self, call: Call, decision: Decision) -> bool:
        """Is there an event for it, or will there be one?"""
        if not self.machine.covers(call):
            return False
        if isinstance(decision, Refuse) and decision.error is not None and decision.entry is None:
            return self.writes and self.recorder.budget.full in (None, decision.error)
        return not isinstance(decision, Pass)

    def has_recorded(self, call: Call) -> bool:
        """Is there a recorded answer for ``call``?"""
        with self.lock:
            return self.machine.has_recorded(call, self.lanes.current().name)


_LATER: Final[dict[str, Callable[[Session, Parts], Any]]] = {
    "gateway": Session._make_gateway,
    "machine": Session._make_machine,
    "scheduler": Session._make_conductor,
    "recorder": Session._make_recorder,
    "draws": Session._make_draws,
}
"""The parts of a brief session. Most requests of an app make few calls, and need none of them."""

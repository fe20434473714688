"""Session: the scope in which calls are recorded, replayed or refused.

Opened on entry and closed on exit of a ``with`` or ``async with`` block, however the body ends::

    new ──__enter__──> open ──__exit__──> closed

A session is composed of parts, each of which can be read alone:

================  ==============================================================================
``decisions``     what happens to a call (:mod:`.call_decisions`)
``gateway``       carries out that decision (:mod:`reenact.engine.execution.gateway`)
``machine``       pure decisions and the list of divergences (:mod:`reenact.engine.decision`)
``in_flight``     calls that have begun and are not completed (:mod:`.in_flight`)
``recorder``      writes events (:mod:`reenact.engine.recording`)
``scheduler``     order of deliveries (:mod:`reenact.engine.scheduling`)
``draws``         clock readings and random values (:mod:`reenact.engine.draws`)
``reporter``      errors of divergences (:mod:`.divergences`)
``children``      forked and started processes (:mod:`.child_processes`)
``merger``        updates only: which recorded calls stay (:mod:`reenact.engine.update`)
``fork``          forked runs only: before and after the fork point (:mod:`reenact.engine.fork`)
================  ==============================================================================

The parts of a brief session are created on first use. The session's lock covers the machine, the
recorded calls, the calls in flight and the numbering of positions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from reenact._system import process_id
from reenact.engine._lazy import lazy_module
from reenact.engine.decision.machine import Machine
from reenact.engine.divergence.model import Divergence
from reenact.engine.draws import Draws
from reenact.engine.execution.gateway import Gateway
from reenact.engine.lanes import Lane, Lanes, running_loop
from reenact.engine.patches.patch import PatchSet
from reenact.engine.recording.recorder import Recorder
from reenact.engine.scheduling.scheduler import EndedLanes, Scheduler
from reenact.engine.session.call_decisions import CallDecisions
from reenact.engine.session.child_processes import ChildProcesses, session_patches, watch_forks
from reenact.engine.session.context import VARIABLE, enter_session, set_process_session
from reenact.engine.session.divergences import DivergenceReporter
from reenact.engine.session.explicit_api import AsyncExplicitApi, ExplicitApi
from reenact.engine.session.factory import (
    make_comparer,
    make_draws,
    make_machine,
    make_script,
    open_resources,
)
from reenact.engine.session.final_report import Report, SessionEnd
from reenact.engine.session.in_flight import InFlightCalls
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import ADDING_MODES, Settings
from reenact.errors import (
    BudgetExceeded,
    DivergenceError,
    PolicyRefused,
    ReenactError,
    SessionClosed,
    UsageError,
)
from reenact.format.event import Data
from reenact.format.manifest import Flag, Manifest
from reenact.policy.matching import Comparer

if TYPE_CHECKING:
    from reenact.engine.fork.forked_run import ForkedRun
    from reenact.engine.fork.plan import ForkPlan
    from reenact.engine.scheduling import loop_scheduler
    from reenact.engine.scheduling.loop_scheduler import LoopScheduler
    from reenact.engine.update.merger import RecordingMerger
    from reenact.store.sinks.copy import CopyOnWriteSink
    from reenact.store.source import SeekableSource
else:
    loop_scheduler = lazy_module("reenact.engine.scheduling.loop_scheduler")  # loads asyncio

__all__ = ["Session"]

_ident = threading.get_ident
_MAX_WARNINGS = 20


class Session:
    """Records, replays or refuses the calls of its body; ``with`` and ``async with``.

    Created by :func:`reenact.session`. Boundaries use ``gateway``. Programs that state their calls
    themselves use :meth:`call`, :meth:`stream`, ``record_…`` and ``replay_…``.
    """

    children: ChildProcesses
    comparer: Comparer
    decisions: CallDecisions
    draws: Draws
    explicit: ExplicitApi
    gateway: Gateway
    in_flight: InFlightCalls
    machine: Machine
    recorder: Recorder
    reporter: DivergenceReporter
    run_seed: str
    scheduler: Scheduler
    writes: bool

    def __init__(self, settings: Settings, resources: SessionResources | None = None) -> None:
        self.settings = settings
        self.mode = settings.mode
        self.tracks_order = False
        """The order of deliveries is recorded or replayed."""
        self.replays_order = False
        """A recorded order of deliveries is replayed."""
        self.lanes = Lanes()
        self.lock = threading.RLock()
        self.approximate = ""
        """Why the recorded order is not exact, if it is not."""
        self.host_facts: Any = None
        """Facts about the host that the program has read, see :mod:`reenact.boundaries.host`."""
        self.last_clock: float | None = None
        self.full: BudgetExceeded | None = None
        """The refusal of a replayed recording that was full; every later call raises it."""
        self.asks_again = False
        """A rule of the replay makes some calls again, outside of the session."""
        self.failed_with: Divergence | None = None
        """The divergence of a strict session; every later call raises it."""
        self.given_up = ""
        """Why an update is discarded, if it is."""
        self.merger: RecordingMerger | None = None
        self.fork: ForkedRun | None = None
        self.resources: SessionResources | None = None
        self._given_resources = resources
        self._loop_schedulers: dict[int, LoopScheduler] = {}
        self._before_close: list[Callable[[], None]] = []
        self._ending = SessionEnd()
        self._state = "new"
        self._before: list[tuple[Any, Any]] = []
        self._pid = process_id()
        self._opener = _ident()
        self._warned: set[str] = set()
        # The other parts need the resources. A brief session makes all of them on first use.
        if resources is None or not resources.is_brief:
            for name in _PARTS_WITHOUT_RESOURCES:
                setattr(self, name, _PARTS[name](self))

    # Opening

    def __enter__(self) -> Self:
        if self._state != "new":
            raise UsageError("a session is opened once", hint="make a new one: reenact.session(…)")
        self.resources = self._given_resources or open_resources(self.settings)
        try:
            self._assemble(self.resources)
        except BaseException:  # a rule of the policy is invalid
            self.resources.give_up()
            raise
        self._state = "open"
        if self.mode != "off":
            for patches in self._patches():
                patches.acquire()
            watch_forks(self)
        if self.settings.lane is not None:
            lane, pool = Lane(self.settings.lane), self.settings.pool
            self.lanes.begin(lane if pool is None else self.children.as_worker(lane, pool))
        elif self.resources.root is not None:
            self.lanes.begin(self.resources.root)
        self.lanes.adopt()
        before = VARIABLE.get()
        self._before.append((enter_session(self), before))
        if self.fork is not None:
            self.look_for_fork_point()
        if self.settings.whole_process:
            self._process_before = set_process_session(self)
        if self.settings.boundaries is not None and self.mode != "off":
            self.settings.boundaries.opened(self)
        return self

    def _assemble(self, resources: SessionResources) -> None:
        settings, policy = self.settings, self.settings.policy
        self.comparer = make_comparer(settings, resources)
        self.writes = self.mode not in ("off", "replay")
        self.tracks_order = policy.match == "lane" and self.mode != "off"
        self.replays_order = self.tracks_order and self.mode == "replay"
        self.run_seed = settings.run_seed
        self._opener = _ident()  # not the thread that created it
        if resources.is_brief:
            return
        script = make_script(settings, resources, settings.lane)
        self.machine = make_machine(settings, resources, self.comparer, script)
        if self.mode in ADDING_MODES and script is not None and resources.copy_sink is not None:
            ordered = policy.match != "lookup"
            from reenact.engine.update.merger import RecordingMerger

            self.merger = RecordingMerger(
                script, resources.copy_sink, self.machine, self.comparer, ordered=ordered
            )
        if resources.fork_plan is not None:
            self._begin_fork(resources, resources.fork_plan)
        order = script.order if script is not None and self.mode == "replay" else None
        self.scheduler = Scheduler(
            self.lock, order, self.reporter.stalled, patience=settings.patience
        )
        # A forked run has to make every call before its point, however late.
        if script is not None and order is not None and self.fork is None:
            self.scheduler.ended_lanes = EndedLanes(script.is_unused)
            fails = self.machine.strict and settings.unused == "error"
            self.scheduler.fails_without_calls = fails
        if self.fork is not None and self.tracks_order:
            self.scheduler.at_limit = self.fork.look
            self.scheduler.expects_point = self.fork.expects_point
        if resources.sink is not None:
            self.recorder = self._make_recorder()
        self.draws = make_draws(self)
        if resources.source is not None and not self.run_seed:
            self.run_seed = resources.source.manifest().capture_id

    def __getattr__(self, name: str) -> Any:
        """Create a part of a brief session on first use."""
        make = _PARTS.get(name)
        if make is None or self.resources is None or not self.resources.is_brief:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with self.lock:
            if not self._has(name):  # another thread can have been first
                setattr(self, name, make(self))
        return vars(self)[name]

    def _has(self, name: str) -> bool:
        """Return whether this part was created."""
        return name in vars(self)

    def _make_machine(self) -> Machine:
        assert self.resources is not None
        return make_machine(self.settings, self.resources, self.comparer, None)

    def _make_scheduler(self) -> Scheduler:
        scheduler = Scheduler(
            self.lock,
            None,
            self.reporter.stalled,
            patience=self.settings.patience,
            opener=self._opener,
        )
        if self._state == "closed":
            scheduler.close(self._closed)
        return scheduler

    def _make_recorder(self) -> Recorder:
        resources = self.resources
        assert resources is not None
        assert resources.sink is not None
        return Recorder(
            resources.sink,
            resources.clock,
            resources.redactor,
            resources.budget,
            copy_sink=resources.copy_sink or resources.forks_to,
            lock=self.lock,
        )

    def _begin_fork(self, resources: SessionResources, plan: ForkPlan) -> None:
        from reenact.engine.fork.forked_run import ForkedRun, ForkMachine
        from reenact.engine.fork.plan import survey_prefix

        assert isinstance(self.machine, ForkMachine)
        assert resources.source is not None
        with closing(resources.source.reopen()) as reader:
            prefix = survey_prefix(reader, plan.point.cut)
        self.fork = ForkedRun(self, plan, prefix, self.machine)

    def turn_live(self) -> None:
        """Continue live, because a forked run has reached its point. The caller holds the lock."""
        self.replays_order = False
        self.scheduler.go_live()

    def look_for_fork_point(self) -> None:
        """Turn live if nothing before the fork point is left to replay in this process."""
        with self.lock:
            self.scheduler.look_for_limit()

    # Closing

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
                self.warn(str(problem))  # never hides the error of the body

    def _restore(self) -> None:
        token, before = self._before.pop()
        try:
            VARIABLE.reset(token)
        except ValueError:  # left in a different context, as fixtures do
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
        resources = self.resources
        assert resources is not None
        with self.lock:
            self._end_calls()
            if self._has("draws") and resources.is_brief:
                # They refer to the session. A draw that comes too late creates new ones.
                del self.draws
            self._state = "closed"
            self.tracks_order = self.replays_order = False
            if self._has("scheduler"):
                self.scheduler.close(self._closed)
        if self.mode != "off":
            for patches in reversed(self._patches()):
                patches.release()
        in_child = self.settings.guest or process_id() != self._pid
        self._ending.come(self, resources, error, forked=in_child)

    def _end_calls(self) -> None:
        """Write everything that is in flight. The caller holds the lock."""
        if self._has("in_flight"):
            self.in_flight.flush()
        if self._has("draws"):
            self.draws.end_all()
        if self._has("in_flight"):
            self.in_flight.end_all()

    def break_off(self) -> None:
        """Write everything that is in flight, because the process ends right now."""
        with self.lock:
            self._end_calls()

    def before_close(self, act: Callable[[], None]) -> None:
        """Call ``act`` after the body, while the session is still open. It must not raise."""
        self._before_close.append(act)

    @property
    def manifest(self) -> Manifest | None:
        """Manifest of the written recording, after the session has ended."""
        return self._ending.manifest

    # State

    @property
    def is_active(self) -> bool:
        """True while the session is open, unless its mode is ``off``."""
        return self._state == "open" and self.mode != "off"

    def check_open(self) -> None:
        """Raise if the session has ended, or has failed with a divergence."""
        if self.failed_with is not None:
            from reenact.engine.divergence.text_renderer import render_divergence

            raise DivergenceError(self.failed_with, render_divergence(self.failed_with))
        if self._state != "open":
            raise self._closed()

    def _check_opened(self) -> None:
        if self._state == "new":
            raise self._closed()

    def _closed(self) -> SessionClosed:
        if self._state == "new":
            return SessionClosed(
                f"this session ({self.mode}) has not been opened", hint="with session: …"
            )
        return SessionClosed(
            f"this session ({self.mode}) has been closed, and a call came after its end",
            hint="wait for threads and tasks before the session ends",
        )

    def is_late(self) -> bool:
        """Return whether the session has ended and late calls are made live; never in a replay."""
        if self._state != "closed" or self.mode == "replay":
            return False
        self.warn_once("a call came after the end of its session: it is made and not recorded")
        return True

    @property
    def source(self) -> SeekableSource | None:
        """The recording that is read."""
        return None if self.resources is None else self.resources.source

    @property
    def copy_sink(self) -> CopyOnWriteSink | None:
        """The sink of an update, which copies events of the old recording."""
        return None if self.resources is None else self.resources.copy_sink

    @property
    def free_draws(self) -> set[str]:
        """See :attr:`reenact.engine.session.resources.SessionResources.free`."""
        return set() if self.resources is None else self.resources.free

    @property
    def run_id(self) -> str:
        """Run id of the recording that is read, else of the one that is written, else empty."""
        resources = self.resources
        if resources is None:
            return ""
        source = resources.source
        return resources.run_id if source is None else source.manifest().run_id

    def divergences(self) -> list[Divergence]:
        """Return the divergences so far; after the end also the unused recorded calls."""
        self._check_opened()
        return [*self.machine.divergences, *self._ending.left_over]

    def report(self) -> Report:
        """Return the machine-readable result: status, counts, divergences, unused calls."""
        self._check_opened()
        with self.lock:
            outcome = self._ending.outcome or self.machine.outcome()
        return Report.of(
            self.machine, self._ending.left_over, self._ending.count, self.mode, outcome
        )

    # Threads and loops

    def runner(self) -> int | LoopScheduler:
        """Return the ident of this thread, or the scheduler of the loop that it runs."""
        loop = running_loop()
        return _ident() if loop is None else self.loop_scheduler(loop)

    def running_loop_scheduler(self) -> LoopScheduler:
        """Return the scheduler of the running loop. Raises :class:`UsageError` without one."""
        loop = running_loop()
        if loop is None:
            raise UsageError(
                "a coroutine goes through this session, and no asyncio loop runs here",
                hint="run it with asyncio (or anyio on asyncio); trio is not covered",
            )
        return self.loop_scheduler(loop)

    def loop_scheduler(self, loop: Any) -> LoopScheduler:
        """Return the scheduler of ``loop``, created on first use."""
        found = self._loop_schedulers.get(id(loop))
        if found is None or found.loop is not loop:
            with self.lock:
                # A new loop can have the id of a closed one.
                self._loop_schedulers = {
                    key: one
                    for key, one in self._loop_schedulers.items()
                    if not one.loop.is_closed()
                }
                found = loop_scheduler.LoopScheduler(loop, self)
                self._loop_schedulers[id(loop)] = found
                self.scheduler.add_loop(found)
        return found

    @contextmanager
    def waiting_elsewhere(self) -> Iterator[None]:
        """Mark this thread as idle in the block, though nothing of the session wakes it."""
        self.scheduler.arrive(self.runner())
        self.scheduler.helper_comes()
        try:
            yield
        finally:
            self.scheduler.helper_goes()

    def schedule_is_approximate(self, why: str) -> None:
        """Flag the recording: from now on the order of deliveries is not exact."""
        if not self.approximate:
            self.approximate = why
            if self.writes and self.resources is not None and self.resources.sink is not None:
                self.resources.sink.flag(Flag.APPROXIMATE)
            self.warn(f"{why}: the order in which answers arrive is recorded approximately")

    # Secrets and warnings

    def redacted(self, error: PolicyRefused) -> PolicyRefused:
        """Return ``error`` without secrets; the name of an operation can contain some."""
        message = self.redacted_text(error.message)
        if message == error.message:
            return error
        return type(error)(message, hint=self.redacted_text(error.hint))

    def redacted_text(self, text: str) -> str:
        """Return ``text`` without secrets."""
        return text if self.resources is None else self.resources.redactor.text(text)

    def hides(self, name: str) -> bool:
        """Return whether the value of ``name``, such as an environment variable, is redacted."""
        return self.resources is not None and self.resources.redactor.hides(name)

    def suspects(self, text: bytes) -> bool:
        """Return whether ``text`` can contain a secret."""
        return self.resources is not None and self.resources.redactor.suspects(text)

    def redacts(self, text: bytes) -> bool:
        """Return whether ``text``, the bytes of a leaf, contains a secret."""
        if self.resources is None or not self.resources.redactor.suspects(text):
            return False
        return bool(self.resources.redactor.redact(text).marks)

    @property
    def keeps_secrets(self) -> bool:
        """True if nothing is redacted."""
        return self.resources is not None and self.resources.redactor.profile == "none"

    def warn(self, text: str) -> None:
        """Print a warning, without secrets."""
        self.settings.warn(self.redacted_text(text))

    def warn_once(self, text: str) -> None:
        """Print a warning, once per text."""
        if text not in self._warned and len(self._warned) < _MAX_WARNINGS:
            self._warned.add(text)
            self.warn(text)

    # Explicit API

    @property
    def aio(self) -> AsyncExplicitApi:
        """Coroutine variants of the methods below."""
        return AsyncExplicitApi(self)

    def call(
        self,
        operation: str,
        request: Data | None = None,
        live: Callable[[], Any] | None = None,
        *,
        capability: str = "tool.call",
        source: str | None = None,
    ) -> Any:
        """Return the recorded result, or call ``live`` and record what it returns or raises.

        ``request`` is what the call is compared by; it and the result are JSON values (and
        bytes). Under the capability ``tool.call`` it is a tool call, and calls inside ``live``
        have a lane of their own. Under any other capability calls inside ``live`` are ignored.
        """
        return self.explicit.call(operation, request, live, capability, source)

    def stream(
        self,
        operation: str,
        request: Data | None = None,
        live: Callable[[], Iterator[Any]] | None = None,
        *,
        capability: str = "net.stream",
        source: str | None = None,
    ) -> Iterator[Any]:
        """Return an iterator over recorded or live items; each is recorded when it arrives."""
        return self.explicit.stream(operation, request, live, capability, source)

    def record_event(self, kind: str, data: Data) -> None:
        """Record an event; in a replay, compare it with the recorded one at this position.

        ``llm_response`` and ``tool_result`` belong to the last open ``llm_request`` and
        ``tool_call`` of the same lane (a tool's by its ``callId``).
        """
        self.explicit.record_event(kind, data)

    def record_nondeterministic(self, source: str, key: str, value: Any) -> None:
        """Record a value that the program drew; a replay compares its position and key only."""
        self.explicit.record_nondeterministic(source, key, value)

    def next_nondeterministic(self, source: str, key: str) -> Any:
        """Return the recorded value at this position.

        None in ``record_missing`` and ``update`` when there is none. Raises :class:`UsageError` in
        modes that do not replay, :class:`DivergenceError` when something else, or nothing, was
        recorded here.
        """
        return self.explicit.next_nondeterministic(source, key)

    def replay_llm_request(self, request: Data) -> Data:
        """Return the data of the recorded ``llm_response``, also of one that failed (``error``)."""
        return self.explicit.replay("llm_request", request)

    def replay_tool_call(self, request: Data) -> Data:
        """Return the data of the recorded ``tool_result``, also of one that failed (``ok``)."""
        return self.explicit.replay("tool_call", request)

    def replay_nondeterministic(self, request: Data) -> Data:
        """Return the complete recorded event for ``{"source": …, "key": …}`` at this position."""
        return self.explicit.replay_nondeterministic(request)

    # Patches

    def _patches(self) -> list[PatchSet]:
        return session_patches(self.settings, self.mode)

    def keep_patches(self, *, in_replay: bool = False) -> Callable[[], None]:
        """Keep the patches of this session installed until the returned function is called.

        The next session then opens in a tenth of the time. ``in_replay`` includes the patches that
        only replays install.
        """
        own = self.settings.boundaries
        left_out = None if in_replay or own is None else own.in_replay
        kept = [one for one in self._patches() if self.mode != "off" and one is not left_out]
        for patches in kept:
            patches.acquire()

        def release() -> None:
            for patches in reversed(kept):
                patches.release()

        return release

    def after_fork(self) -> None:
        """Reset the parts that belong to the parent, in a forked child."""
        for patches in self._patches():
            patches.after_fork()
        if self._has("in_flight"):
            self.in_flight.forget()
        self._loop_schedulers.clear()
        if self._state == "open":
            self.draws.after_fork()


_PARTS_WITHOUT_RESOURCES: Final = (
    "reporter",
    "in_flight",
    "decisions",
    "gateway",
    "children",
    "explicit",
)

_PARTS: Final[dict[str, Callable[[Session], Any]]] = {
    "reporter": DivergenceReporter,
    "in_flight": InFlightCalls,
    "decisions": CallDecisions,
    "gateway": Gateway,
    "children": ChildProcesses,
    "explicit": ExplicitApi,
    "machine": Session._make_machine,
    "scheduler": Session._make_scheduler,
    "recorder": Session._make_recorder,
    "draws": make_draws,
}
"""Factories of parts. Most requests of an app make few calls, so brief sessions need few parts."""

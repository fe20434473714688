"""A session: the scope in which calls are recorded, re-enacted or refused."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from reenact.engine.call import Call, Decision, Entry, GoLive, Pass, Refuse, Serve
from reenact.engine.conductor import Conductor
from reenact.engine.current import VARIABLE, enter, set_process_session
from reenact.engine.desk import Desk
from reenact.engine.diagnosis import Diagnosis
from reenact.engine.divergence import Divergence
from reenact.engine.ending import Ending
from reenact.engine.explicit import Explicit
from reenact.engine.forking import watch
from reenact.engine.gateway import Gateway
from reenact.engine.jobs import job_patches
from reenact.engine.keeping import Keeper
from reenact.engine.lanes import Lane, Lanes, running_loop
from reenact.engine.machine import Machine
from reenact.engine.opening import Opened as Parts
from reenact.engine.opening import open_parts
from reenact.engine.order import Delivery, Token
from reenact.engine.patches import Patches
from reenact.engine.recorder import Opened, Recorder
from reenact.engine.rendering import render
from reenact.engine.report import Report
from reenact.engine.room import again
from reenact.engine.script import Script
from reenact.engine.settings import Settings
from reenact.engine.spawning import spawn_patches
from reenact.engine.stacks import stack_of
from reenact.engine.timers import timer_patches
from reenact.engine.waiter import Waiter
from reenact.engine.waits import wait_patches
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
from reenact.policy.access import Access
from reenact.policy.capabilities import KNOWN
from reenact.policy.matching import Comparer, Rules

__all__ = ["Session"]

_PATCHES = Patches(lambda: [*spawn_patches(), *job_patches(), *timer_patches(), *wait_patches()])
_ident = threading.get_ident
_SHOWN = 20


class Session(Explicit):
    """Opens on entry and closes on exit, however the body leaves; ``with`` and ``async with``.

    Made by :func:`reenact.session`. Boundaries use ``gateway``; programs that make their calls by
    hand use the methods of :class:`Explicit`.
    """

    def __init__(self, settings: Settings, parts: Parts | None = None) -> None:
        self.settings = settings
        self.mode = settings.mode
        self.gateway = Gateway(self)
        self.lanes = Lanes()
        self.lock = threading.RLock()
        self.approximate = ""
        """Why the recorded order is not exact, if it is not."""
        self.last_clock: float | None = None
        self.full: BudgetExceeded | None = None
        """In a replay: the recording was full from here on."""
        self._given_parts = parts
        self._parts: Parts | None = None
        self._desks: dict[int, Desk] = {}
        self._under_way: dict[int, tuple[Opened, Callable[[], None] | None]] = {}
        self._deferred: deque[Callable[[], None]] = deque()
        self.poison: Divergence | None = None
        """A strict session has diverged: every later call raises this again."""
        self._keeper: Keeper | None = None
        self._ending = Ending(self)
        self._state = "new"
        self._before: list[tuple[Any, Any]] = []
        self._pid = os.getpid()
        self._warned: set[str] = set()

    # Opening and closing

    def __enter__(self) -> Self:
        if self._state != "new":
            raise UsageError("a session is opened once", hint="make a new one: reenact.session(…)")
        self._parts = self._given_parts or open_parts(self.settings)
        try:
            self._assemble(self._parts)
        except BaseException:  # a rule of the policy that cannot be read
            self._parts.give_up()
            raise
        self._state = "open"
        if self.mode != "off":
            for patches in self._patches():
                patches.acquire()
            watch(self)
        self.lanes.root = self._parts.root or self.lanes.root
        self.lanes.adopt()
        before = VARIABLE.get()
        self._before.append((enter(self), before))
        if self.settings.whole_process:
            self._process_before = set_process_session(self)
        return self

    def _assemble(self, parts: Parts) -> None:
        settings, policy = self.settings, self.settings.policy
        rules = Rules(
            ignore_paths=policy.ignore.paths,
            ignore_headers=policy.ignore.headers,
            ignore_query=policy.ignore.query,
            volatile=policy.volatile,
        )
        self.comparer = Comparer(rules, parts.redactor)
        script = None
        if parts.source is not None and self.mode in ("replay", "record_missing"):
            script = Script(parts.source, by_lane=policy.match != "transcript")
        self.machine = Machine(
            self.mode,
            policy,
            Access(settings.pinned, KNOWN),
            self.comparer,
            Diagnosis(self.comparer, parts.redactor),
            script=script,
            strict=settings.strict,
        )
        self.writes = self.mode in ("record", "rewrite", "record_missing")
        if self.mode == "record_missing" and script is not None and parts.late is not None:
            self._keeper = Keeper(script, parts.late, self.machine, self.comparer)
        self.paces = policy.match == "lane" and self.mode != "off"
        order = script.order if script is not None and self.mode == "replay" else None
        self.conductor = Conductor(self.lock, order, self._stalled, patience=settings.patience)
        self.recorder: Recorder
        if parts.sink is not None:
            self.recorder = Recorder(
                parts.sink,
                parts.clock,
                parts.redactor,
                parts.room,
                late=parts.late,
                lock=self.lock,
            )
        self.run_seed = "" if parts.source is None else parts.source.manifest().capture_id

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
            self._end_what_is_under_way()
            self._state = "closed"
            self.paces = False
            self.conductor.close(self._closed)
        if self.mode != "off":
            for patches in self._patches():
                patches.release()
        assert self._parts is not None
        self._ending.come(self._parts, error, forked=os.getpid() != self._pid)

    @property
    def manifest(self) -> Manifest | None:
        """After the end: of what was written."""
        return self._ending.manifest

    def _patches(self) -> list[Patches]:
        own = self.settings.boundaries
        return [_PATCHES] if own is None else [_PATCHES, own]

    # One call

    def decide(self, call: Call, *, blocks: bool) -> tuple[Decision, Opened]:
        """What happens to ``call``. It has its lane and its position from now on."""
        self.check_open()
        lane = self.lanes.current()
        with self.lock:
            if self._deferred:
                self._flush()
            decision, key = self._decide(call, lane.name)
            opened = Opened(call, key, lane, lane.calls)
            if self._keeper is not None:
                decision = self._keeper.decide(decision, opened)
            if self.writes and isinstance(decision, GoLive):
                refusal = self.recorder.room.admit(call.request)
                decision = decision if refusal is None else Refuse(error=refusal)
            if self.is_recorded(decision):  # what is not recorded has no position
                lane.calls += 1
            if call.nests:
                inner = lane.child().name
                if self._keeper is not None:
                    inner = self._keeper.free_lane(inner)
                opened.inner = opened.inner or inner
            if blocks and self.paces and _is_waited_for(call, decision):
                self.conductor.arrive(self.runner())
        return decision, opened

    def _decide(self, call: Call, lane: str) -> tuple[Decision, str]:
        """What the machine says; but a recording that was full took no more calls."""
        if self.full is not None:
            action = self.settings.policy.action_for(call.capability, call.operation)
            if action != "pass":
                return Refuse(error=again(self.full)), self.machine.key(call)
        return self.machine.decide(call, lane)

    def is_recorded(self, decision: Decision) -> bool:
        """Is there an event for it, or will there be one?"""
        if isinstance(decision, Refuse) and decision.error is not None and decision.entry is None:
            return self.writes and self.recorder.room.full in (None, decision.error)
        return not isinstance(decision, Pass)

    def check_open(self) -> None:
        """Raise what a call raises after the end, and after a strict divergence."""
        if self.poison is not None:
            raise DivergenceError(self.poison, render(self.poison))
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
        """Has the session ended, and may the call be made all the same? Never in a replay."""
        if self._state != "closed" or self.mode == "replay":
            return False
        self.warn_once("a call came after the end of its session: it is made and not recorded")
        return True

    def has_recorded(self, call: Call) -> bool:
        """Is there a recorded answer for ``call``?"""
        with self.lock:
            return self.machine.has_recorded(call, self.lanes.current().name)

    def observe_mark(self, call: Call) -> None:
        """The program says that its run starts or ends."""
        self.check_open()
        lane = self.lanes.current().name
        if self.writes:
            with self.lock:
                recorded = self._keeper.mark(call) if self._keeper is not None else None
                self.recorder.event(call.type, call.request, lane, recorded=recorded)
            return
        with self.lock:
            divergence = self.machine.observe_mark(call, lane)
        if divergence is not None and self.machine.strict:
            raise self.diverged(divergence)

    def observe_closing(self, entry: Entry, kind: str, data: Data) -> None:
        """The program says what came back from a call that it made itself."""
        with self.lock:
            divergence = self.machine.observe_closing(entry, kind, data)
        if divergence is not None and self.machine.strict:
            raise self.diverged(divergence)

    def claim(self, opened: Opened, entry: Entry, *, stub: bool = True) -> tuple[Any, Data | None]:
        """The token of a recorded answer in the order of deliveries, and what was answered."""
        script = self.machine.script
        assert script is not None
        assert self._parts is not None
        assert self._parts.source is not None
        with self.lock:
            closing = script.complete(entry)
            if opened.inner is not None:
                opened.inner = entry.inner or opened.inner
                if stub:
                    script.stub(opened.inner)
            if closing is None or entry.unanswered:
                if not self.paces:
                    self.check_open()
                    raise self.diverged(self._never_answered(opened, entry))
                return None, None
            if opened.call.instant:
                script.order.drop(closing.seq)
            restored = self._parts.source.restored(closing, self._parts.seal)
        if restored.absent:
            self.warn_once(
                "a recorded answer has values that were redacted and cannot be opened here: the "
                "placeholder is served instead (a capture directory keeps them, sealed with a key)"
            )
        data = restored.data
        if entry.kind == "clock" and isinstance(data.get("value"), (int, float)):
            self.last_clock = data["value"]
        return closing.seq, data

    def _never_answered(self, opened: Opened, entry: Entry) -> Divergence:
        ask = self.machine.ask(opened.call, opened.key, opened.lane.name)
        why = "the recorded call was cancelled, or the recording ends before its answer"
        return self.machine.stalled(entry.seq, ask, stack="", why=why)

    def is_now(self, token: Token | None) -> bool:
        """Is it ``token``'s turn, and has it been handed over to this thread?"""
        with self.lock:
            return self.conductor.try_now(self.runner(), token)

    def begin(
        self, opened: Opened, ends: Callable[[], None] | None = None, *, brief: bool = False
    ) -> None:
        """A call starts. ``ends`` says what becomes of it when the session ends first."""
        with self.lock:
            if self.writes:
                self.recorder.open(opened, brief=brief)
            self._under_way[id(opened)] = opened, ends

    def keep(self, opened: Opened, data: Data) -> bool:
        """Is this call to stay in the recording as it was? Then it has begun."""
        if opened.entry is None:
            return False
        opened.answer = data
        self.begin(opened)
        return True

    def kept_or_new(self, opened: Opened, fields: Data) -> Data:
        """The completing event of a kept call that was made again."""
        assert self._keeper is not None
        with self.lock:
            return self._keeper.answer_or_new(opened, fields, self.recorder)

    def is_open(self, opened: Opened) -> bool:
        """Has ``opened`` begun, and not been completed?"""
        return id(opened) in self._under_way

    def complete(self, opened: Opened, data: Data) -> None:
        """Write the completing event of ``opened``, once."""
        with self.lock:
            if self._under_way.pop(id(opened), None) is not None and self.writes:
                self.recorder.complete(opened, data)

    def unanswered(self, opened: Opened, why: str, *, turns: int = 0) -> Data:
        """The completing event of a call that was never answered; ``turns``: of the loop, until
        its live half had unwound."""
        fields: Data = {why: True}
        if turns:
            fields["timing"] = {"turns": turns}
        if opened.call.type == "tool_call":
            fields["ok"] = False
        elif opened.call.type == "llm_request":
            fields |= {"stopReason": None, "usage": None}
        return self.recorder.completing(opened, fields)

    def _end_what_is_under_way(self) -> None:
        for opened, ends in list(self._under_way.values()):
            if ends is not None:
                ends()
            else:
                self.complete(opened, self.unanswered(opened, "unfinished"))

    def defer(self, act: Callable[[], None]) -> None:
        """Do ``act`` at the next call, or at the end: for what the garbage collector finds out,
        which may be in the middle of anything."""
        self._deferred.append(act)

    def _flush(self) -> None:
        while self._deferred:
            self._deferred.popleft()()

    def record_delivery(self, lane: str, name: str) -> None:
        """Write that a timer fired, a chunk was handed over, and the like, while it is open."""
        with self.lock:
            if self._state == "open":
                self.recorder.delivery(lane, name)

    @contextmanager
    def in_lane(self, opened: Opened) -> Iterator[None]:
        """What runs here is inside the tool call ``opened``."""
        assert opened.inner is not None
        with self.lanes.inside(Lane(opened.inner)):
            yield

    def compare_result(
        self, opened: Opened, entry: Entry, fields: Data, recorded: Data | None
    ) -> None:
        """A call that was made again: is the result the recorded one?"""
        then = {name: (recorded or {}).get(name) for name in fields}
        if self.comparer.key(fields) != self.comparer.key(then):
            asked = {name: recorded[name] for name in ("callId",) if recorded and name in recorded}
            divergence = self.machine.differs(
                entry, opened.call, opened.key, opened.lane.name, asked | fields
            )
            if self.machine.strict:
                raise self.diverged(divergence)

    # Divergences

    def diverged(self, divergence: Divergence) -> DivergenceError:
        """What to raise. In a strict session every later call raises it again."""
        if self.machine.strict and self.poison is None:
            self.poison = divergence
        return DivergenceError(divergence, render(divergence))

    def cancelled_early(self, opened: Opened, entry: Entry) -> None:
        """Answered in the recording, cancelled now. Strict sessions raise at the next call."""
        self.left_early(opened, entry, [])

    def left_early(self, opened: Opened, entry: Entry, tokens: list[Token]) -> None:
        """The program did not wait for what it waited for in the recording: for ``tokens``."""
        with self.lock:
            self.diverged(self.machine.cancelled(entry, opened.call, opened.key, opened.lane.name))
            if entry.closing is not None:
                tokens.append(entry.closing.seq)
            self.conductor.skip(*tokens)

    def wants_more(self, opened: Opened, entry: Entry) -> DivergenceError:
        """The program reads on where the recorded one stopped."""
        with self.lock:
            return self.diverged(self._never_answered(opened, entry))

    def _stalled(self, head: Delivery | None, waiter: Waiter | None) -> BaseException | None:
        ask = waiter.ask() if waiter is not None and waiter.ask is not None else None
        why = "nobody asks for it, and nothing else can happen"
        stack = stack_of(self.lanes, head.lane) if head is not None else ""
        divergence = self.machine.stalled(
            head.seq if head is not None else None, ask, stack=stack, why=why
        )
        error = self.diverged(divergence)
        return error if self.machine.strict or head is None else None

    def divergences(self) -> list[Divergence]:
        """What differed so far; after the end also what was left over."""
        self._check_opened()
        return [*self.machine.divergences, *self._ending.left_over]

    def report(self) -> Report:
        """What happened, for machines: status, counts, divergences, what was left over."""
        self._check_opened()
        return Report.of(self.machine, self._ending.left_over, self._ending.count, self.mode)

    # Forks

    @property
    def is_active(self) -> bool:
        """Is it open, and does it do anything?"""
        return self._state == "open" and self.mode != "off"

    def child_was_forked(self, lane: Lane) -> None:
        """In the parent: what is under ``lane`` is the child's business."""
        if self.machine.script is not None:
            self.machine.script.leave_to_child(lane.name)

    def became_child(self, lane: Lane | None) -> None:
        """In the child: one thread is left, and none of the parent's calls is ours."""
        for patches in self._patches():
            patches.after_fork()
        self._under_way.clear()
        self._deferred.clear()
        self._desks.clear()
        if lane is None or self._state != "open":
            return
        self.lanes.after_fork(lane)
        self.conductor.after_fork()
        parts = self._parts
        if parts is not None and parts.source is not None and self.machine.script is not None:
            parts.source = parts.source.reopen()
            script = Script(parts.source, by_lane=self.settings.policy.match != "transcript")
            script.keep_to(lane.name)
            self.machine.read_from(script)
            if self.conductor.order is not None:
                self.conductor.order = script.order

    # Who runs

    def runner(self) -> int | Desk:
        """This thread, or the loop that it runs."""
        loop = running_loop()
        return _ident() if loop is None else self.desk(loop)

    def running_desk(self) -> Desk:
        """The desk of the loop that runs here."""
        loop = running_loop()
        if loop is None:
            raise UsageError(
                "a coroutine goes through this session, and no asyncio loop runs here",
                hint="run it with asyncio (or anyio on asyncio); trio is not covered",
            )
        return self.desk(loop)

    def desk(self, loop: Any) -> Desk:
        """The desk of ``loop``."""
        found = self._desks.get(id(loop))
        if found is None or found.loop is not loop:
            with self.lock:
                self._desks = {
                    key: desk for key, desk in self._desks.items() if not desk.loop.is_closed()
                }
                found = Desk(loop, self)
                self._desks[id(loop)] = found
                self.conductor.add_desk(found)
        return found

    def schedule_is_approximate(self, why: str) -> None:
        """The order of deliveries is not exact from here on."""
        if not self.approximate:
            self.approximate = why
            if self.writes and self._parts is not None and self._parts.sink is not None:
                self._parts.sink.flag(Flag.APPROXIMATE)
            self.warn(f"{why}: the order in which answers arrive is recorded approximately")

    def redacted(self, error: PolicyRefused) -> PolicyRefused:
        """``error`` without secrets: the name of an operation may be anything."""
        message = self.redacted_text(error.message)
        if message == error.message:
            return error
        return type(error)(message, hint=self.redacted_text(error.hint))

    def redacted_text(self, text: str) -> str:
        """``text`` without secrets."""
        return text if self._parts is None else self._parts.redactor.text(text)

    def suspects(self, text: bytes) -> bool:
        """May there be a secret in ``text``?"""
        return self._parts is not None and self._parts.redactor.suspects(text)

    def warn(self, text: str) -> None:
        """Say something to the person at the screen; secrets are taken out."""
        self.settings.warn(self.redacted_text(text))

    def warn_once(self, text: str) -> None:
        """The same, once per text."""
        if text not in self._warned and len(self._warned) < _SHOWN:
            self._warned.add(text)
            self.warn(text)


def _is_waited_for(call: Call, decision: Decision) -> bool:
    """Does the thread do nothing until it gets the answer? Inside a tool it goes on."""
    if call.instant or call.observed:
        return False
    return isinstance(decision, Serve) or (isinstance(decision, GoLive) and not call.nests)

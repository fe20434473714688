"""State of a session: its fields, its divergences, and its calls in flight.

Base classes of :class:`~reenact.engine.session.session.Session`, each built on the one before:
:class:`SessionState` (settings, parts, open or closed), :class:`SessionDivergences` (compares
what the program does with the recording and raises divergences, with the stack of a stalled
lane), and :class:`InFlightCalls` (calls that have begun and are not completed).
"""

from __future__ import annotations

import io
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from reenact._system import process_id
from reenact.engine.call import Call, Entry
from reenact.engine.codecs import same_result
from reenact.engine.decision.machine import Machine
from reenact.engine.divergence.model import Divergence
from reenact.engine.divergence.text_renderer import render_divergence
from reenact.engine.execution.gateway import Gateway
from reenact.engine.lanes import Lane, Lanes, running_loop
from reenact.engine.recording.recorder import InFlightCall, Recorder
from reenact.engine.scheduling.delivery_order import Delivery, DeliveryToken
from reenact.engine.scheduling.scheduler import Scheduler
from reenact.engine.scheduling.waiters import Waiter
from reenact.engine.session.explicit_api import ExplicitApi
from reenact.engine.session.final_report import Report, SessionEnd
from reenact.engine.session.resources import SessionResources as Parts
from reenact.engine.session.settings import Settings
from reenact.engine.update.merger import RecordingMerger
from reenact.errors import BudgetExceeded, DivergenceError, PolicyRefused, SessionClosed, UsageError
from reenact.format.event import Data
from reenact.format.manifest import Flag
from reenact.policy.matching import Comparer

if TYPE_CHECKING:
    from reenact.engine.draws import Draws
    from reenact.engine.fork.forked_run import ForkedRun
    from reenact.engine.scheduling.loop_scheduler import LoopScheduler
    from reenact.store.source import SeekableSource

__all__ = [
    "InFlightCalls",
    "SessionDivergences",
    "SessionState",
    "caller_stack",
    "lane_stack",
]

_NEAR = 3
_FRAMES = 12


def lane_stack(lanes: Lanes, name: str) -> str:
    """The stack of what is in lane ``name``; empty when nothing is."""
    task = lanes.task_of(name)
    if task is not None:
        text = io.StringIO()
        task.print_stack(limit=_FRAMES, file=text)
        return text.getvalue()
    ident = lanes.thread_of(name)
    frame = sys._current_frames().get(ident) if ident is not None else None
    if frame is None:
        return ""
    import traceback

    return "".join(traceback.format_stack(frame, limit=_FRAMES))


def caller_stack() -> str:
    """Where the program stands that has called us: the last frames that are not ours."""
    import traceback

    frame: FrameType | None = sys._getframe(1)
    found: list[tuple[FrameType, int]] = []
    while frame is not None and len(found) < _NEAR:
        if not frame.f_globals.get("__name__", "").startswith("reenact."):
            found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return "".join(traceback.StackSummary.extract(reversed(found)).format())


_ident = threading.get_ident
_SHOWN = 20


class SessionState(ExplicitApi):
    """The first layer of a session: what it was told, what it holds, and whether it is open."""

    comparer: Comparer
    gateway: Gateway
    machine: Machine
    scheduler: Scheduler
    recorder: Recorder
    writes: bool
    draws: Draws
    tracks_order: bool
    replays_order: bool
    """Is a recorded order of deliveries enacted?"""
    run_seed: str

    def __init__(self, settings: Settings, parts: Parts | None = None) -> None:
        self.settings = settings
        self.mode = settings.mode
        if parts is None or not parts.is_brief:
            self.gateway = Gateway(self._me())
        self.lanes = Lanes()
        self.lock = threading.RLock()
        self.approximate = ""
        """Why the recorded order is not exact, if it is not."""
        self.host_facts: Any = None
        """What the program knows of the machine, see :mod:`reenact.boundaries.host.told`."""
        self.last_clock: float | None = None
        self.full: BudgetExceeded | None = None
        """In a replay: the recording was full from here on."""
        self.asks_again = False
        """In a replay: a rule wants something to be really asked again, outside of the session."""
        self._given_parts = parts
        self._parts: Parts | None = None
        self._loop_schedulers: dict[int, LoopScheduler] = {}
        self._in_flight: dict[int, tuple[InFlightCall, Callable[[], None] | None]] = {}
        self._deferred: deque[Callable[[], None]] = deque()
        self._before_close: list[Callable[[], None]] = []
        self.failed_with: Divergence | None = None
        """A strict session has diverged: every later call raises this again."""
        self.given_up = ""
        """Why an update cannot be kept, if it cannot."""
        self.merger: RecordingMerger | None = None
        self.fork: ForkedRun | None = None
        """Where and how the run is forked, if it is."""
        self._ending = SessionEnd()
        self._state = "new"
        self._before: list[tuple[Any, Any]] = []
        self._pid = process_id()
        self._warned: set[str] = set()

    def before_close(self, act: Callable[[], None]) -> None:
        """Do ``act``, which raises nothing, when the body has been left: the session is still open,
        and in force."""
        self._before_close.append(act)

    def check_open(self) -> None:
        """Raise what a call raises after the end, and after a strict divergence."""
        if self.failed_with is not None:
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
        """Has the session ended, and may the call be made all the same? Never in a replay."""
        if self._state != "closed" or self.mode == "replay":
            return False
        self.warn_once("a call came after the end of its session: it is made and not recorded")
        return True

    @property
    def source(self) -> SeekableSource | None:
        """The recording that is read."""
        return None if self._parts is None else self._parts.source

    @property
    def free_draws(self) -> set[str]:
        """See :attr:`reenact.engine.session.resources.SessionResources.free`."""
        return set() if self._parts is None else self._parts.free

    @property
    def run_id(self) -> str:
        """The id of the recorded run: of the recording that is read, else of the one that is
        written; empty where there is neither."""
        parts = self._parts
        if parts is None:
            return ""
        return parts.run_id if parts.source is None else parts.source.manifest().run_id

    # Who runs

    def runner(self) -> int | LoopScheduler:
        """This thread, or the loop that it runs."""
        loop = running_loop()
        return _ident() if loop is None else self.loop_scheduler(loop)

    def running_loop_scheduler(self) -> LoopScheduler:
        """The loop_scheduler of the loop that runs here."""
        loop = running_loop()
        if loop is None:
            raise UsageError(
                "a coroutine goes through this session, and no asyncio loop runs here",
                hint="run it with asyncio (or anyio on asyncio); trio is not covered",
            )
        return self.loop_scheduler(loop)

    def loop_scheduler(self, loop: Any) -> LoopScheduler:
        """The loop_scheduler of ``loop``."""
        found = self._loop_schedulers.get(id(loop))
        if found is None or found.loop is not loop:
            from reenact.engine.scheduling.loop_scheduler import (
                LoopScheduler,  # with asyncio, which not every program has
            )

            with self.lock:
                self._loop_schedulers = {
                    key: loop_scheduler
                    for key, loop_scheduler in self._loop_schedulers.items()
                    if not loop_scheduler.loop.is_closed()
                }
                found = LoopScheduler(loop, self._me())
                self._loop_schedulers[id(loop)] = found
                self.scheduler.add_loop(found)
        return found

    def schedule_is_approximate(self, why: str) -> None:
        """The order of deliveries is not exact from here on."""
        if not self.approximate:
            self.approximate = why
            if self.writes and self._parts is not None and self._parts.sink is not None:
                self._parts.sink.flag(Flag.APPROXIMATE)
            self.warn(f"{why}: the order in which answers arrive is recorded approximately")

    # What it says

    def redacted(self, error: PolicyRefused) -> PolicyRefused:
        """``error`` without secrets: the name of an operation may be anything."""
        message = self.redacted_text(error.message)
        if message == error.message:
            return error
        return type(error)(message, hint=self.redacted_text(error.hint))

    def redacted_text(self, text: str) -> str:
        """``text`` without secrets."""
        return text if self._parts is None else self._parts.redactor.text(text)

    def hides(self, name: str) -> bool:
        """Is what stands under ``name``, say of an environment variable, never written?"""
        return self._parts is not None and self._parts.redactor.hides(name)

    def suspects(self, text: bytes) -> bool:
        """May there be a secret in ``text``?"""
        return self._parts is not None and self._parts.redactor.suspects(text)

    def redacts(self, text: bytes) -> bool:
        """Is there a secret in ``text``, the bytes of a leaf?"""
        if self._parts is None or not self._parts.redactor.suspects(text):
            return False
        return bool(self._parts.redactor.redact(text).marks)

    @property
    def keeps_secrets(self) -> bool:
        """May anything be written as it is?"""
        return self._parts is not None and self._parts.redactor.profile == "none"

    def warn(self, text: str) -> None:
        """Say something to the person at the screen; secrets are taken out."""
        self.settings.warn(self.redacted_text(text))

    def warn_once(self, text: str) -> None:
        """The same, once per text."""
        if text not in self._warned and len(self._warned) < _SHOWN:
            self._warned.add(text)
            self.warn(text)


class SessionDivergences(SessionState):
    """The second layer of a session: what the program states is compared, and differences are raised."""

    def observe_mark(self, call: Call) -> None:
        """The program says that its run starts or ends."""
        self.check_open()
        lane = self.lanes.current().name
        if self.writes:
            with self.lock:
                recorded = self.merger.mark(call, lane) if self.merger is not None else None
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

    def compare_result(
        self, opened: InFlightCall, entry: Entry, fields: Data, recorded: Data | None
    ) -> None:
        """A call that was made again: is the result the recorded one?"""
        if not same_result(self.comparer, opened.call, fields, recorded or {}):
            asked = {name: recorded[name] for name in ("callId",) if recorded and name in recorded}
            divergence = self.machine.note(
                self.machine.differs(
                    entry, opened.call, opened.key, opened.lane.name, asked | fields
                )
            )
            if self.machine.strict:
                raise self.diverged(divergence)

    # Divergences

    def diverged(self, divergence: Divergence) -> DivergenceError:
        """What to raise. In a strict session every later call raises it again, and so does every
        call that waits for its turn."""
        report = render_divergence(divergence)
        error = DivergenceError(divergence, report)
        if self.machine.strict and self.failed_with is None:
            self.failed_with = divergence
            self.settings.tell(error)
            with self.lock:
                self.scheduler.give_up(lambda: DivergenceError(divergence, report))
        return error

    def located(self, divergence: Divergence) -> Divergence:
        """``divergence``, which has just been noted, with the place in the program."""
        found = msgspec.structs.replace(divergence, stack=self.redacted_text(caller_stack()))
        with self.lock:
            self.machine.divergences = [
                found if one is divergence else one for one in self.machine.divergences
            ]
        return found

    def cancelled_early(self, opened: InFlightCall, entry: Entry) -> None:
        """Answered in the recording, cancelled now. Strict sessions raise at the next call."""
        self.left_early(opened, entry, [])

    def left_early(self, opened: InFlightCall, entry: Entry, tokens: list[DeliveryToken]) -> None:
        """The program did not wait for what it waited for in the recording: for ``tokens``."""
        with self.lock:
            self.diverged(self.machine.cancelled(entry, opened.call, opened.key, opened.lane.name))
            if entry.closing is not None:
                tokens.append(entry.closing.seq)
            self.scheduler.skip(*tokens)

    def wants_more(self, opened: InFlightCall, entry: Entry) -> DivergenceError:
        """The program reads on where the recorded one stopped."""
        with self.lock:
            return self.diverged(self._never_answered(opened, entry))

    def _never_answered(self, opened: InFlightCall, entry: Entry) -> Divergence:
        ask = self.machine.ask(opened.call, opened.key, opened.lane.name)
        why = "the recorded call was cancelled, or the recording ends before its answer"
        if entry.closing is not None and entry.closing.data.get("ended") == "unfinished":
            why = "the recorded program was killed here, in the middle of the answer"
        return self.machine.stalled(entry.seq, ask, stack="", why=why)

    def _stalled(self, head: Delivery | None, waiter: Waiter | None) -> BaseException | None:
        ask = waiter.ask() if waiter is not None and waiter.ask is not None else None
        why = "nobody asks for it, and nothing else can happen"
        stack = lane_stack(self.lanes, head.lane) if head is not None else ""
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
        with self.lock:
            outcome = self._ending.outcome or self.machine.outcome()
        return Report.of(
            self.machine, self._ending.left_over, self._ending.count, self.mode, outcome
        )


class InFlightCalls(SessionDivergences):
    """The third layer of a session: calls begin, are answered or written down, and end."""

    def claim(
        self, opened: InFlightCall, entry: Entry, *, stub: bool = True
    ) -> tuple[Any, Data | None]:
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
                if not self.tracks_order:
                    self.check_open()
                    raise self.diverged(self._never_answered(opened, entry))
                return None, None
            if opened.call.instant:
                script.order.drop(closing.seq)
            data = closing.data
            absent: tuple[str, ...] = ()
            if "redacted" in data:
                restored = self._parts.source.restored(closing, self._parts.seal)
                data, absent = restored.data, restored.absent
        if absent and entry.kind != "rng":  # who draws chance makes up something, and says so
            self.warn_once(
                "a recorded answer has values that were redacted and cannot be opened here: the "
                "placeholder is served instead (a capture directory keeps them, sealed with a key)"
            )
        if entry.kind == "clock" and isinstance(data.get("value"), (int, float)):
            self.last_clock = data["value"]
        return closing.seq, data

    def is_now(self, token: DeliveryToken | None) -> bool:
        """Is it ``token``'s turn, and has it been handed over to this thread?"""
        with self.lock:
            return self.scheduler.try_now(self.runner(), token)

    def begin(
        self, opened: InFlightCall, ends: Callable[[], None] | None = None, *, brief: bool = False
    ) -> None:
        """A call starts. ``ends`` says what becomes of it when the session ends first."""
        with self.lock:
            if self._is_written(opened):
                self.recorder.open(opened, brief=brief)
            self._in_flight[id(opened)] = opened, ends

    def _is_written(self, opened: InFlightCall) -> bool:
        return (self.writes or opened.fresh) and not opened.past

    def keep(self, opened: InFlightCall, data: Data) -> bool:
        """Is this call to stay in the recording as it was? Then it has begun."""
        if opened.entry is None:
            return False
        opened.answer = data
        self.begin(opened)
        return True

    def kept_or_new(self, opened: InFlightCall, fields: Data) -> Data:
        """The completing event of a kept call that was made again."""
        assert self.merger is not None
        with self.lock:
            return self.merger.answer_or_new(opened, fields, self.recorder)

    def is_open(self, opened: InFlightCall) -> bool:
        """Has ``opened`` begun, and not been completed?"""
        return id(opened) in self._in_flight

    def complete(self, opened: InFlightCall, data: Data) -> None:
        """Write the completing event of ``opened``, once."""
        with self.lock:
            found = self._in_flight.pop(id(opened), None)
            if found is not None and self._is_written(opened):
                if self.merger is not None and opened.entry is not None:
                    self.merger.keep_inside(opened.entry)
                self.recorder.complete(opened, data)

    def unanswered(self, opened: InFlightCall, why: str, *, turns: int = 0) -> Data:
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

    def break_off(self) -> None:
        """The process ends here and now: what is under way is written as far as it has come."""
        with self.lock:
            self._flush()
            self.draws.end_all()
            self._end_in_flight()

    def _end_in_flight(self) -> None:
        for opened, ends in list(self._in_flight.values()):
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
    def in_lane(self, opened: InFlightCall) -> Iterator[None]:
        """What runs here is inside the tool call ``opened``."""
        assert opened.inner is not None
        with self.lanes.inside(Lane(opened.inner)):
            yield

"""``reenact.run_agent``: a small, complete agent loop over a model and tools.

A run opens its session, emits its events on the bus, drives the loop and returns a result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

import msgspec

from reenact._system import entropy, monotonic
from reenact.agents.compaction import Compaction
from reenact.agents.config import ReplayConfig, enter_session
from reenact.agents.effect_handlers import Performer, Teller, Toolbox
from reenact.agents.event_bus import Bus, Channel, Subscriber
from reenact.agents.event_mapping import Adapter, Mapper
from reenact.agents.loop import Abort, Effect, Ended, Loop, Model, Plan, Signal
from reenact.agents.messages import Message, as_messages
from reenact.agents.model_failures import Backoff, Classify, classify, error_class, error_text
from reenact.agents.result import AgentError, AgentFailed, AgentResult
from reenact.engine.divergence.model import Divergence
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import DivergenceError, UsageError
from reenact.format.event import Data
from reenact.format.manifest import Manifest
from reenact.store.warning import WarningRelay
from reenact.tools.tool import Tool

__all__ = [
    "Asked",
    "Run",
    "run_agent",
    "run_agent_async",
]

_runs: WeakKeyDictionary[Session, Counter[str]] = WeakKeyDictionary()
"""Number of started runs per lane of a session."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a run, and its observers."""

    plan: Plan
    input: str | Message
    earlier: Sequence[Message | Mapping[str, Any]]
    bus: Bus
    observers: tuple[Subscriber, ...]
    adapters: dict[str, Adapter]
    session_key: str
    run_id: str
    config: ReplayConfig


class Run:
    """One run, as a context manager. :meth:`result` is available after the exit."""

    channel: Channel
    teller: Teller

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        earlier = as_messages(asked.earlier)
        first = asked.input
        self._first = first if isinstance(first, Message) else Message(role="user", text=first)
        self._loop = Loop(asked.plan, [*earlier, self._first], self._emit)
        self._steps = self._loop.steps()
        self._earlier = len(earlier)
        self._ended = Ended(status="error")
        self._own: Session | None = None
        self._session: Session | None = None
        self._warnings: list[str] = []
        self._begun = False
        self._told = 0
        self._first_divergence = 0
        self._began = monotonic()
        self._stop = [asked.bus.subscribe(one) for one in asked.observers]
        self._observed = self._seen_before = asked.bus.observed()
        self._exit = ExitStack()

    # Beginning and end

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            warn = WarningRelay()
            undo.callback(warn.add_listener(self._warn))
            self._own = enter_session(self.asked.config, warn)
            if self._own is not None:
                undo.push(self._leave)
            self._join(current(), undo)
            self._begin()
            for text in self._warnings:
                self._emit_warning(text)
            self._begun = True
            self._exit = undo.pop_all()
        return self

    def _join(self, session: Session | None, undo: ExitStack) -> None:
        """Make the run a part of ``session``."""
        self._session = session
        if session is not None and session is not self._own:
            warn = session.settings.warn
            if isinstance(warn, WarningRelay):
                undo.callback(warn.add_listener(self._warn))
            self._first_divergence = self._told = len(session.divergences())
        self._mapper = Mapper(session, self.asked.adapters)
        self.channel = self.asked.bus.open(
            self.asked.run_id or _run_id(session), self.asked.session_key, self._mapper
        )
        self.teller = Teller(self.channel)
        undo.enter_context(self.channel.here())

    def _begin(self) -> None:
        start = {"phase": "start", "input": self._first.text, "messages": self._earlier}
        try:
            self._emit("lifecycle", start)
        except DivergenceError:
            self._diagnose()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """End the run. A lenient replay ends with a result even after a divergence."""
        kept = isinstance(error, DivergenceError) and not self._is_strict()
        if error is not None:
            self._ended = self._broken_off(error)
        with self._exit:
            try:
                self._end()
            except DivergenceError:
                if error is None:
                    raise
        self._diagnose()
        return kept

    def _end(self) -> None:
        self._diagnose()
        ended, usage = self._ended, self._loop.usage
        said: Data = {"phase": "end", "status": ended.status, "output": ended.output}
        if ended.error is not None:
            said["phase"] = "error"
            named = {"class": ended.error.error_class, "message": ended.error.message}
            said["error"] = {**named, "kind": ended.error.kind}
        if ended.status == "aborted":
            said["aborted"] = True
        self._emit("lifecycle", {**said, "usage": usage.to_json(), "stopReason": ended.stop_reason})

    def _broken_off(self, error: BaseException) -> Ended:
        """Return the final state after an exception that the loop did not handle."""
        if isinstance(error, DivergenceError):
            why = AgentError(
                kind="divergence",
                message=error.message,
                error_class=error_class(error),
                exception=error,
            )
            return Ended(status="error", error=why)
        if isinstance(error, Exception):
            named = {"message": error_text(error), "error_class": error_class(error)}
            return Ended(
                status="error", error=AgentError(kind="model_error", exception=error, **named)
            )
        return Ended(status="aborted", stop_reason="aborted")

    def _leave(self, *given: Any) -> None:
        """Close the run's own session. The recording of a failed run gets the error."""
        assert self._own is not None
        error = self._ended.error
        kind, problem, trace = given
        if problem is None and error is not None and self._own.writes:
            problem = error.exception or AgentFailed(error)
            kind = type(problem)
        self._own.__exit__(kind, problem, trace)

    def leave_observers(self) -> None:
        """Store the statistics of the observers and unsubscribe them.

        Busy observers continue alone.
        """
        self._observed = self.asked.bus.observed().since(self._seen_before)
        for stop in self._stop:
            stop()

    # In between

    def drive(self, perform: Callable[[Effect], Any]) -> None:
        """Do one step after another, to the end."""
        value: Any = None
        error: Exception | None = None
        while (effect := self._next(value, error)) is not None:
            value = error = None
            try:
                value = perform(effect)
            except Exception as problem:  # noqa: BLE001 - the loop decides what it means
                error = problem
            self._diagnose()

    async def drive_async(self, perform: Callable[[Effect], Awaitable[Any]]) -> None:
        """Async variant of :meth:`drive`."""
        value: Any = None
        error: Exception | None = None
        while (effect := self._next(value, error)) is not None:
            value = error = None
            try:
                value = await perform(effect)
            except Exception as problem:  # noqa: BLE001 - the loop decides what it means
                error = problem
            self._diagnose()

    def _next(self, value: Any, error: Exception | None) -> Effect | None:
        """Pass the result of the last step to the loop.

        Return the next effect, or None at the end.
        """
        try:
            return self._steps.send(value) if error is None else self._steps.throw(error)
        except StopIteration as stop:
            self._ended = stop.value
            return None

    def _emit(self, stream: str, data: Data) -> None:
        self.channel.emit(stream, data)

    def _warn(self, text: str) -> None:
        """Store a warning. Observers receive it after the start event of the run."""
        self._warnings.append(text)
        if self._begun:
            self._emit_warning(text)

    def _emit_warning(self, text: str) -> None:
        self._emit("error", {"phase": "warning", "message": text})

    def _divergences(self) -> list[Divergence]:
        return [] if self._session is None else self._session.divergences()

    def _diagnose(self) -> None:
        """Tell observers what has differed since the last time."""
        found = self._divergences()
        for one in found[self._told :]:
            self._emit("error", {"phase": "divergence", **_told(one)})
        self._told = max(self._told, len(found))

    def _is_strict(self) -> bool:
        return self._session is None or self._session.machine.strict

    # Result of the run

    def result(self) -> AgentResult:
        """Return the result, after the end of the run."""
        loop, ended = self._loop, self._ended
        recording, manifest = self._recording()
        return AgentResult(
            run_id=self.channel.run_id,
            status=ended.status,
            output=ended.output,
            messages=tuple(loop.messages),
            usage=loop.usage,
            last_usage=loop.last_usage,
            stop_reason=ended.stop_reason,
            error=ended.error,
            attempts=tuple(loop.attempts),
            divergences=tuple(self._divergences()[self._first_divergence :]),
            warnings=(*self._warnings, *self._mapper.failures),
            observed=self._observed,
            recording=recording,
            recording_status=None if manifest is None else manifest.status,
            content_hash=None if manifest is None else manifest.integrity.content_hash,
            duration_ms=round((monotonic() - self._began) * 1000),
        )

    def _recording(self) -> tuple[Path | None, Manifest | None]:
        own, session = self._own, self._session
        if session is None or session.mode == "off":
            return None, None
        place = session.settings.into or session.settings.path
        manifest = None if own is None else own.manifest or self._read_manifest(own)
        lost = manifest is not None and manifest.status == "error" and not manifest.event_count
        return None if lost else place, manifest

    def _read_manifest(self, own: Session) -> Manifest | None:
        return None if own.source is None else own.source.manifest()


def _told(divergence: Divergence) -> Data:
    """Return the short form for observers. The complete divergence is in the result."""
    said = divergence.to_json()
    names = ("code", "detail", "lane", "eventSeq", "jsonPath", "served", "hint")
    return {name: said[name] for name in names if name in said}


def _run_id(session: Session | None) -> str:
    """Return the id of the run.

    In a session it is the same in every replay, because it consists of the recording, the lane and
    the number of the run in that lane.
    """
    base = "" if session is None or session.mode == "off" else session.run_id
    if session is None or not base:
        return f"run_{entropy(8).hex()}"
    lane = session.lanes.current().name
    with session.lock:
        begun = _runs.setdefault(session, Counter())
        begun[lane] += 1
        return f"{base}-{lane}-{begun[lane]}"


_BACKOFF = Backoff()
_COMPACTION = Compaction()


class _Wishes(msgspec.Struct, kw_only=True):
    """The arguments of both functions."""

    model: Model
    input: str | Message
    tools: Sequence[Tool[..., Any] | Callable[..., Any]]
    instructions: str
    messages: Sequence[Message | Mapping[str, Any]]
    params: Mapping[str, Any] | None
    fallbacks: Sequence[Model]
    max_turns: int
    parallel: bool
    backoff: Backoff
    compaction: Compaction | None
    classify: Classify
    abort: Signal | None
    bus: Bus | None
    observers: Sequence[Subscriber]
    adapters: Mapping[str, Adapter] | None
    session_key: str
    run_id: str
    replay: ReplayConfig | Mapping[str, Any] | None
    grace: float

    def asked(self, toolbox: Toolbox) -> Asked:
        """Check the arguments and build the input of the run. Raises :class:`UsageError`."""
        for model in (self.model, *self.fallbacks):
            if not callable(model):
                raise UsageError(
                    f"a {type(model).__qualname__} cannot be used as a model: it is not callable",
                    hint="pass a function that takes a ModelRequest, or reenact.agents.OpenAIChat(client, …)",
                )
        if self.max_turns < 1:
            raise UsageError("max_turns is at least 1", hint="50 unless it is given")
        plan = Plan(
            models=(self.model, *self.fallbacks),
            tools=toolbox.specs,
            instructions=self.instructions,
            params=dict(self.params or {}),
            max_turns=self.max_turns,
            backoff=self.backoff,
            compaction=self.compaction,
            classify=self.classify,
            aborted=Abort(self.abort),
        )
        return Asked(
            plan=plan,
            input=self.input,
            earlier=self.messages,
            bus=Bus() if self.bus is None else self.bus,
            observers=tuple(self.observers),
            adapters=dict(self.adapters or {}),
            session_key=self.session_key,
            run_id=self.run_id,
            config=ReplayConfig.read(self.replay),
        )


def run_agent(
    model: Model,
    input: str | Message,
    *,
    tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
    instructions: str = "",
    messages: Sequence[Message | Mapping[str, Any]] = (),
    params: Mapping[str, Any] | None = None,
    fallbacks: Sequence[Model] = (),
    max_turns: int = 50,
    parallel: bool = True,
    backoff: Backoff = _BACKOFF,
    compaction: Compaction | None = _COMPACTION,
    classify: Classify = classify,
    abort: Signal | None = None,
    bus: Bus | None = None,
    observers: Sequence[Subscriber] = (),
    adapters: Mapping[str, Adapter] | None = None,
    session_key: str = "",
    run_id: str = "",
    replay: ReplayConfig | Mapping[str, Any] | None = None,
    grace: float = 1.0,
) -> AgentResult:
    """Call ``model`` with ``input``, and the ``tools`` that it requests, until it is done.

    ``messages`` is the earlier conversation (``result.messages`` of an earlier run). A failed model
    call is retried according to ``backoff``, then the ``fallbacks`` are used. A conversation that
    is too long is shortened according to ``compaction``. The model receives the errors of tools.
    Tools of one turn run in parallel unless ``parallel`` is false. ``abort`` stops the run before
    its next step. ``observers`` get every event of the run, which waits for them at most ``grace``
    seconds. With ``replay`` the run is recorded or replayed in its own session. Otherwise it is
    part of the open session, if there is one.

    If a run ends without an answer, ``result.error`` contains the cause and ``result.check()``
    raises it. Raises :class:`UsageError` and its subclasses for invalid arguments, the errors of
    opening a recording, and :class:`DivergenceError` in a strict replay.
    """
    wishes = _Wishes(**{name: item for name, item in locals().items() if name != "wishes"})
    toolbox = Toolbox(tools)
    run = Run(wishes.asked(toolbox))
    try:
        with run:
            aborted = run.asked.plan.aborted
            run.drive(Performer(toolbox, run.teller, aborted, parallel=parallel))
    finally:
        run.asked.bus.flush(grace)
        run.leave_observers()
    return run.result()


async def run_agent_async(
    model: Model,
    input: str | Message,
    *,
    tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
    instructions: str = "",
    messages: Sequence[Message | Mapping[str, Any]] = (),
    params: Mapping[str, Any] | None = None,
    fallbacks: Sequence[Model] = (),
    max_turns: int = 50,
    parallel: bool = True,
    backoff: Backoff = _BACKOFF,
    compaction: Compaction | None = _COMPACTION,
    classify: Classify = classify,
    abort: Signal | None = None,
    bus: Bus | None = None,
    observers: Sequence[Subscriber] = (),
    adapters: Mapping[str, Adapter] | None = None,
    session_key: str = "",
    run_id: str = "",
    replay: ReplayConfig | Mapping[str, Any] | None = None,
    grace: float = 1.0,
) -> AgentResult:
    """Async variant of :func:`run_agent`.

    Models and tools can be asynchronous. An ``asyncio.Event`` as ``abort`` also cancels the current
    step. If the task of a run is cancelled, the run ends as aborted and the cancellation is
    propagated.
    """
    wishes = _Wishes(**{name: item for name, item in locals().items() if name != "wishes"})
    import asyncio

    from reenact.agents.effect_handlers import AsyncPerformer

    toolbox = Toolbox(tools)
    run = Run(wishes.asked(toolbox))
    signal = abort if isinstance(abort, asyncio.Event) else None
    try:
        with run:
            aborted = run.asked.plan.aborted
            perform = AsyncPerformer(toolbox, run.teller, aborted, parallel=parallel, signal=signal)
            await run.drive_async(perform)
    finally:
        for wait in run.asked.bus.waiting(grace):
            wait()
            await asyncio.sleep(0)  # let other tasks run
        run.leave_observers()
    return run.result()

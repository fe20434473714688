"""Loop of an agent run: a generator that yields effects and performs none itself.

    call the model → run tools → call the model → … → final message

A failed model call is retried, then the next model is called. A conversation that is too long is
compacted. Each of these starts a new attempt, whose number is recorded with the model calls. The
request to abort a run comes from outside, so it is recorded and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

import msgspec

from reenact.agents.compaction import (
    CLIPS,
    Compaction,
    Decided,
    Summarize,
    compacted,
    cut,
    summary_request,
)
from reenact.agents.messages import Message, ModelReply, ModelRequest, ToolRequest, ToolSpec, Usage
from reenact.agents.model_failures import (
    Backoff,
    Classify,
    Failure,
    error_class,
    error_text,
    retry_after,
)
from reenact.agents.result import AgentError, Attempt, ErrorKind, Status
from reenact.engine.call import Call
from reenact.engine.codecs import PLAIN_CODEC
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.engine.session.settings import READING_MODES
from reenact.errors import ReenactError
from reenact.format.event import Data

__all__ = [
    "Abort",
    "Aborted",
    "AskModel",
    "Compact",
    "Effect",
    "Ended",
    "Loop",
    "Model",
    "Outcome",
    "Plan",
    "RunTools",
    "Signal",
    "Wait",
    "model_name",
]


class Signal(Protocol):
    """Object with an ``is_set()`` method, such as ``threading.Event`` or ``asyncio.Event``."""

    def is_set(self) -> bool: ...


class Abort:
    """Callable that checks whether the run has to stop.

    It is called between two steps and after each piece of a stream.
    """

    def __init__(self, signal: Signal | None) -> None:
        self._signal = signal
        self._steps = 0

    def __call__(self, pieces: int | None = None) -> bool:
        """Return whether the run has to stop here.

        A replay also stops where the recorded run was stopped. ``pieces`` is the number of received
        pieces of a stream, or None between two steps.
        """
        if self._signal is None:
            return False
        self._steps += pieces is None
        session = current()
        if session is None or not session.is_active:
            return self._signal.is_set()
        call = _call({"step": self._steps, "pieces": pieces})
        if not (self._was_recorded(session, call) or self._signal.is_set()):
            return False
        session.gateway.call(call, lambda: True, PLAIN_CODEC)
        return True

    def _was_recorded(self, session: Session, call: Call) -> bool:
        return session.mode in READING_MODES and session.decisions.is_next(call)


def _call(place: Data) -> Call:
    return Call(
        type="nondeterministic",
        capability="llm.call",
        operation="stop",
        request=place,
        source="abort",
        instant=True,
        observed=True,
    )


Model = Callable[[ModelRequest], Any]
"""Returns a :class:`ModelReply`, or an iterator of :class:`Delta` whose last piece is, or has, the
reply (a generator may return it); for tasks an awaitable, or an asynchronous iterator of the same."""


class Aborted(Exception):
    """The run was asked to stop."""


class AskModel(msgspec.Struct, frozen=True):
    """Gives a :class:`ModelReply`, or raises what the model raised."""

    model: Model
    request: ModelRequest
    attempt: int


class Outcome(msgspec.Struct, frozen=True):
    """Result of a tool, as sent to the model."""

    text: str
    is_error: bool = False


class RunTools(msgspec.Struct, frozen=True):
    """Gives an :class:`Outcome` for each request, in their order."""

    requests: tuple[ToolRequest, ...]


class Wait(msgspec.Struct, frozen=True):
    """Effect that waits for a number of seconds. A replay does not wait."""

    seconds: float


class Compact(msgspec.Struct, frozen=True):
    """Gives a :class:`Decided`: made by ``summarize`` or by the model, or the recorded one."""

    reason: str
    messages: tuple[Message, ...]
    keep: int
    ask: AskModel
    summarize: Summarize | None = None


Effect = AskModel | RunTools | Wait | Compact


Emit = Callable[[str, Data], Any]
Steps = Generator[Effect, Any, Any]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a run: models, tools, instructions and limits."""

    models: tuple[Model, ...]
    tools: tuple[ToolSpec, ...]
    instructions: str
    params: Data
    max_turns: int
    backoff: Backoff
    compaction: Compaction | None
    classify: Classify
    aborted: Abort


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """Final state of the loop."""

    status: Status
    output: str = ""
    stop_reason: str | None = None
    error: AgentError | None = None


class _Failed(Exception):
    """The run ends for this reason."""

    def __init__(self, error: AgentError) -> None:
        super().__init__(error.message)
        self.error = error


class Loop:
    """One run. :meth:`steps` is driven by a shell, once."""

    def __init__(self, plan: Plan, messages: Sequence[Message], emit: Emit) -> None:
        self.messages = list(messages)
        self.usage = Usage()
        self.last_usage: Usage | None = None
        self.last_words = ""
        self.attempts: list[Attempt] = []
        self._plan = plan
        self._emit = emit
        self._model = 0
        self._attempt = 0
        self._retries = 0
        self._compactions = 0
        self._squeezes = 0

    def steps(self) -> Generator[Effect, Any, Ended]:
        """Yield the effects to perform, receive their results, and return the final state."""
        try:
            ended = yield from self._turns()
        except Aborted:
            ended = Ended(status="aborted", output=self.last_words, stop_reason="aborted")
        except _Failed as failed:
            ended = Ended(status="error", output=self.last_words, error=failed.error)
        error = ended.error
        self._end_attempt(
            "" if error is None else error.kind, None if error is None else error.exception
        )
        return ended

    def _turns(self) -> Generator[Effect, Any, Ended]:
        for _ in range(self._plan.max_turns):
            reply: ModelReply = yield from self._ask()
            self._take(reply)
            if not reply.tool_calls:
                return Ended(status="ok", output=reply.text, stop_reason=reply.stop_reason)
            self._check_abort()
            outcomes = yield RunTools(reply.tool_calls)
            for request, outcome in zip(reply.tool_calls, outcomes, strict=True):
                self.messages.append(
                    Message(
                        role="tool",
                        text=outcome.text,
                        call_id=request.id,
                        name=request.name,
                        is_error=outcome.is_error,
                    )
                )
        raise _failed("max_turns", f"the model wants more than {self._plan.max_turns} turns")

    def _take(self, reply: ModelReply) -> None:
        self._retries = self._squeezes = 0
        self.messages.append(reply.message())
        self.last_words = reply.text or self.last_words
        self.last_usage = reply.usage
        if reply.usage is not None:
            self.usage += reply.usage

    # Asking the model

    def _ask(self) -> Steps:
        while True:
            self._check_abort()
            if self._is_long():
                yield from self._compact("limit", None)
            try:
                return (yield self._question())
            except Exception as error:
                if isinstance(error, Aborted) or _is_ours(error):
                    raise
                yield from self._recover(error)

    def _question(self) -> AskModel:
        plan = self._plan
        request = ModelRequest(
            messages=tuple(self.messages),
            tools=plan.tools,
            instructions=plan.instructions,
            params=plan.params,
        )
        return AskModel(plan.models[self._model], request, self._attempt)

    def _recover(self, error: Exception) -> Steps:
        kind: Failure = self._plan.classify(error)
        if kind == "context_overflow":
            yield from self._compact(kind, error)
        elif kind == "retriable" and self._may_retry():
            self._next_attempt(kind, error)
            yield self._retry(error)
        elif kind != "fatal" and self._model + 1 < len(self._plan.models):
            self._fall_back(kind, error)
        else:
            raise _failed("retry_limit" if kind == "retriable" else "model_error", "", error)

    def _may_retry(self) -> bool:
        return self._retries < self._plan.backoff.retries

    def _retry(self, error: Exception) -> Wait:
        """Return the wait before the next retry."""
        self._retries += 1
        return Wait(self._plan.backoff.wait(self._retries - 1, retry_after(error)))

    def _fall_back(self, kind: Failure, error: Exception) -> None:
        selected, active = self._name(0), self._name(self._model + 1)
        self._next_attempt("fallback", error)
        self._model += 1
        self._retries = 0
        self._emit(
            "lifecycle",
            {
                "phase": "fallback",
                "selectedModel": selected,
                "activeModel": active,
                "reason": kind,
                "error": error_class(error),
                "attempts": len(self.attempts),
            },
        )

    def _next_attempt(self, ended_by: str, error: Exception | None) -> None:
        self._end_attempt(ended_by, error)
        self._attempt += 1

    def _end_attempt(self, ended_by: str, error: BaseException | None = None) -> None:
        self.attempts.append(
            Attempt(
                number=self._attempt,
                model=self._name(self._model),
                ended_by=ended_by,
                error="" if error is None else error_text(error),
            )
        )

    def _name(self, number: int) -> str:
        return model_name(self._plan.models[number])

    def _check_abort(self) -> None:
        if self._plan.aborted():
            raise Aborted

    # Making room

    def _is_long(self) -> bool:
        compaction, usage = self._plan.compaction, self.last_usage
        if compaction is None or compaction.limit is None or usage is None:
            return False
        return usage.total > compaction.limit and self._compactions < compaction.most

    def _compact(self, reason: str, error: Exception | None) -> Steps:
        compaction = self._plan.compaction
        keep = len(self.messages) if compaction is None else self._keep(compaction)
        if compaction is None or self._compactions >= compaction.most or keep == len(self.messages):
            if error is None:  # only Reenact's own limit: the model can accept more
                self.last_usage = None
                return
            raise _failed("context_overflow", "", error)
        self._compactions += 1
        self._squeezes += 1
        self._emit("compaction", {"phase": "start", "reason": reason})
        decided = yield from self._decide(reason, keep, compaction)
        dropped = len(self.messages) - decided.keep
        self.messages = compacted(self.messages, decided)
        self.last_usage = None
        if decided.usage is not None:
            self.usage += decided.usage
        self._next_attempt("compaction", error)
        told = {"phase": "end", "willRetry": True, "dropped": dropped, "kept": decided.keep}
        self._emit("compaction", told)

    def _keep(self, compaction: Compaction) -> int:
        """Return the number of messages to keep.

        It is halved each time that compaction was not enough.
        """
        return cut(self.messages, compaction.keep >> self._squeezes)

    def _decide(
        self, reason: str, keep: int, compaction: Compaction
    ) -> Generator[Effect, Any, Decided]:
        clips = iter(CLIPS)
        clip = next(clips)
        while True:
            try:
                decided: Decided = yield self._decision(reason, keep, compaction, clip)
                return decided
            except Exception as error:
                if isinstance(error, Aborted) or _is_ours(error):
                    raise
                kind = self._plan.classify(error)
                if kind == "retriable" and self._may_retry():
                    yield self._retry(error)
                elif kind == "context_overflow" and (clip := next(clips, None)) is not None:
                    continue
                else:
                    told = {"phase": "end", "willRetry": False, "error": error_class(error)}
                    self._emit("compaction", told)
                    raise _failed("compaction_failure", "", error) from None

    def _decision(
        self, reason: str, keep: int, compaction: Compaction, clip: int | None
    ) -> Compact:
        plan, messages = self._plan, tuple(self.messages)
        old = messages[: len(messages) - keep]
        request = summary_request(old, plan.instructions, plan.params, clip)
        ask = AskModel(plan.models[self._model], request, self._attempt)
        return Compact(reason, messages, keep, ask, compaction.summarize)


def _is_ours(error: Exception) -> bool:
    """Return whether Reenact is misused or its recording is unreadable, so that other models fail
    as well."""
    return isinstance(error, ReenactError) and error.code != "recorded.failure"


def _failed(kind: ErrorKind, message: str, error: Exception | None = None) -> _Failed:
    if error is None:
        return _Failed(AgentError(kind=kind, message=message))
    return _Failed(
        AgentError(
            kind=kind,
            message=message or error_text(error),
            error_class=error_class(error),
            exception=error,
        )
    )


def model_name(model: Any) -> str:
    """Return the name of a model in results: its ``model`` attribute, or the name of the function."""
    said = getattr(model, "model", None)
    if isinstance(said, str) and said:
        return said
    return str(getattr(model, "__name__", None) or type(model).__name__)

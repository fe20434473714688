"""Doing what a run wants, in threads."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextvars import copy_context
from itertools import count
from typing import Any

import msgspec

from reenact import clock
from reenact.agents.aborting import Abort
from reenact.agents.compaction import Decided, decision_call, read_decision
from reenact.agents.effects import Aborted, AskModel, Compact, Effect, Outcome, RunTools, Wait
from reenact.agents.messages import ModelReply, ToolRequest
from reenact.agents.telling import Tell, Teller, reply_in
from reenact.agents.toolbox import Toolbox, failed, told
from reenact.engine.session.context import attempt, current
from reenact.errors import DivergenceError, UsageError
from reenact.format.event import Data
from reenact.tools.wrapping import Tool

__all__ = ["Performer", "checked"]

_MOST_THREADS = 16
_HINT = "return reenact.agents.ModelReply(text=…); an iterator yields it last"


class Performer:
    """Does one effect after another. ``parallel``: tools of one turn run at the same time."""

    def __init__(self, toolbox: Toolbox, teller: Teller, aborted: Abort, *, parallel: bool) -> None:
        self._toolbox = toolbox
        self._tell = teller
        self._aborted = aborted
        self._parallel = parallel

    def __call__(self, effect: Effect) -> Any:
        """What came of it. Raises what the model raised."""
        if isinstance(effect, AskModel):
            return self._ask(effect)
        if isinstance(effect, RunTools):
            return self._run(effect.requests)
        if isinstance(effect, Wait):
            return clock.sleep(effect.seconds)
        return self._decide(effect)

    # The model

    def _ask(self, ask: AskModel) -> ModelReply:
        reply = self._reply(ask, self._tell.piece)
        self._tell.reply(reply)
        return reply

    def _reply(self, ask: AskModel, tell: Tell) -> ModelReply:
        with attempt(ask.attempt):
            made = ask.model(ask.request)
            if inspect.isawaitable(made) or hasattr(made, "__aiter__"):
                raise _for_tasks("the model", made)
            return self._read(made, tell) if hasattr(made, "__next__") else checked(made)

    def _read(self, pieces: Iterator[Any], tell: Tell) -> ModelReply:
        reply: Any = None
        try:
            for number in count(1):
                piece = next(pieces)
                if self._aborted(number):
                    raise Aborted
                reply = tell(piece) or reply
        except StopIteration as stop:
            reply = stop.value or reply
        finally:
            _close(pieces)
        return checked(reply)

    # Tools

    def _run(self, requests: tuple[ToolRequest, ...]) -> list[Outcome]:
        for request in requests:
            self._tell.starts(request)
        if len(requests) == 1 or not self._parallel:
            return [self._call(request) for request in requests]
        from concurrent.futures import ThreadPoolExecutor  # few runs have tools side by side

        with ThreadPoolExecutor(min(len(requests), _MOST_THREADS)) as pool:
            jobs = [pool.submit(copy_context().run, self._call, one) for one in requests]
        if any(isinstance(job.exception(), DivergenceError) for job in jobs):
            _raise_the_first()
        return [job.result() for job in jobs]

    def _call(self, request: ToolRequest) -> Outcome:
        found = self._toolbox.find(request)
        if isinstance(found, Outcome):
            outcome = found
        else:
            try:
                outcome = Outcome(told(self._result(found, request)))
            except Exception as error:  # noqa: BLE001 - the model is told
                outcome = failed(error)
        self._tell.ends(request, outcome)
        return outcome

    def _result(self, found: Tool[..., Any], request: ToolRequest) -> Any:
        if found.kind in ("coroutine", "async_generator"):
            raise _for_tasks(f"the tool {found.name}", None)
        result = found.call(request.arguments, call_id=request.id)
        if found.kind != "generator":
            return result
        pieces = []
        for piece in result:
            self._tell.updates(request, piece)
            pieces.append(piece)
        return pieces

    # Making room

    def _decide(self, compact: Compact) -> Decided:
        count = len(compact.messages)

        def live() -> Data:
            return self._decided(compact).to_data()

        session = current()
        if session is None or session.mode == "off":
            return read_decision(live(), count)
        call = decision_call(compact.reason, count)
        return read_decision(session.gateway.call(call, live), count)

    def _decided(self, compact: Compact) -> Decided:
        if compact.summarize is None:  # of which nobody is told: a replay does not ask
            reply = self._reply(compact.ask, reply_in)
            return Decided(compact.keep, reply.text, reply.usage)
        summary = compact.summarize(compact.messages[: len(compact.messages) - compact.keep])
        if inspect.isawaitable(summary):
            raise _for_tasks("summarize", summary)
        return Decided(compact.keep, str(summary))


def _raise_the_first() -> None:
    """Of several threads that diverged: what the others raise only follows from the first."""
    session = current()
    if session is not None:
        session.check_open()


def checked(reply: Any) -> ModelReply:
    """``reply``, which a model has given: one, or plain data that says the same. Raises
    :class:`UsageError` for anything else."""
    if isinstance(reply, ModelReply):
        return reply
    if isinstance(reply, dict):
        try:
            return msgspec.convert(reply, ModelReply)
        except msgspec.ValidationError as error:
            raise UsageError(f"the model gave no ModelReply: {error}", hint=_HINT) from None
    raise UsageError(
        f"the model gave a {type(reply).__qualname__}, not a ModelReply",
        hint=_HINT,
    )


def _for_tasks(what: str, made: Any) -> UsageError:
    _close(made)
    return UsageError(f"{what} is asynchronous", hint="await reenact.run_agent_async(…)")


def _close(made: Any) -> None:
    close = getattr(made, "close", None)
    if callable(close):
        close()

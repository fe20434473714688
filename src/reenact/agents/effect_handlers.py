"""Handlers that perform the effects of an agent loop, one for threads and one for tasks.

While a model responds and tools run, they emit events on the run's channel. The toolbox finds tools
by name and converts their results to text for the model.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextvars import copy_context
from itertools import count
from typing import Any, Final, TypeVar

import msgspec

from reenact import clock
from reenact.agents.compaction import Decided, decision_call, read_decision
from reenact.agents.event_bus import Channel
from reenact.agents.loop import Abort, Aborted, AskModel, Compact, Effect, Outcome, RunTools, Wait
from reenact.agents.messages import Delta, ModelReply, ToolRequest, ToolSpec
from reenact.agents.model_failures import error_text
from reenact.engine.codecs import RecordedFailure
from reenact.engine.session.context import attempt
from reenact.engine.session.current import current
from reenact.errors import (
    DivergenceError,
    PolicyRefused,
    ReenactError,
    ToolNotRecorded,
    UsageError,
    ValueRefused,
    did_you_mean,
)
from reenact.format.event import Data
from reenact.tools.tool import Tool, tool
from reenact.tools.values import to_plain

__all__ = [
    "AsyncPerformer",
    "Performer",
    "Tell",
    "Teller",
    "Toolbox",
    "checked",
    "reply_in",
    "told",
]


_TOLD: Final = (PolicyRefused, RecordedFailure, ToolNotRecorded)
"""Reenact errors that count as the result of a tool. The model receives them like other errors."""


class Toolbox:
    """Tools of a run.

    Other callables are wrapped as tools. Raises :class:`UsageError` for two tools of the same name.
    """

    def __init__(self, tools: Sequence[Tool[..., Any] | Callable[..., Any]]) -> None:
        self._tools: dict[str, Tool[..., Any]] = {}
        for one in tools:
            made = one if isinstance(one, Tool) else tool(one)
            if made.name in self._tools:
                raise UsageError(
                    f"two tools are called {made.name}", hint="reenact.tool(function, name=…)"
                )
            self._tools[made.name] = made

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Descriptions of the tools for the model."""
        return tuple(ToolSpec(**one.definition) for one in self._tools.values())

    def find(self, request: ToolRequest) -> Tool[..., Any] | Outcome:
        """Return the requested tool, or an error for the model if the tool or its arguments are
        invalid."""
        found = self._tools.get(request.name)
        if found is None:
            names = list(self._tools)
            near = did_you_mean(request.name, names) if names else "there are none"
            return Outcome(f"tool {request.name[:128]!r} does not exist; {near}", is_error=True)
        if request.arguments is None:
            return Outcome("the arguments are not a JSON object", is_error=True)
        return found


def told(result: Any) -> str:
    """Return the text of ``result`` for a model: a string unchanged, other values as JSON."""
    if isinstance(result, str):
        return result
    try:
        return json.dumps(to_plain(result), ensure_ascii=False)
    except (ValueRefused, TypeError, ValueError):
        return str(result)  # without a session a tool can return any value


def failed(error: Exception) -> Outcome:
    """Return the outcome of a failed tool for the model.

    Raises ``error`` itself if Reenact was misused, because the model cannot correct that.
    """
    if isinstance(error, ReenactError) and not isinstance(error, _TOLD):
        raise error
    return Outcome(error_text(error), is_error=True)


Tell = Callable[[Any], Any]
"""Callback for a piece of a reply. It returns the complete reply for the last piece."""

_LONGEST: Final = 8_000
_CUT: Final = "…(truncated)…"
"""Maximum length of a tool's text on the bus. The recording contains the complete text."""


class Teller:
    """The words of a run, in the shapes that observers know."""

    def __init__(self, channel: Channel) -> None:
        self.emit = channel.emit

    def piece(self, piece: Delta | Any) -> Any:
        """Emit a piece of a reply. Return the complete reply if it is the last piece."""
        if isinstance(piece, Delta) and piece.thinking:
            self.emit("thinking", {"phase": "delta", "delta": piece.thinking})
        if isinstance(piece, Delta) and piece.text:
            self.emit("assistant", {"phase": "delta", "delta": piece.text})
        return reply_in(piece)

    def reply(self, reply: ModelReply) -> None:
        """Emit a complete reply."""
        for thought in reply.reasoning:
            if thought.text:
                self.emit("thinking", {"phase": "end", "text": thought.text})
        if reply.text:
            self.emit("assistant", {"phase": "end", "text": reply.text})

    def starts(self, request: ToolRequest) -> None:
        """Emit the start of a tool call."""
        args = request.written if request.arguments is None else request.arguments
        self._tool(request, {"phase": "start", "args": args})

    def updates(self, request: ToolRequest, piece: Any) -> None:
        """Emit a partial result of a tool."""
        self._tool(request, {"phase": "update", "partialResult": _short(told(piece))})

    def ends(self, request: ToolRequest, outcome: Outcome) -> None:
        """Emit the result of a tool."""
        said = {"phase": "result", "isError": outcome.is_error, "result": _short(outcome.text)}
        self._tool(request, said)

    def _tool(self, request: ToolRequest, said: dict[str, Any]) -> None:
        self.emit("tool", {"name": request.name, "toolCallId": request.id, **said})


def reply_in(piece: Delta | Any) -> Any:
    """Return the complete reply in the last piece."""
    return piece.reply if isinstance(piece, Delta) else piece


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + _CUT


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
        """Perform ``effect`` and return its result. Raises the errors of the model."""
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
            except Exception as error:  # noqa: BLE001 - the model receives the error
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
        if compact.summarize is None:  # without events, because a replay does not call the model
            reply = self._reply(compact.ask, reply_in)
            return Decided(compact.keep, reply.text, reply.usage)
        summary = compact.summarize(compact.messages[: len(compact.messages) - compact.keep])
        if inspect.isawaitable(summary):
            raise _for_tasks("summarize", summary)
        return Decided(compact.keep, str(summary))


def _raise_the_first() -> None:
    """Raise the first divergence of several threads, because the others are its consequences."""
    session = current()
    if session is not None:
        session.check_open()


def checked(reply: Any) -> ModelReply:
    """Return the result of a model as a reply. It is a :class:`ModelReply` or its plain data.

    Raises :class:`UsageError` for other values.
    """
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


T = TypeVar("T")


class AsyncPerformer:
    """Performer of effects, one after the other. ``signal`` can interrupt each of them."""

    def __init__(
        self,
        toolbox: Toolbox,
        teller: Teller,
        aborted: Abort,
        *,
        parallel: bool,
        signal: asyncio.Event | None,
    ) -> None:
        self._toolbox = toolbox
        self._tell = teller
        self._aborted = aborted
        self._parallel = parallel
        self._signal = signal

    async def __call__(self, effect: Effect) -> Any:
        """Perform ``effect`` and return its result.

        Raises the errors of the model, and :class:`Aborted`.
        """
        doing = self._do(effect)
        return await (doing if self._signal is None else _unless(self._signal, doing))

    async def _do(self, effect: Effect) -> Any:
        if isinstance(effect, AskModel):
            return await self._ask(effect)
        if isinstance(effect, RunTools):
            return await self._run(effect.requests)
        if isinstance(effect, Wait):
            return await asyncio.sleep(effect.seconds)
        return await self._decide(effect)

    # The model

    async def _ask(self, ask: AskModel) -> ModelReply:
        reply = await self._reply(ask, self._tell.piece)
        self._tell.reply(reply)
        return reply

    async def _reply(self, ask: AskModel, tell: Tell) -> ModelReply:
        with attempt(ask.attempt):
            made = ask.model(ask.request)
            if inspect.isawaitable(made):
                made = await made
            if hasattr(made, "__anext__"):
                return await self._read(made, tell)
            if hasattr(made, "__next__"):
                return await self._read(_as_async(made), tell)
            return checked(made)

    async def _read(self, pieces: AsyncIterator[Any], tell: Tell) -> ModelReply:
        reply: Any = None
        number = 0
        try:
            async for piece in pieces:
                number += 1
                if self._aborted(number):
                    raise Aborted
                reply = tell(piece) or reply
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()
        return checked(reply)

    # Tools

    async def _run(self, requests: tuple[ToolRequest, ...]) -> list[Outcome]:
        for request in requests:
            self._tell.starts(request)
        if len(requests) == 1 or not self._parallel:
            return [await self._call(request) for request in requests]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._call(request)) for request in requests]
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None  # tools must not raise it, so the run ends
        return [task.result() for task in tasks]

    async def _call(self, request: ToolRequest) -> Outcome:
        found = self._toolbox.find(request)
        if isinstance(found, Outcome):
            outcome = found
        else:
            try:
                outcome = Outcome(told(await self._result(found, request)))
            except Exception as error:  # noqa: BLE001 - the model receives the error
                outcome = failed(error)
        self._tell.ends(request, outcome)
        return outcome

    async def _result(self, found: Tool[..., Any], request: ToolRequest) -> Any:
        if found.kind != "async_generator":
            return await found.acall(request.arguments, call_id=request.id)
        pieces = []
        async for piece in found.call(request.arguments, call_id=request.id):
            self._tell.updates(request, piece)
            pieces.append(piece)
        return pieces

    # Making room

    async def _decide(self, compact: Compact) -> Decided:
        count = len(compact.messages)

        async def live() -> Data:
            return (await self._decided(compact)).to_data()

        session = current()
        if session is None or session.mode == "off":
            return read_decision(await live(), count)
        call = decision_call(compact.reason, count)
        return read_decision(await session.gateway.acall(call, live), count)

    async def _decided(self, compact: Compact) -> Decided:
        if compact.summarize is None:  # without events, because a replay does not call the model
            reply = await self._reply(compact.ask, reply_in)
            return Decided(compact.keep, reply.text, reply.usage)
        summary = compact.summarize(compact.messages[: len(compact.messages) - compact.keep])
        return Decided(
            compact.keep, str(await summary if isinstance(summary, Awaitable) else summary)
        )


async def _as_async(pieces: Iterator[Any]) -> AsyncIterator[Any]:
    try:
        while True:
            yield next(pieces)
    except StopIteration as stop:
        if stop.value is not None:
            yield stop.value


async def _unless(signal: asyncio.Event, doing: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``doing``.

    If ``signal`` is set first, cancel it and raise :class:`Aborted`.
    """
    work = asyncio.ensure_future(doing)
    watch = asyncio.ensure_future(signal.wait())
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (work, watch):
            task.cancel()
        await asyncio.gather(work, watch, return_exceptions=True)
    if work.cancelled():
        raise Aborted
    return work.result()

"""Doing what a run wants, in tasks."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from typing import Any, TypeVar

from reenact.agents.aborting import Abort
from reenact.agents.compaction import Decided, decision_call, read_decision
from reenact.agents.effects import Aborted, AskModel, Compact, Effect, Outcome, RunTools, Wait
from reenact.agents.messages import ModelReply, ToolRequest
from reenact.agents.performing import checked
from reenact.agents.telling import Tell, Teller, reply_in
from reenact.agents.toolbox import Toolbox, failed, told
from reenact.engine.session.context import attempt, current
from reenact.format.event import Data
from reenact.tools.wrapping import Tool

__all__ = ["AsyncPerformer"]

T = TypeVar("T")


class AsyncPerformer:
    """Does one effect after another. ``signal`` is waited for beside them, if it can be."""

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
        """What came of it. Raises what the model raised, and :class:`Aborted`."""
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
            raise several.exceptions[0] from None  # what no tool may raise: the run is over
        return [task.result() for task in tasks]

    async def _call(self, request: ToolRequest) -> Outcome:
        found = self._toolbox.find(request)
        if isinstance(found, Outcome):
            outcome = found
        else:
            try:
                outcome = Outcome(told(await self._result(found, request)))
            except Exception as error:  # noqa: BLE001 - the model is told
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
        if compact.summarize is None:  # of which nobody is told: a replay does not ask
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
    """What ``doing`` comes to; it is cancelled and :class:`Aborted` raised if ``signal`` is first."""
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

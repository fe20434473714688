"""The command stream of an agent: what the outbox holds for it, in order, at least once.

There is one stream per agent. Each has a number, counted in the database, so that it learns from
there, in whichever process it lives, that a newer one has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact.server.agents.dispatching import clear
from reenact.server.agents.members import present_agent
from reenact.server.agents.sse import Channel, EventStream, ReaderGone
from reenact.server.agents.waiting import rest
from reenact.server.asking import Ask
from reenact.server.exchanges.subjects import agent_subject
from reenact.server.hints import Ear
from reenact.server.ports import Server
from reenact.server.storage.exchange_agents import change_agent, find_agent, next_stream
from reenact.server.storage.exchange_outbox import pending_commands
from reenact.server.storage.exchange_requester import key_holds
from reenact.server.streams import Open

__all__ = ["stream_commands"]

_AT_ONCE: Final = 100

_End = Literal["superseded", "revoked"]


async def stream_commands(ask: Ask) -> Response:
    """Stays open. What was not acknowledged is sent again, whatever ``Last-Event-ID`` says."""
    epoch = ask.number("epoch", 0)
    async with ask.server.database.writing(ask.tenant) as scope:
        row = await present_agent(ask, scope, epoch)
        number = await next_stream(scope, row.agent_id)
        await change_agent(scope, row.agent_id, {"last_seen_at": ask.server.now()})
    ask.server.hints.give(agent_subject(ask.tenant, row.agent_id))
    stream = _Stream(ask.server, Open(ask.tenant, row.agent_id, row.key_id, epoch, number))
    return EventStream(stream.write, ask.server.timings.slow)


class _Look(msgspec.Struct, frozen=True):
    """What a look into the database has shown."""

    end: _End | None
    commands: Sequence[Row[Any]]


class _Stream:
    def __init__(self, server: Server, own: Open) -> None:
        self._server = server
        self._own = own
        self._last = 0
        """The number of the last command that went through this stream."""

    async def write(self, channel: Channel) -> None:
        server = self._server
        await channel.retry(server.timings.retry)
        subject = agent_subject(self._own.tenant, self._own.agent_id)
        with (
            server.hints.listening(subject) as ear,
            server.streams.having(self._own),
            self._noting_a_cut(),
        ):
            while not server.stopping.is_set():
                look = await self._look()
                if look.end is not None:
                    await self._end(channel, look.end)
                    return
                for command in look.commands:
                    await self._send(channel, command)
                if len(look.commands) < _AT_ONCE:
                    await self._rest(channel, ear)
        await channel.event("drain", b"{}")

    @contextmanager
    def _noting_a_cut(self) -> Iterator[None]:
        """An agent that closes the stream has probably ended; the background task looks into it."""
        try:
            yield
        except (asyncio.CancelledError, ReaderGone):
            if not self._server.stopping.is_set():
                self._server.streams.cut(self._own, self._server.now())
            raise

    async def _rest(self, channel: Channel, ear: Ear) -> None:
        """Until a hint, or the net under the hints, says that there may be something. Whoever has
        nothing to do costs a line now and then, and no question to the database."""
        while not await rest(self._server, ear, self._server.timings.ping):
            if self._server.stopping.is_set():
                return
            await channel.ping()

    async def _look(self) -> _Look:
        now, own = self._server.now(), self._own
        async with self._server.database.reading(own.tenant) as scope:
            row = await find_agent(scope, own.agent_id)
            if row is None or (row.epoch, row.stream) != (own.epoch, own.number):
                return _Look("superseded", ())
            if row.gone_at or not await key_holds(scope, own.key_id, now):
                return _Look("revoked", ())
            return _Look(
                None, await pending_commands(scope, own.agent_id, self._last, now, _AT_ONCE)
            )

    async def _end(self, channel: Channel, why: _End) -> None:
        if why == "superseded":
            await channel.event("superseded", b"{}")

    async def _send(self, channel: Channel, command: Row[Any]) -> None:
        self._last = command.number
        if command.sent_at or await clear(self._server, self._own.tenant, command):
            await channel.event(command.type, command.document, command.number)

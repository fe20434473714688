"""Command stream of an app agent: the pending commands of the outbox, in order, at least once.

There is one stream per agent. Each has a number that is counted in the database, so a stream learns
in any process that a newer one has replaced it.

A replay is authorised again before its command is sent for the first time: between the request and
the dispatch a tenant can lose its tier, a user a grant, an environment its kind.

A notification can be lost, so :func:`sweep` polls the database every ``Timings.poll`` seconds. It
handles all streams of a process together with a few queries per tenant, and wakes the streams that
may have a command.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact.audit.record import Actor
from reenact.server.agents.service import present_agent
from reenact.server.audit.log import SYSTEM
from reenact.server.auth.permissions import ResourceScope
from reenact.server.context import RequestContext
from reenact.server.http.sse import Channel, EventStream, ReaderGone
from reenact.server.notifications import (
    Subscription,
    agent_subject,
    replay_subject,
    wait_for_notification,
)
from reenact.server.problems import Problem
from reenact.server.replays.checks import check_right
from reenact.server.replays.state import advance
from reenact.server.runtime import OpenStream, Server, repeat
from reenact.server.storage.agents import change_agent, find_agent, next_stream, present_streams
from reenact.server.storage.database import Scope
from reenact.server.storage.people import environment_kind, grants_now, key_holds, tenant_now
from reenact.server.storage.replays import (
    end_command,
    find_replay,
    mark_sent,
    pending_commands,
    with_unsent,
)

__all__ = [
    "clear",
    "run",
    "stream_commands",
    "sweep",
]

_AT_ONCE: Final = 100

_End = Literal["superseded", "revoked"]


async def stream_commands(context: RequestContext) -> Response:
    """Stream commands until the client disconnects.

    Unacknowledged commands are sent again, regardless of ``Last-Event-ID``.
    """
    epoch = context.number("epoch", 0)
    async with context.server.database.writing(context.tenant) as scope:
        row = await present_agent(context, scope, context.path("agent_id"), epoch)
        number = await next_stream(scope, row.agent_id)
        await change_agent(scope, row.agent_id, {"last_seen_at": context.server.now()})
    context.server.notifications.publish(agent_subject(context.tenant, row.agent_id))
    stream = _Stream(
        context.server, OpenStream(context.tenant, row.agent_id, row.key_id, epoch, number)
    )
    return EventStream(stream.write, context.server.timings.slow)


class _Look(msgspec.Struct, frozen=True):
    """State of a stream in the database."""

    end: _End | None
    commands: Sequence[Row[Any]]


class _Stream:
    def __init__(self, server: Server, own: OpenStream) -> None:
        self._server = server
        self._own = own
        self._last = 0
        """The number of the last command that went through this stream."""

    async def write(self, channel: Channel) -> None:
        server = self._server
        await channel.retry(server.timings.retry)
        subject = agent_subject(self._own.tenant, self._own.agent_id)
        with (
            server.notifications.subscribe(subject) as subscription,
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
                    await self._rest(channel, subscription)
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

    async def _rest(self, channel: Channel, subscription: Subscription) -> None:
        """Wait for a notification or the poller.

        An idle stream costs a ping now and then, and no query.
        """
        while not await wait_for_notification(
            self._server, subscription, self._server.timings.ping
        ):
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


async def clear(server: Server, tenant: str, command: Row[Any]) -> bool:
    """Return whether ``command`` can be sent now, and record its dispatch.

    Otherwise end its replay as ``refused``.
    """
    async with server.database.writing(tenant) as scope:
        may = command.type != "replay" or await _may_go(server, scope, command.replay_id)
        if may:
            await mark_sent(scope, command.agent_id, command.number, server.now())
        else:
            await end_command(scope, command.agent_id, command.number, server.now())
    if not may:
        server.notifications.publish(replay_subject(tenant, command.replay_id))
    return may


async def _may_go(server: Server, scope: Scope, replay_id: str) -> bool:
    replay = await find_replay(scope, replay_id)
    if replay is None or replay.state != "requested":
        return False
    try:
        await _check(server, scope, replay)
    except Problem as no:
        await advance(server, scope, replay, "refused", SYSTEM, code=no.code, message=no.message)
        return False
    return True


async def _check(server: Server, scope: Scope, replay: Row[Any]) -> None:
    """Raises :class:`Problem`."""
    now = server.now()
    actor = msgspec.json.decode(replay.actor, type=Actor)
    agent = await find_agent(scope, replay.agent_id)
    place = ResourceScope(replay.environment, replay.app)
    if agent is None or (agent.environment, agent.app) != (place.environment, place.app):
        raise Problem("agent_offline", "the agent is not where it was")
    check_right(
        await tenant_now(scope),
        await grants_now(scope, actor.id, actor.auth, actor.credential, now),
        await environment_kind(scope, agent.environment),
        place,
        replay.boundaries,
        now,
    )


_LOG: Final = logging.getLogger("reenact.server")


async def run(server: Server, stop: asyncio.Event) -> None:
    """Check the streams now and then until ``stop`` is set."""
    await repeat(
        stop,
        server.timings.poll,
        lambda: sweep(server),
        "command streams could not be looked after",
    )


async def sweep(server: Server) -> int:
    """Wake the streams that may have something to do; gives how many there were."""
    tenants: defaultdict[str, list[OpenStream]] = defaultdict(list)
    for one in server.streams.open:
        tenants[one.tenant].append(one)
    woken = 0
    for tenant, streams in tenants.items():
        async with server.database.reading(tenant) as scope:
            stirred = await _stirred(scope, streams, server.now())
        for one in stirred:
            server.notifications.wake(agent_subject(tenant, one.agent_id))
        woken += len(stirred)
    return woken


async def _stirred(scope: Scope, streams: list[OpenStream], now: int) -> list[OpenStream]:
    """Return the streams that have a command, were replaced by a newer one, or whose key is
    invalid."""
    present = await present_streams(scope, [one.agent_id for one in streams])
    keys = {key: await key_holds(scope, key, now) for key in {one.key_id for one in streams}}
    unsent = await with_unsent(scope, now)
    return [
        one
        for one in streams
        if one.agent_id in unsent
        or not keys[one.key_id]
        or present.get(one.agent_id) != (one.epoch, one.number)
    ]

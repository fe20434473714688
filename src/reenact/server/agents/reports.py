"""State reports of app agents, and the source data that they fetch for a replay."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact.exchange.model import TERMINAL, Payload, ReplaySource, StateReport
from reenact.server.agents.registration import known_agent, present_agent
from reenact.server.audit.log import actor_of
from reenact.server.context import RequestContext
from reenact.server.exchanges.recordings import recording_of
from reenact.server.exchanges.redaction import clean_text
from reenact.server.notifications import replay_subject
from reenact.server.problems import Problem
from reenact.server.replays.state import advance, arrived
from reenact.server.storage.database import Scope
from reenact.server.storage.documents import exchange_of, unpack
from reenact.server.storage.exchanges import find_exchange
from reenact.server.storage.replays import find_replay

__all__ = ["read_source", "read_source_recording", "report_state"]


async def report_state(context: RequestContext) -> None:
    """Record a reported state. Late and repeated reports change nothing."""
    said = await context.json(StateReport)
    async with context.server.database.writing(context.tenant) as scope:
        agent = await present_agent(context, scope, said.epoch)
        replay = await _replay(context, scope, agent)
        actor = actor_of(context.principal)
        if said.state != "delivered":
            replay = await arrived(context.server, scope, replay, actor)
        message = clean_text(said.message)
        await advance(
            context.server, scope, replay, said.state, actor, code=said.code, message=message
        )
    context.server.notifications.publish(replay_subject(context.tenant, replay.replay_id))


async def read_source(context: RequestContext) -> ReplaySource:
    """``GET …/source``: what a replay of this agent starts with; 410 once it has ended."""
    async with context.server.database.reading(context.tenant) as scope:
        replay, source = await _under_way(context, scope)
    return ReplaySource(
        payload=unpack(replay.payload, Payload),
        redacted=msgspec.json.decode(replay.redacted, type=tuple[str, ...]),
        recording=exchange_of(source).recording,
    )


async def read_source_recording(context: RequestContext) -> Response:
    """``GET …/recording``: the packed capture of the source; 410 in the same way."""
    async with context.server.database.reading(context.tenant) as scope:
        _, source = await _under_way(context, scope)
    data = await recording_of(context.server, context.tenant, exchange_of(source))
    return Response(data, media_type="application/octet-stream")


async def _under_way(context: RequestContext, scope: Scope) -> tuple[Row[Any], Row[Any]]:
    """A replay of this agent that has not ended, and its source."""
    replay = await _replay(context, scope, await known_agent(context, scope))
    if replay.state in TERMINAL:
        raise Problem("gone", f"this replay is {replay.state}")
    source = await find_exchange(scope, replay.source_exchange_id)
    if source is None:
        raise Problem("gone", "the exchange is not kept any more")
    return replay, source


async def _replay(context: RequestContext, scope: Scope, agent: Row[Any]) -> Row[Any]:
    row = await find_replay(scope, context.path("replay_id"))
    if row is None or row.agent_id != agent.agent_id:
        raise Problem("not_found", "this agent has no such replay")
    return row

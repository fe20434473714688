"""Before a replay leaves for the first time: may it still be?

Between asking and sending a tenant may lose its tier, a person a grant, an environment its kind.
What is true now is what counts.
"""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row

from reenact.audit.record import Actor
from reenact.server.access import Place
from reenact.server.audit import SYSTEM
from reenact.server.exchanges.finishing import advance
from reenact.server.exchanges.rights import check_right
from reenact.server.exchanges.subjects import replay_subject
from reenact.server.ports import Server
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_agents import find_agent
from reenact.server.storage.exchange_outbox import end_command, mark_sent
from reenact.server.storage.exchange_replays import find_replay
from reenact.server.storage.exchange_requester import grants_now, tenant_now
from reenact.server.storage.people_rows import environment_kind

__all__ = ["clear"]


async def clear(server: Server, tenant: str, command: Row[Any]) -> bool:
    """May ``command`` be sent now? Then that is noted before it is done. Otherwise nobody gets it,
    and its replay has ended as ``refused``."""
    async with server.database.writing(tenant) as scope:
        may = command.type != "replay" or await _may_go(server, scope, command.replay_id)
        if may:
            await mark_sent(scope, command.agent_id, command.number, server.now())
        else:
            await end_command(scope, command.agent_id, command.number, server.now())
    if not may:
        server.hints.give(replay_subject(tenant, command.replay_id))
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
    place = Place(replay.environment, replay.app)
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

"""Background job that ends replays whose state has lasted too long."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from reenact.errors import ReenactError
from reenact.exchange.model import TERMINAL
from reenact.server.agents.presence import heard_since, presence
from reenact.server.audit.log import SYSTEM
from reenact.server.notifications import agent_subject, replay_subject
from reenact.server.problems import Problem
from reenact.server.replays.state import advance, give_up
from reenact.server.runtime import Server, repeat
from reenact.server.storage.agents import find_agent, miss_agent
from reenact.server.storage.replays import due_replays, find_replay, stranded_replays

__all__ = ["run", "sweep"]

_LOG: Final = logging.getLogger("reenact.server")
_AT_ONCE: Final = 100
_CODES: Final = {
    "requested": ("not_delivered", "no agent has taken the command"),
    "delivered": ("not_started", "the agent took the command and did not begin"),
    "running": ("not_finished", "the replay was not done by its deadline"),
}


async def run(server: Server, stop: asyncio.Event) -> None:
    """Check deadlines now and then until ``stop`` is set."""
    begun = server.now()
    await repeat(
        stop, server.timings.sweep, lambda: sweep(server, begun), "deadlines could not be looked at"
    )


async def sweep(server: Server, begun: int = 0) -> int:
    """End what is over; gives how many there were.

    Agents could not be heard before the server has ``begun``, so none counts as silent until they
    have had the time for it.
    """
    await _miss_agents(server)
    async with server.database.platform() as platform:
        due = await due_replays(platform, server.now(), _AT_ONCE)
        heard = heard_since(server.now(), server.timings)
        stranded = await stranded_replays(platform, heard if heard >= begun else 0, _AT_ONCE)
    ended = 0
    for row in stranded:
        try:
            ended += await _strand(server, row.tenant, row.replay_id)
        except (ReenactError, Problem):
            _LOG.exception("the replay %s could not be ended", row.replay_id)
    for row in due:
        try:
            ended += await _expire(server, row.tenant, row.replay_id)
        except (ReenactError, Problem):  # one that cannot be ended must not keep the others
            _LOG.exception("the replay %s could not be ended", row.replay_id)
    return ended


async def _miss_agents(server: Server) -> None:
    """Mark agents as gone whose command stream was cut and that have not been heard since."""
    now = server.now()
    cut = server.streams.cut_until(now - round(server.timings.reconnect * 1000))
    for stream, at in cut.items():
        async with server.database.writing(stream.tenant) as scope:
            missed = await miss_agent(scope, stream, at, now)
        if missed:
            server.notifications.publish(agent_subject(stream.tenant, stream.agent_id))


async def _strand(server: Server, tenant: str, replay_id: str) -> bool:
    """Refuse a replay whose agent was lost, because waiting for the deadline would not help."""
    async with server.database.writing(tenant) as scope:
        replay = await find_replay(scope, replay_id)
        agent = None if replay is None else await find_agent(scope, replay.agent_id)
        if replay is None or agent is None or replay.state != "requested":
            return False
        if presence(agent, server.now(), server.timings) == "online":
            return False  # it came back meanwhile
        ended = await give_up(server, scope, replay)
    server.notifications.publish(replay_subject(tenant, replay_id))
    return ended


async def _expire(server: Server, tenant: str, replay_id: str) -> bool:
    async with server.database.writing(tenant) as scope:
        replay = await find_replay(scope, replay_id)
        if replay is None or replay.state in TERMINAL or replay.due_at > server.now():
            return False  # its state has changed meanwhile
        code, message = _CODES[replay.state]
        ended = await advance(server, scope, replay, "expired", SYSTEM, code=code, message=message)
    server.notifications.publish(replay_subject(tenant, replay_id))
    return ended

"""An agent that speaks: is it the one that it says, and still the last of that name?"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from reenact.server.asking import Ask
from reenact.server.problems import Problem
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_agents import find_agent

__all__ = ["known_agent", "present_agent"]


async def known_agent(ask: Ask, scope: Scope) -> Row[Any]:
    """The agent in the path, if it registered with the key that is shown. Raises :class:`Problem`."""
    row = await find_agent(scope, ask.path("agent_id"))
    if row is None or row.gone_at or row.key_id != ask.principal.credential:
        raise Problem("agent_unknown", "no such agent is registered", hint="register again")
    return row


async def present_agent(ask: Ask, scope: Scope, epoch: int) -> Row[Any]:
    """The same, if ``epoch`` is its last registration."""
    row = await known_agent(ask, scope)
    if epoch < row.epoch:
        raise Problem(
            "agent_superseded",
            "another process has registered under this agent id",
            hint="give each process an id of its own",
        )
    if epoch > row.epoch:
        raise Problem("agent_unknown", "there was no such registration", hint="register again")
    return row

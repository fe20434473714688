"""The routes of agents."""

from __future__ import annotations

from typing import Final

from reenact.exchange.model import Heartbeat, Registered, Registration, ReplaySource, StateReport
from reenact.server.agents.listing import AgentView, read_agents
from reenact.server.agents.presence import STATES
from reenact.server.agents.registering import heartbeat, register, say_goodbye
from reenact.server.agents.reporting import read_source, read_source_recording, report_state
from reenact.server.agents.streaming import stream_commands
from reenact.server.routing import PAGED, Endpoint, Says

__all__ = ["ENDPOINTS"]

_SUPERSEDED: Final = ("agent_superseded",)
_AGENT: Final = "/api/v1/agents/{agent_id}"
_REPLAY: Final = f"{_AGENT}/replays/{{replay_id}}"

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/v1/agents",
        "agent:read",
        read_agents,
        says=Says(
            "Agents",
            query=(*PAGED, "app", "environment", "state", "all"),
            words={"state": STATES},
            lists=AgentView,
        ),
    ),
    Endpoint(
        "POST",
        "/api/v1/agents",
        "agent:connect",
        register,
        says=Says("Register", takes=Registration, answers=Registered),
    ),
    Endpoint(
        "POST",
        f"{_AGENT}/heartbeat",
        "agent:connect",
        heartbeat,
        says=Says("Still here", takes=Heartbeat, status=(204,), codes=_SUPERSEDED),
    ),
    Endpoint(
        "DELETE",
        _AGENT,
        "agent:connect",
        say_goodbye,
        says=Says("Goodbye", query=("epoch",), status=(204,)),
    ),
    Endpoint(
        "GET",
        f"{_AGENT}/commands",
        "agent:connect",
        stream_commands,
        says=Says(
            "Commands as they come",
            query=("epoch",),
            media=("text/event-stream",),
            codes=_SUPERSEDED,
        ),
    ),
    Endpoint(
        "GET",
        f"{_REPLAY}/source",
        "agent:connect",
        read_source,
        says=Says("What is to be replayed", answers=ReplaySource, codes=("gone",)),
    ),
    Endpoint(
        "GET",
        f"{_REPLAY}/recording",
        "agent:connect",
        read_source_recording,
        says=Says(
            "The recording of it, packed", media=("application/octet-stream",), codes=("gone",)
        ),
    ),
    Endpoint(
        "POST",
        f"{_REPLAY}/state",
        "agent:connect",
        report_state,
        says=Says("How far it is", takes=StateReport, status=(204,), codes=_SUPERSEDED),
    ),
)

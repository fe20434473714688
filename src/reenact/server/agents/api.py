"""The routes of agents."""

from __future__ import annotations

from typing import Final

from reenact.exchange.model import Heartbeat, Registered, Registration, ReplaySource, StateReport
from reenact.server.agents.command_stream import stream_commands
from reenact.server.agents.presence import STATES
from reenact.server.agents.registration import heartbeat, register, say_goodbye
from reenact.server.agents.reports import read_source, read_source_recording, report_state
from reenact.server.agents.service import AgentView, read_agents
from reenact.server.endpoint import PAGED, ApiDescription, Endpoint

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
        says=ApiDescription(
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
        says=ApiDescription("Register", takes=Registration, answers=Registered),
    ),
    Endpoint(
        "POST",
        f"{_AGENT}/heartbeat",
        "agent:connect",
        heartbeat,
        says=ApiDescription("Still here", takes=Heartbeat, status=(204,), codes=_SUPERSEDED),
    ),
    Endpoint(
        "DELETE",
        _AGENT,
        "agent:connect",
        say_goodbye,
        says=ApiDescription("Goodbye", query=("epoch",), status=(204,)),
    ),
    Endpoint(
        "GET",
        f"{_AGENT}/commands",
        "agent:connect",
        stream_commands,
        says=ApiDescription(
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
        says=ApiDescription("What is to be replayed", answers=ReplaySource, codes=("gone",)),
    ),
    Endpoint(
        "GET",
        f"{_REPLAY}/recording",
        "agent:connect",
        read_source_recording,
        says=ApiDescription(
            "The recording of it, packed", media=("application/octet-stream",), codes=("gone",)
        ),
    ),
    Endpoint(
        "POST",
        f"{_REPLAY}/state",
        "agent:connect",
        report_state,
        says=ApiDescription("How far it is", takes=StateReport, status=(204,), codes=_SUPERSEDED),
    ),
)

"""The routes of agents."""

from __future__ import annotations

from typing import Final

from reenact.server.agents.listing import read_agents
from reenact.server.agents.registering import heartbeat, register, say_goodbye
from reenact.server.agents.reporting import read_source, read_source_recording, report_state
from reenact.server.agents.streaming import stream_commands
from reenact.server.routing import Endpoint

__all__ = ["ENDPOINTS"]

_AGENT: Final = "/api/v1/agents/{agent_id}"
_REPLAY: Final = f"{_AGENT}/replays/{{replay_id}}"

ENDPOINTS: Final = (
    Endpoint("GET", "/api/v1/agents", "agent:read", read_agents),
    Endpoint("POST", "/api/v1/agents", "agent:connect", register),
    Endpoint("POST", f"{_AGENT}/heartbeat", "agent:connect", heartbeat),
    Endpoint("DELETE", _AGENT, "agent:connect", say_goodbye),
    Endpoint("GET", f"{_AGENT}/commands", "agent:connect", stream_commands),
    Endpoint("GET", f"{_REPLAY}/source", "agent:connect", read_source),
    Endpoint("GET", f"{_REPLAY}/recording", "agent:connect", read_source_recording),
    Endpoint("POST", f"{_REPLAY}/state", "agent:connect", report_state),
)

"""Presence of app agents (pure)."""

from __future__ import annotations

from typing import Any, Final, Literal

from reenact.server.runtime import Timings

__all__ = ["STATES", "Presence", "forgotten_since", "heard_since", "presence"]

Presence = Literal["online", "offline", "gone"]
STATES: Final[tuple[Presence, ...]] = ("online", "offline", "gone")
"""``gone`` agents were not heard for so long that they are not expected back, such as a process of
last week. An agent is online again as soon as it registers."""

_MISSED: Final = 3
"""Heartbeats that an agent may be silent for."""


def heard_since(now: int, timings: Timings) -> int:
    """Return the time after which an agent must have been heard to be online, in milliseconds."""
    return now - round(_MISSED * timings.heartbeat * 1000)


def forgotten_since(now: int, timings: Timings) -> int:
    """Return the time after which an agent must have been heard not to be gone, in milliseconds."""
    return now - round(timings.agent_gone * 1000)


def presence(agent: Any, now: int, timings: Timings) -> Presence:
    """Of a row of an agent."""
    if agent.last_seen_at <= forgotten_since(now, timings):
        return "gone"
    here = not agent.gone_at and agent.last_seen_at > heard_since(now, timings)
    return "online" if here else "offline"

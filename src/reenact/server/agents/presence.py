"""Who is there (pure)."""

from __future__ import annotations

from typing import Any, Final, Literal

from reenact.server.ports import Timings

__all__ = ["heard_since", "presence"]

_MISSED: Final = 3
"""Heartbeats that an agent may be silent for."""


def heard_since(now: int, timings: Timings) -> int:
    """Whoever was heard after this is online; in milliseconds."""
    return now - round(_MISSED * timings.heartbeat * 1000)


def presence(agent: Any, now: int, timings: Timings) -> Literal["online", "offline"]:
    """Of a row of an agent."""
    here = not agent.gone_at and agent.last_seen_at > heard_since(now, timings)
    return "online" if here else "offline"

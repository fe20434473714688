"""What hints are about."""

from __future__ import annotations

__all__ = ["agent_subject", "replay_subject"]


def agent_subject(tenant: str, agent_id: str) -> str:
    """There may be a command, or a newer stream, for this agent."""
    return f"agent:{tenant}:{agent_id}"


def replay_subject(tenant: str, replay_id: str) -> str:
    """This replay may be in another state."""
    return f"replay:{tenant}:{replay_id}"

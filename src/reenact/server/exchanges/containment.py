"""What replays in an app refuse, as its app agent has registered it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from reenact.exchange.containment import (
    drivers_argument,
    drivers_text,
    effective_containment,
    refusal_message,
    undeclared_drivers,
)
from reenact.exchange.model import Boundaries, Containment, EnvironmentVariables
from reenact.server.problems import Problem

__all__ = ["check_drivers", "containment_of", "details_of"]

_MOST: Final = 2_000
"""Characters of the scratch folders in an audit record."""


def containment_of(row: Any) -> Containment:
    """Return the containment that is stored with an app agent or a replay."""
    return msgspec.json.decode(row.containment, type=Containment)


def check_drivers(agent: Any, boundaries: Boundaries) -> None:
    """Raise :class:`Problem` if the app has loaded a driver that it has not declared."""
    found = effective_containment(containment_of(agent), boundaries)
    names = undeclared_drivers(found)
    if names:
        raise Problem(
            "drivers_undeclared",
            refusal_message(names),
            hint=f"add to the app: Agent(…, {drivers_argument(found)})",
            agentId=agent.agent_id,
            drivers=list(names),
        )


def details_of(containment: Containment, variables: EnvironmentVariables) -> dict[str, str]:
    """Return the details of an audit record about a replay."""
    found = {
        "drivers": drivers_text(containment),
        "environmentVariables": variables,
        "files": containment.files,
    }
    if containment.scratch and containment.files == "refuse":
        found["scratch"] = ", ".join(containment.scratch)[:_MOST]
    return found

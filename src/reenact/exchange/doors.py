"""The ways into an app: HTTP, routes, tasks. Each knows its routes, and can be gone through again."""

from __future__ import annotations

import threading
from typing import Protocol

from reenact.exchange.model import Exchange, Payload, Route
from reenact.exchange.passage import Passage
from reenact.exchange.revision import Definition

__all__ = ["Door"]


class Door(Protocol):
    """Called from threads of the link while the app works."""

    def routes(self) -> tuple[Route, ...]:
        """Those that can be gone through, as they are now."""

    def definition(self, route_id: str) -> Definition:
        """Of one of them."""

    def objection(self, route_id: str, payload: Payload) -> str:
        """Why ``payload`` cannot go through ``route_id``; empty when it can."""

    def enter(
        self, passage: Passage, route_id: str, payload: Payload, cancelled: threading.Event
    ) -> Exchange:
        """Go through: open ``passage`` where the app's code runs, run that, and close it. Raises
        :class:`ReplayCancelled`."""

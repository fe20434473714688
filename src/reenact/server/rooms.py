"""The table of all routes, and what runs beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from reenact.server import health
from reenact.server.agents import background, net
from reenact.server.agents import endpoints as agents
from reenact.server.auditing import endpoints as auditing
from reenact.server.batches import driving
from reenact.server.batches import endpoints as batches
from reenact.server.captures import endpoints as captures
from reenact.server.exchanges import endpoints as exchanges
from reenact.server.metrics import endpoints as metrics
from reenact.server.oidc import endpoints as oidc
from reenact.server.openapi.endpoints import described
from reenact.server.people import endpoints as people
from reenact.server.ports import Server
from reenact.server.retention import endpoints as retention
from reenact.server.retention import sweeping
from reenact.server.routing import Endpoint
from reenact.server.telemetry import exporting, settling, taking
from reenact.server.tenants import endpoints as tenants
from reenact.server.web import routes as pages

__all__ = ["BACKGROUND", "ENDPOINTS"]

_ALL: Final[tuple[Endpoint, ...]] = (
    *exchanges.ENDPOINTS,
    *batches.ENDPOINTS,
    *agents.ENDPOINTS,
    *captures.ENDPOINTS,
    *auditing.ENDPOINTS,
    *people.ENDPOINTS,
    *oidc.ENDPOINTS,
    *pages.ENDPOINTS,
    *taking.ENDPOINTS,
    *tenants.ENDPOINTS,
    *retention.ENDPOINTS,
    *health.ENDPOINTS,
    *metrics.ENDPOINTS,
)
ENDPOINTS: Final[tuple[Endpoint, ...]] = (*_ALL, *described(_ALL))
"""With the routes that describe the others."""

BACKGROUND: Final[tuple[Callable[[Server, asyncio.Event], Awaitable[None]], ...]] = (
    background.run,
    net.run,
    driving.run,
    sweeping.run,
    settling.run,
    exporting.run,
)
"""Each is started with the server, and ends when its event is set."""

"""Table of all routes and background jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from reenact.server import monitoring
from reenact.server.agents import api as agents
from reenact.server.agents import command_stream
from reenact.server.audit import api as auditing
from reenact.server.auth.oidc import sign_in as oidc
from reenact.server.batches import api as batches
from reenact.server.batches import driver
from reenact.server.endpoint import Endpoint
from reenact.server.exchanges import api as exchanges
from reenact.server.openapi import described
from reenact.server.people import api as people
from reenact.server.recordings import api as captures
from reenact.server.replays import api as replays
from reenact.server.replays import expiry
from reenact.server.runtime import Server
from reenact.server.telemetry import otlp_exporter, otlp_receiver
from reenact.server.tenants import api as tenants
from reenact.server.tenants import retention
from reenact.server.web import routes as pages

__all__ = ["BACKGROUND", "ENDPOINTS"]

_ALL: Final[tuple[Endpoint, ...]] = (
    *exchanges.ENDPOINTS,
    *replays.ENDPOINTS,
    *batches.ENDPOINTS,
    *agents.ENDPOINTS,
    *captures.ENDPOINTS,
    *auditing.ENDPOINTS,
    *people.ENDPOINTS,
    *oidc.ENDPOINTS,
    *pages.ENDPOINTS,
    *otlp_receiver.ENDPOINTS,
    *tenants.ENDPOINTS,
    *monitoring.ENDPOINTS,
)
ENDPOINTS: Final[tuple[Endpoint, ...]] = (*_ALL, *described(_ALL))
"""With the routes that describe the others."""

BACKGROUND: Final[tuple[Callable[[Server, asyncio.Event], Awaitable[None]], ...]] = (
    expiry.run,
    command_stream.run,
    driver.run,
    retention.run,
    otlp_receiver.run,
    otlp_exporter.run,
)
"""Each is started with the server, and ends when its event is set."""

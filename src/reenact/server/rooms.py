"""The table of all routes, and what runs beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from reenact.server import health
from reenact.server.ports import Server
from reenact.server.routing import Endpoint

__all__ = ["BACKGROUND", "ENDPOINTS"]

ENDPOINTS: Final[tuple[Endpoint, ...]] = (*health.ENDPOINTS,)

BACKGROUND: Final[tuple[Callable[[Server, asyncio.Event], Awaitable[None]], ...]] = ()
"""Each is started with the server, and ends when its event is set."""

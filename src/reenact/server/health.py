"""Whether the server is alive, and whether it can work."""

from __future__ import annotations

from typing import Final

import msgspec

from reenact.server.asking import Ask
from reenact.server.problems import Problem
from reenact.server.routing import Endpoint, Says
from reenact.server.storage.platform import is_there

__all__ = ["ENDPOINTS"]


class Health(msgspec.Struct, frozen=True):
    status: str


async def live(ask: Ask) -> Health:
    """The process answers."""
    return Health("ok")


async def ready(ask: Ask) -> Health:
    """The database answers, and the server is not about to stop."""
    if ask.server.stopping.is_set():
        raise Problem("unavailable", "the server is stopping", retry_after=1)
    async with ask.server.database.platform() as platform:
        if not await is_there(platform):
            raise Problem("unavailable", "the database is not set up")
    return Health("ready")


ENDPOINTS: Final = (
    Endpoint("GET", "/healthz", "open", live, says=Says("Is it alive?", answers=Health)),
    Endpoint(
        "GET",
        "/readyz",
        "open",
        ready,
        says=Says("Can it work?", answers=Health, codes=("unavailable",)),
    ),
)

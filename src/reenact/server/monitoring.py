"""Health checks and Prometheus metrics.

Metrics count all tenants together, so they need a permission that only platform administrators have or
grant. A scraper gets a key with nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from starlette.responses import Response

from reenact.server.agents.presence import heard_since
from reenact.server.context import RequestContext
from reenact.server.endpoint import api
from reenact.server.meters import CONTENT_TYPE, Sample, to_text
from reenact.server.problems import Problem
from reenact.server.storage.platform import Numbers, is_there, read_numbers

__all__ = [
    "ENDPOINTS",
]


class Health(msgspec.Struct, frozen=True):
    status: str


async def live(context: RequestContext) -> Health:
    """The process answers."""
    return Health("ok")


async def ready(context: RequestContext) -> Health:
    """The database answers, and the server is not about to stop."""
    if context.server.stopping.is_set():
        raise Problem("unavailable", "the server is stopping", retry_after=1)
    async with context.server.database.platform() as platform:
        if not await is_there(platform):
            raise Problem("unavailable", "the database is not set up")
    return Health("ready")


async def read_metrics(context: RequestContext) -> Response:
    context.require("metrics:read")
    now = context.server.now()
    async with context.server.database.platform() as platform:
        numbers = await read_numbers(platform, heard_since(now, context.server.timings), now)
    text = to_text(context.server.meters, _gauges(numbers))
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


def _gauges(numbers: Numbers) -> Iterator[Sample]:
    for state, number in numbers.replays.items():
        yield "reenact_replays_open", (("state", state),), number
    for state, number in numbers.batches.items():
        yield "reenact_batches_open", (("state", state),), number
    yield "reenact_agents_online", (), numbers.agents
    yield "reenact_agents_spooled", (), numbers.spooled
    yield "reenact_commands_pending", (), numbers.commands
    yield "reenact_batch_items_waiting", (), numbers.waiting
    yield "reenact_tenants", (), numbers.tenants


ENDPOINTS: Final = (
    api("GET", "/healthz", "open", live, "Is it alive?", answers=Health),
    api("GET", "/readyz", "open", ready, "Can it work?", answers=Health, codes=("unavailable",)),
    api("GET", "/metrics", "metrics:read", read_metrics, "Numbers", media=(CONTENT_TYPE,)),
)

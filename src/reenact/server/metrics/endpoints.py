"""``GET /metrics``, for Prometheus.

It says things about all tenants together, and so needs a permission of its own, that only platform
administrators have or grant. A scraper gets a key with nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.responses import Response

from reenact.server.agents.presence import heard_since
from reenact.server.asking import Ask
from reenact.server.metrics.text import CONTENT_TYPE, Sample, to_text
from reenact.server.routing import Endpoint, Says
from reenact.server.storage.metrics_rows import Numbers, read_numbers

__all__ = ["ENDPOINTS"]


async def read_metrics(ask: Ask) -> Response:
    ask.require("metrics:read")
    now = ask.server.now()
    async with ask.server.database.platform() as platform:
        numbers = await read_numbers(platform, heard_since(now, ask.server.timings), now)
    text = to_text(ask.server.meters, _gauges(numbers))
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
    Endpoint(
        "GET", "/metrics", "metrics:read", read_metrics, says=Says("Numbers", media=(CONTENT_TYPE,))
    ),
)

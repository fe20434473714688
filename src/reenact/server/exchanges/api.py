"""API of exchanges: ingest, search, read."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

from reenact.exchange.comparison.calls import Call
from reenact.exchange.model import STATUSES
from reenact.exchange.related_exchanges import Branch, Graph
from reenact.server.context import RequestContext
from reenact.server.endpoint import PAGED, api
from reenact.server.exchanges import service
from reenact.server.exchanges.ingest import IngestAnswer, ingest
from reenact.server.exchanges.schema import ExchangeBrief, ExchangeView
from reenact.server.pagination import (
    REPLAYS,
    ListResponse,
    one_of,
    page_of,
    with_replays,
    yes_or_no,
)
from reenact.server.storage.exchanges import Filters

__all__ = ["ENDPOINTS", "exchange_filters"]

_EXCHANGE: Final = "/api/v1/exchanges/{id}"
_BYTES: Final = ("application/octet-stream",)


def exchange_filters(context: RequestContext, since: int, until: int) -> Filters:
    """Return the filters of a list of exchanges. Raises :class:`Problem`.

    Exchanges of replays are excluded unless ``replay`` requests them.
    """
    replay = with_replays(context)
    return Filters(
        app=context.query("app"),
        environment=context.query("environment"),
        route=context.query("route"),
        status=one_of(context, "status", STATUSES),
        replay=None if replay == "any" else bool(replay),
        replayable=yes_or_no(context, "replayable"),
        since=since,
        until=until,
        trace_id=context.query("traceId"),
        correlation_id=context.query("correlationId"),
        text=context.query("text"),
    )


async def _search(context: RequestContext) -> ListResponse[ExchangeBrief]:
    page, since = page_of(context), context.number("since", 0)
    filters = exchange_filters(context, since, context.number("until", 0))
    return await service.search_exchanges(context, filters, page)


async def _read(context: RequestContext) -> ExchangeView:
    return await service.read_exchange(context, context.path("id"))


async def _calls(context: RequestContext) -> ListResponse[Any]:
    calls = await service.read_calls(context, context.path("id"))
    return ListResponse(items=[msgspec.to_builtins(call) for call in calls])


async def _recording(context: RequestContext) -> Response:
    data = await service.read_recording(context, context.path("id"))
    return Response(data, media_type=_BYTES[0])


async def _lineage(context: RequestContext) -> Branch:
    return await service.read_lineage(context, context.path("id"))


async def _correlation(context: RequestContext) -> Graph:
    return await service.read_correlation(context, context.path("id"))


ENDPOINTS: Final = (
    api(
        "POST",
        "/api/v1/ingest",
        "agent:connect",
        ingest,
        "Take in exchanges",
        takes=("application/x-ndjson",),
        answers=IngestAnswer,
        codes=("rate_limited", "unavailable"),
    ),
    api(
        "GET",
        "/api/v1/exchanges",
        "exchange:read",
        _search,
        "Find exchanges",
        query=(
            *PAGED,
            "app",
            "environment",
            "route",
            "status",
            "replay",
            "replayable",
            "since",
            "until",
            "traceId",
            "correlationId",
            "text",
        ),
        words={"status": STATUSES, "replay": REPLAYS},
        lists=ExchangeBrief,
    ),
    api("GET", _EXCHANGE, "exchange:read", _read, "An exchange", answers=ExchangeView),
    api(
        "GET",
        f"{_EXCHANGE}/calls",
        "exchange:read",
        _calls,
        "The calls that it made",
        lists=Call,
        codes=("gone",),
    ),
    api(
        "GET",
        f"{_EXCHANGE}/recording",
        "exchange:read",
        _recording,
        "Its recording, packed",
        media=_BYTES,
        codes=("gone",),
    ),
    api(
        "GET",
        f"{_EXCHANGE}/lineage",
        "exchange:read",
        _lineage,
        "Its original and all replays",
        answers=Branch,
    ),
    api(
        "GET",
        f"{_EXCHANGE}/correlation",
        "exchange:read",
        _correlation,
        "What belongs together",
        answers=Graph,
    ),
)

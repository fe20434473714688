"""Query parameters of the lists of exchanges and replays, for the API and the pages."""

from __future__ import annotations

from reenact.exchange.model import STATES, STATUSES, VERDICTS
from reenact.server.context import RequestContext
from reenact.server.pagination import one_of, with_replays, yes_or_no
from reenact.server.storage.exchanges import Filters
from reenact.server.storage.replays import ReplayFilters

__all__ = ["exchange_filters", "replay_filters"]


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


def replay_filters(context: RequestContext, since: int, until: int) -> ReplayFilters:
    """Return the filters of a list of replays. Raises :class:`Problem`."""
    return ReplayFilters(
        exchange=context.query("exchange"),
        app=context.query("app"),
        environment=context.query("environment"),
        route=context.query("route"),
        state=one_of(context, "state", STATES),
        verdict=one_of(context, "verdict", VERDICTS),
        by=context.query("by"),
        since=since,
        until=until,
    )

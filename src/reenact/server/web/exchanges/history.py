"""History pages: lists of exchanges and replays with filters in the address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from reenact.exchange.model import STATES, VERDICTS
from reenact.server.context import RequestContext
from reenact.server.exchanges.api import exchange_filters
from reenact.server.exchanges.schema import ExchangeBrief, ReplayView
from reenact.server.exchanges.service import search_exchanges
from reenact.server.pagination import page_of
from reenact.server.replays.api import replay_filters
from reenact.server.replays.service import search_replays
from reenact.server.tenants.service import KnownNames, known_names
from reenact.server.web.admin.agents import connect_instructions
from reenact.server.web.components.formatting import (
    badge,
    duration,
    environment,
    exchange_status,
    judged,
    replay_state,
    stamp,
    whole,
)
from reenact.server.web.components.forms import can_replay
from reenact.server.web.components.html import Child, Html, link, tag, url
from reenact.server.web.components.layout import page
from reenact.server.web.components.tables import (
    choice,
    field,
    filters,
    pager,
    since_until,
    table,
    time_filter,
)
from reenact.server.web.exchanges.searches import kept_query

__all__ = ["show_history", "show_replays"]

_SELDOM: Final = ("route", "replayable", "traceId", "correlationId", "from", "to")


async def show_history(context: RequestContext) -> Response:
    """Handle ``GET /exchanges``: show the exchanges that match the filters in the address, newest
    first."""
    since, until = since_until(context)
    filters_ = exchange_filters(context, since, until)
    found = await search_exchanges(context, filters_, page_of(context))
    known = await known_names(context)
    heads = ("Started (UTC)", "Route", "App", "Environment", "Status", "Duration", "Notes")
    other = context.query("compare")
    kinds = known.kinds
    rows = (_row(one, kinds.get(one.environment, "production"), other) for one in found.items)
    none = "No exchange matches these filters."
    if not found.items and not context.request.query_params:
        return page(
            context, "History", _nothing(), connect_instructions(context), here="/exchanges"
        )
    return page(
        context,
        "History",
        _comparing(other) if other else None,
        _filters(context, found.items, known),
        table(heads, rows, none=none, caption="Exchanges, newest first", brief=True),
        _hidden(context) if not found.items else None,
        pager(context, found.next),
        here="/exchanges",
        heading=_ways(context, bool(found.items)),
    )


def _nothing() -> Html:
    """Return the empty state of a tenant without exchanges, or without access to them."""
    return tag("p", "No exchanges yet that you are allowed to read.", class_="none")


def _hidden(context: RequestContext) -> Html | None:
    """Return a link to the matching replays if they are hidden."""
    if context.query("replay") not in ("", "false"):
        return None
    query = {**dict(context.request.query_params), "replay": "any", "cursor": ""}
    way = link(url("/exchanges", **query), "Show replays, too")
    return tag("p", "Replays are hidden. ", way, ".")


def _comparing(other: str) -> Html:
    """Return a notice that the user is choosing an exchange to compare with ``other``."""
    it = link(url("/exchanges/{}", other), tag("code", other))
    words = ("Choose what to compare ", it, " with.")
    return tag("p", *words, class_="choosing")


def _ways(context: RequestContext, found: bool) -> Html:
    """Return links to saved searches, to saving this search, and to replaying its results."""
    kept = kept_query(context)
    save = link(url("/searches/new", **kept), "Save this search …", class_="button")
    all_of_it = link(url("/batches/new", **kept), "Replay all of these …", class_="button")
    return tag(
        "div",
        link("/searches", "Saved searches", class_="button"),
        save if kept else None,
        all_of_it if found and can_replay(context) else None,
        class_="actions",
    )


def _filters(context: RequestContext, found: Sequence[ExchangeBrief], known: KnownNames) -> Html:
    """Return the filters, with known names and the latest results as suggestions."""
    apps = known.apps.union(one.app for one in found)
    environments = known.environments.union(one.environment for one in found)
    routes = {one.route_id for one in found}
    return filters(
        context,
        "/exchanges",
        field(context, "text", "Search", kind="search", hint="id, route, error, correlation"),
        field(context, "app", "App", known=apps),
        field(context, "environment", "Environment", known=environments),
        choice(context, "status", "Status", _options("completed", "failed")),
        choice(context, "replay", "Replays", (("", "hidden"), ("any", "shown"), ("true", "only"))),
        time_filter(context),
        _kept(context, "compare"),
        more=(
            field(context, "route", "Route", known=routes),
            choice(
                context, "replayable", "Replayable", (("", "all"), ("true", "yes"), ("false", "no"))
            ),
            field(context, "correlationId", "Correlation id"),
            field(context, "traceId", "Trace id"),
            field(context, "from", "From (UTC)", kind="datetime-local"),
            field(context, "to", "To (UTC)", kind="datetime-local"),
        ),
        open_=any(context.query(name) for name in _SELDOM),
    )


def _kept(context: RequestContext, name: str) -> Html:
    """Return a hidden field that keeps a filter of the address."""
    value = context.query(name)
    return tag("input", type="hidden", name=name, value=value) if value else Html()


def _options(*words: str) -> list[tuple[str, str]]:
    return [("", "all"), *((word, word) for word in words)]


def _row(one: ExchangeBrief, kind: str, other: str) -> tuple[Child, ...]:
    """Return the row of an exchange, with a link to the comparison with ``other`` if it is set."""
    return (
        stamp(one.started_at),
        link(url("/exchanges/{}", one.exchange_id), one.route_id, class_="route"),
        whole(one.app),
        environment(one.environment, kind),
        exchange_status(one.status, one.http_status),
        tag("span", duration(one.duration), class_="number"),
        _notes(one, other),
    )


def _notes(one: ExchangeBrief, other: str) -> Html:
    error = one.error_message or one.error_type
    return tag(
        "div",
        link(url("/exchanges/{}/compare/{}", other, one.exchange_id), "side by side")
        if other not in ("", one.exchange_id)
        else None,
        badge("replay", tone="busy") if one.replay_id else None,
        badge("not replayable", title=one.not_replayable) if one.not_replayable else None,
        tag("span", error[:120], class_="wrong", title=one.error_type) if error else None,
        _correlated(one.correlation_id) if one.correlation_id else None,
        class_="notes",
    )


def _correlated(name: str) -> Html:
    """Return a link to all exchanges with the same correlation id."""
    there = url("/exchanges", correlationId=name)
    return link(there, name, class_="dim", title="all with this correlation id")


async def show_replays(context: RequestContext) -> Response:
    """Handle ``GET /replays``: show the replays that match the filters in the address, newest
    first."""
    since, until = since_until(context)
    filters_ = replay_filters(context, since, until)
    found = await search_replays(context, filters_, page_of(context))
    known = await known_names(context)
    kinds = known.kinds
    heads = (
        *("Requested (UTC)", "Replay of", "App", "Environment", "State", "Verdict", "By", "Reason"),
    )
    rows = (_replay(one, kinds.get(one.environment, "production")) for one in found.items)
    none = "No replays match these filters. Choose an exchange in the history and replay it."
    listed = table(heads, rows, none=none, caption="Replays, newest first", brief=True)
    return page(
        context,
        "Replays",
        _replay_filters(context, found.items, known),
        listed,
        pager(context, found.next),
        here="/replays",
        heading=tag("div", link("/noise", "Noise rules", class_="button"), class_="actions"),
    )


def _replay_filters(
    context: RequestContext, found: Sequence[ReplayView], known: KnownNames
) -> Html:
    """Return the filters, with known names and the latest results as suggestions."""
    apps = known.apps.union(one.app for one in found)
    environments = known.environments.union(one.environment for one in found)
    routes, people = (
        {getattr(one, name) for one in found} for name in ("route_id", "requested_by")
    )
    return filters(
        context,
        "/replays",
        field(context, "exchange", "Exchange", hint="original's id"),
        field(context, "app", "App", known=apps),
        field(context, "environment", "Environment", known=environments),
        choice(context, "state", "State", _options(*STATES)),
        choice(context, "verdict", "Verdict", _options(*VERDICTS)),
        time_filter(context),
        more=(
            field(context, "route", "Route", known=routes),
            field(context, "by", "By", known=people, hint="who asked"),
            field(context, "from", "From (UTC)", kind="datetime-local"),
            field(context, "to", "To (UTC)", kind="datetime-local"),
        ),
        open_=any(context.query(name) for name in ("route", "by", "from", "to")),
    )


def _replay(one: ReplayView, kind: str) -> tuple[Child, ...]:
    return (
        stamp(one.requested_at),
        link(url("/replays/{}", one.replay_id), one.route_id, class_="route"),
        whole(one.app),
        environment(one.environment, kind),
        replay_state(one.state, one.verdict, one.ending),
        judged(one.verdict, one.cause, one.ending, one.http_status),
        whole(one.requested_by),
        one.reason,
    )

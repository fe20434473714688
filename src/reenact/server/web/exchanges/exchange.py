"""Exchange page: request, timeline, model conversations and response."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from reenact.exchange.comparison.result import http_status_of
from reenact.server.context import RequestContext
from reenact.server.exchanges.schema import ExchangeView, ReplayView
from reenact.server.exchanges.service import read_exchange
from reenact.server.replays.service import search_replays
from reenact.server.storage.replays import ReplayFilters
from reenact.server.storage.rows import Page
from reenact.server.tenants.service import environment_kinds
from reenact.server.web.admin.agents import agent_link
from reenact.server.web.components.formatting import (
    badge,
    duration,
    environment,
    error_text,
    exchange_status,
    facts,
    http_status,
    judged,
    payload,
    replay_state,
    revision,
    stamp,
    whole,
)
from reenact.server.web.components.forms import can_replay
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.layout import page
from reenact.server.web.components.tables import list_part, table
from reenact.server.web.exchanges.calls import conversations, read_call_details
from reenact.server.web.exchanges.timeline import exchange_timeline

__all__ = ["show_exchange"]

_REPLAYS_SHOWN: Final = 50
_EXCHANGE: Final = re.compile(r"\b(ex_[0-9a-f]{32})\b")


async def show_exchange(context: RequestContext) -> Response:
    """Handle ``GET /exchanges/{id}``: show an exchange that the user can read, with its timeline
    and replays."""
    found = await read_exchange(context, context.path("id"))
    told = await read_call_details(context.server, context.tenant, found)
    kind = (await environment_kinds(context)).get(found.environment, "production")
    timeline, calls = exchange_timeline(found, told, list_part(context, "from"))
    talks = [one for one in calls if one.talk]
    replays = await search_replays(
        context, ReplayFilters(exchange=found.exchange_id), Page(_REPLAYS_SHOWN)
    )
    return page(
        context,
        found.route_id,
        _about(found, await agent_link(context, found.agent_id, found.app)),
        _not_replayable(found.not_replayable) if found.not_replayable else None,
        _wrong(found),
        _section("What happened", timeline),
        _section("Conversation", *conversations(talks)) if talks else None,
        tag(
            "div",
            _section("What came in", payload(found.start, found.redacted)),
            _section("What came out", _came_out(found)),
            class_="inout",
        ),
        _section("Replays", _replays(replays.items)) if found.replays else None,
        here="/exchanges",
        heading=fragment(
            environment(found.environment, kind),
            exchange_status(found.status, http_status_of(found)),
            _actions(context, found),
        ),
    )


def _not_replayable(why: str) -> Html:
    """Show why an exchange cannot be replayed, with a link to the exchange that it is part of."""
    parts = _EXCHANGE.split(why)
    said = (link(url("/exchanges/{}", one), one) if at % 2 else one for at, one in enumerate(parts))
    return tag("p", badge("not replayable", tone="warn"), " ", *said)


def _section(title: str, *inside: Child) -> Html:
    return tag("section", tag("h2", title), *inside)


def _actions(context: RequestContext, found: ExchangeView) -> Html:
    exchange_id = found.exchange_id
    edit = link(url("/exchanges/{}/replay", exchange_id), "Edit and replay", class_="button main")
    return tag(
        "div",
        edit if can_replay(context) and not found.not_replayable else None,
        link(url("/exchanges/{}/related", exchange_id), "Related", class_="button"),
        link(_of_route(found, compare=exchange_id), "Compare with …", class_="button"),
        link(url("/exchanges/{}/view", exchange_id), "Recording", class_="button")
        if found.recording
        else None,
        class_="actions",
    )


def _about(found: ExchangeView, agent: Child) -> Html:
    trace, replay = found.trace, found.replay
    related = found.correlation_id
    return facts(
        (
            ("Started (UTC)", stamp(found.started_at)),
            ("Duration", duration(found.duration)),
            ("HTTP status", http_status(http_status_of(found))),
            ("App", link(url("/exchanges", app=found.app), found.app)),
            ("Route", link(_of_route(found), "all of this route")),
            ("Agent", agent),
            ("Version", found.code_version),
            ("Revision", revision(found.revision)),
            ("Exchange", _id(found.exchange_id)),
            (
                "Correlation",
                link(url("/exchanges", correlationId=related), related) if related else None,
            ),
            (
                "Trace",
                link(url("/exchanges", traceId=trace.trace_id), trace.trace_id[:16])
                if trace
                else None,
            ),
            (
                "Replay of",
                fragment(
                    link(url("/exchanges/{}", replay.source_exchange_id), "the original"),
                    " · ",
                    link(url("/replays/{}", replay.replay_id), "side by side"),
                )
                if replay
                else None,
            ),
        )
    )


def _of_route(found: ExchangeView, compare: str = "") -> str:
    return url("/exchanges", app=found.app, route=found.route_id, compare=compare)


def _wrong(found: ExchangeView) -> Html | None:
    """Render the error with a link to exchanges with the same error."""
    if found.error is None:
        return None
    alike = url("/exchanges", app=found.app, status="failed", text=found.error.type)
    way = tag("p", link(alike, "Others that failed like this"), class_="ways")
    return fragment(error_text(found.error), way if found.error.type else None)


def _id(exchange_id: str) -> Html:
    """Render the id with a link to the JSON document."""
    way = link(
        url("/api/v1/exchanges/{}", exchange_id), "JSON", title="all of it, as the API has it"
    )
    return fragment(tag("code", exchange_id), " ", way)


def _came_out(found: ExchangeView) -> Html:
    if found.result is not None:
        return payload(found.result)
    why = "Nothing: the exchange failed before a response." if found.error else "Nothing."
    return tag("p", why, class_="dim")


def _replays(replays: Sequence[ReplayView]) -> Html:
    heads = ("Requested (UTC)", "State", "Verdict", "By", "Reason")
    rows = (
        (
            link(url("/replays/{}", one.replay_id), stamp(one.requested_at), class_="route"),
            replay_state(one.state, one.verdict, one.ending),
            judged(one.verdict, "", one.ending, one.http_status),
            whole(one.requested_by),
            one.reason,
        )
        for one in replays
    )
    return table(heads, rows, none="", caption="Replays of this exchange", brief=True)

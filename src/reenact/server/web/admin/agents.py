"""App agent page: state, health, drivers and routes."""

from __future__ import annotations

from functools import cache

from starlette.responses import Response

from reenact.exchange.model import Route
from reenact.server.agents.api import states_of
from reenact.server.agents.service import AgentView, agent_name, search_agents
from reenact.server.context import RequestContext
from reenact.server.pagination import page_of
from reenact.server.web.admin.connect import connect_instructions
from reenact.server.web.components.formatting import badge, count, environment, stamp
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.layout import page
from reenact.server.web.components.tables import pager, table
from reenact.server.web.components.values import folded
from reenact.server.web.replays.containment import drivers_of

__all__ = ["agent_link", "show_agents"]


async def show_agents(context: RequestContext) -> Response:
    """Handle ``GET /agents``: list the app agents that the user is allowed to see, newest first."""
    app, environment_name = context.query("app"), context.query("environment")
    found = await search_agents(
        context,
        page_of(context),
        app=app,
        environment=environment_name,
        states=states_of(context),
    )
    heads = (
        "Agent",
        "App",
        "Environment",
        "State",
        "Last heard (UTC)",
        "Health",
        "Drivers",
        "Routes",
    )
    lately = "" if context.query("all") == "true" else " within a day"
    none = f"No agent was heard of{lately}."
    routes = cache(_routes)  # agents of one app have the same routes
    rows = (_row(one, routes(one.app, one.routes)) for one in found.items)
    listed = table(heads, rows, none=none, caption="Agents")
    title = f"Agents of {app}" if app else "Agents"
    return page(
        context,
        title,
        listed,
        _others(context),
        connect_instructions(context) if not found.items else None,
        pager(context, found.next),
        here="/agents",
    )


async def agent_link(context: RequestContext, agent_id: str, app: str) -> Child:
    """Return the name of an app agent as a link, or its id if the user cannot see agents."""
    name = await agent_name(context, agent_id)
    if name is None:
        return tag("code", agent_id) if agent_id else None
    return link(url("/agents", app=app), name, title=agent_id)


def _others(context: RequestContext) -> Html:
    """Return links to offline app agents and to the agents of other apps."""
    app = context.query("app")
    gone = context.query("all") == "true"
    said = "Only those that were heard within a day" if gone else "Also those not heard for a day"
    return tag(
        "p",
        link(url("/agents", app=app, all="" if gone else "true"), said),
        (" · ", link(url("/agents", all="true" if gone else ""), "Those of all apps"))
        if app
        else None,
    )


def _row(one: AgentView, routes: Html) -> tuple[Child, ...]:
    return (
        fragment(
            tag("b", one.name or one.agent_id),
            " ",
            tag("span", one.version, class_="dim"),
            tag("code", one.agent_id, class_="id") if one.name else None,
        ),
        link(url("/exchanges", app=one.app), one.app, class_="whole"),
        environment(one.environment, one.environment_kind),
        badge(one.state),
        stamp(one.last_seen_at),
        _health(one),
        drivers_of(one.containment),
        routes,
    )


def _health(one: AgentView) -> Html:
    return tag(
        "div",
        badge(f"{one.dropped:,} lost", tone="bad", title="exchanges that found no room")
        if one.dropped
        else None,
        badge(f"{one.spooled:,} waiting", tone="warn", title="exchanges that were not sent yet")
        if one.spooled
        else None,
        *(
            link(url("/replays/{}", replay), badge("replaying", tone="busy"))
            for replay in one.running
        ),
        None if one.dropped or one.spooled or one.running else badge("fine", tone="good"),
        class_="notes",
    )


def _routes(app: str, routes: tuple[Route, ...]) -> Html:
    items = (
        tag(
            "li",
            link(url("/exchanges", app=app, route=route.route_id), route.route_id),
            " ",
            tag(
                "span",
                count(len(route.processors), "step") if route.processors else "",
                class_="dim",
            ),
        )
        for route in routes[:200]
    )
    if not routes:
        return tag("span", "none yet", class_="dim")
    return folded(count(len(routes), "route"), tag("ul", *items, class_="plain"))

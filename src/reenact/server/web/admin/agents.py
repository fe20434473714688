"""App agent page: state, health, drivers and routes; and instructions for connecting an app."""

from __future__ import annotations

import json
from functools import cache
from typing import Final

from starlette.responses import Response

from reenact.exchange.model import Route
from reenact.server.agents.api import states_of
from reenact.server.agents.service import AgentView, agent_name, search_agents
from reenact.server.context import RequestContext
from reenact.server.pagination import page_of
from reenact.server.people.accounts import address_here
from reenact.server.web.components.formatting import (
    badge,
    copyable,
    count,
    environment,
    folded,
    stamp,
)
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.layout import page
from reenact.server.web.components.tables import pager, table
from reenact.server.web.replays.plan import drivers_of

__all__ = [
    "agent_link",
    "connect_instructions",
    "key_instructions",
    "show_agents",
]


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
    said = (
        "Only agents with a heartbeat within a day"
        if gone
        else "Include agents without a heartbeat for a day"
    )
    return tag(
        "p",
        link(url("/agents", app=app, all="" if gone else "true"), said),
        (" · ", link(url("/agents", all="true" if gone else ""), "Agents of all apps"))
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


_SOMEWHERE: Final = "https://reenact.example"
"""Placeholder for the address of a server that was not requested by name."""
_LINES: Final = """\
import os
from reenact.exchange import Agent

agent = Agent({server}, key=os.environ["REENACT_AGENT_KEY"], app={app}, environment={environment})
app.add_middleware(agent.asgi)  # Flask: app.wsgi_app = agent.wsgi(app.wsgi_app)
"""


def connect_instructions(context: RequestContext) -> Html:
    """Return the instructions from an empty project to the first exchange."""
    return tag(
        "section",
        tag("h2", "Connect an app"),
        tag(
            "ol",
            tag("li", _key(context)),
            tag("li", *_install()),
            tag("li", "Tell the app, as it starts:", copyable(_lines(context, "shop", "staging"))),
            tag(
                "li",
                "Send a request to the app. The exchange then appears in the history and can be replayed.",
            ),
            class_="steps",
        ),
        tag(
            "p",
            "Or look around first: ",
            tag("code", "reenact serve --demo"),
            " starts a server with a small shop in it.",
            class_="dim",
        ),
        class_="connecting",
    )


def _key(context: RequestContext) -> Child:
    if context.has_anywhere("tenant:admin"):
        return fragment(link("/keys", "Make a key for its agent"), ".")
    return "Ask an administrator of this tenant for the key of an agent."


def _install() -> tuple[Child, ...]:
    return ("Install what it needs:", copyable("pip install 'reenact[agent]'"))


def _lines(context: RequestContext, app: str, environment: str) -> str:
    server = address_here(context) or _SOMEWHERE
    return _LINES.format(
        server=json.dumps(server), app=json.dumps(app), environment=json.dumps(environment)
    )


def key_instructions(context: RequestContext, app: str, environment: str, *, listed: bool) -> Html:
    """Return instructions for a new app agent key.

    ``listed`` means that the kind of ``environment`` is configured.
    """
    kinds = fragment(
        tag("b", environment),
        " counts as production until ",
        link(url("/environments", name=environment), "its kind is set"),
        ".",
    )
    return fragment(
        tag("p", "Pass the key as REENACT_AGENT_KEY, together with the address of this server:"),
        copyable(_lines(context, app, environment)),
        None if listed else tag("p", kinds),
    )

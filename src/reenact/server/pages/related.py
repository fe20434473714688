"""What an exchange belongs to: its neighbours as a graph, its replays as a tree."""

from __future__ import annotations

from starlette.responses import Response

from reenact.exchange.comparison.correlating import Graph
from reenact.exchange.comparison.lineage import Branch
from reenact.server.asking import Ask
from reenact.server.exchanges.relations import read_correlation, read_lineage
from reenact.server.pages.graphs import drawing, rows_of
from reenact.server.pages.kinds import kinds_of
from reenact.server.pages.lists import table
from reenact.server.pages.markup import Child, Html, fragment, link, tag, url
from reenact.server.pages.saying import (
    badge,
    duration,
    environment,
    exchange_status,
    stamp,
    verdict_tone,
    whole,
)
from reenact.server.pages.shell import page
from reenact.server.pages.values import folded

__all__ = ["show_related"]


async def show_related(ask: Ask) -> Response:
    """``GET /exchanges/{id}/related``: what belongs to it, as far as one may read it."""
    here = ask.path("id")
    found, lineage = await read_correlation(ask), await read_lineage(ask)
    kinds = await kinds_of(ask)
    heads = ("Started (UTC)", "Route", "App", "Environment", "Status", "Duration")
    rows: list[tuple[Child, ...]] = [
        (
            stamp(node.started_at),
            link(url("/exchanges/{}", node.exchange_id), node.route_id, class_="route"),
            whole(node.app),
            environment(node.environment, kinds.get(node.environment, "production")),
            exchange_status(node.status, node.http_status),
            duration(node.duration),
        )
        for _, node in rows_of(found)
    ]
    listed = table(
        heads, rows, none="It stands alone.", caption="Exchanges that belong together", brief=True
    )
    return page(
        ask,
        _title(found, here),
        tag("p", link(url("/exchanges/{}", here), "Back to the exchange")),
        tag(
            "section",
            tag("h2", "Who called whom"),
            tag("div", drawing(found, here), class_="scroll", tabindex=0),
            tag(
                "p",
                "A line leads from what called to what was called, and from an original to its replays. "
                "Dashed: the same correlation id.",
                tag("span", " Bars: when each was, from the first call on.", class_="of-bars"),
                class_="dim",
            ),
            folded("As a table", listed),
        ),
        _section(lineage, here) if lineage.replays else None,
        here="/exchanges",
    )


def _title(found: Graph, here: str) -> str:
    """Which exchange it is about."""
    return next(
        (f"Related to {node.route_id}" for node in found.nodes if node.exchange_id == here),
        "Related",
    )


def _section(lineage: Branch, here: str) -> Html:
    heading = tag("h2", "The original and its replays (UTC)")
    return tag("section", heading, tag("ul", _branch(lineage, here), class_="tree"))


def _branch(branch: Branch, here: str) -> Html:
    mine = branch.exchange_id == here
    said = "Replay" if branch.replay_id else "Original"
    name: Child = fragment(said, " ", tag("code", branch.exchange_id))
    if not branch.missing:
        name = fragment(
            link(
                url("/exchanges/{}", branch.exchange_id),
                said,
                title=branch.exchange_id,
                aria_current="true" if mine else None,
            ),
            " ",
            stamp(branch.started_at),
        )
    below = tag("ul", *(_branch(one, here) for one in branch.replays)) if branch.replays else None
    return tag(
        "li",
        name,
        " ",
        exchange_status(branch.status, branch.http_status)
        if branch.status
        else tag("span", "not here", class_="dim"),
        " ",
        badge(branch.verdict, tone=verdict_tone(branch.verdict, branch.status))
        if branch.verdict
        else None,
        tag("span", f" and {branch.hidden} more", class_="dim") if branch.hidden else None,
        below,
    )

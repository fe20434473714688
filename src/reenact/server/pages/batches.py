"""Many replays at once: a plan that counts first, then progress, then verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.responses import RedirectResponse, Response

from reenact.server.access import Permission, Place, replay_permission
from reenact.server.asking import Ask
from reenact.server.batches.confirming import cancel_batch, confirm_batch
from reenact.server.batches.reading import (
    ITEM_FILTERS,
    read_batch,
    read_batches,
    read_causes,
    read_items,
)
from reenact.server.batches.shapes import BatchView, ItemView
from reenact.server.batches.sizing import standing_at
from reenact.server.pages.acting import confirmed, denial, form, may_replay, missing
from reenact.server.pages.batch_parts import (
    batch_state,
    causes_of,
    doubts,
    plan_of,
    progress_of,
    verdicts,
)
from reenact.server.pages.forms import Filled
from reenact.server.pages.kinds import kinds_of
from reenact.server.pages.lists import pieces, table
from reenact.server.pages.markup import Child, Html, fragment, link, tag, url
from reenact.server.pages.saying import badge, count, environment, judged, stamp, whole
from reenact.server.pages.searching import place_of, search_said
from reenact.server.pages.shell import alert, page
from reenact.server.problems import Problem

__all__ = [
    "do_cancel_batch",
    "do_confirm_batch",
    "show_batch",
    "show_batches",
]

_SHORT: Final = 8
_SENTENCE: Final = 120


async def show_batches(ask: Ask) -> Response:
    """The list."""
    found = await read_batches(ask)
    heads = ("Planned (UTC)", "Batch", "State", "Exchanges", "Verdicts", "By", "Reason")
    none = "There are no batches. Search in the history, and replay all that is found."
    listed = table(
        heads,
        map(_row, found.items),
        none=none,
        caption="Batches, newest first",
        brief=True,
    )
    return page(
        ask,
        "Batches",
        listed,
        pieces(ask, found.next),
        here="/batches",
        heading=tag("div", link("/searches", "Saved searches", class_="button"), class_="actions"),
    )


def _row(one: BatchView) -> tuple[Child, ...]:
    return (
        stamp(one.created_at),
        link(url("/batches/{}", one.batch_id), _named(one), class_="route"),
        batch_state(one),
        f"{one.plan.replayable:,} of {one.plan.exchanges:,}",
        verdicts(one.progress) if one.progress.verdicts else "",
        whole(one.confirmed_by or one.requested_by),
        one.reason,
    )


def _named(one: BatchView) -> str:
    """By the saved search, or by what was looked for."""
    words = search_said(one.search) if one.search is not None else ""
    return one.saved or words or one.batch_id


async def show_batch(ask: Ask) -> Response:
    """A plan, or how far it is."""
    return await _batch(ask)


async def _batch(ask: Ask, problem: Problem | None = None) -> Response:
    found = await read_batch(ask)
    over = found.state in ("completed", "cancelled")
    live = found.state in ("running", "cancelling")
    items = await read_items(Filled(ask, query=_item_query(ask)))
    return page(
        ask,
        f"Batch: {_named(found)}",
        alert(problem) if problem is not None else None,
        *(_actions(ask, found, over, await _refusal(ask, found)) if may_replay(ask) else ()),
        tag(
            "div",
            tag("div", progress_of(found), data_part="progress") if found.confirmed_at else None,
            tag("p", role="status", id="live", class_="dim"),
            class_="progress",
            data_events=url("/api/v1/batches/{}/events", found.batch_id) if live else None,
            data_state=found.state if live else None,
            data_known=_known(found) if live else None,
        ),
        tag(
            "div",
            causes_of(found.batch_id, (await read_causes(_plainly(ask))).items),
            data_part="causes",
        )
        if found.confirmed_at
        else None,
        plan_of(found),
        tag(
            "section",
            tag("h2", "Exchanges"),
            _only(ask, found),
            tag(
                "div",
                _items(items.items, await kinds_of(ask)),
                pieces(ask, items.next, ("First", "Next")),
                data_part="items",
            ),
        ),
        here="/batches",
        heading=fragment(batch_state(found), _ways(ask, found)),
        status=200 if problem is None else problem.status,
        head=(tag("noscript", tag("meta", http_equiv="refresh", content="2")),) if live else (),
    )


def _ways(ask: Ask, found: BatchView) -> Html | None:
    """To what was looked for, and to a new plan of it."""
    if found.search is None:
        return None
    here = place_of(found.search)
    again = url("/batches/new", saved=found.saved) if found.saved else _again(here)
    return tag(
        "div",
        link(here, "In the history", class_="button"),
        link(again, "Plan it again …", class_="button") if may_replay(ask) else None,
        class_="actions",
    )


def _again(place: str) -> str:
    return "?".join(filter(None, ("/batches/new", place.partition("?")[2])))


def _only(ask: Ask, found: BatchView) -> Html | None:
    """Which of them are shown, and the way to all."""
    said = _item_query(ask)
    verdict, cause = said.get("verdict", ""), said.get("cause", "")
    if not verdict and not cause:
        return None
    every = link(url("/batches/{}", found.batch_id), "Show all")
    which = (badge(verdict) if verdict else None, f" {cause}" if cause else None)
    return tag("p", "Only ", *which, ". ", every)


def _known(found: BatchView) -> str:
    """What this page tells, as ``live.js`` writes it down: news is what differs from it."""
    now = found.progress
    counts = (now.waiting, now.asked, now.ended, now.refused, now.skipped, now.cancelled)
    return " ".join((found.state, found.hindered, *map(str, counts)))


def _item_query(ask: Ask) -> dict[str, str]:
    if ask.request.method != "GET":
        return {}
    return {name: ask.query(name) for name in ("cursor", "limit", *ITEM_FILTERS)}


def _plainly(ask: Ask) -> Ask:
    """The same question without what the list of exchanges is asked."""
    return Filled(ask, query={})


async def _refusal(ask: Ask, found: BatchView) -> Html | None:
    """Explain why the user can confirm no part of a plan; None when they can."""
    if found.state != "planned":
        return None
    places = list({Place(one.environment, one.app): None for one in found.plan.groups})
    first: Html | None = None
    async with ask.server.database.reading(ask.tenant) as scope:
        for place in places:
            standing = await standing_at(ask, scope, place, found.boundaries, found.reason)
            if standing.refused is None:
                return None
            live: list[Permission] = [] if found.boundaries == "recorded" else ["replay:live"]
            lacking = missing(ask, [replay_permission(standing.kind), *live], place)
            denied = standing.refused.status == 403 and bool(lacking)
            why = denial(ask, lacking, place) if denied else alert(standing.refused)
            first = first or why
    return first


def _actions(ask: Ask, found: BatchView, over: bool, refusal: Html | None) -> Iterator[Html]:
    if found.state == "planned":
        number = count(found.plan.replayable, "exchange")
        refused = doubts(found)
        if refused is not None:
            yield refused
        if refusal is not None:
            yield refusal
        yield tag(
            "div",
            form(
                ask,
                url("/batches/{}/confirm", found.batch_id),
                button=f"Replay {number}",
                main=True,
                disabled=refusal is not None,
            ),
            confirmed(
                ask, url("/batches/{}/cancel", found.batch_id), "Drop the plan", "It is gone then."
            ),
            class_="actions",
        )
    elif not over:
        warning = "What waits is not tried any more; replays under way are told to end."
        yield confirmed(ask, url("/batches/{}/cancel", found.batch_id), "Cancel", warning)


def _items(items: list[ItemView], kinds: dict[str, str]) -> Html:
    heads = ("№", "Exchange", "Id", "App", "Environment", "State", "Outcome", "Verdict")
    rows: list[tuple[Child, ...]] = [
        (
            tag("span", f"{one.position:,}", class_="dim"),
            link(url("/exchanges/{}", one.exchange_id), one.route_id, class_="route"),
            tag("code", _end(one.exchange_id), title=one.exchange_id, class_="whole"),
            whole(one.app),
            environment(one.environment, kinds.get(one.environment, "production")),
            badge(one.state),
            fragment(
                link(url("/replays/{}", one.replay_id), one.outcome or "replay")
                if one.replay_id
                else None,
                tag("span", f" {_why(one)}", class_="dim", title=one.code) if one.code else None,
            ),
            judged(one.verdict, one.cause, one.ending, one.http_status),
        )
        for one in items
    ]
    return table(heads, rows, none="None.", caption="Exchanges of this batch", brief=True)


def _why(one: ItemView) -> str:
    """In a sentence where there is one."""
    return one.message[:_SENTENCE] or one.code.replace("_", " ")


def _end(exchange_id: str) -> str:
    """The part in which ids differ from each other."""
    return exchange_id if len(exchange_id) <= _SHORT else f"…{exchange_id[-_SHORT:]}"


async def do_confirm_batch(ask: Ask) -> Response:
    """From now on it runs."""
    try:
        found = await confirm_batch(ask)
    except Problem as problem:
        if problem.status in (403, 404):
            raise
        return await _batch(ask, problem)
    return RedirectResponse(url("/batches/{}", found.batch_id), 303)


async def do_cancel_batch(ask: Ask) -> Response:
    """What waits is not tried."""
    found = await cancel_batch(ask)
    return RedirectResponse(url("/batches/{}", found.batch_id), 303)

"""Many replays at once: a plan that counts first, then progress, then verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from starlette.responses import RedirectResponse, Response

from reenact.server.asking import Ask
from reenact.server.batches.confirming import cancel_batch, confirm_batch
from reenact.server.batches.planning import plan_batch
from reenact.server.batches.reading import read_batch, read_batches, read_items
from reenact.server.batches.searches import read_search
from reenact.server.batches.shapes import BatchView, ItemView
from reenact.server.pages.acting import confirmed, form, labelled, options
from reenact.server.pages.batch_parts import counted, plan_of, progress_of
from reenact.server.pages.forms import Filled, Form, read_form
from reenact.server.pages.lists import pieces, table
from reenact.server.pages.markup import Child, Html, fragment, link, tag, url
from reenact.server.pages.saying import badge, count, stamp, whole
from reenact.server.pages.searching import as_search, filters_said, from_text, search_in, to_text
from reenact.server.pages.shell import alert, page
from reenact.server.pages.values import facts
from reenact.server.problems import Problem

__all__ = [
    "do_cancel_batch",
    "do_confirm_batch",
    "do_plan_batch",
    "edit_batch",
    "show_batch",
    "show_batches",
]

_MODES: Final = ("recorded", "recorded_then_live", "live")


async def show_batches(ask: Ask) -> Response:
    """The list."""
    found = await read_batches(ask)
    heads = ("Planned (UTC)", "Batch", "State", "Exchanges", "Verdicts", "By", "Reason")
    none = "There are no batches. Search in the history, and replay all that is found."
    listed = table(heads, map(_row, found.items), none=none, caption="Batches, newest first")
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
        badge(one.state),
        f"{one.plan.replayable:,} of {one.plan.exchanges:,}",
        counted(one.progress.verdicts) if one.progress.verdicts else "",
        whole(one.confirmed_by or one.requested_by),
        one.reason,
    )


def _named(one: BatchView) -> str:
    """By the saved search, or by what was looked for."""
    said = filters_said(one.search) if one.search is not None else []
    words = ", ".join(f"{name} {value}" for name, value in said)
    return one.saved or words or one.batch_id


async def edit_batch(ask: Ask) -> Response:
    """The form: what is to be replayed is the search that the address holds, or names."""
    saved = ask.query("saved")
    if not saved:
        return _form(ask, search_in(ask))
    found = await read_search(Filled(ask, path={"name": saved}))
    return _form(ask, msgspec.to_builtins(found.filters), saved=saved)


def _form(
    ask: Ask, search: dict[str, Any], problem: Problem | None = None, *, saved: str = ""
) -> Response:
    said = filters_said(as_search(search))
    kept = to_text(search)
    name, value = ("saved", saved) if saved else ("search", kept)
    fields = fragment(
        tag("input", type="hidden", name=name, value=value),
        options("Outbound calls", "boundaries", _MODES),
        options("Code", "revision", ("current", "same")),
        labelled("Environment (empty: its own)", "environment"),
        labelled("At a time, per agent", "concurrency", kind="number"),
        labelled("A minute, per agent", "perMinute", kind="number"),
        labelled("Reason (required in production)", "reason", wide=True),
    )
    return page(
        ask,
        "Replay many",
        alert(problem) if problem is not None else None,
        tag("p", f"All exchanges of {saved or 'this search'}, 10,000 at most:"),
        facts(said) if said else tag("p", "every exchange that is no replay", class_="wrong"),
        form(ask, "/batches", fields, button="Plan it", main=True),
        tag("p", "This counts what would be replayed, and replays nothing yet.", class_="dim"),
        here="/batches",
        status=200 if problem is None else problem.status,
    )


async def do_plan_batch(ask: Ask) -> Response:
    """On to the plan, or the form again."""
    sent = await read_form(ask)
    saved = sent.one("saved")
    search = {} if saved else from_text(sent.one("search"))
    which: dict[str, Any] = {"saved": saved} if saved else {"search": search}
    try:
        answer = await plan_batch(Filled(ask, {**which, **_wanted(sent)}))
    except Problem as problem:
        if problem.status in (403, 404):
            raise
        return _form(ask, search, problem, saved=saved)
    made = msgspec.json.decode(answer.body, type=BatchView)
    return RedirectResponse(url("/batches/{}", made.batch_id), 303)


def _wanted(sent: Form) -> dict[str, Any]:
    words = ("boundaries", "revision", "environment", "reason")
    found: dict[str, Any] = {name: sent.one(name) for name in words if sent.one(name)}
    for name in ("concurrency", "perMinute"):
        text = sent.one(name)
        if text:
            number = text.isascii() and text.isdigit() and len(text) < 9
            found[name] = int(text) if number else text
    return found


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
        "Batch",
        alert(problem) if problem is not None else None,
        *_actions(ask, found, over),
        tag(
            "div",
            progress_of(found) if found.confirmed_at else None,
            tag("p", role="status", id="live", class_="dim"),
            class_="progress",
            data_events=url("/api/v1/batches/{}/events", found.batch_id) if live else None,
            data_state=found.state if live else None,
            data_known=_known(found) if live else None,
        ),
        plan_of(found),
        tag("section", tag("h2", "Exchanges"), _items(items.items), pieces(ask, items.next)),
        here="/batches",
        heading=badge(found.state),
        status=200 if problem is None else problem.status,
        head=(tag("noscript", tag("meta", http_equiv="refresh", content="2")),) if live else (),
    )


def _known(found: BatchView) -> str:
    """What this page tells, as ``live.js`` writes it down: news is what differs from it."""
    now = found.progress
    counts = (now.waiting, now.asked, now.ended, now.refused, now.skipped, now.cancelled)
    return " ".join((found.state, found.hindered, *map(str, counts)))


def _item_query(ask: Ask) -> dict[str, str]:
    if ask.request.method != "GET":
        return {}
    return {name: ask.query(name) for name in ("cursor", "limit", "state", "verdict")}


def _actions(ask: Ask, found: BatchView, over: bool) -> Iterator[Html]:
    if found.state == "planned":
        number = count(found.plan.replayable, "exchange")
        yield tag(
            "div",
            form(
                ask,
                url("/batches/{}/confirm", found.batch_id),
                button=f"Replay {number}",
                main=True,
            ),
            confirmed(
                ask, url("/batches/{}/cancel", found.batch_id), "Drop the plan", "It is gone then."
            ),
            class_="actions",
        )
    elif not over:
        warning = "What waits is not tried any more; replays under way are told to end."
        yield confirmed(ask, url("/batches/{}/cancel", found.batch_id), "Cancel", warning)


def _items(items: list[ItemView]) -> Html:
    heads = ("№", "Exchange", "App", "Environment", "State", "Outcome", "Verdict")
    rows: list[tuple[Child, ...]] = [
        (
            f"{one.position:,}",
            link(url("/exchanges/{}", one.exchange_id), one.route_id, class_="route"),
            one.app,
            one.environment,
            badge(one.state),
            fragment(
                link(url("/replays/{}", one.replay_id), one.outcome or "replay")
                if one.replay_id
                else None,
                tag("span", f" {one.code}", class_="dim", title=one.message) if one.code else None,
            ),
            badge(one.verdict) if one.verdict else "",
        )
        for one in items
    ]
    return table(heads, rows, none="None.", caption="Exchanges of this batch")


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

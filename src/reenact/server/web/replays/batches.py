"""Batch pages: list, form, plan, progress and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from starlette.responses import RedirectResponse, Response

from reenact.server.auth.permissions import Permission, replay_permission
from reenact.server.batches.schema import BatchRequest, BatchView, ItemView
from reenact.server.batches.searches import read_search
from reenact.server.batches.service import (
    ITEM_FILTERS,
    cancel_batch,
    confirm_batch,
    plan_batch,
    read_batch,
    read_causes,
    read_items,
    read_standings,
    search_batches,
)
from reenact.server.context import RequestContext
from reenact.server.pagination import ListResponse, page_of
from reenact.server.problems import Problem
from reenact.server.replays.checks import check_reason
from reenact.server.tenants.service import environment_kinds
from reenact.server.web.components.formatting import (
    badge,
    count,
    environment,
    facts,
    judged,
    stamp,
    whole,
)
from reenact.server.web.components.forms import (
    Form,
    can_replay,
    confirm_button,
    denial,
    form,
    input_field,
    missing_permissions,
    read_form,
    select_field,
    to_request,
)
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.layout import alert, page
from reenact.server.web.components.tables import pager, table
from reenact.server.web.exchanges.searches import (
    as_search,
    filter_texts,
    from_text,
    history_address,
    search_in,
    search_text,
    to_text,
)
from reenact.server.web.replays.batch_view import (
    batch_state,
    causes_of,
    plan_of,
    plan_warnings,
    progress_of,
    verdicts,
)

__all__ = [
    "do_cancel_batch",
    "do_confirm_batch",
    "do_plan_batch",
    "edit_batch",
    "show_batch",
    "show_batches",
]

_ITEMS: Final = 50
_CAUSES: Final = 50

_SHORT: Final = 8
_SENTENCE: Final = 120


async def show_batches(context: RequestContext) -> Response:
    """Handle the list of batches."""
    found = await search_batches(context, context.query("state"), page_of(context))
    heads = ("Planned (UTC)", "Batch", "State", "Exchanges", "Verdicts", "By", "Reason")
    none = "No batches yet. Search in the history and replay all results."
    listed = table(
        heads,
        map(_row, found.items),
        none=none,
        caption="Batches, newest first",
        brief=True,
    )
    return page(
        context,
        "Batches",
        listed,
        pager(context, found.next),
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
    """Return the name of the saved search, or the words of the search."""
    words = search_text(one.search) if one.search is not None else ""
    return one.saved or words or one.batch_id


async def show_batch(context: RequestContext) -> Response:
    """Handle the page of a batch: its plan or its progress."""
    return await _batch(context)


async def _batch(context: RequestContext, problem: Problem | None = None) -> Response:
    found = await read_batch(context, context.path("id"))
    over = found.state in ("completed", "cancelled")
    live = found.state in ("running", "cancelling")
    items = await _requested_items(context, found.batch_id)
    return page(
        context,
        f"Batch: {_named(found)}",
        alert(problem) if problem is not None else None,
        *(
            _actions(context, found, over, await _refusal(context, found))
            if can_replay(context)
            else ()
        ),
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
            causes_of(found.batch_id, (await read_causes(context, found.batch_id, _CAUSES)).items),
            data_part="causes",
        )
        if found.confirmed_at
        else None,
        plan_of(found),
        tag(
            "section",
            tag("h2", "Exchanges"),
            _only(context, found),
            tag(
                "div",
                _items(items.items, await environment_kinds(context)),
                pager(context, items.next, ("First", "Next")),
                data_part="items",
            ),
        ),
        here="/batches",
        heading=fragment(batch_state(found), _ways(context, found)),
        status=200 if problem is None else problem.status,
        head=(tag("noscript", tag("meta", http_equiv="refresh", content="2")),) if live else (),
    )


def _ways(context: RequestContext, found: BatchView) -> Html | None:
    """Return links to the search, and to a new plan for it."""
    if found.search is None:
        return None
    here = history_address(found.search)
    again = url("/batches/new", saved=found.saved) if found.saved else _again(here)
    return tag(
        "div",
        link(here, "In the history", class_="button"),
        link(again, "Plan it again …", class_="button") if can_replay(context) else None,
        class_="actions",
    )


def _again(place: str) -> str:
    return "?".join(filter(None, ("/batches/new", place.partition("?")[2])))


def _only(context: RequestContext, found: BatchView) -> Html | None:
    """Render the active filter with a link to all replays."""
    said = _item_filters(context)
    verdict, cause = said.get("verdict", ""), said.get("cause", "")
    if not verdict and not cause:
        return None
    every = link(url("/batches/{}", found.batch_id), "Show all")
    which = (badge(verdict) if verdict else None, f" {cause}" if cause else None)
    return tag("p", "Only ", *which, ". ", every)


def _known(found: BatchView) -> str:
    """Return the state of the page for ``live.js``, which compares it with events."""
    now = found.progress
    counts = (now.waiting, now.asked, now.ended, now.refused, now.skipped, now.cancelled)
    return " ".join((found.state, found.hindered, *map(str, counts)))


def _item_filters(context: RequestContext) -> dict[str, str]:
    """Return the filters of the address; none after a submitted form."""
    shown = context.request.method == "GET"
    return {name: context.query(name) if shown else "" for name in ITEM_FILTERS}


async def _requested_items(context: RequestContext, batch_id: str) -> ListResponse[ItemView]:
    """Return the items of the requested page; the first ones after a submitted form."""
    shown = context.request.method == "GET"
    after, limit = (context.number("cursor", 0), context.limit) if shown else (0, _ITEMS)
    return await read_items(context, batch_id, _item_filters(context), after, limit)


async def _refusal(context: RequestContext, found: BatchView) -> Html | None:
    """Explain why the user can confirm no part of a plan; None when they can."""
    if found.state != "planned":
        return None
    first: Html | None = None
    for place, standing in await read_standings(context, found):
        if standing.refused is None:
            return None
        live: list[Permission] = [] if found.boundaries == "recorded" else ["replay:live"]
        lacking = missing_permissions(context, [replay_permission(standing.kind), *live], place)
        denied = standing.refused.status == 403 and bool(lacking)
        why = denial(context, lacking, place) if denied else alert(standing.refused)
        first = first or why
    return first


def _actions(
    context: RequestContext, found: BatchView, over: bool, refusal: Html | None
) -> Iterator[Html]:
    if found.state == "planned":
        number = count(found.plan.replayable, "exchange")
        refused = plan_warnings(found)
        if refused is not None:
            yield refused
        if refusal is not None:
            yield refusal
        yield tag(
            "div",
            form(
                context,
                url("/batches/{}/confirm", found.batch_id),
                button=f"Replay {number}",
                main=True,
                disabled=refusal is not None,
            ),
            confirm_button(
                context,
                url("/batches/{}/cancel", found.batch_id),
                "Drop the plan",
                "This plan cannot be run afterwards.",
            ),
            class_="actions",
        )
    elif not over:
        warning = "Waiting replays are not started. Running replays are cancelled."
        yield confirm_button(context, url("/batches/{}/cancel", found.batch_id), "Cancel", warning)


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
    """Return the reason as a sentence if there is one, otherwise the code in words."""
    return one.message[:_SENTENCE] or one.code.replace("_", " ")


def _end(exchange_id: str) -> str:
    """Return the distinctive end of an id."""
    return exchange_id if len(exchange_id) <= _SHORT else f"…{exchange_id[-_SHORT:]}"


async def do_confirm_batch(context: RequestContext) -> Response:
    """Confirm a batch, which starts it, and redirect to it."""
    try:
        found = await confirm_batch(context, context.path("id"))
    except Problem as problem:
        if problem.status in (403, 404):
            raise
        return await _batch(context, problem)
    return RedirectResponse(url("/batches/{}", found.batch_id), 303)


async def do_cancel_batch(context: RequestContext) -> Response:
    """``POST /batches/{id}/cancel``: cancel the pending replays and redirect to the batch."""
    found = await cancel_batch(context, context.path("id"))
    return RedirectResponse(url("/batches/{}", found.batch_id), 303)


_MODES: Final = (
    ("recorded", "recorded"),
    ("recorded_then_live", "recorded, then live"),
    ("live", "live"),
)
_VARIABLES: Final = (("current", "current values"), ("recorded", "recorded values"))
_REVISIONS: Final = (("current", "the current route"), ("same", "only if it is unchanged"))
_UNSAID: Final = BatchRequest()


async def edit_batch(context: RequestContext) -> Response:
    """Show the form.

    The exchanges to replay come from the search in the address, or from a saved search.
    """
    saved = context.query("saved")
    return _form(
        context, await _saved_search(context, saved) if saved else search_in(context), saved=saved
    )


async def _saved_search(context: RequestContext, saved: str) -> dict[str, Any]:
    found = await read_search(context, saved)
    search: dict[str, Any] = msgspec.to_builtins(found.filters)
    return search


def _form(
    context: RequestContext,
    search: dict[str, Any],
    problem: Problem | None = None,
    *,
    saved: str = "",
    sent: Form | None = None,
) -> Response:
    """Return the form. ``sent`` is its submitted content."""
    said = filter_texts(as_search(search))
    name, value = ("saved", saved) if saved else ("search", to_text(search))
    return page(
        context,
        "Replay many",
        alert(problem) if problem is not None else None,
        tag("p", f"All exchanges of {saved or 'this search'}, 10,000 at most:"),
        facts(said) if said else tag("p", "every exchange except replays", class_="wrong"),
        form(
            context,
            "/batches",
            tag("input", type="hidden", name=name, value=value),
            _fields(sent or Form([])),
            button="Plan it",
            main=True,
        ),
        tag("p", "This counts what would be replayed, and replays nothing yet.", class_="dim"),
        here="/batches",
        status=200 if problem is None else problem.status,
    )


def _fields(typed: Form) -> Html:
    def field(label: str, name: str, **more: Any) -> Html:
        return input_field(label, name, value=typed.one(name), **more)

    def select(label: str, name: str, options: tuple[tuple[str, str], ...]) -> Html:
        return select_field(label, name, options, typed.one(name))

    at_a_time, a_minute = str(_UNSAID.concurrency), str(_UNSAID.per_minute)
    return fragment(
        select("Outbound calls", "boundaries", _MODES),
        select("Environment variables", "environmentVariables", _VARIABLES),
        select("Code", "revision", _REVISIONS),
        field("Environment", "environment", hint="where each came from"),
        field("At a time, per agent", "concurrency", kind="number", hint=at_a_time),
        field("A minute, per agent", "perMinute", kind="number", hint=a_minute),
        field("Reason (required in production and for live calls)", "reason", wide=True),
    )


async def do_plan_batch(context: RequestContext) -> Response:
    """Redirect to the plan, or show the form with the problem."""
    sent = await read_form(context)
    saved = sent.one("saved")
    search = await _saved_search(context, saved) if saved else from_text(sent.one("search"))
    which: dict[str, Any] = {"saved": saved} if saved else {"search": search}
    wanted = _wanted(sent)
    try:
        live, reason = str(wanted.get("boundaries", "recorded")), str(wanted.get("reason", ""))
        check_reason(
            "non-production", live, reason
        )  # the plan checks the kinds of the environments
        asked = to_request({**which, **wanted}, BatchRequest)
        made = await plan_batch(context, asked)
    except Problem as problem:
        if problem.status in (403, 404):
            raise
        return _form(context, search, problem, saved=saved, sent=sent)
    return RedirectResponse(url("/batches/{}", made.batch_id), 303)


def _wanted(sent: Form) -> dict[str, Any]:
    words = ("boundaries", "environmentVariables", "revision", "environment", "reason")
    found: dict[str, Any] = {name: sent.one(name) for name in words if sent.one(name)}
    for name in ("concurrency", "perMinute"):
        text = sent.one(name)
        if text:
            number = text.isascii() and text.isdigit() and len(text) < 9
            found[name] = int(text) if number else text
    return found

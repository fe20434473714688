"""Saved-search pages."""

from __future__ import annotations

from typing import Any

from starlette.responses import RedirectResponse, Response

from reenact.server.batches import searches
from reenact.server.batches.schema import SavedSearch
from reenact.server.context import PAGE_SIZE, RequestContext
from reenact.server.problems import Problem
from reenact.server.web.components.formatting import stamp
from reenact.server.web.components.forms import (
    can_replay,
    confirm_button,
    form,
    input_field,
    read_form,
)
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.layout import alert, page
from reenact.server.web.components.tables import choice, pager, spans, table
from reenact.server.web.components.values import facts, folded
from reenact.server.web.exchanges.search_query import (
    as_search,
    filter_texts,
    from_text,
    history_address,
    search_in,
    search_text,
    to_text,
)

__all__ = ["do_remove_search", "do_rename_search", "do_save_search", "edit_search", "show_searches"]


async def show_searches(context: RequestContext) -> Response:
    """Handle ``GET /searches``: list the saved searches by name."""
    return await _list(context)


async def _list(context: RequestContext, problem: Problem | None = None) -> Response:
    cursor = context.query("cursor") if context.request.method == "GET" else ""
    found = await searches.list_searches(context, cursor, PAGE_SIZE)
    heads = ("Name", "Finds", "By", "Saved (UTC)", "")
    none = "There are no saved searches. Search in the history, and save what you looked for."
    rows = (_row(context, one) for one in found.items)
    return page(
        context,
        "Saved searches",
        alert(problem) if problem is not None else None,
        table(heads, rows, none=none, caption="Saved searches, by name"),
        pager(context, found.next, ("First", "Next")),
        here="/exchanges",
        heading=tag("div", link("/exchanges", "History", class_="button"), class_="actions"),
        status=200 if problem is None else problem.status,
    )


def _row(context: RequestContext, one: SavedSearch) -> tuple[Child, ...]:
    said = search_text(one.filters)
    place = history_address(one.filters)
    return (
        link(place, one.name, class_="route"),
        said or "every exchange except replays",
        one.changed_by,
        stamp(one.changed_at),
        _actions(context, one),
    )


def _actions(context: RequestContext, one: SavedSearch) -> Html:
    replay = link(url("/batches/new", saved=one.name), "Replay all …", class_="button")
    return tag(
        "div",
        replay if can_replay(context) else None,
        _changes(context, one) if _is_own(context, one) else None,
        class_="actions",
    )


def _is_own(context: RequestContext, one: SavedSearch) -> bool:
    mine = one.changed_by == (context.principal.name or context.principal.id)
    return mine or context.may("tenant:admin").allowed


def _changes(context: RequestContext, one: SavedSearch) -> Html:
    return fragment(
        folded(
            "Rename",
            form(
                context,
                url("/searches/{}/rename", one.name),
                input_field("New name", "name", required=True),
                button="Rename it",
            ),
            class_="confirm",
        ),
        confirm_button(
            context,
            url("/searches/{}/remove", one.name),
            "Delete",
            "The exchanges stay as they are.",
        ),
    )


async def edit_search(context: RequestContext) -> Response:
    """Handle ``GET /searches/new``: show the form to save the search in the address."""
    return _form(context, search_in(context))


def _form(
    context: RequestContext, search: dict[str, Any], problem: Problem | None = None
) -> Response:
    from_address = {name: value for name, value in search.items() if name != "within"}
    said = filter_texts(as_search(from_address))
    return page(
        context,
        "Save a search",
        alert(problem) if problem is not None else None,
        facts(said) if said else tag("p", "Every exchange.", class_="dim"),
        form(
            context,
            "/searches",
            tag("input", type="hidden", name="search", value=to_text(from_address)),
            input_field("Name", "name", required=True),
            choice(context, "within", "Exchanges of", spans(context)),
            button="Save it",
            main=True,
        ),
        tag(
            "p",
            "Everybody in this tenant sees it, and finds what they may read. The last hour, day or "
            "week is counted back from when it is used.",
            class_="dim",
        ),
        here="/exchanges",
        status=200 if problem is None else problem.status,
    )


async def do_save_search(context: RequestContext) -> Response:
    """Handle ``POST /searches``: save the search and redirect to the list.

    If it is refused, show the form with the reason.
    """
    sent = await read_form(context)
    search, within = from_text(sent.one("search")), sent.one("within")
    if within.isascii() and within.isdigit():
        search["within"] = int(within)
    try:
        await searches.save_search(context, sent.one("name"), as_search(search))
    except Problem as problem:
        if problem.status == 403:
            raise
        return _form(context, search, problem)
    return RedirectResponse("/searches", 303)


async def do_rename_search(context: RequestContext) -> Response:
    """Handle ``POST /searches/{name}/rename``: rename the search and redirect to the list."""
    name = (await read_form(context)).one("name")
    try:
        await searches.rename_search(context, context.path("name"), name)
    except Problem as problem:
        if problem.status in (403, 404):
            raise
        return await _list(context, problem)
    return RedirectResponse("/searches", 303)


async def do_remove_search(context: RequestContext) -> Response:
    """Handle ``POST /searches/{name}/remove``: delete the search and redirect to the list."""
    try:
        await searches.remove_search(context, context.path("name"))
    except Problem as problem:
        if problem.status in (403, 404):
            raise
        return await _list(context, problem)
    return RedirectResponse("/searches", 303)

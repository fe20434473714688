"""Saved-search pages, and search filters as page addresses, API bodies and text."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import RedirectResponse, Response

from reenact.server.batches import searches
from reenact.server.batches.schema import SavedSearch, Search
from reenact.server.context import PAGE_SIZE, RequestContext
from reenact.server.pagination import with_replays, yes_or_no
from reenact.server.problems import Problem
from reenact.server.web.components.formatting import clock, count, duration, facts, folded, stamp
from reenact.server.web.components.forms import (
    can_replay,
    confirm_button,
    form,
    input_field,
    read_form,
)
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.layout import alert, page
from reenact.server.web.components.tables import choice, pager, spans, table, times_of

__all__ = [
    "as_search",
    "do_remove_search",
    "do_rename_search",
    "do_save_search",
    "edit_search",
    "filter_texts",
    "from_text",
    "history_address",
    "kept_query",
    "search_in",
    "search_text",
    "show_searches",
    "to_text",
]


async def show_searches(context: RequestContext) -> Response:
    """Handle ``GET /searches``: list the saved searches by name."""
    return await _list(context)


async def _list(context: RequestContext, problem: Problem | None = None) -> Response:
    cursor = context.query("cursor") if context.request.method == "GET" else ""
    found = await searches.list_searches(context, cursor, PAGE_SIZE)
    heads = ("Name", "Finds", "By", "Saved (UTC)", "")
    none = "No saved searches yet. Search in the history and save the search."
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
            "All users of this tenant see the search and get the results that they are allowed to "
            "read. The last hour, day or week is relative to the time of use.",
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


_WORDS: Final = ("app", "environment", "route", "status", "traceId", "correlationId", "text")
_FLAGS: Final = ("replay", "replayable")
_CHOSEN: Final[dict[str, dict[Any, str]]] = {
    "replay": {True: "replays only", False: "originals only", "any": "originals and replays"},
    "replayable": {True: "replayable only", False: "not replayable only"},
}
"""Descriptions of the values of a flag."""
_SAID: Final = {
    "replay": "which",
    "replayable": "which",
    "traceId": "trace",
    "correlationId": "correlation",
    "since": "from",
    "until": "to",
    "within": "the last",
}


def search_in(context: RequestContext) -> dict[str, Any]:
    """Return the search in the address of a page in the form of the API.

    Raises :class:`Problem`.
    """
    found: dict[str, Any] = {name: context.query(name) for name in _WORDS if context.query(name)}
    flags = {"replay": with_replays(context), "replayable": yes_or_no(context, "replayable")}
    found |= {name: value for name, value in flags.items() if value is not None}
    return found | times_of(context)


def as_search(found: dict[str, Any]) -> Search:
    """Convert ``found`` to a search of the API. Raises :class:`Problem`."""
    try:
        return msgspec.convert(found, Search)
    except msgspec.ValidationError as error:
        raise Problem("invalid", f"not a search: {error}") from None


def to_text(search: dict[str, Any]) -> str:
    """Return a search as text for a hidden field."""
    return msgspec.json.encode(search).decode()


def from_text(text: str) -> dict[str, Any]:
    """Parse the text of :func:`to_text`. Raises :class:`Problem`."""
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        raise Problem("invalid", "not a search", field="search") from None
    as_search(found)
    return found


def kept_query(context: RequestContext) -> dict[str, str]:
    """Return the filters in the address, for use in a different address."""
    names = (*_WORDS, *_FLAGS, "from", "to", "within")
    return {name: context.query(name) for name in names if context.query(name)}


def history_address(search: Search) -> str:
    """Return the address of the history page for ``search``."""
    found: dict[str, Any] = msgspec.to_builtins(search)
    query = {name: str(found[name]) for name in _WORDS if found.get(name)}
    query |= {name: _flag(found[name]) for name in _FLAGS if name in found}
    times = {"from": search.since, "to": search.until}
    query |= {name: clock(at).replace(" ", "T") for name, at in times.items() if at}
    return url("/exchanges", **query, within=search.within or "")


def _flag(value: bool | str) -> str:
    """Return a flag in the form of an address."""
    return value if isinstance(value, str) else "true" if value else "false"


def filter_texts(search: Search) -> list[tuple[str, str]]:
    """Return the filters of a search with their labels."""
    found: dict[str, Any] = msgspec.to_builtins(search)
    return [(_SAID.get(name, name), _said(name, value)) for name, value in found.items()]


def search_text(search: Search) -> str:
    """Return a search as one line of text."""
    found: dict[str, Any] = msgspec.to_builtins(search)
    words = (
        _said(name, value) if name in _FLAGS else f"{_SAID.get(name, name)} {_said(name, value)}"
        for name, value in found.items()
    )
    return ", ".join(words)


def _said(name: str, value: Any) -> str:
    if name in _CHOSEN:
        return _CHOSEN[name][value]
    if name in ("since", "until"):
        return f"{clock(value)} UTC"
    if name == "within":
        return _span(value)
    return str(value)


def _span(milliseconds: int) -> str:
    for word, length in (("day", 86_400_000), ("hour", 3_600_000)):
        if milliseconds % length == 0:
            return count(milliseconds // length, word)
    return duration(milliseconds)

"""API key page."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from reenact.server.context import PAGE_SIZE, RequestContext
from reenact.server.people import keys
from reenact.server.people.schema import KeyRequest, KeyView, NewKey
from reenact.server.problems import Problem
from reenact.server.tenants.service import environment_kinds
from reenact.server.web.admin.agents import key_instructions
from reenact.server.web.admin.people import ROLE_WORDS, grants_of
from reenact.server.web.components.formatting import stamp
from reenact.server.web.components.forms import (
    confirm_button,
    form,
    input_field,
    read_form,
    secret_once,
    select_field,
    to_request,
)
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.layout import alert, page
from reenact.server.web.components.tables import pager, table

__all__ = ["do_add_key", "do_revoke_key", "show_keys"]

_ONCE: Final = "The key is shown only once."


async def show_keys(context: RequestContext) -> Response:
    """Handle ``GET /keys``: show the active keys, newest first, and a form for a new key."""
    return await _keys(context)


async def _keys(context: RequestContext, *told: Child, problem: Problem | None = None) -> Response:
    cursor = context.query("cursor") if context.request.method == "GET" else ""
    found = await keys.list_keys(context, cursor, PAGE_SIZE)
    heads = ("Name", "Kind", "For", "Made (UTC)", "Last used (UTC)", "Expires (UTC)", "")
    names = await keys.owner_names(context, found.items)
    rows = [_row(context, one, names.get(one.owner, one.owner)) for one in found.items]
    return page(
        context,
        "Keys",
        alert(problem) if problem is not None else None,
        *told,
        table(heads, rows, none="No keys yet.", caption="Keys"),
        pager(context, found.next) if context.request.method == "GET" else None,
        tag("section", tag("h2", "A key for an agent"), _for_agent(context)),
        tag(
            "section",
            tag("h2", "A key for a program"),
            _for_program(context),
            tag("p", "Use it with ", link("/api/docs", "the API"), class_="dim"),
        ),
        here="/keys",
        status=200 if problem is None else problem.status,
    )


def _row(context: RequestContext, one: KeyView, owner: str) -> tuple[Child, ...]:
    place = " in ".join(filter(None, (one.app, one.environment)))
    warning = "Programs that use this key lose access immediately."
    return (
        tag("b", one.name),
        one.kind,
        place or (f"as {owner}" if owner else grants_of(one.grants)),
        stamp(one.created_at),
        stamp(one.last_used_at, none="never"),
        stamp(one.expires_at, none="never"),
        confirm_button(context, url("/keys/{}/revoke", one.id), "Revoke", warning),
    )


def _for_agent(context: RequestContext) -> Html:
    return form(
        context,
        "/keys",
        tag("input", type="hidden", name="kind", value="agent"),
        input_field("Name", "name", required=True),
        input_field("App", "app", required=True),
        input_field("Environment", "environment", required=True),
        button="Make a key",
    )


def _for_program(context: RequestContext) -> Html:
    return form(
        context,
        "/keys",
        tag("input", type="hidden", name="kind", value="user"),
        input_field("Name", "name", required=True),
        select_field("Role or permission", "role", ROLE_WORDS),
        input_field("Only in environment", "limit-environment"),
        input_field("Only for app", "limit-app"),
        button="Make a key",
    )


async def do_add_key(context: RequestContext) -> Response:
    """Handle ``POST /keys``: show the keys, and the new key once.

    If it is refused, show the reason.
    """
    sent = await read_form(context)
    wanted: dict[str, Any] = {"kind": sent.one("kind"), "name": sent.one("name").strip()}
    if wanted["kind"] == "agent":
        wanted |= {name: sent.one(name).strip() for name in ("app", "environment")}
    else:
        grant = {"role": sent.one("role")}
        grant |= {name: sent.one(f"limit-{name}").strip() for name in ("environment", "app")}
        wanted["grants"] = [grant]
    try:
        made = await keys.add_key(context, to_request(wanted, KeyRequest))
    except Problem as problem:
        if problem.status == 403:
            raise
        return await _keys(context, problem=problem)
    return await _keys(
        context, secret_once(f"The key {made.name}", made.key, await _use_of(context, made))
    )


async def _use_of(context: RequestContext, made: NewKey) -> Html:
    once = tag("p", _ONCE)
    if made.kind != "agent":
        return fragment(once, tag("p", "Commands and programs take it from REENACT_API_KEY."))
    listed = made.environment in await environment_kinds(context)
    return fragment(once, key_instructions(context, made.app, made.environment, listed=listed))


async def do_revoke_key(context: RequestContext) -> Response:
    """Handle ``POST /keys/{id}/revoke``: revoke the key immediately and redirect to ``/keys``."""
    await keys.revoke_key(context, context.path("id"))
    return RedirectResponse("/keys", 303)

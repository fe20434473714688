"""Environment and tenant pages."""

from __future__ import annotations

from typing import Final, get_args

from starlette.responses import RedirectResponse, Response

from reenact.server.agents.service import search_agents
from reenact.server.auth.permissions import Tier
from reenact.server.context import MOST_ITEMS, RequestContext
from reenact.server.people.accounts import address_here
from reenact.server.problems import Problem
from reenact.server.runtime import TenantFacts
from reenact.server.storage.rows import Page
from reenact.server.tenants import service as tenants
from reenact.server.tenants.service import EnvironmentRequest, TenantChange, TenantRequest
from reenact.server.web.admin.people import invited
from reenact.server.web.components.formatting import environment
from reenact.server.web.components.forms import (
    Form,
    confirm_button,
    form,
    input_field,
    read_form,
    select_field,
    to_request,
)
from reenact.server.web.components.html import Child, Html, link, tag, url
from reenact.server.web.components.layout import alert, page
from reenact.server.web.components.tables import table

__all__ = [
    "do_add_tenant",
    "do_change_tenant",
    "do_set_environment",
    "show_environments",
    "show_tenants",
]

_KINDS: Final = ("non-production", "production")
_MEANING: Final = {
    "production": "Replays there need replay:execute:production, and a reason.",
    "non-production": "Replays there need only replay:execute, and no reason.",
}
_TIERS: Final[tuple[str, ...]] = get_args(Tier)


async def show_environments(context: RequestContext) -> Response:
    """Handle ``GET /environments``: show all environments of the tenant, with their kinds."""
    return await _environments(context)


async def _environments(context: RequestContext, problem: Problem | None = None) -> Response:
    found = await tenants.list_environments(context)
    said = {one.name: one.kind for one in found}
    unsaid = sorted(await _with_agents(context) - {*said})
    may = context.has_anywhere("tenant:admin")
    rows = [_row(context, name, kind, kind, may) for name, kind in said.items()]
    rows += [_row(context, name, "production", "not said: production", may) for name in unsaid]
    change = form(
        context,
        "/environments",
        input_field("Name", "name", required=True, value=context.query("name")),
        select_field("Kind", "kind", _KINDS),
        button="Set",
    )
    return page(
        context,
        "Environments",
        alert(problem) if problem is not None else None,
        tag("p", "Environments that are not listed count as production.", class_="dim"),
        table(
            ("Name", "Kind", "Look at", ""),
            rows,
            none="None is listed: all are production.",
            caption="Environments",
        ),
        tag("section", tag("h2", "Say what an environment is"), change) if may else None,
        here="/environments",
        status=200 if problem is None else problem.status,
    )


async def _with_agents(context: RequestContext) -> set[str]:
    """Return the environments of the app agents that the user can see."""
    found = await search_agents(context, Page(MOST_ITEMS))
    return {one.environment for one in found.items}


def _row(context: RequestContext, name: str, kind: str, said: str, may: bool) -> tuple[Child, ...]:
    other = next(one for one in _KINDS if one != kind)
    change = confirm_button(
        context,
        "/environments",
        f"Make it {other}",
        _MEANING[other],
        tag("input", type="hidden", name="name", value=name),
        tag("input", type="hidden", name="kind", value=other),
    )
    return (
        environment(name, kind),
        said,
        link(url("/exchanges", environment=name), "exchanges"),
        change if may else "",
    )


async def do_set_environment(context: RequestContext) -> Response:
    """Handle ``POST /environments``: redirect to the environments.

    If it is refused, show the reason.
    """
    sent = await read_form(context)
    try:
        wanted = to_request({"kind": sent.one("kind")}, EnvironmentRequest)
        await tenants.set_environment(context, sent.one("name").strip(), wanted)
    except Problem as problem:
        if problem.status == 403 or not context.has_anywhere("agent:read"):
            raise
        return await _environments(context, problem)
    return RedirectResponse("/environments", 303)


async def show_tenants(context: RequestContext) -> Response:
    """Handle ``GET /tenants``: show all tenants, and a form for a new one."""
    return await _tenants(context)


async def _tenants(
    context: RequestContext, *told: Child, problem: Problem | None = None
) -> Response:
    found = await tenants.list_tenants(context)
    rows: list[tuple[Child, ...]] = [
        (
            tag("b", one.name),
            tag("code", one.id),
            one.tier,
            _yes(one.dedicated),
            _change(context, one),
        )
        for one in found
    ]
    add = form(
        context,
        "/tenants",
        input_field("Name", "name", required=True),
        input_field("First administrator", "admin", kind="email", required=True),
        select_field("Tier", "tier", _TIERS),
        select_field("Dedicated infrastructure", "dedicated", ("no", "yes")),
        button="Add",
    )
    return page(
        context,
        "Tenants",
        alert(problem) if problem is not None else None,
        *told,
        table(("Name", "Id", "Tier", "Dedicated", ""), rows, none="None.", caption="Tenants"),
        tag("section", tag("h2", "Another tenant"), add),
        here="/tenants",
        status=200 if problem is None else problem.status,
    )


def _yes(so: bool) -> str:
    return "yes" if so else "no"


def _change(context: RequestContext, one: TenantFacts) -> Html:
    return form(
        context,
        url("/tenants/{}", one.id),
        select_field("Tier", "tier", _TIERS, one.tier),
        select_field("Dedicated", "dedicated", ("no", "yes"), _yes(one.dedicated)),
        button="Change",
    )


async def do_add_tenant(context: RequestContext) -> Response:
    """Handle ``POST /tenants``: show the tenants, and the link for the new administrator once.

    If it is refused, show the reason.
    """
    sent = await read_form(context)
    fields = {name: sent.one(name).strip() for name in ("name", "tier", "admin")}
    try:
        wanted = to_request({**fields, **_dedicated(sent)}, TenantRequest)
        made = await tenants.add_tenant(context, address_here(context), wanted)
    except Problem as problem:
        if problem.status == 403:
            raise
        return await _tenants(context, problem=problem)
    if made.admin is None:
        return RedirectResponse("/tenants", 303)
    return await _tenants(context, invited(made.admin))


def _dedicated(sent: Form) -> dict[str, bool]:
    return {"dedicated": sent.one("dedicated") == "yes"}


async def do_change_tenant(context: RequestContext) -> Response:
    """Handle ``POST /tenants/{id}``: change the tier and infrastructure, and redirect to
    ``/tenants``."""
    sent = await read_form(context)
    wanted = to_request({"tier": sent.one("tier"), **_dedicated(sent)}, TenantChange)
    await tenants.change_tenant(context, context.path("id"), wanted)
    return RedirectResponse("/tenants", 303)

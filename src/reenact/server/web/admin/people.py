"""People page: users, invitations and grants."""

from __future__ import annotations

from typing import Final

from starlette.responses import RedirectResponse, Response

from reenact.server.auth.permissions import PERMISSIONS, ROLES, is_grantable
from reenact.server.context import PAGE_SIZE, RequestContext
from reenact.server.people import users
from reenact.server.people.accounts import address_here
from reenact.server.people.schema import GrantRequest, GrantView, Invitation, UserRequest, UserView
from reenact.server.problems import Problem
from reenact.server.web.components.formatting import badge, clock, folded, stamp, whole
from reenact.server.web.components.forms import (
    confirm_button,
    form,
    input_field,
    read_form,
    secret_once,
    select_field,
    to_request,
)
from reenact.server.web.components.html import Child, Html, fragment, tag, url
from reenact.server.web.components.layout import alert, page
from reenact.server.web.components.tables import pager, table

__all__ = [
    "ROLE_WORDS",
    "do_add_user",
    "do_grant",
    "do_invite_again",
    "do_remove_user",
    "do_revoke",
    "grants_of",
    "invited",
    "show_people",
]

ROLE_WORDS: Final[tuple[str, ...]] = (*ROLES, *(one for one in PERMISSIONS if is_grantable(one)))


async def show_people(context: RequestContext) -> Response:
    """Handle ``GET /people``: show the users and their grants, newest first."""
    return await _people(context)


async def _people(
    context: RequestContext, *told: Child, problem: Problem | None = None
) -> Response:
    cursor = context.query("cursor") if context.request.method == "GET" else ""
    found = await users.list_users(context, cursor, PAGE_SIZE)
    rows: list[tuple[Child, ...]] = [
        (
            tag("b", whole(one.email)),
            badge(one.state),
            _grants(context, one),
            stamp(one.created_at),
            _more(context, one),
        )
        for one in found.items
    ]
    heads = ("Who", "State", "May", "Since (UTC)", "")
    who = context.principal.tenant
    tier = f"{who.tier}, {'dedicated' if who.dedicated else 'shared'} infrastructure"
    return page(
        context,
        "People",
        alert(problem) if problem is not None else None,
        *told,
        tag("p", f"Tenant {who.name}: tier {tier}.", class_="dim"),
        table(heads, rows, none="Nobody is here.", caption="People and their grants"),
        pager(context, found.next) if context.request.method == "GET" else None,
        tag(
            "section",
            tag("h2", "Invite a user"),
            form(
                context,
                "/people",
                input_field("E-mail address", "email", kind="email", required=True),
                button="Invite",
            ),
        ),
        here="/people",
        status=200 if problem is None else problem.status,
    )


def grants_of(grants: list[GrantView]) -> Html:
    """Return grants as a list of words, with their limits."""
    return tag("ul", *(tag("li", _words(one)) for one in grants), class_="plain")


def _words(one: GrantView) -> str:
    limits = "".join(f" in {place}" for place in (one.environment, one.app) if place)
    until = f" until {clock(one.expires_at)}" if one.expires_at else ""
    return f"{one.role}{limits}{until}"


def _grants(context: RequestContext, user: UserView) -> Html | None:
    if not user.grants:
        return None
    items = (
        tag(
            "li",
            _words(one),
            " ",
            confirm_button(
                context,
                url("/people/{}/grants/{}/revoke", user.id, one.id),
                "Revoke",
                "It holds no longer, at once.",
            ),
        )
        for one in user.grants
    )
    return tag("ul", *items, class_="plain")


def _more(context: RequestContext, user: UserView) -> Html:
    add = form(
        context,
        url("/people/{}/grants", user.id),
        select_field("Role or permission", "role", ROLE_WORDS),
        input_field("Only in environment", "environment"),
        input_field("Only for app", "app"),
        button="Grant",
    )
    again = "The current password and all sessions become invalid. A new link is created."
    gone = "Their grants, sessions and keys end with them."
    return fragment(
        folded("Grant …", add),
        confirm_button(context, url("/people/{}/invite", user.id), "Invite again", again),
        confirm_button(context, url("/people/{}/remove", user.id), "Remove", gone),
    )


def invited(invitation: Invitation) -> Html:
    """Return a box with the one-time link of an invitation."""
    until = f"It is for {invitation.email}, works once, until {clock(invitation.expires_at)} UTC."
    return secret_once("Give them this link", invitation.link, tag("p", until, class_="dim"))


async def do_add_user(context: RequestContext) -> Response:
    """Handle ``POST /people``: show the users, and the link for the new one once.

    If it is refused, show the reason.
    """
    sent = await read_form(context)
    try:
        wanted = UserRequest(email=sent.one("email"))
        invitation = await users.invite_user(context, address_here(context), wanted)
    except Problem as problem:
        return await _refused(context, problem)
    return await _people(context, invited(invitation))


async def do_invite_again(context: RequestContext) -> Response:
    """Handle ``POST /people/{id}/invite``: show the users, and a new link once.

    If it is refused, show the reason.
    """
    try:
        address = address_here(context)
        invitation = await users.invite_again(context, address, context.path("id"))
    except Problem as problem:
        return await _refused(context, problem)
    return await _people(context, invited(invitation))


async def do_grant(context: RequestContext) -> Response:
    """Handle ``POST /people/{id}/grants``: redirect to ``/people``.

    If it is refused, show the reason.
    """
    sent = await read_form(context)
    fields = {name: sent.one(name).strip() for name in ("role", "environment", "app")}
    try:
        await users.add_grant(context, context.path("id"), to_request(fields, GrantRequest))
    except Problem as problem:
        return await _refused(context, problem)
    return RedirectResponse("/people", 303)


async def do_revoke(context: RequestContext) -> Response:
    """Handle ``POST …/grants/{grant}/revoke``: redirect to ``/people``.

    If it is refused, show the reason.
    """
    try:
        await users.remove_grant(context, context.path("id"), context.path("grant"))
    except Problem as problem:
        return await _refused(context, problem)
    return RedirectResponse("/people", 303)


async def do_remove_user(context: RequestContext) -> Response:
    """Handle ``POST /people/{id}/remove``: redirect to ``/people``.

    If it is refused, show the reason.
    """
    try:
        await users.remove_user(context, context.path("id"))
    except Problem as problem:
        return await _refused(context, problem)
    return RedirectResponse("/people", 303)


async def _refused(context: RequestContext, problem: Problem) -> Response:
    """Return the page with the problem.

    Denials are raised, because the application records them.
    """
    if problem.status in (403, 404):
        raise problem
    return await _people(context, problem=problem)

"""Pages for setup, invitations, sign-in and sign-out."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import RedirectResponse, Response

from reenact.server.auth.authentication import (
    authenticate,
    check_site,
    check_token,
    clear_cookie,
    set_cookie,
)
from reenact.server.auth.credentials import LEAST
from reenact.server.auth.permissions import has_anywhere
from reenact.server.auth.sign_in import SignedIn, sign_in, sign_out
from reenact.server.context import RequestContext
from reenact.server.people import accounts
from reenact.server.problems import Problem
from reenact.server.storage.people import User
from reenact.server.web.components.forms import read_form
from reenact.server.web.components.html import Child, Html, fragment, link, tag
from reenact.server.web.components.layout import bare, page

__all__ = [
    "do_invite",
    "do_setup",
    "do_signin",
    "do_signout",
    "issuer_of",
    "show_invite",
    "show_setup",
    "show_signin",
    "show_start",
    "sign_in_fields",
]

_MOST: Final = 16 << 10
_WAY: Final = re.compile(r"/(?![/\\])[\x21-\x7e]{0,2000}")
"""A place of this server, and of no other."""


def _form(
    title: str,
    words: str,
    action: str,
    *fields: Child,
    button: str,
    problem: Problem | None,
    below: Child = None,
) -> Response:
    told = tag("p", _told(problem), role="alert", class_="alert") if problem is not None else None
    form = tag("form", *fields, tag("button", button, class_="main"), method="post", action=action)
    headers = {}
    if problem is not None and problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    status = 200 if problem is None else problem.status
    return bare(title, tag("p", words), told, form, below, status=status, headers=headers)


def _told(problem: Problem) -> str:
    said = (one[:1].upper() + one[1:] for one in (problem.message, problem.hint) if one)
    return " ".join(f"{one}." for one in said)


def _hidden(name: str, value: str) -> Html:
    return tag("input", type="hidden", name=name, value=value)


def _field(name: str, label: str, kind: str, complete: str, value: str = "") -> Html:
    box = tag(
        "input", id=name, name=name, type=kind, required=True, autocomplete=complete, value=value
    )
    return fragment(tag("label", label, for_=name), box)


def sign_in_fields(email: str = "", problem: Problem | None = None) -> Html:
    """Return the sign-in fields.

    ``email`` is the previous input. The tenant is requested only if the password is valid in
    several tenants.
    """
    tenants = problem.details.get("tenants", ()) if problem is not None else ()
    shown = (tag("option", one, value=one) for one in tenants)
    several = fragment(
        tag("label", "Tenant", for_="tenant"), tag("select", *shown, id="tenant", name="tenant")
    )
    return fragment(_email(email), _PASSWORD, several if tenants else None)


def _email(value: str = "") -> Html:
    return _field("email", "E-mail address", "email", "username", value)


_NEW: Final = _field(
    "password", f"Password (at least {LEAST} characters)", "password", "new-password"
)
_PASSWORD: Final = _field("password", "Password", "password", "current-password")


async def show_setup(context: RequestContext) -> Response:
    """Handle ``GET /setup``: show the form for the first account, or 410 for a used link."""
    token = context.query("token")
    if await accounts.is_set_up(context.server, token):
        return _used_link()
    return _setup_page(token)


async def do_setup(context: RequestContext) -> Response:
    """Handle ``POST /setup``: create the first account and sign in.

    If it is refused, show the form with the reason.
    """
    check_site(context.request)
    form = await read_form(context, _MOST)
    token, password = form.one("token"), form.one("password")
    try:
        user = await accounts.set_up(
            context.server, context.request, token, form.one("email"), password
        )
    except Problem as problem:
        return _setup_page(token, problem, form.one("email"))
    return await _enter(context, user, password)


async def _enter(context: RequestContext, user: User, password: str) -> Response:
    """Sign in a user who has just chosen a password. Rate limits apply as for any sign-in."""
    try:
        found = await sign_in(context.server, context.request, user.email, password, user.tenant)
    except Problem as problem:
        return _signin_page(context, "", problem, user.email)
    return _entered(context, found, "/")


def _entered(context: RequestContext, found: SignedIn, way: str) -> Response:
    response = RedirectResponse(way, 303)
    set_cookie(context.request, response, found.opened.secret)
    return response


def _setup_page(token: str, problem: Problem | None = None, email: str = "") -> Response:
    return _form(
        "Set up",
        "This makes the first account: it administers the server and its first tenant.",
        "/setup",
        _hidden("token", token),
        _email(email),
        _NEW,
        button="Make the account",
        problem=problem,
    )


def _used_link() -> Response:
    told = tag("p", "This link is invalid: it was used, or a newer link exists.", role="alert")
    once = tag("p", "Links like this one work once.")
    way = tag("p", link("/signin", "Sign in"), class_="ways")
    return bare("Not any more", once, told, way, status=410)


async def show_invite(context: RequestContext) -> Response:
    """Handle ``GET /invite``: show the form for a password, or 410 for a used link."""
    token = context.query("token")
    user = await accounts.is_invited(context.server, token)
    return _used_link() if user is None else _invite_page(token, user.email)


async def do_invite(context: RequestContext) -> Response:
    """Handle ``POST /invite``: store the password and sign in.

    If it is refused, show the form with the reason.
    """
    check_site(context.request)
    form = await read_form(context, _MOST)
    token, password = form.one("token"), form.one("password")
    user = await accounts.is_invited(context.server, token)
    try:
        user = await accounts.accept_invite(context.server, context.request, token, password)
    except Problem as problem:
        return _invite_page(token, "" if user is None else user.email, problem)
    return await _enter(context, user, password)


def _invite_page(token: str, email: str, problem: Problem | None = None) -> Response:
    """Return the invitation page. ``email`` identifies the account for password managers."""
    return _form(
        "Welcome",
        "Choose a password for your account.",
        "/invite",
        _hidden("token", token),
        tag("label", "E-mail address", for_="email") if email else None,
        tag(
            "input",
            id="email",
            name="email",
            type="email",
            value=email,
            readonly=True,
            autocomplete="username",
        )
        if email
        else None,
        _NEW,
        button="Set the password",
        problem=problem,
    )


async def show_signin(context: RequestContext) -> Response:
    """Handle ``GET /signin``: show the form. ``next`` is the address after the sign-in."""
    return _signin_page(context, context.query("next"))


async def do_signin(context: RequestContext) -> Response:
    """Handle ``POST /signin``: create a session and redirect to ``next`` of this site.

    If it is refused, show the form with the reason.
    """
    check_site(context.request)
    form = await read_form(context, _MOST)
    email, tenant, way = form.one("email"), form.one("tenant"), form.one("next")
    try:
        found = await sign_in(context.server, context.request, email, form.one("password"), tenant)
    except Problem as problem:
        return _signin_page(context, way, problem, email)
    return _entered(context, found, way if _WAY.fullmatch(way) else "/")


def _signin_page(
    context: RequestContext, way: str, problem: Problem | None = None, email: str = ""
) -> Response:
    words = "With the account of this server."
    if way and problem is None:
        words = "Your session has ended, or you were not signed in. Sign in to return to the page."
    return _form(
        "Sign in",
        words,
        "/signin",
        _hidden("next", way) if _WAY.fullmatch(way) else None,
        sign_in_fields(email, problem),
        button="Sign in",
        problem=problem,
        below=_other_way(context),
    )


def _other_way(context: RequestContext) -> Child:
    """Return the link to the OpenID provider, if there is one."""
    if context.server.oidc is None:
        return None
    return tag("p", "Or ", link("/signin/oidc", f"sign in with {issuer_of(context)}"), ".")


def issuer_of(context: RequestContext) -> str:
    """Return the display name of the OpenID provider; empty without a provider."""
    oidc = context.server.oidc
    return "" if oidc is None else urlsplit(oidc.settings.issuer).hostname or "OpenID"


async def show_start(context: RequestContext) -> Response:
    """Handle ``GET /``: redirect to the history, or to sign-in, or explain the missing permission."""
    try:
        principal = await authenticate(context.server, context.request)
    except Problem:
        return RedirectResponse("/signin", 303)
    if has_anywhere(principal.grants, "exchange:read", context.server.now()):
        return RedirectResponse("/exchanges", 303)
    known = RequestContext(context.request, context.server, principal)
    words = f"As {principal.name}, in the tenant {principal.tenant.name}."
    may = "The links above show the pages that you are allowed to use."
    if not principal.grants:
        may = "Nothing was granted to you yet: ask an administrator of the tenant."
    return page(known, "Signed in", tag("p", words), tag("p", may))


async def do_signout(context: RequestContext) -> Response:
    """Handle ``POST /signout``: end the session and redirect to ``/signin``.

    Raises without its token.
    """
    check_site(context.request)
    form = await read_form(context, _MOST)
    principal = await authenticate(context.server, context.request)
    check_token(form.one("csrf"), principal.csrf)
    await sign_out(context.server, context.request, principal)
    response = RedirectResponse("/signin", 303)
    clear_cookie(context.request, response)
    return response

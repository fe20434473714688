"""The pages that a browser needs before there is anything to see: set up, accept an invitation, sign
in and out."""

from __future__ import annotations

from typing import Final

from starlette.responses import RedirectResponse, Response

from reenact.server.asking import Ask
from reenact.server.people import accounts
from reenact.server.people.authenticating import authenticate
from reenact.server.people.csrf import check_site, check_token
from reenact.server.people.forms import Field, page, read_form
from reenact.server.people.passwords import LEAST
from reenact.server.people.sessions import clear_cookie, set_cookie
from reenact.server.people.signing_in import sign_in, sign_out
from reenact.server.problems import Problem
from reenact.server.routing import Endpoint

__all__ = ["ENDPOINTS"]

_EMAIL: Final = Field("email", "E-mail address", "email", "username")
_NEW: Final = Field(
    "password", f"Password (at least {LEAST} characters)", "password", "new-password"
)
_PASSWORD: Final = Field("password", "Password", "password", "current-password")


async def show_setup(ask: Ask) -> Response:
    token = ask.query("token")
    if await accounts.is_set_up(ask.server, token):
        return _used_link()
    return _setup_page(token)


async def do_setup(ask: Ask) -> Response:
    check_site(ask.request)
    form = await read_form(ask)
    token = form.get("token", "")
    try:
        await accounts.set_up(
            ask.server, ask.request, token, form.get("email", ""), form.get("password", "")
        )
    except Problem as problem:
        return _setup_page(token, problem)
    return RedirectResponse("/signin", 303)


def _setup_page(token: str, problem: Problem | None = None) -> Response:
    return page(
        "Set up",
        "This makes the first account: it administers the server and its first tenant.",
        action="/setup",
        fields=(Field("token", value=token), _EMAIL, _NEW),
        button="Make the account",
        problem=problem,
    )


def _used_link() -> Response:
    problem = Problem("gone", "This link is not good: it was used, or there is a newer one")
    return page("Not any more", "Links like this one work once.", problem=problem)


async def show_invite(ask: Ask) -> Response:
    token = ask.query("token")
    user = await accounts.is_invited(ask.server, token)
    return _used_link() if user is None else _invite_page(token)


async def do_invite(ask: Ask) -> Response:
    check_site(ask.request)
    form = await read_form(ask)
    token = form.get("token", "")
    try:
        await accounts.accept_invite(ask.server, ask.request, token, form.get("password", ""))
    except Problem as problem:
        return _invite_page(token, problem)
    return RedirectResponse("/signin", 303)


def _invite_page(token: str, problem: Problem | None = None) -> Response:
    return page(
        "Welcome",
        "Choose a password for your account.",
        action="/invite",
        fields=(Field("token", value=token), _NEW),
        button="Set the password",
        problem=problem,
    )


async def show_signin(ask: Ask) -> Response:
    return _signin_page()


async def do_signin(ask: Ask) -> Response:
    check_site(ask.request)
    form = await read_form(ask)
    email, tenant = form.get("email", ""), form.get("tenant", "")
    try:
        found = await sign_in(ask.server, ask.request, email, form.get("password", ""), tenant)
    except Problem as problem:
        return _signin_page(problem, several="tenants" in problem.details)
    response = RedirectResponse("/", 303)
    set_cookie(ask.request, response, found.opened.secret)
    return response


def _signin_page(problem: Problem | None = None, *, several: bool = False) -> Response:
    which = (Field("tenant", "Tenant", "text", "organization"),) if several else ()
    return page(
        "Sign in",
        "With the account of this server.",
        action="/signin",
        fields=(_EMAIL, _PASSWORD, *which),
        button="Sign in",
        problem=problem,
    )


async def show_start(ask: Ask) -> Response:
    try:
        principal = await authenticate(ask.server, ask.request)
    except Problem:
        return RedirectResponse("/signin", 303)
    return page(
        "Signed in",
        f"As {principal.name}, in the tenant {principal.tenant.name}.",
        action="/signout",
        fields=(Field("csrf", value=principal.csrf),),
        button="Sign out",
    )


async def do_signout(ask: Ask) -> Response:
    check_site(ask.request)
    form = await read_form(ask)
    principal = await authenticate(ask.server, ask.request)
    check_token(form.get("csrf", ""), principal.csrf)
    await sign_out(ask.server, ask.request, principal)
    response = RedirectResponse("/signin", 303)
    clear_cookie(ask.request, response)
    return response


ENDPOINTS: Final = (
    Endpoint("GET", "/", "open", show_start),
    Endpoint("GET", "/setup", "open", show_setup),
    Endpoint("POST", "/setup", "open", do_setup),
    Endpoint("GET", "/invite", "open", show_invite),
    Endpoint("POST", "/invite", "open", do_invite),
    Endpoint("GET", "/signin", "open", show_signin),
    Endpoint("POST", "/signin", "open", do_signin),
    Endpoint("POST", "/signout", "open", do_signout),
)

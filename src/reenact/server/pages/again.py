"""Signing in again in the middle of something, and going on with it."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from reenact.server.asking import Ask
from reenact.server.pages.ended import MOST, Kept, carried, carry, once_more, shown
from reenact.server.pages.entrance import issuer_of, who
from reenact.server.pages.forms import Form, read_form
from reenact.server.pages.markup import Html, link, tag
from reenact.server.pages.shell import alert, bare
from reenact.server.people.authenticating import authenticate, by_session
from reenact.server.people.csrf import check_site
from reenact.server.people.sessions import set_cookie
from reenact.server.people.signing_in import sign_in
from reenact.server.problems import Problem

__all__ = ["do_again", "sign_in_again"]

_MOST: Final = 4 * MOST
"""A form inside a form is longer than it was."""


def sign_in_again(
    ask: Ask, kept: Kept, problem: Problem | None = None, email: str = ""
) -> Response:
    """The answer to a form whose session has ended. It holds what was sent."""
    form = tag(
        "form",
        carry(kept),
        who(email, problem),
        tag("button", "Sign in", class_="main"),
        method="post",
        action="/again",
    )
    headers = {}
    if problem is not None and problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    return bare(
        "Your session has ended",
        tag("p", "Nothing was done. Sign in, and you get back what you typed.", role="status"),
        alert(problem) if problem is not None else None,
        form,
        _elsewhere(ask, kept),
        shown(kept),
        status=401 if problem is None else problem.status,
        headers=headers,
    )


def _elsewhere(ask: Ask, kept: Kept) -> Html | None:
    """With the OpenID provider, where there is one: that leads away, and so it is another window."""
    issuer = issuer_of(ask)
    if not issuer:
        return None
    return tag(
        "form",
        carry(kept),
        tag("p", "Or ", link("/signin/oidc", f"sign in with {issuer}", target="_blank"), "."),
        tag("p", "Then come back to this page: ", tag("button", "Go on")),
        method="post",
        action="/again",
    )


async def do_again(ask: Ask) -> Response:
    """``POST /again``: signs in, or finds that one has signed in elsewhere, and gives back what was
    kept. It does nothing else."""
    check_site(ask.request)
    form = await read_form(ask, _MOST)
    kept = carried(form)
    if kept is None:
        raise Problem("malformed", "there is nothing to go on with")
    try:
        return await _known(ask, form, kept)
    except Problem as problem:
        asked = "email" in dict(form.pairs)
        return sign_in_again(ask, kept, problem if asked else None, form.one("email"))


async def _known(ask: Ask, form: Form, kept: Kept) -> Response:
    server, request = ask.server, ask.request
    if not form.one("email"):
        return once_more(Ask(request, server, await authenticate(server, request)), kept)
    email, password, tenant = (form.one(name) for name in ("email", "password", "tenant"))
    found = await sign_in(server, request, email, password, tenant)
    principal = await by_session(server, request, found.opened.secret)
    response = once_more(Ask(request, server, principal), kept)
    set_cookie(request, response, found.opened.secret)
    return response

"""Sign-in after a session has expired, without losing a submitted form.

The sign-in page carries the fields of the form. After sign-in the user gets them back and can submit them
again; Reenact never submits them automatically. A form from a different site is discarded.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from reenact.server.auth.authentication import authenticate, by_session, check_site, set_cookie
from reenact.server.auth.sign_in import sign_in
from reenact.server.context import RequestContext
from reenact.server.problems import Problem
from reenact.server.runtime import Server
from reenact.server.web.components.formatting import block, facts, folded
from reenact.server.web.components.forms import Form, read_form
from reenact.server.web.components.html import Child, Html, fragment, link, tag
from reenact.server.web.components.layout import alert, bare, csrf, page
from reenact.server.web.sign_in import issuer_of, sign_in_fields

__all__ = [
    "MOST",
    "SavedForm",
    "do_again",
    "read_saved_form",
    "resend_form",
    "resume_page",
    "save_form",
    "saved_fields",
    "saved_summary",
    "sign_in_page",
]

MOST: Final = 1 << 20
"""Bytes of a form that is kept. Anybody can send one."""
_FIELDS: Final = 2_000
_SHOWN: Final = 100
_LONG: Final = 80
_ACTION: Final = re.compile(r"/(?![/\\])[A-Za-z0-9/%._~:@!$&'()*+,;=-]{1,1000}")
"""A place of this server, without a query."""
_REPLAY: Final = re.compile(r"(/exchanges/[^/]+/replay)(?:/preview)?")
_SECRET: Final = "csrf"


class SavedForm(msgspec.Struct, frozen=True):
    """A form that was sent: where to, and what."""

    action: str
    fields: tuple[tuple[str, str], ...]


async def save_form(server: Server, request: Request) -> SavedForm | None:
    """Return the submitted form, or None if it is too large, not a form, or from a different
    site."""
    action = request.scope.get("raw_path", b"").decode("ascii", "replace")
    if not _ACTION.fullmatch(action):
        return None
    try:
        check_site(request)
        form = await read_form(RequestContext(request, server, None), MOST)
    except Problem:
        return None
    return SavedForm(action, tuple(pair for pair in form.pairs if pair[0] != _SECRET))


def saved_fields(kept: SavedForm) -> Html:
    """Return the hidden fields that carry a saved form."""
    return fragment(
        tag("input", type="hidden", name="kept-action", value=kept.action),
        tag("input", type="hidden", name="kept-fields", value=urlencode(kept.fields)),
    )


def read_saved_form(form: Form) -> SavedForm | None:
    """Return the form saved by :func:`saved_fields`, or None."""
    action, text = form.one("kept-action"), form.one("kept-fields")
    if not _ACTION.fullmatch(action):
        return None
    try:
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS)
    except ValueError:
        return None
    return SavedForm(action, tuple(pair for pair in fields if pair[0] != _SECRET))


def saved_summary(kept: SavedForm) -> Html:
    """Render the submitted fields."""
    rows: list[tuple[str, Child]] = [
        (name, _text(said)) for name, said in kept.fields if said and name != "once"
    ]
    return folded("What you sent", facts(rows[:_SHOWN]))


def _text(said: str) -> Html:
    """Show a text as it was typed."""
    return block(said) if "\n" in said or len(said) > _LONG else tag("code", said)


def resume_page(context: RequestContext, kept: SavedForm) -> Response:
    """Return the page with the saved form after sign-in."""
    replay = _REPLAY.fullmatch(kept.action)
    words = "You are signed in, and nothing was sent yet."
    return page(
        context,
        "Where you were",
        tag("p", words, role="status"),
        resend_form(context, kept, "Back to the form" if replay else "Send it now"),
        saved_summary(kept),
    )


def resend_form(context: RequestContext, kept: SavedForm, button: str) -> Html:
    """Return the saved form with the CSRF token of this session.

    A replay form leads to its preview.
    """
    replay = _REPLAY.fullmatch(kept.action)
    return tag(
        "form",
        csrf(context),
        *(tag("input", type="hidden", name=name, value=said) for name, said in kept.fields),
        tag("button", button, class_="main"),
        method="post",
        action=f"{replay[1]}/preview" if replay else kept.action,
        data_goes_on="yes" if replay else None,
    )


_MOST: Final = 4 * MOST
"""A form inside a form is longer than it was."""


def sign_in_page(
    context: RequestContext, kept: SavedForm, problem: Problem | None = None, email: str = ""
) -> Response:
    """Return the response to a form whose session has ended. It contains the sent data."""
    form = tag(
        "form",
        saved_fields(kept),
        sign_in_fields(email, problem),
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
        _elsewhere(context, kept),
        saved_summary(kept),
        status=401 if problem is None else problem.status,
        headers=headers,
    )


def _elsewhere(context: RequestContext, kept: SavedForm) -> Html | None:
    """Return the sign-in with the OpenID provider, if there is one.

    It opens a new window, because it leaves the page.
    """
    issuer = issuer_of(context)
    if not issuer:
        return None
    return tag(
        "form",
        saved_fields(kept),
        tag("p", "Or ", link("/signin/oidc", f"sign in with {issuer}", target="_blank"), "."),
        tag("p", "Then come back to this page: ", tag("button", "Go on")),
        method="post",
        action="/again",
    )


async def do_again(context: RequestContext) -> Response:
    """Handle ``POST /again``: sign in, or detect a sign-in in a different window, and return the
    saved form. It does nothing else."""
    check_site(context.request)
    form = await read_form(context, _MOST)
    kept = read_saved_form(form)
    if kept is None:
        raise Problem("malformed", "the form has no saved content")
    try:
        return await _known(context, form, kept)
    except Problem as problem:
        asked = "email" in dict(form.pairs)
        return sign_in_page(context, kept, problem if asked else None, form.one("email"))


async def _known(context: RequestContext, form: Form, kept: SavedForm) -> Response:
    server, request = context.server, context.request
    if not form.one("email"):
        return resume_page(
            RequestContext(request, server, await authenticate(server, request)), kept
        )
    email, password, tenant = (form.one(name) for name in ("email", "password", "tenant"))
    found = await sign_in(server, request, email, password, tenant)
    principal = await by_session(server, request, found.opened.secret)
    response = resume_page(RequestContext(request, server, principal), kept)
    set_cookie(request, response, found.opened.secret)
    return response

"""To the OpenID provider, and back from it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from reenact.server.asking import Ask
from reenact.server.oidc import attempt as attempts
from reenact.server.oidc.provider import Metadata, Provider
from reenact.server.oidc.signing_in import count_attempt, forgive_attempt, identify, sign_in_as
from reenact.server.people.accounts import address_here
from reenact.server.people.sessions import set_cookie
from reenact.server.problems import Problem
from reenact.server.routing import Endpoint
from reenact.server.storage import platform
from reenact.server.web.components.html import link, tag
from reenact.server.web.components.layout import alert, bare

__all__ = ["ENDPOINTS"]

_START: Final = "/signin/oidc"
_BACK: Final = "/signin/oidc/callback"
_SCOPE: Final = "openid email"
_TENANT: Final = re.compile(r"[A-Za-z0-9._~:@-]{0,128}")
_LONGEST: Final = 4_096


async def go_there(ask: Ask) -> Response:
    """A new attempt, and on to the provider."""
    try:
        provider = _provider(ask)
        tenant = await _tenant(ask)
        metadata = await provider.metadata()
        attempt = attempts.begin(ask.server.secret(32), ask.server.now(), tenant)
        asked = {
            "response_type": "code",
            "client_id": provider.settings.client_id,
            "redirect_uri": _redirect(ask),
            "scope": _SCOPE,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
    except Problem as problem:
        return _told(problem)
    joint = "&" if "?" in metadata.authorization_endpoint else "?"
    response = RedirectResponse(f"{metadata.authorization_endpoint}{joint}{urlencode(asked)}", 303)
    attempts.remember(ask.request, response, attempt)
    return response


async def _tenant(ask: Ask) -> str:
    """Return the id of the tenant that the address names, empty for none. Raises
    :class:`Problem`."""
    text = ask.query("tenant")
    if not text or _TENANT.fullmatch(text):
        return text
    async with ask.server.database.platform() as transaction:
        found = await platform.tenant_ids(transaction, text)
    if len(found) != 1:
        raise Problem("invalid", "there is no such tenant", field="tenant")
    return next(iter(found))


async def come_back(ask: Ask) -> Response:
    """The attempt ends here, whatever came of it."""
    try:
        response = await _finish(ask)
    except Problem as problem:
        response = _told(problem)
    attempts.forget(ask.request, response)
    return response


async def _finish(ask: Ask) -> Response:
    server, request, provider = ask.server, ask.request, _provider(ask)
    attempt = attempts.read(request, server.now())
    if attempt is None or not attempt.owns(_one(ask, "state")):
        raise Problem(
            "csrf_failed",
            "this browser began no such sign-in, or too long ago",
            hint="begin again on the sign-in page",
        )
    await count_attempt(server, request)
    metadata = await provider.metadata()
    _check_issuer(ask, metadata)
    code = _one(ask, "code")
    if not code or len(code) > _LONGEST:
        raise Problem("credentials_wrong", "the provider did not sign anybody in")
    identity = await identify(server, provider, attempt, code, _redirect(ask))
    opened = await sign_in_as(server, request, provider, attempt, identity)
    await forgive_attempt(server, request)
    response = RedirectResponse("/", 303)
    set_cookie(request, response, opened.secret)
    return response


def _provider(ask: Ask) -> Provider:
    if ask.server.oidc is None:
        raise Problem("not_found", "this server has no OpenID provider", hint="use a password")
    return ask.server.oidc


def _one(ask: Ask, name: str) -> str:
    """A parameter that is there at most once."""
    found = ask.request.query_params.getlist(name)
    if len(found) > 1:
        raise Problem("malformed", f"{name} is there more than once")
    return found[0] if found else ""


def _check_issuer(ask: Ask, metadata: Metadata) -> None:
    """RFC 9207: an answer of another provider is not ours."""
    issuer = _one(ask, "iss")
    if issuer and issuer != metadata.issuer:
        raise Problem("credentials_wrong", "this answer is of another provider")
    if not issuer and metadata.authorization_response_iss_parameter_supported:
        raise Problem("credentials_wrong", "this answer does not say which provider it is of")


def _redirect(ask: Ask) -> str:
    """Where the provider sends browsers back to; it knows our address, and takes no other."""
    here = address_here(ask.server, ask.request)
    if not here:
        raise Problem(
            "unavailable",
            "this server does not know the address under which browsers reach it",
            hint="start it with --public-url",
        )
    return f"{here}{_BACK}"


def _told(problem: Problem) -> Response:
    headers = {} if problem.retry_after is None else {"Retry-After": str(problem.retry_after)}
    return bare(
        "Not signed in",
        alert(problem),
        tag("p", link("/signin", "Back to the sign-in page")),
        status=problem.status,
        headers=headers,
    )


ENDPOINTS: Final = (
    Endpoint("GET", _START, "open", go_there, page=True),
    Endpoint("GET", _BACK, "open", come_back, page=True),
)

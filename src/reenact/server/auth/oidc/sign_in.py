"""Sign-in through an OpenID provider: the two endpoints, the attempt cookie, the account lookup.

Signing in creates no account: the user must have been invited. The account is found by the e-mail
address that the provider has verified, and is then bound to that subject of that issuer.

An attempt belongs to the browser that began it. A cookie holds a secret from which state, nonce and the
PKCE verifier are derived, so the server stores nothing and a code is useless in a different browser.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from reenact.audit.record import Actor, Record, Subject
from reenact.server.auth.authentication import (
    Opened,
    address_of,
    agent_header_of,
    cookie_of,
    is_secure,
    open_session,
    set_cookie,
)
from reenact.server.auth.credentials import hash_secret, session_name
from reenact.server.auth.oidc import sign_in as attempts
from reenact.server.auth.oidc.provider import Metadata, Provider
from reenact.server.auth.oidc.tokens import (
    Expected,
    Identity,
    TokenRefused,
    check_id_token,
    identity_of,
)
from reenact.server.auth.sign_in import ADDRESS, after_failure, check_wait
from reenact.server.context import RequestContext
from reenact.server.endpoint import Endpoint
from reenact.server.people.accounts import address_here, plain_email
from reenact.server.problems import Problem
from reenact.server.runtime import Server
from reenact.server.storage import people, platform
from reenact.server.storage.database import Platform
from reenact.server.storage.people import User
from reenact.server.web.components.html import link, tag
from reenact.server.web.components.layout import alert, bare

__all__ = [
    "ENDPOINTS",
    "Attempt",
    "begin",
    "count_attempt",
    "forget",
    "forgive_attempt",
    "identify",
    "read",
    "remember",
    "sign_in_as",
]

_START: Final = "/signin/oidc"
_BACK: Final = "/signin/oidc/callback"
_SCOPE: Final = "openid email"
_TENANT: Final = re.compile(r"[A-Za-z0-9._~:@-]{0,128}")
_LONGEST: Final = 4_096


async def go_there(context: RequestContext) -> Response:
    """A new attempt, and on to the provider."""
    try:
        provider = _provider(context)
        tenant = await _tenant(context)
        metadata = await provider.metadata()
        attempt = attempts.begin(context.server.secret(32), context.server.now(), tenant)
        asked = {
            "response_type": "code",
            "client_id": provider.settings.client_id,
            "redirect_uri": _redirect(context),
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
    attempts.remember(context.request, response, attempt)
    return response


async def _tenant(context: RequestContext) -> str:
    """Return the id of the tenant that the address names, empty for none. Raises
    :class:`Problem`."""
    text = context.query("tenant")
    if not text or _TENANT.fullmatch(text):
        return text
    async with context.server.database.platform() as transaction:
        found = await platform.tenant_ids(transaction, text)
    if len(found) != 1:
        raise Problem("invalid", "there is no such tenant", field="tenant")
    return next(iter(found))


async def come_back(context: RequestContext) -> Response:
    """Handle the redirect from the provider. The attempt ends in any case."""
    try:
        response = await _finish(context)
    except Problem as problem:
        response = _told(problem)
    attempts.forget(context.request, response)
    return response


async def _finish(context: RequestContext) -> Response:
    server, request, provider = context.server, context.request, _provider(context)
    attempt = attempts.read(request, server.now())
    if attempt is None or not attempt.owns(_one(context, "state")):
        raise Problem(
            "csrf_failed",
            "this browser began no such sign-in, or too long ago",
            hint="begin again on the sign-in page",
        )
    await count_attempt(server, request)
    metadata = await provider.metadata()
    _check_issuer(context, metadata)
    code = _one(context, "code")
    if not code or len(code) > _LONGEST:
        raise Problem("credentials_wrong", "the provider did not sign anybody in")
    identity = await identify(server, provider, attempt, code, _redirect(context))
    opened = await sign_in_as(server, request, provider, attempt, identity)
    await forgive_attempt(server, request)
    response = RedirectResponse("/", 303)
    set_cookie(request, response, opened.secret)
    return response


def _provider(context: RequestContext) -> Provider:
    if context.server.oidc is None:
        raise Problem("not_found", "this server has no OpenID provider", hint="use a password")
    return context.server.oidc


def _one(context: RequestContext, name: str) -> str:
    """A parameter that is there at most once."""
    found = context.request.query_params.getlist(name)
    if len(found) > 1:
        raise Problem("malformed", f"{name} occurs more than once")
    return found[0] if found else ""


def _check_issuer(context: RequestContext, metadata: Metadata) -> None:
    """RFC 9207: an answer of another provider is not ours."""
    issuer = _one(context, "iss")
    if issuer and issuer != metadata.issuer:
        raise Problem("credentials_wrong", "this answer is of another provider")
    if not issuer and metadata.authorization_response_iss_parameter_supported:
        raise Problem("credentials_wrong", "this answer does not say which provider it is of")


def _redirect(context: RequestContext) -> str:
    """Return the redirect address, which must be registered with the provider."""
    here = address_here(context)
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


async def identify(
    server: Server, provider: Provider, attempt: Attempt, code: str, redirect: str
) -> Identity:
    """Return the identity behind a code. Raises :class:`Problem`."""
    try:
        given = await provider.redeem(code, attempt.verifier, redirect)
        keys = await provider.keys(given.id_token)
        settings = provider.settings
        expected = Expected(settings.issuer, settings.client_id, attempt.nonce, server.now() / 1000)
        claims = dict(check_id_token(given.id_token, keys, expected))
        identity = identity_of(claims)
        if identity.email or "email" in claims:
            return identity
        more = await provider.userinfo(given.access_token)
        if more and more.get("sub") != identity.subject:
            raise TokenRefused("the user info belongs to a different user")
        return identity_of({**more, "sub": identity.subject})
    except TokenRefused as error:
        raise _refused(f"invalid response from the provider: {error}") from None


async def sign_in_as(
    server: Server, request: Request, provider: Provider, attempt: Attempt, identity: Identity
) -> Opened:
    """Open a session for the account of an identity. Raises :class:`Problem`."""
    if not identity.email:
        raise _refused("the provider sent no verified e-mail address")
    tenant = provider.settings.tenant or attempt.tenant
    async with server.database.platform(write=True) as transaction:
        users = await platform.users_by_email(transaction, plain_email(identity.email))
        if tenant:
            wanted = await platform.tenant_ids(transaction, tenant)
            users = [one for one in users if one.tenant in wanted]
        user = _only(users)
        same = await _is_same(server, transaction, provider.settings.issuer, user, identity)
        if same:
            opened = await open_session(server, transaction, user, cookie_of(request))
            actor = _actor(request, "user", user.id, session_name(opened.hash))
            record = Record(tenant=user.tenant, actor=actor, action="session.opened", outcome="ok")
        else:
            record = Record(
                tenant=user.tenant,
                actor=_actor(request, "system", "sign-in", ""),
                action="session.refused",
                subject=Subject("user", user.id),
                code="credentials_wrong",
                outcome="denied",
            )
        await server.auditor.write(transaction.scope(user.tenant), record)
    if not same:
        raise _refused(
            "this address belonged to a different user of the provider when the account was first used",
            hint="ask a tenant administrator to remove the account and invite you again",
        )
    return opened


async def _is_same(
    server: Server, transaction: Platform, issuer: str, user: User, identity: Identity
) -> bool:
    """Is it the one who has always been? The first one is."""
    scope = transaction.scope(user.tenant)
    known = await people.subject_of(scope, user.id, issuer)
    if not known:
        await people.link_identity(scope, user.id, issuer, identity.subject, server.now())
    return known in ("", identity.subject)


def _only(users: list[User]) -> User:
    if not users:
        raise _refused(
            "no account has this address",
            hint="ask a tenant administrator to invite you",
        )
    if len(users) > 1:
        raise Problem(
            "invalid",
            "there are accounts of this name in several tenants",
            hint=f"begin at /signin/oidc?tenant= and one of {', '.join(one.tenant for one in users)}",
        )
    return users[0]


def _actor(request: Request, kind: str, who: str, credential: str) -> Actor:
    return Actor(kind, who, "oidc", credential, address_of(request), agent_header_of(request))


def _refused(why: str, hint: str = "") -> Problem:
    return Problem("credentials_wrong", why, hint=hint)


async def count_attempt(server: Server, request: Request) -> None:
    """Attempts count before anything is asked of the provider. Raises :class:`Problem`."""
    key, now = _address(request), server.now()
    async with server.database.platform(write=True) as transaction:
        before = await platform.attempts(transaction, key)
        check_wait(before, ADDRESS, now)
        await platform.note_attempt(transaction, key, after_failure(before, ADDRESS, now))


async def forgive_attempt(server: Server, request: Request) -> None:
    """It was a good one."""
    key = _address(request)
    async with server.database.platform(write=True) as transaction:
        before = await platform.attempts(transaction, key)
        less = platform.Attempts(max(0, before.failures - 1), server.now())
        await platform.note_attempt(transaction, key, less)


def _address(request: Request) -> str:
    return hash_secret(f"address:{address_of(request)}")


_SECURE: Final = "__Host-reenact-oidc"
_PLAIN: Final = "reenact-oidc"
_SECONDS: Final = 600
_SHAPE: Final = re.compile(
    r"(?P<at>[0-9]{1,15})\.(?P<secret>[0-9a-f]{64})\.(?P<tenant>[A-Za-z0-9._~:@-]{0,128})"
)


class Attempt(msgspec.Struct, frozen=True):
    """``at`` is when it began, in milliseconds; ``tenant`` the one that was asked for."""

    at: int
    secret: str
    tenant: str = ""

    def __repr__(self) -> str:
        return "Attempt()"

    @property
    def state(self) -> str:
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        """PKCE challenge for ``S256``."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()

    def _derived(self, what: str) -> str:
        return hmac.new(bytes.fromhex(self.secret), what.encode(), hashlib.sha256).hexdigest()

    def owns(self, state: str) -> bool:
        """Is it the state of this browser?"""
        return hmac.compare_digest(state.encode("utf-8", "surrogatepass"), self.state.encode())


def begin(secret: bytes, now: int, tenant: str = "") -> Attempt:
    """``secret`` are 32 random bytes."""
    return Attempt(now, secret.hex(), tenant)


def _name(request: Request) -> str:
    return _SECURE if is_secure(request) else _PLAIN


def remember(request: Request, response: Response, attempt: Attempt) -> None:
    """Put ``attempt`` into a cookie of ten minutes."""
    response.set_cookie(
        _name(request),
        f"{attempt.at}.{attempt.secret}.{attempt.tenant}",
        max_age=_SECONDS,
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="lax",
    )


def read(request: Request, now: int) -> Attempt | None:
    """That of this browser; None where it began none, or too long ago."""
    found = _SHAPE.fullmatch(request.cookies.get(_name(request), ""))
    if found is None or not 0 <= now - int(found["at"]) < _SECONDS * 1000:
        return None
    return Attempt(int(found["at"]), found["secret"], found["tenant"])


def forget(request: Request, response: Response) -> None:
    """The answer makes the browser forget its attempt."""
    response.delete_cookie(
        _name(request), path="/", secure=is_secure(request), httponly=True, samesite="lax"
    )

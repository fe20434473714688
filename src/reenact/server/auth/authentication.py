"""Authentication of requests by key or session cookie, and protection against forged requests.

Credentials are looked up with every request, so a revocation takes effect immediately. A session is a
secret in a cookie; the database has its hash.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from reenact.server.auth.credentials import (
    SECRET_SIZE,
    csrf_of,
    fits,
    hash_secret,
    read_key,
    session_name,
)
from reenact.server.auth.permissions import AGENT_KEY, Grant
from reenact.server.problems import Problem
from reenact.server.runtime import Principal, Server
from reenact.server.storage import people, platform
from reenact.server.storage.database import Platform
from reenact.server.storage.people import Key, User

__all__ = [
    "SAFE",
    "Opened",
    "address_of",
    "agent_header_of",
    "authenticate",
    "by_session",
    "check_origin",
    "check_site",
    "check_token",
    "clear_cookie",
    "cookie_of",
    "is_secure",
    "open_session",
    "set_cookie",
]

_SEEN: Final = 60_000
"""Milliseconds within which a further use is not noted down."""
_AHEAD: Final = 60_000
"""Milliseconds by which the clocks of several servers may differ."""
_LONGEST: Final = 200


async def authenticate(server: Server, request: Request) -> Principal:
    """Raises :class:`Problem` unless the request has a credential that is good now."""
    given = request.headers.getlist("authorization")
    if len(given) > 1:
        raise Problem("malformed", "there is more than one Authorization header")
    if given:
        return await _by_key(server, request, given[0])
    secret = cookie_of(request)
    if not secret:
        raise Problem("unauthenticated", "this needs a key or a session", hint="reenact login")
    return await by_session(server, request, secret)


def check_origin(request: Request, principal: Principal) -> None:
    """Raises :class:`Problem` for what changes something, has come with a cookie, and may be another
    site's."""
    if principal.auth == "session" and request.method not in SAFE:
        check_site(request)
        check_token(request.headers.get("x-csrf-token", ""), principal.csrf)


async def _by_key(server: Server, request: Request, header: str) -> Principal:
    scheme, _, text = header.partition(" ")
    given = read_key(text.strip()) if scheme.lower() == "bearer" else None
    if given is None:
        raise _bad_key()
    now = server.now()
    async with server.database.platform() as transaction:
        key = await platform.key_by_id(transaction, given.id)
        if key is None or not fits(given.secret, key.hash) or key.kind != given.kind:
            raise _bad_key()
        if not key.is_good(now):
            raise Problem(
                "unauthenticated",
                "this key was revoked, or has expired",
                hint="ask a tenant administrator for a new one",
                command="reenact key add",
            )
        principal = await _holder(transaction, request, key)
    if now - key.last_used_at > _SEEN:
        await _note(server, lambda transaction: platform.touch_key(transaction, key.id, now))
    return principal


async def _note(server: Server, touch: Callable[[Platform], Awaitable[None]]) -> None:
    """Record the use of a credential. A full disk does not prevent reading."""
    try:
        async with server.database.platform(write=True) as transaction:
            await touch(transaction)
    except Problem as problem:
        if problem.code != "storage_full":
            raise


async def _holder(transaction: Platform, request: Request, key: Key) -> Principal:
    tenant = await platform.tenant_by_id(transaction, key.tenant)
    scope = transaction.scope(key.tenant)
    if tenant is None:
        raise _bad_key()
    kind: Literal["agent", "key", "user"] = "agent" if key.kind == "agent" else "key"
    holder, name = key.id, key.name
    if key.kind == "agent":
        grants: tuple[Grant, ...] = (Grant(AGENT_KEY),)
    elif key.owner:
        user = await people.find_user(scope, id=key.owner)
        if user is None:
            raise _bad_key()
        kind, holder, name = "user", user.id, user.email
        grants = await people.grants_of(scope, "user", user.id)
    else:
        grants = await people.grants_of(scope, "key", key.id)
    return Principal(
        type=kind,
        id=holder,
        name=name,
        tenant=tenant,
        grants=grants,
        auth="key",
        credential=key.id,
        app=key.app,
        environment=key.environment,
        ip=address_of(request),
        agent_header=agent_header_of(request),
    )


async def by_session(server: Server, request: Request, secret: str) -> Principal:
    """Whose session it is. Raises :class:`Problem` for one that has ended."""
    now, kept = server.now(), hash_secret(secret)
    async with server.database.platform() as transaction:
        session = await platform.session_by_hash(transaction, kept)
        if session is None or not _is_good(server, session, now):
            raise Problem("session_expired", "this session has ended", hint="sign in again")
        tenant = await platform.tenant_by_id(transaction, session.tenant)
        scope = transaction.scope(session.tenant)
        user = await people.find_user(scope, id=session.user_id)
        if tenant is None or user is None:
            raise Problem(
                "session_expired",
                "this account was deleted",
                hint="sign in with a different account",
            )
        grants = await people.grants_of(scope, "user", user.id)
    if now - session.last_seen_at > _SEEN:
        await _note(server, lambda transaction: platform.touch_session(transaction, kept, now))
    return Principal(
        type="user",
        id=user.id,
        name=user.email,
        tenant=tenant,
        grants=grants,
        auth="session",
        credential=session_name(kept),
        csrf=csrf_of(secret),
        ip=address_of(request),
        agent_header=agent_header_of(request),
    )


def _is_good(server: Server, session: platform.Session, now: int) -> bool:
    """One that was opened when the clock was ahead would last longer than any may."""
    idle = now - session.last_seen_at >= server.timings.session_idle * 1000
    return not idle and session.created_at - _AHEAD <= now < session.expires_at


def _bad_key() -> Problem:
    return Problem("unauthenticated", "this key is not known", hint="reenact login")


def address_of(request: Request) -> str:
    """Return the client address of a request."""
    return request.client.host if request.client is not None else ""


def agent_header_of(request: Request) -> str:
    """The User-Agent, as much of it as anybody needs."""
    return request.headers.get("user-agent", "")[:_LONGEST]


SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def check_site(request: Request) -> None:
    """Raise :class:`Problem` if the browser reports that a different site sent the request.

    A client without these headers is not a browser, and has no cookies to abuse.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise _failed("the request comes from a different site")
        return
    origin = request.headers.get("origin")
    if origin is not None and not _is_same(origin, request.headers.get("host", "")):
        raise _failed("the request comes from a different site")


def _is_same(origin: str, host: str) -> bool:
    try:
        return bool(host) and urlsplit(origin).netloc == host
    except ValueError:
        return False


def check_token(given: str, expected: str) -> None:
    """Raises :class:`Problem` unless the session's token came along."""
    if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode()):
        raise _failed("the token of the session is missing or belongs to a different session")


def _failed(why: str) -> Problem:
    return Problem("csrf_failed", why, hint="send X-CSRF-Token, from GET /api/v1/session")


_SECURE: Final = "__Host-reenact"
_PLAIN: Final = "reenact"
"""On plain HTTP, which is for the own machine only: browsers take no ``__Host-`` cookie there."""


class Opened(msgspec.Struct, frozen=True):
    """A new session. ``secret`` goes into the cookie, ``csrf`` into its requests."""

    secret: str
    csrf: str
    hash: str

    def __repr__(self) -> str:
        return "Opened()"


async def open_session(server: Server, transaction: Platform, user: User, before: str) -> Opened:
    """A new session; the one that the browser had ``before`` ends."""
    if before:
        await platform.close_session(transaction, hash_secret(before))
    now = server.now()
    secret = server.secret(SECRET_SIZE).hex()
    session = platform.Session(
        tenant=user.tenant,
        hash=hash_secret(secret),
        user_id=user.id,
        created_at=now,
        last_seen_at=now,
        expires_at=now + int(server.timings.session_longest * 1000),
    )
    await platform.add_session(transaction, session, now)
    return Opened(secret, csrf_of(secret), session.hash)


def is_secure(request: Request) -> bool:
    """Return whether the request came over TLS, as far as the server can see."""
    return bool(request.scope["scheme"] == "https")


def _name(request: Request) -> str:
    return _SECURE if is_secure(request) else _PLAIN


def cookie_of(request: Request) -> str:
    """The secret that the browser has; empty for none."""
    return request.cookies.get(_name(request), "")


def set_cookie(request: Request, response: Response, secret: str) -> None:
    """For as long as the browser is open, at most."""
    response.set_cookie(
        _name(request), secret, path="/", secure=is_secure(request), httponly=True, samesite="lax"
    )


def clear_cookie(request: Request, response: Response) -> None:
    """The answer makes the browser forget the session; the session itself stays."""
    response.delete_cookie(
        _name(request), path="/", secure=is_secure(request), httponly=True, samesite="lax"
    )

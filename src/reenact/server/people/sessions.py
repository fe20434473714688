"""Sessions of people: a secret in a cookie, its hash in the database."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from reenact.server.people.credentials import SECRET_SIZE, csrf_of, hash_secret
from reenact.server.ports import Server
from reenact.server.storage import platform
from reenact.server.storage.database import Platform
from reenact.server.storage.people_rows import User

__all__ = ["Opened", "clear_cookie", "cookie_of", "is_secure", "open_session", "set_cookie"]

_SECURE: Final = "__Host-reenact"
_PLAIN: Final = "reenact"
"""On plain HTTP, which is for the own machine only: browsers take no ``__Host-`` cookie there."""


class Opened(msgspec.Struct, frozen=True):
    """``secret`` goes into the cookie, ``csrf`` to whoever sends requests with it."""

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
    """Does it come over TLS, as far as the server knows?"""
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

"""One attempt to sign in, which belongs to the browser that began it.

A cookie holds a secret; state, nonce and the verifier of PKCE follow from it. So nothing is kept
here, and a code that was meant for one browser is of no use in another one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from reenact.server.people.sessions import is_secure

__all__ = ["Attempt", "begin", "forget", "read", "remember"]

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
        """What goes with ``S256``."""
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

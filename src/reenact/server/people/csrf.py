"""Requests that a browser sends because another site told it to."""

from __future__ import annotations

import hmac
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from reenact.server.problems import Problem

__all__ = ["SAFE", "check_site", "check_token"]

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def check_site(request: Request) -> None:
    """Raises :class:`Problem` when the browser says that the request is another site's.

    What says nothing is no browser: it has no cookies of anybody either.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise _failed("another site asked for this")
        return
    origin = request.headers.get("origin")
    if origin is not None and not _is_same(origin, request.headers.get("host", "")):
        raise _failed("another site asked for this")


def _is_same(origin: str, host: str) -> bool:
    try:
        return bool(host) and urlsplit(origin).netloc == host
    except ValueError:
        return False


def check_token(given: str, expected: str) -> None:
    """Raises :class:`Problem` unless the session's token came along."""
    if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode()):
        raise _failed("the token of the session is missing, or is another one's")


def _failed(why: str) -> Problem:
    return Problem("csrf_failed", why, hint="send X-CSRF-Token, from GET /api/v1/session")

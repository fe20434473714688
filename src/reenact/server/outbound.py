"""What the server asks of others: over the standard library, TLS verified, no redirects, no proxies,
an end in time and in size. An answer is whatever came; that it is a good one is for who asked."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from reenact._system import monotonic
from reenact.errors import UsageError

__all__ = ["Answer", "Unreachable", "ask", "check_url"]

_LOCAL: Final = ("127.0.0.1", "::1", "localhost")
_PIECE: Final = 1 << 16


class Answer(msgspec.Struct, frozen=True):
    """Names of headers are in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes


class Unreachable(Exception):
    """No answer came, or too much of one. Says why, without what was sent."""


def check_url(url: str, what: str) -> str:
    """``url``, if it can be asked. Plain HTTP is for the own machine. Raises :class:`UsageError`."""
    try:
        parts = urlsplit(url)
        sound = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise _no_url(what, "it cannot be read") from None
    if not sound or parts.scheme not in ("http", "https"):
        raise _no_url(what, "it has to begin with https:// and a host")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise _no_url(what, "it has a name, a password or a fragment in it")
    if not url.isascii() or any(letter <= " " for letter in url):
        raise _no_url(what, "it has letters in it that no address has")
    if parts.scheme == "http" and parts.hostname not in _LOCAL:
        raise _no_url(what, "plain HTTP is for this machine only")
    return url


def _no_url(what: str, why: str) -> UsageError:
    return UsageError(f"{what} is no address: {why}", hint="for example https://host.example/path")


def ask(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes = b"",
    most: int = 1 << 20,
    seconds: float = 10.0,
) -> Answer:
    """Blocks. ``url`` is one that :func:`check_url` has let through. ``most`` is of the answer, in
    bytes. Raises :class:`Unreachable`."""
    parts = urlsplit(url)
    until = monotonic() + seconds
    connection = _connection(parts, seconds)
    path = parts.path or "/"
    try:
        connection.request(
            method, f"{path}?{parts.query}" if parts.query else path, body or None, dict(headers)
        )
        with connection.getresponse() as response:
            return _read(response, most, until)
    except (OSError, HTTPException, ValueError) as error:
        raise Unreachable(f"{parts.hostname}: {type(error).__name__}") from None
    finally:
        connection.close()


def _connection(parts: SplitResult, seconds: float) -> HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return HTTPSConnection(host, parts.port, timeout=seconds, context=context)
    return HTTPConnection(host, parts.port, timeout=seconds)


def _read(response: HTTPResponse, most: int, until: float) -> Answer:
    pieces, size = [], 0
    while piece := response.read1(_PIECE):
        size += len(piece)
        if size > most:
            raise Unreachable(f"the answer has more than {most} bytes")
        if monotonic() > until:
            raise Unreachable("the answer takes too long")
        pieces.append(piece)
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, headers, b"".join(pieces))

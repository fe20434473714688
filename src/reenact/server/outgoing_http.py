"""Requests of the server to other servers: the identity provider and telemetry targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from reenact._net.client import HttpClient, Response, Unreachable
from reenact.errors import UsageError

__all__ = ["Response", "Unreachable", "check_url", "send_request"]

_LOCAL: Final = ("127.0.0.1", "::1", "localhost")


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
        raise _no_url(what, "it has characters that are not allowed in an address")
    if parts.scheme == "http" and parts.hostname not in _LOCAL:
        raise _no_url(what, "plain HTTP is allowed only for this machine")
    return url


def _no_url(what: str, why: str) -> UsageError:
    return UsageError(
        f"{what} is not a valid address: {why}", hint="for example https://host.example/path"
    )


def send_request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes = b"",
    most: int = 1 << 20,
    seconds: float = 10.0,
) -> Response:
    """Send a request to a ``url`` that :func:`check_url` has accepted, and wait for the response of at
    most ``most`` bytes. Raises :class:`Unreachable`."""
    client = HttpClient(connect_seconds=seconds)
    try:
        return client.request(
            method, url, headers=headers, body=body or None, most=most, seconds=seconds
        )
    except Unreachable as error:
        raise Unreachable(f"{urlsplit(url).hostname}: {error}") from None

"""Address of a server and the API key for it, validated before a request is sent."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from reenact.errors import UsageError

__all__ = ["Address", "Secret", "parse_address"]

_KEY = re.compile(r"[!-~]{8,512}")


class Secret:
    """API key that does not show its text in tracebacks."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not _KEY.fullmatch(text):
            raise UsageError(
                "invalid app agent key: it has spaces, is too short, or is not ASCII text",
                hint="create a key with reenact key add, and copy it completely",
            )
        self._text = text

    def __repr__(self) -> str:
        return "Secret(…)"

    def reveal(self) -> str:
        """Return the text of the key, for the header of a request."""
        return self._text

    def __reduce__(self) -> tuple[type, tuple[str]]:
        raise TypeError("a key is not pickled")


class Address(msgspec.Struct, frozen=True):
    """Address of a server. ``prefix`` is the path before ``/api``, without a final slash."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    prefix: str = ""

    @property
    def is_private(self) -> bool:
        """True if the connection is encrypted or stays on this machine."""
        return self.scheme == "https" or self.host in ("localhost", "127.0.0.1", "::1")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def parse_address(url: str) -> Address:
    """Parse the URL of a server. Raises :class:`UsageError`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _no_address("it cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _no_address("it has to begin with https:// (or http://) and a host")
    if parts.username is not None or parts.password is not None:
        raise _no_address("it holds a name or a password")
    if parts.query or parts.fragment:
        raise _no_address("it has a query or a fragment")
    scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
    usual = 443 if scheme == "https" else 80
    return Address(scheme, parts.hostname, port or usual, parts.path.rstrip("/"))


def _no_address(why: str) -> UsageError:
    """Return an error without the URL, which can contain a password."""
    return UsageError(
        f"not the address of a Reenact server: {why}", hint="for example https://reenact.example"
    )

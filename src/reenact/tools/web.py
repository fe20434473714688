"""HTTP for the ready-made tools: within limits, to public addresses, redirect by redirect.

Made of ``http.client``, which needs nothing installed and lets us choose the address that is
connected to: the one that was looked at, whatever a name server says a moment later. Proxies of the
environment are not used, since what they connect to cannot be looked at.
"""

from __future__ import annotations

import http.client
from base64 import b64encode
from collections.abc import Mapping
from contextlib import closing
from typing import Final
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import msgspec

from reenact._system import monotonic
from reenact.errors import WebFailed
from reenact.policy.net import keeps_credentials
from reenact.tools.inflating import inflated
from reenact.tools.reach import LIMITS, Limits, connection

__all__ = ["Answer", "send"]

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_KEEPING: Final = frozenset({307, 308})
_PIECE: Final = 65_536
_AGENT: Final = "Mozilla/5.0 (compatible; reenact)"
_SECRET: Final = frozenset(
    {"authorization", "cookie", "proxy-authorization", "x-subscription-token"}
)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back. ``body`` is decoded, and cut at the limit if ``truncated``."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    truncated: bool

    @property
    def content_type(self) -> str:
        """Without its parameters, in small letters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def text(self) -> str:
        """The body as text, by the charset that it says it has."""
        said = self.headers.get("content-type", "").lower().partition("charset=")[2]
        charset = said.partition(";")[0].strip(" \"'") or "utf-8"
        try:
            return self.body.decode(charset, "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")


def send(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] = {},
    body: bytes | None = None,
    limits: Limits = LIMITS,
) -> Answer:
    """Ask for ``url``, and for where it redirects to. Raises :class:`WebFailed` when nothing comes
    back, :class:`PolicyRefused` for an address that may not be asked."""
    until = monotonic() + limits.timeout
    given = {"User-Agent": _AGENT, "Accept-Encoding": "gzip", **headers}
    for _ in range(limits.max_redirects + 1):
        answer = _hop(method, url, given, body, limits, until)
        target = answer.headers.get("location")
        if answer.status not in _REDIRECTS or target is None:
            return answer
        before, url = url, urljoin(url, target)
        if not keeps_credentials(before, url):
            given = {name: one for name, one in given.items() if name.lower() not in _SECRET}
        if answer.status not in _KEEPING and method != "GET":
            method, body = "GET", None
    raise WebFailed(
        f"more than {limits.max_redirects} redirects",
        hint="ask for the address that it ends at",
        details={"url": _shown(url)},
    )


def _hop(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    limits: Limits,
    until: float,
) -> Answer:
    parts = _split(url)
    conn = connection(parts, limits, until)
    target = parts.path or "/"
    try:
        with closing(conn):
            conn.request(
                method,
                f"{target}?{parts.query}" if parts.query else target,
                body=body,
                headers={**headers, **_basic(parts)},
            )
            return _read(conn.getresponse(), url, limits, until)
    except (OSError, http.client.HTTPException) as error:
        raise WebFailed(
            f"nothing came back from {parts.hostname}: {type(error).__name__}: {error}",
            hint="look whether the address is right and can be reached",
            details={"url": _shown(url)},
        ) from error


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass  # a port that is no number, brackets that do not close
    raise WebFailed(
        "this is no address that can be fetched", hint="http://… or https://…", details={}
    )


def _basic(parts: SplitResult) -> dict[str, str]:
    """A name and a password in the address are sent as such, to that address only."""
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _shown(url: str) -> str:
    """Without name and password, and without the part after ``#``, which is not sent."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()


def _read(response: http.client.HTTPResponse, url: str, limits: Limits, until: float) -> Answer:
    headers = {name.lower(): value for name, value in reversed(response.getheaders())}
    raw = bytearray()
    while len(raw) <= limits.max_bytes and (piece := response.read1(_PIECE)):
        if monotonic() > until:
            raise TimeoutError("it takes too long")
        raw += piece
    body, more = inflated(bytes(raw), headers.get("content-encoding", ""), limits.max_bytes)
    return Answer(
        url=_shown(url),
        status=response.status,
        headers=headers,
        body=body,
        truncated=more,
    )

"""HTTP for the ready-made tools: limited in size and time, and restricted to public addresses.

A connection uses the address that was checked, even if the name resolves differently a moment later.
Proxies from the environment are used on request only, because the address behind them cannot be checked.
"""

from __future__ import annotations

import socket
import zlib
from base64 import b64encode
from collections.abc import Mapping
from contextlib import closing
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import msgspec

from reenact._net.client import (
    HttpClient,
    Origin,
    StreamedResponse,
    Unreachable,
    environment_proxy,
    no_proxy,
)
from reenact._system import monotonic
from reenact.engine.session.current import current
from reenact.errors import WebFailed
from reenact.policy.access import address_refusal, keeps_credentials
from reenact.policy.model import NetRules

__all__ = [
    "LIMITS",
    "Answer",
    "Limits",
    "inflated",
    "send",
]

_GZIP = zlib.MAX_WBITS | 16
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}


def inflated(data: bytes, coding: str, most: int) -> tuple[bytes, bool]:
    """Return the first ``most`` decompressed bytes of ``data``, and whether there are more.

    Data that cannot be decompressed is returned unchanged.
    """
    window = _WINDOWS.get(coding.strip().lower())
    if window is None:
        return data[:most], len(data) > most
    opener = zlib.decompressobj(window)
    try:
        found = opener.decompress(data, most + 1)
    except zlib.error:
        return data[:most], len(data) > most
    return found[:most], len(found) > most or bool(opener.unconsumed_tail)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a fetch, and the addresses that it is allowed to reach besides public ones.

    Either all ``private_addresses`` (which a policy can also allow) or those in ``networks``, such
    as ``127.0.0.1`` and ``10.0.0.0/8``.

    With ``proxies``, requests go through the proxies of the environment. The proxy then resolves
    names, so only addresses in the URL itself are checked.
    """

    max_bytes: int = 2_000_000
    max_redirects: int = 3
    timeout: float = 30.0
    private_addresses: bool = False
    networks: tuple[str, ...] = ()
    proxies: bool = False


LIMITS: Final = Limits()


class _CheckedConnect:
    """Connects to allowed addresses only, under the policy of the current session.

    Inside a session it is called in the live part of a call, and never in a replay.
    """

    def __init__(self, limits: Limits) -> None:
        session = current()
        self._rules = NetRules() if session is None else session.settings.policy.net
        self._all = limits.private_addresses
        self._networks = [ip_network(one) for one in limits.networks]

    def __call__(self, host: str, port: int, seconds: float) -> socket.socket:
        """Connect to the first address of ``host`` that accepts. Raises :class:`PolicyRefused` if
        one of its addresses is not allowed."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for *_, address in found:
            self._check(str(address[0]).partition("%")[0])
        failure: OSError = OSError("the name leads to no address")
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(seconds)
                sock.connect(address)
                return sock
            except OSError as error:
                sock.close()
                failure = error
        raise failure

    def check_literal(self, host: str) -> None:
        """Check ``host`` if it is an address. Raises :class:`PolicyRefused`."""
        try:
            address = str(ip_address(host))
        except ValueError:
            return
        self._check(address)

    def _check(self, address: str) -> None:
        if self._all or any(ip_address(address) in network for network in self._networks):
            return
        refusal = address_refusal(self._rules, address)
        if refusal is not None:
            raise refusal


_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_KEEPING: Final = frozenset({307, 308})
_AGENT: Final = "Mozilla/5.0 (compatible; reenact)"
_SECRET: Final = frozenset(
    {"authorization", "cookie", "proxy-authorization", "x-subscription-token"}
)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Response. ``body`` is decoded, and cut at the limit if ``truncated``."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    truncated: bool

    @property
    def content_type(self) -> str:
        """Content type in lower case, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def text(self) -> str:
        """Return the body as text in its declared charset."""
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
    """Request ``url`` and follow redirects.

    Raises :class:`WebFailed` if no response arrives, and :class:`PolicyRefused` for an address
    that is not allowed.
    """
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
        hint="use the address at the end of the redirects",
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
    seconds = max(0.001, until - monotonic())
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    try:
        client = _client(Origin.of(url), limits, seconds)
        with closing(client.connection(Origin.of(url))) as connection:
            response = connection.stream(
                method, target, headers={**headers, **_basic(parts)}, body=body, seconds=seconds
            )
            return _read(response, url, limits)
    except Unreachable as error:
        raise WebFailed(
            f"nothing came back from {parts.hostname}: {error}",
            hint="check that the address is correct and reachable",
            details={"url": _shown(url)},
        ) from None


def _client(origin: Origin, limits: Limits, seconds: float) -> HttpClient:
    checked = _CheckedConnect(limits)
    proxy = environment_proxy(origin) if limits.proxies else None
    if proxy is None:
        return HttpClient(connect=checked, proxy_for=no_proxy, connect_seconds=seconds)
    checked.check_literal(origin.host)
    return HttpClient(proxy_for=lambda origin: proxy, connect_seconds=seconds)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass  # a port that is not a number, or an unclosed bracket
    raise WebFailed(
        "invalid address: expected an HTTP or HTTPS URL",
        hint="use http://… or https://…",
        details={},
    )


def _basic(parts: SplitResult) -> dict[str, str]:
    """Return the credentials in the address as a header, which is sent to that address only."""
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _shown(url: str) -> str:
    """Return the URL without credentials and fragment."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()


def _read(response: StreamedResponse, url: str, limits: Limits) -> Answer:
    raw = bytearray()
    for piece in response.chunks:
        raw += piece
        if len(raw) > limits.max_bytes:
            break
    coding = response.headers.get("content-encoding", "")
    body, more = inflated(bytes(raw), coding, limits.max_bytes)
    return Answer(
        url=_shown(url),
        status=response.status,
        headers=response.headers,
        body=body,
        truncated=more,
    )

"""HTTP for the ready-made tools: limited in size and time, and restricted to public addresses.

Based on ``http.client``, which needs no installation and lets the caller choose the address. The
connection uses the address that was checked, even if the name resolves differently a moment later.
Proxies from the environment are not used, because the address behind them cannot be checked.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import zlib
from base64 import b64encode
from collections.abc import Mapping
from contextlib import closing
from ipaddress import ip_address, ip_network
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import msgspec

from reenact._system import monotonic
from reenact.engine.session.context import current
from reenact.errors import WebFailed
from reenact.policy.model import NetRules
from reenact.policy.net import address_refusal, keeps_credentials

__all__ = [
    "LIMITS",
    "Answer",
    "Limits",
    "connection",
    "inflated",
    "send",
]

_GZIP = zlib.MAX_WBITS | 16
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}


def inflated(data: bytes, coding: str, most: int) -> tuple[bytes, bool]:
    """The first ``most`` bytes of what ``data`` stands for, and whether there is more. What cannot
    be opened is given as it is."""
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
    """What a fetch may cost, and which addresses it may reach besides public ones: all
    ``private_addresses`` (a policy may allow them, too), or those in ``networks``, such as
    ``127.0.0.1`` and ``10.0.0.0/8``."""

    max_bytes: int = 2_000_000
    max_redirects: int = 3
    timeout: float = 30.0
    private_addresses: bool = False
    networks: tuple[str, ...] = ()


LIMITS: Final = Limits()


def connection(parts: SplitResult, limits: Limits, until: float) -> http.client.HTTPConnection:
    """To whom ``parts`` name; it connects when something is sent. ``until`` is on the monotonic
    clock."""
    kind, port = (_Secure, 443) if parts.scheme == "https" else (_Plain, 80)
    assert parts.hostname is not None
    return kind(parts.hostname, parts.port or port, reach=_Reach(limits), until=until)


class _Reach:
    """Which addresses may be connected to, in the session that is in force when it is made."""

    def __init__(self, limits: Limits) -> None:
        session = current()
        self._rules = NetRules() if session is None else session.settings.policy.net
        self._all = limits.private_addresses
        self._networks = [ip_network(one) for one in limits.networks]

    def connect(self, host: str, port: int, timeout: Any) -> socket.socket:
        """A connection to the first address of ``host`` that answers; all of them must be
        allowed. Raises :class:`PolicyRefused`."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for *_, address in found:
            self._check(str(address[0]).partition("%")[0])
        failure: OSError = OSError("the name leads to no address")
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(timeout)
                sock.connect(address)
                return sock
            except OSError as error:
                sock.close()
                failure = error
        raise failure

    def _check(self, address: str) -> None:
        if self._all or any(ip_address(address) in network for network in self._networks):
            return
        refusal = address_refusal(self._rules, address)
        if refusal is not None:
            raise refusal


class _Plain(http.client.HTTPConnection):
    """Connects to an address that was looked at. Inside a session that happens in the live half of
    a call, and never in a replay."""

    def __init__(self, host: str, port: int, *, reach: _Reach, until: float) -> None:
        super().__init__(host, port, timeout=max(0.001, until - monotonic()))
        self._reach = reach

    def connect(self) -> None:
        self.sock = self._reach.connect(self.host, self.port, self.timeout)


class _Secure(http.client.HTTPSConnection):
    """The same with TLS."""

    def __init__(self, host: str, port: int, *, reach: _Reach, until: float) -> None:
        self._tls = ssl.create_default_context()
        timeout = max(0.001, until - monotonic())
        super().__init__(host, port, timeout=timeout, context=self._tls)
        self._reach = reach

    def connect(self) -> None:
        sock = self._reach.connect(self.host, self.port, self.timeout)
        try:
            self.sock = self._tls.wrap_socket(sock, server_hostname=self.host)
        except BaseException:
            sock.close()
            raise


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

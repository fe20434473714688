"""HTTP client for Reenact's own requests: app agent, command line, OIDC, OTLP and tools.

Certificates are verified against the system's store or ``SSL_CERT_FILE``. Every request has a time
limit and a size limit. Redirects are returned, not followed. Proxies come from ``HTTP_PROXY``,
``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``; the loopback interface is never reached through one.

The client connects through the constructor argument ``connect``. The app agent passes a function that
keeps its connections out of sessions, and the tools pass one that checks addresses.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address, ip_network
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit

import msgspec

from reenact._system import monotonic

__all__ = [
    "Connect",
    "Connection",
    "HttpClient",
    "Origin",
    "Proxy",
    "Response",
    "StreamedResponse",
    "Unreachable",
    "environment_proxy",
    "no_proxy",
    "open_socket",
]

_CHUNK: Final = 1 << 16
_FAILURES: Final = (OSError, HTTPException, ValueError)
"""Exceptions of ``http.client`` for a broken connection, an invalid response or an invalid header."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

Connect = Callable[[str, int, float], socket.socket]
"""Opens a TCP connection to a host and port within a number of seconds. Raises OSError."""


class Unreachable(Exception):
    """The server did not send a usable response. The text states the reason, without the request."""


class Origin(msgspec.Struct, frozen=True):
    """Scheme, host and port of a server. ``scheme`` is ``http`` or ``https``."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin:
        """Return the origin of ``url``. Raises ValueError if it has none."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("not an http or https URL")
        return cls(
            parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        )

    @property
    def authority(self) -> str:
        """Host and port, as in the request line of a proxy."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy. ``authorization`` is the value of its ``Proxy-Authorization`` header."""

    host: str
    port: int
    authorization: str = ""


ProxyFor = Callable[[Origin], Proxy | None]


class Response(msgspec.Struct, frozen=True):
    """A complete response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def retry_after(self) -> float | None:
        """The seconds of the ``Retry-After`` header."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


class StreamedResponse(msgspec.Struct, frozen=True):
    """A response whose body is read from ``chunks``, which raises :class:`Unreachable` if the
    connection breaks."""

    status: int
    headers: Mapping[str, str]
    chunks: Iterator[bytes]

    def with_body(self, body: bytes) -> Response:
        """Return the response with a body that was read from ``chunks``."""
        return Response(self.status, self.headers, body)


def open_socket(host: str, port: int, seconds: float) -> socket.socket:
    """Connect without further checks."""
    return socket.create_connection((host, port), seconds)


def no_proxy(origin: Origin) -> Proxy | None:
    """Use no proxy."""
    return None


def environment_proxy(origin: Origin, environ: Mapping[str, str] | None = None) -> Proxy | None:
    """Return the proxy that the environment names for ``origin``. Raises :class:`Unreachable` for a
    proxy that is not an HTTP proxy."""
    environ = os.environ if environ is None else environ
    if _is_loopback(origin.host) or _is_excluded(origin, _variable(environ, "no_proxy")):
        return None
    url = _variable(environ, f"{origin.scheme}_proxy") or _variable(environ, "all_proxy")
    return _parse_proxy(url) if url else None


def _variable(environ: Mapping[str, str], name: str) -> str:
    # A CGI server sets HTTP_PROXY from the request header "Proxy".
    if name == "http_proxy" and "REQUEST_METHOD" in environ:
        return environ.get(name, "")
    return environ.get(name) or environ.get(name.upper()) or ""


def _parse_proxy(url: str) -> Proxy:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or 80
    except ValueError:
        raise Unreachable("the proxy of the environment is not a URL") from None
    if parts.scheme != "http" or not parts.hostname:
        raise Unreachable("the proxy of the environment is not an http:// URL")
    if parts.username is None:
        return Proxy(parts.hostname, port)
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(parts.hostname, port, f"Basic {b64encode(pair.encode()).decode()}")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() in _LOOPBACK


def _is_excluded(origin: Origin, no_proxy: str) -> bool:
    host = origin.host.lower()
    for entry in (one.strip().lower() for one in no_proxy.split(",")):
        name, _, port = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
        if not entry or (port and port != str(origin.port)):
            continue
        suffix = name.removeprefix("*").removeprefix(".")
        if name == "*" or host == suffix or host.endswith(f".{suffix}"):
            return True
        with contextlib.suppress(ValueError):  # a name, not an address
            if ip_address(host) in ip_network(name, strict=False):
                return True
    return False


class HttpClient:
    """Factory of connections. Safe to share between threads."""

    def __init__(
        self,
        *,
        connect: Connect = open_socket,
        proxy_for: ProxyFor = environment_proxy,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        connect_seconds: float = 10.0,
    ) -> None:
        self._connect = connect
        self._proxy_for = proxy_for
        self._tls = tls
        self._connect_seconds = connect_seconds

    def connection(self, origin: Origin) -> Connection:
        """Return a connection that is opened by its first request."""
        return Connection(self, origin)

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        most: int = 1 << 20,
        seconds: float = 10.0,
    ) -> Response:
        """Send one request and read a response of at most ``most`` bytes within ``seconds``. Raises
        :class:`Unreachable`."""
        parts = urlsplit(url)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        connection = self.connection(Origin.of(url))
        try:
            return connection.request(
                method, target, headers=headers, body=body, most=most, seconds=seconds
            )
        finally:
            connection.close()

    def open(self, origin: Origin) -> tuple[HTTPConnection, str, dict[str, str]]:
        """Connect to ``origin``. Returns the connection, the prefix of request targets, and headers
        for the proxy. Raises OSError and :class:`Unreachable`."""
        proxy = self._proxy_for(origin)
        conn: _PlainConnection | _TlsConnection
        if origin.scheme == "http":
            conn = _PlainConnection(
                origin, self._connect_seconds, partial(self._dial, origin, proxy)
            )
        else:
            tls = self._tls()
            dial = partial(self._dial, origin, proxy, tls)
            conn = _TlsConnection(origin, self._connect_seconds, dial, tls)
        conn.auto_open = 0
        conn.set_debuglevel(0)  # a program can set it for all connections, and it prints headers
        conn.connect()
        if proxy is None or origin.scheme == "https":
            return conn, "", {}
        authorization = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
        return conn, f"http://{origin.authority}", authorization

    def _dial(
        self, origin: Origin, proxy: Proxy | None, tls: ssl.SSLContext | None = None
    ) -> socket.socket:
        host, port = (origin.host, origin.port) if proxy is None else (proxy.host, proxy.port)
        sock = self._connect(host, port, self._connect_seconds)
        try:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is None:
                return sock
            if proxy is not None:
                _open_tunnel(sock, origin, proxy)
            return tls.wrap_socket(sock, server_hostname=origin.host)
        except BaseException:
            sock.close()
            raise


# Both connect in ``connect``, where the boundary of ``http.client`` takes over in a session: a tool's
# request is then recorded, and a replay does not connect.


class _PlainConnection(HTTPConnection):
    def __init__(self, origin: Origin, seconds: float, dial: Callable[[], socket.socket]) -> None:
        super().__init__(origin.host, origin.port, timeout=seconds)
        self._dial = dial

    def connect(self) -> None:
        self.sock = self._dial()


class _TlsConnection(HTTPSConnection):
    def __init__(
        self,
        origin: Origin,
        seconds: float,
        dial: Callable[[], socket.socket],
        tls: ssl.SSLContext,
    ) -> None:
        super().__init__(origin.host, origin.port, timeout=seconds, context=tls)
        self._dial = dial

    def connect(self) -> None:
        self.sock = self._dial()


def _open_tunnel(sock: socket.socket, origin: Origin, proxy: Proxy) -> None:
    lines = [f"CONNECT {origin.authority} HTTP/1.1", f"Host: {origin.authority}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    sock.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1"))
    with HTTPResponse(sock, method="CONNECT") as response:
        response.begin()
        if response.status != 200:
            raise Unreachable(f"the proxy {proxy.host} refuses the connection: {response.status}")


class Connection:
    """A kept-alive connection for one thread at a time. Any thread can :meth:`abort` it."""

    def __init__(self, client: HttpClient, origin: Origin) -> None:
        self._client = client
        self._origin = origin
        self._conn: HTTPConnection | None = None
        self._prefix = ""
        self._proxy_headers: dict[str, str] = {}
        self._lock = threading.Lock()  # covers the next two
        self._sock: socket.socket | None = None  # http.client drops it before the body is read
        self._aborted = False

    def request(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        most: int,
        seconds: float,
    ) -> Response:
        """Send a request and read a response of at most ``most`` bytes. Raises
        :class:`Unreachable`.

        The request is sent again on a new connection if the server has closed the old one, so it
        must be one that can be repeated.
        """
        streamed = self.stream(method, target, headers=headers, body=body, seconds=seconds)
        found = bytearray()
        for piece in streamed.chunks:
            found += piece
            if len(found) > most:
                self.close()
                raise Unreachable(f"the answer has more than {most} bytes")
        return streamed.with_body(bytes(found))

    def stream(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | BinaryIO | None = None,
        seconds: float,
        silence: float = 0.0,
    ) -> StreamedResponse:
        """Send a request and return the response before its body. The time limit is ``silence``
        seconds for each piece, or ``seconds`` for the complete body. Raises :class:`Unreachable`."""
        reused = self._conn is not None
        request = (method, target, body, dict(headers or {}), seconds)
        try:
            response = self._send(*request)
        except ConnectionError as error:
            self.close()
            if not reused:
                raise Unreachable(_reason(error)) from None
            response = self._send_again(*request)
        except _FAILURES as error:
            self.close()
            raise Unreachable(_reason(error)) from None
        # The first of several headers with one name counts.
        found = {name.lower(): value for name, value in reversed(response.getheaders())}
        until = None if silence else monotonic() + seconds
        return StreamedResponse(response.status, found, self._pieces(response, until, silence))

    def close(self) -> None:
        """Close the connection. The next request opens a new one."""
        with self._lock:
            conn, self._conn, self._sock = self._conn, None, None
        if conn is not None:
            conn.close()

    def abort(self) -> None:
        """End the current request from another thread, and refuse later ones."""
        with self._lock:
            self._aborted = True
            if self._sock is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    self._sock.shutdown(socket.SHUT_RDWR)

    def abandon(self) -> None:
        """Release the parent's connection in a forked child, where the lock can be held forever."""
        if self._sock is not None and self._sock.fileno() >= 0:
            os.close(self._sock.detach())

    def _send_again(self, *request: Any) -> HTTPResponse:
        try:
            return self._send(*request)
        except _FAILURES as error:
            self.close()
            raise Unreachable(_reason(error)) from None

    def _send(
        self,
        method: str,
        target: str,
        body: bytes | BinaryIO | None,
        headers: dict[str, str],
        seconds: float,
    ) -> HTTPResponse:
        conn = self._connected()
        conn.sock.settimeout(seconds)
        try:
            conn.request(
                method, f"{self._prefix}{target}", body, {**headers, **self._proxy_headers}
            )
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server can respond before it closes, for example that the body is too large
        return conn.getresponse()

    def _connected(self) -> HTTPConnection:
        conn = self._conn
        if conn is not None and conn.sock is not None:
            self._check_not_aborted()
            return conn
        self.close()
        self._check_not_aborted()
        conn, self._prefix, self._proxy_headers = self._client.open(self._origin)
        try:
            with self._lock:
                self._conn, self._sock = conn, conn.sock
            self._check_not_aborted()
        except BaseException:
            conn.close()
            raise
        return conn

    def _check_not_aborted(self) -> None:
        with self._lock:
            if self._aborted:
                raise Unreachable("the link is being closed")

    def _pieces(
        self, response: HTTPResponse, until: float | None, silence: float
    ) -> Iterator[bytes]:
        sock = self._sock
        try:
            while True:
                _set_timeout(sock, silence if until is None else until - monotonic())
                piece = response.read1(_CHUNK)
                if not piece:
                    break
                yield piece
            if response.length:
                raise Unreachable("the answer was cut short")
        except _FAILURES as error:
            self.close()
            raise Unreachable(_reason(error)) from None
        except BaseException:  # also if the caller stops reading: the rest is not read
            self.close()
            raise
        finally:
            response.close()


def _set_timeout(sock: socket.socket | None, seconds: float) -> None:
    if seconds <= 0:
        raise TimeoutError
    if sock is not None:
        with contextlib.suppress(OSError):  # the complete response has closed it
            sock.settimeout(seconds)


def _reason(error: BaseException) -> str:
    """Describe ``error`` without the content of the request."""
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"it does not speak HTTP ({type(error).__name__})"

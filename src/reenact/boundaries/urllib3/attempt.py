"""One attempt of urllib3: a request on a connection, live or as if it had been."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from functools import partial
from http.client import HTTPResponse
from importlib import import_module
from inspect import signature
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

from reenact.boundaries.bodies import Pairs
from reenact.boundaries.http import Reply, Request
from reenact.boundaries.http_client.framing import body_of, head_of, joined, respond, target_url
from reenact.engine.session.context import context_outside_sessions

__all__ = ["Attempt", "Library"]

_SKIPPED = "@@@SKIP_HEADER@@@"
"""urllib3's word for a header that shall not be added."""


class Library:
    """The parts of urllib3 that are used here, and what is known of its connections."""

    def __init__(self, pool: ModuleType) -> None:
        self.pool = pool
        self.errors = import_module("urllib3.exceptions")
        self.response = import_module("urllib3.response").HTTPResponse
        self.options = frozenset(signature(self.response).parameters)
        """The arguments that a response takes, which differ by version."""
        self.chunks = import_module("urllib3.util.request").body_to_chunks
        self.cert_reqs = import_module("urllib3.util.ssl_").resolve_cert_reqs
        self.agent = f"python-urllib3/{import_module('urllib3._version').__version__}"
        self.tunnels: WeakSet[Any] = WeakSet()
        """Connections that still want their way through a proxy."""
        self.served: WeakSet[Any] = WeakSet()
        """Connections that would be open, had they been made."""


@dataclass(slots=True)
class Attempt:
    """``original`` makes it. ``given`` are its named arguments that are not named here."""

    library: Library
    original: Callable[..., Any]
    pool: Any
    conn: Any
    method: str
    url: str
    body: Any
    headers: Any
    retries: Any
    given: dict[str, Any]
    whole: bool
    """Is the body read before the program goes on?"""
    made: bool = False
    """For real, and not out of a recording."""

    # To data

    def request(self) -> Request:
        """What is asked. The body is read; where it can be read only once, a copy is sent."""
        content, length = self.library.chunks(self.body, self.method, self.conn.blocksize)
        sent: list[bytes] = []
        if content is not None:
            sent = [part.encode() if isinstance(part, str) else bytes(part) for part in content]
        by_parts = content is not None and length is None
        if by_parts:
            self.body = sent
        target = target_url(self.pool.scheme, self.pool.host, self.pool.port, self.url)
        return Request(
            method=self.method,
            url=target,
            headers=self._headers(target, length, chunked=by_parts),
            body=b"".join(sent),
        )

    def _headers(self, target: str, length: int | None, *, chunked: bool) -> Pairs:
        """Those that are given, and before them those that urllib3 adds."""
        given = [(_text(name), _text(value)) for name, value in (self.headers or {}).items()]
        names = {name.lower() for name, _ in given}
        added = [("Host", target.split("/")[2]), ("Accept-Encoding", "identity")]
        if self.given.get("chunked") or (chunked and "content-length" not in names):
            added.append(("Transfer-Encoding", "chunked"))
        elif length is not None and not names & {"content-length", "transfer-encoding"}:
            added.append(("Content-Length", str(length)))
        added.append(("User-Agent", self.library.agent))
        missing = [pair for pair in added if pair[0].lower() not in names]
        return tuple(pair for pair in missing + given if pair[1] != _SKIPPED)

    # Live

    def live(self) -> Iterator[Any]:
        """The head, and the body as it arrives."""
        self.made = True
        if self.conn in self.library.tunnels:
            self._prepare_proxy()
        given = {**self.given, "preload_content": False, "response_conn": None}
        where = (self.pool, self.conn, self.method, self.url)
        response = self.original(*where, self.body, self.headers, self.retries, **given)
        low: HTTPResponse = response._original_response
        with closing(low):
            yield head_of(low)
            yield from joined(body_of(low)) if self.whole else body_of(low)

    def resend(self, other: Request) -> Callable[[], Iterator[Any]]:
        """:meth:`live` for another request to the same server."""
        parts = urlsplit(other.url)
        self.method, self.body = other.method, other.body
        self.url = f"{parts.path}?{parts.query}" if parts.query else parts.path
        framing = ("content-length", "transfer-encoding")
        names = {_text(name).lower() for name in self.headers or ()}
        self.headers = {
            key: value
            for key, value in other.headers
            if key.lower() in names and key.lower() not in framing
        }
        self.given = {**self.given, "chunked": False}
        return self.live

    def _prepare_proxy(self) -> None:
        pool, conn = self.pool, self.conn
        self.library.tunnels.discard(conn)
        if not conn.is_closed:
            return
        try:
            pool._prepare_proxy(conn)
        except (ssl.SSLError, OSError) as error:
            pool._raise_timeout(err=error, url=pool.proxy.url, timeout_value=conn.timeout)
            raise

    # And back

    def response(self, reply: Reply) -> Any:
        """What the program gets."""
        if not self.made:
            self._repeat_sending()
        low = respond(reply, self.method, 0 if self.made else self.conn.debuglevel)
        if not self.made:
            self._leave_traces(low)
        return self._wrapped(low)

    def _wrapped(self, low: HTTPResponse) -> Any:
        fields = {
            "body": low,
            "headers": self.library.pool.HTTPHeaderDict(low.msg.items()),
            "status": low.status,
            "version": low.version,
            "version_string": self.conn._http_vsn_str,
            "reason": low.reason,
            "original_response": low,
            "request_method": self.method,
            "request_url": self.url,
            "sock_shutdown": partial(_shut_down, self.conn),
            **self.given,
        }
        response = self.library.response(
            **{name: value for name, value in fields.items() if name in self.library.options}
        )
        response.retries = self.retries
        response._connection = self.given.get("response_conn")
        response._pool = self.pool
        return response

    def _repeat_sending(self) -> None:
        """Let http.client say what it sends, if it was told to."""
        if not self.conn.debuglevel or "expect" in {
            _text(name).lower() for name in self.headers or ()
        }:
            return
        names = ("chunked", "preload_content", "decode_content", "enforce_content_length")
        given = {name: self.given[name] for name in names if name in self.given}
        double = copy(self.conn)
        double.sock = _Nowhere()
        say = partial(double.request, self.method, self.url, self.body, self.headers, **given)
        context_outside_sessions().run(say)

    def _leave_traces(self, low: HTTPResponse) -> None:
        """What a call that is made counts, warns of and logs."""
        pool, conn, library = self.pool, self.conn, self.library
        pool.num_requests += 1
        if low.will_close:
            library.served.discard(conn)
        else:
            library.served.add(conn)
        if pool.scheme == "https":
            library.pool.HTTPSConnectionPool._validate_conn(pool, _connected(library, conn))
        library.pool.log.debug(
            '%s://%s:%s "%s %s %s" %s %s',
            pool.scheme,
            pool.host,
            pool.port,
            self.method,
            self.url,
            conn._http_vsn_str,
            low.status,
            low.length,
        )


class _Nowhere:
    """A socket that sends nothing."""

    def sendall(self, data: Any) -> None:
        memoryview(data)

    def settimeout(self, seconds: Any) -> None:
        pass


def _connected(library: Library, conn: Any) -> SimpleNamespace:
    """What a connection says of itself when it is made."""
    required = library.cert_reqs(conn.cert_reqs) == ssl.CERT_REQUIRED
    verified = required or bool(conn.assert_fingerprint)
    return SimpleNamespace(
        host=conn.host,
        is_closed=False,
        is_verified=verified and not conn.proxy_is_forwarding,
        proxy_is_verified=verified if conn.proxy_is_forwarding else None,
    )


def _shut_down(conn: Any, how: int) -> None:
    if conn.sock is not None:
        conn.sock.shutdown(how)


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)

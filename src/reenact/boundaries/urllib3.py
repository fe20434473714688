"""urllib3, and with it requests and botocore: one attempt of one request on one connection.

The patched function is below retries and redirects, which remain urllib3's own code, and above the
connection, which a replay does not open. urllib3 1.x has no such function; its calls go through
http.client. The patches of requests and botocore only note whether the library reads the body
itself.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
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

from reenact.boundaries.http.api import Errors, Reply, Request, ask
from reenact.boundaries.http.bodies import Pairs
from reenact.boundaries.http.http1_messages import body_of, head_of, joined, respond, target_url
from reenact.engine.codecs import dump_exception, load_exception
from reenact.engine.patches.patch import Patch
from reenact.engine.session.context import context_outside_sessions
from reenact.engine.session.current import current
from reenact.format.event import Data

__all__ = [
    "Attempt",
    "Library",
    "PoolErrors",
    "botocore_patches",
    "patches",
    "reading",
    "requests_patches",
]


class PoolErrors(Errors):
    """Serializer of the exceptions of one request to ``pool`` on ``conn``.

    ``library`` is ``urllib3.exceptions``.
    """

    def __init__(self, library: ModuleType, pool: Any, conn: Any) -> None:
        self._library = library
        self._pool = pool
        self._conn = conn

    def dump(self, error: BaseException) -> Data:
        data = dump_exception(error)
        if "args" not in data:  # not all of them are data
            data["arguments"] = [_dumped(argument) for argument in error.args]
        if self._conn.has_connected_to_proxy:
            data["proxied"] = True  # then it was not the proxy that failed
        return data

    def load(self, data: Any) -> BaseException:
        error = load_exception(data)
        if isinstance(data, dict):
            given = data.get("arguments")
            if isinstance(given, list):
                error.args = tuple(self._loaded(one) for one in given)
            if data.get("proxied") is True:
                self._conn._has_connected_to_proxy = True
        self._complete(error)
        return error

    def _loaded(self, argument: Any) -> Any:
        if not isinstance(argument, dict):
            return argument
        if "error" in argument:
            return load_exception(argument["error"])
        if "shown" in argument:
            return _Shown(self._conn, str(argument["shown"]))
        return argument.get("value")

    def _complete(self, error: BaseException) -> None:
        """Set the attributes that are not data, bypassing constructors and setters."""
        library = self._library
        if isinstance(error, library.PoolError):
            error.__dict__["pool"] = self._pool
        if isinstance(error, library.NewConnectionError):
            error.__dict__["conn"] = self._conn
        if isinstance(error, library.NameResolutionError):
            error.__dict__["_reason"] = error.__cause__
        if isinstance(error, library.ProxyError):
            wrapped = next((one for one in error.args if isinstance(one, BaseException)), None)
            error.__dict__["original_error"] = error.__cause__ = wrapped
        if isinstance(error.__cause__, library.HTTPError):
            self._complete(error.__cause__)


class _Shown:
    """Connection with the recorded ``repr``, because its address is part of error texts."""

    def __init__(self, conn: Any, text: str) -> None:
        self._conn = conn
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)


def _dumped(argument: Any) -> Any:
    if isinstance(argument, BaseException):
        return {"error": dump_exception(argument)}
    plain = isinstance(argument, (str, int, bytes, type(None)))
    return {"value": argument} if plain else {"shown": repr(argument)}


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
        """Connections that still need a proxy tunnel."""
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
    """True if the body is read before the program continues."""
    made: bool = False
    """For real, and not out of a recording."""

    # To data

    def request(self) -> Request:
        """Return the request. The body is read, and a copy is sent if it can be read only once."""
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
        """Return the headers that urllib3 adds, followed by the given ones."""
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
        """Yield the head, then the body as it arrives."""
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
        """Return :meth:`live` for a different request to the same server."""
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
        """Return the response for the program."""
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
        """Let http.client print the request if its debug level is set."""
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
        """Update the counters, and emit the warnings and log records of a live call."""
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
    """Return the attributes of a newly connected connection."""
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


_whole: ContextVar[bool] = ContextVar("reenact.urllib3.whole", default=False)


@contextmanager
def reading(*, whole: bool) -> Iterator[None]:
    """Set whether a library above reads the body before the program gets the response, during the
    block."""
    token = _whole.set(whole)
    try:
        yield
    finally:
        _whole.reset(token)


def patches(library: ModuleType) -> list[Patch]:
    """Return the patches of ``urllib3.connectionpool``."""
    if "preload_content" not in signature(library.HTTPConnectionPool._make_request).parameters:
        return []
    parts = Library(library)
    return [
        Patch(library.HTTPConnectionPool, "_make_request", partial(_making, parts)),
        Patch(library.HTTPSConnectionPool, "_prepare_proxy", partial(_postponing, parts)),
        Patch(library, "is_connection_dropped", partial(_keeping, parts)),
    ]


def _making(library: Library, original: Callable[..., Any]) -> Callable[..., Any]:
    def make_request(
        pool: Any,
        conn: Any,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        retries: Any = None,
        **given: Any,
    ) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return original(pool, conn, method, url, body, headers, retries, **given)
        whole = _whole.get() or given.get("preload_content", True)
        attempt = Attempt(
            library, original, pool, conn, method, url, body, headers, retries, given, whole
        )
        errors = PoolErrors(library.errors, pool, conn)
        reply = ask(
            session,
            attempt.request(),
            attempt.live,
            whole=whole,
            errors=errors,
            resend=attempt.resend,
        )
        return attempt.response(reply)

    return make_request


def _postponing(library: Library, original: Callable[..., Any]) -> Callable[..., Any]:
    def prepare_proxy(pool: Any, conn: Any) -> Any:
        """Postpone the proxy tunnel until a live request needs it."""
        session = current()
        if session is None or session.mode == "off":
            return original(pool, conn)
        library.tunnels.add(conn)
        return None

    return prepare_proxy


def _keeping(library: Library, original: Callable[..., Any]) -> Callable[..., Any]:
    def is_connection_dropped(conn: Any) -> Any:
        """Return False for a replayed connection, which was never connected."""
        if conn.sock is None and conn in library.served:
            return False
        return original(conn)

    return is_connection_dropped


def requests_patches(library: ModuleType) -> list[Patch]:
    """Return the patches of ``requests.adapters``."""
    return [Patch(library.HTTPAdapter, "send", _note_requests_reads, repeatable=True)]


def _note_requests_reads(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(adapter: Any, request: Any, stream: bool = False, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return original(adapter, request, stream, *args, **kwargs)
        with reading(whole=not stream):
            return original(adapter, request, stream, *args, **kwargs)

    return send


def botocore_patches(library: ModuleType) -> list[Patch]:
    """Return the patches of ``botocore.httpsession``."""
    return [Patch(library.URLLib3Session, "send", _note_botocore_reads)]


def _note_botocore_reads(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(session: Any, request: Any) -> Any:
        if current() is None:
            return original(session, request)
        with reading(whole=not request.stream_output):
            return original(session, request)

    return send

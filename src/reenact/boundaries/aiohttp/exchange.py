"""One HTTP exchange of aiohttp on a connection without a socket.

Redirects, retries, middlewares, cookies, traces and total time-outs remain aiohttp's own code while
recording and replaying. aiohttp writes its request into a connection without a socket and waits
there for the response. Then the session decides. A live call writes the same bytes into a real
connection of the same connector.
"""

from __future__ import annotations

import asyncio
from asyncio import Transport
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from aiohttp import ClientTimeout, client_exceptions
from aiohttp.client_exceptions import (
    ClientConnectionResetError,
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientResponseError,
    ConnectionTimeoutError,
    ServerDisconnectedError,
    UnixClientConnectorError,
)
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, RequestInfo
from aiohttp.connector import BaseConnector, Connection
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from reenact._system import monotonic
from reenact.boundaries.aiohttp.response_body import PARTIAL, Body
from reenact.boundaries.http.api import BufferedResponse, Errors, Head, Request, ask_async
from reenact.boundaries.http.bodies import Pairs
from reenact.boundaries.http.fork import request_bytes
from reenact.boundaries.http.http1_messages import Outgoing, head_bytes
from reenact.engine.codecs import dump_exception, load_exception
from reenact.engine.session.session import Session
from reenact.format.event import Data

__all__ = [
    "Hop",
    "HopErrors",
    "Nowhere",
    "StandIn",
    "connected",
    "raw_pairs",
    "raw_reason",
]

_HOME = "aiohttp.client_exceptions."


class HopErrors(Errors):
    """Failures of ``request``."""

    def __init__(self, request: ClientRequest) -> None:
        self._request = request

    def dump(self, error: BaseException) -> Data:
        data = dump_exception(error)
        if isinstance(error, ClientConnectorError):
            data["connection"] = _connection(error)
        elif isinstance(error, ClientResponseError):
            data["exchange"] = _exchange(error)
        return data

    def load(self, data: Any) -> BaseException:
        made = self._made(data) if isinstance(data, dict) else None
        if made is None:
            return load_exception(data)
        if isinstance(data.get("cause"), dict):
            made.__cause__ = load_exception(data["cause"])
        return made

    def _made(self, data: Data) -> BaseException | None:
        """Rebuild an exception that only its own constructor can create."""
        home, _, name = str(data.get("class")).rpartition(".")
        kind = getattr(client_exceptions, name, None) if home + "." == _HOME else None
        if not isinstance(kind, type):
            return None
        connection, exchange = data.get("connection"), data.get("exchange")
        if issubclass(kind, ClientConnectorError) and isinstance(connection, dict):
            return self._connector_error(kind, connection)
        if issubclass(kind, ClientResponseError) and isinstance(exchange, dict):
            return _response_error(kind, exchange)
        if issubclass(kind, ServerDisconnectedError):
            return kind(str(data.get("message")))
        return None

    def _connector_error(self, kind: type[ClientConnectorError], said: Data) -> BaseException:
        key = self._request.connection_key._replace(
            host=str(said.get("host")), port=said.get("port"), is_ssl=bool(said.get("ssl"))
        )
        error: Any = load_exception(said.get("error"))
        if issubclass(kind, UnixClientConnectorError):
            return kind(str(said.get("path")), key, error)
        return kind(key, error)


def _connection(error: ClientConnectorError) -> Data:
    key = error._conn_key
    below: BaseException = error.os_error
    if isinstance(error, ClientConnectorCertificateError):
        below = error.certificate_error
    data: Data = {
        "host": key.host,
        "port": key.port,
        "ssl": key.is_ssl,
        "error": dump_exception(below),
    }
    if isinstance(error, UnixClientConnectorError):
        data["path"] = error.path
    return data


def _exchange(error: ClientResponseError) -> Data:
    """Describe the exchange of a proxy tunnel request, which aiohttp sends automatically."""
    info = error.request_info
    return {
        "url": str(info.real_url),
        "method": info.method,
        "sent": [[str(name), value] for name, value in info.headers.items()],
        "status": error.status,
        "message": error.message,
        "headers": _pairs(error.headers),
    }


def _pairs(headers: Any) -> list[list[str]] | None:
    return None if headers is None else [[str(name), value] for name, value in headers.items()]


def _response_error(kind: type[ClientResponseError], said: Data) -> BaseException:
    url = URL(str(said.get("url")))
    sent = CIMultiDictProxy(CIMultiDict(_tuples(said.get("sent"))))
    info = RequestInfo(url.with_fragment(None), str(said.get("method")), sent, url)
    headers = said.get("headers")
    return kind(
        info,
        (),
        status=said.get("status"),
        message=str(said.get("message")),
        headers=None if headers is None else CIMultiDictProxy(CIMultiDict(_tuples(headers))),
    )


def _tuples(pairs: Any) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in pairs or ()]


_idle: WeakKeyDictionary[BaseConnector, Counter[Any]] = WeakKeyDictionary()
"""Number of connections per key that a real pool would have available for reuse."""


async def connected(connector: BaseConnector, hop: Any, request: Any, traces: Any) -> StandIn:
    """Return a connection for ``request``.

    Traces receive the signals that a real pool would send.
    """
    key = request.connection_key
    idle = _idle.setdefault(connector, Counter())
    if idle[key]:
        idle[key] -= 1
        for trace in traces:
            await trace.send_connection_reuseconn()
    else:
        for trace in traces:
            await trace.send_connection_create_start()
        for trace in traces:
            await trace.send_connection_create_end()
    return StandIn(connector, key, hop, connector._loop)


class StandIn(Connection):
    """Connection of the response of a hop.

    It does not take a slot of the pool while it is in use.
    """

    def close(self) -> None:
        self._notify_release()
        hop, self._protocol = self._protocol, None
        if hop is not None:
            hop.close()

    def __del__(self, *args: Any) -> None:
        hop: Any = self._protocol
        if hop is not None and hop.has_diverged:
            return  # what would have closed it raised the divergence once more
        super().__del__(*args)

    def release(self) -> None:
        hop: Any = self._protocol
        reusable = hop is not None and hop.is_reusable() and not self._connector.force_close
        self.close()
        if reusable:
            self._put_back(hop)

    def _put_back(self, hop: Any) -> None:
        connector, key = self._connector, self._key
        _idle.setdefault(connector, Counter())[key] += 1
        if not hop.was_live and not connector.closed and not connector._conns.get(key):
            # An unclosed connector warns on garbage collection if it has connections. This one is
            # closed, so it would be discarded if it were taken from the pool.
            connector._conns[key].append((hop, monotonic()))


class Nowhere(Transport):
    """Keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = Outgoing()

    def write(self, data: Any) -> None:
        self.sent.add(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.sent.add(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        pass

    abort = close


Connect = Callable[..., Awaitable[Connection]]
"""Original ``BaseConnector.connect``."""

_NO_BODY = frozenset({204, 304})


class Hop(ResponseHandler):
    """One request and its response, on ``connector``."""

    def __init__(
        self,
        session: Session,
        connector: BaseConnector,
        connect: Connect,
        request: ClientRequest,
        timeout: ClientTimeout,
    ) -> None:
        super().__init__(request.loop)
        self._session = session
        self._connector = connector
        self._connect = connect
        self._request = request
        self._timeout = timeout
        self._params: dict[str, Any] = {}
        self._outbox = Nowhere()
        self._outgoing = b""
        """Bytes that are sent instead of the request in a fork."""
        self.transport = self._outbox
        self._connection_lost_called = True  # a closing connector does not wait for this connection
        self._answered = False
        self._body: Body | None = None
        self.was_live = False

    # Methods that aiohttp calls on a connection

    def set_response_params(self, **params: Any) -> None:
        self._params = params
        # Of the parser only the head is wanted, as after a request of the method HEAD.
        super().set_response_params(**{**params, "skip_payload": True, "read_timeout": None})

    def start_timeout(self) -> None:
        """Do nothing, because socket timeouts belong to the live connection."""

    def pause_reading(self) -> None:
        """Do nothing, because data is only received on request."""

    def resume_reading(self, *_: Any, **__: Any) -> None:
        """Do nothing, because reading is never paused."""

    def set_exception(self, exc: Any, *cause: Any) -> None:
        """Set the cause of ``exc``. aiohttp sets it only for existing waiters, and there are none
        here."""
        if cause and isinstance(exc, BaseException):
            exc.__cause__ = cause[0]
        super().set_exception(exc, *cause)

    def is_reusable(self) -> bool:
        """Return whether a real connection in this state would be reused."""
        is_open = self._answered and not self._should_close and not self._upgraded
        return is_open and (self._body is None or self._body.is_eof())

    @property
    def has_diverged(self) -> bool:
        """True if the session has failed before the end of the program."""
        return self._session.failed_with is not None

    def close(self) -> None:
        self.transport = None
        if self._body is not None:
            self._body.abandon()

    async def read(self) -> Any:
        """Return the response: its head, parsed by aiohttp, and its body."""
        await self._uploaded()
        errors = HopErrors(self._request)
        reply = await ask_async(
            self._session, self._asked(), self._live, errors=errors, resend=self._resend
        )
        self.data_received(head_bytes(reply.head))
        message, _ = await super().read()
        self._answered = True
        if self._params["skip_payload"] or message.code in _NO_BODY:
            async for _ in reply:
                pass
            return message, EMPTY_PAYLOAD
        self._body = Body(reply, self, message, self._params)
        if reply.whole:
            await self._body.take_all()
        return message, self._body

    async def _uploaded(self) -> None:
        """Wait until the complete request is in the outbox. Raises the errors of its body."""
        request = self._request
        if request._continue is not None and not request._continue.done():
            request._continue.set_result(True)
        writer = request._writer
        if writer is not None:
            await asyncio.wait([writer])
            if not writer.cancelled() and (error := writer.exception()) is not None:
                raise error
        if self._exception is not None:
            raise self._exception

    # To data

    def _asked(self) -> Request:
        request = self._request
        return Request(
            method=request.method,
            url=str(request.url),
            headers=tuple((str(name), value) for name, value in request.headers.items()),
            body=self._outbox.sent.body,
        )

    # Live

    def _resend(self, other: Request) -> Callable[[], AsyncIterator[Any]]:
        """Return the live call for a different request."""
        self._outgoing = request_bytes(other)
        return self._live

    async def _live(self) -> AsyncIterator[Any]:
        connection = await self._connected()
        try:
            message, payload = await self._exchange(connection)
            payload.on_eof(connection.release)  # kept alive for the next one, read or not
            head = _head(message)
            if payload.is_eof():
                yield BufferedResponse(
                    [head, *[piece async for piece in _arrived(payload, message)]]
                )
                return
            yield head
            async for piece in self._read(payload):
                yield piece
        finally:
            connection.close()

    async def _connected(self) -> Connection:
        """Return a real connection. Raises the errors of aiohttp."""
        self.was_live = True
        request = self._request
        try:
            return await self._connect(self._connector, request, traces=[], timeout=self._timeout)
        except TimeoutError as error:
            raise ConnectionTimeoutError(f"Connection timeout to host {request.url}") from error

    async def _exchange(self, connection: Connection) -> Any:
        """Send the request, and wait for the head of the response."""
        protocol = connection.protocol
        assert protocol is not None
        protocol.set_response_params(**{**self._params, "timer": None, "auto_decompress": False})
        whole = self._outgoing or b"".join(self._outbox.sent.parts)
        head, blank, body = whole.partition(b"\r\n\r\n")
        waits = self._request.headers.get("Expect", "").lower() == "100-continue"
        sending = await _send(protocol, head + blank if waits else head + blank + body)
        try:
            while True:
                message, payload = await protocol.read()
                if not 100 <= message.code < 200 or message.code == 101:
                    return message, payload
                if waits:
                    waits = False
                    sending = await _send(protocol, body)
        finally:
            if sending is not None:
                sending.cancel()

    async def _read(self, payload: Any) -> AsyncIterator[bytes]:
        """Yield the pieces as they arrive, by chunk if the program reads by chunk."""
        try:
            while True:
                if self._body is not None and self._body.by_chunk:
                    piece, ends = await payload.readchunk()
                    if piece and not ends:
                        yield PARTIAL
                else:
                    piece, ends = await payload.readany(), False
                if piece:
                    yield piece
                elif not ends:
                    return
        except Exception:
            if payload._size:  # received before the connection broke, but not read yet
                yield payload._read_nowait(-1)
            raise


async def _arrived(payload: Any, message: Any) -> AsyncIterator[bytes]:
    """Yield the pieces of a received body, which are the chunks of the transfer coding if there is
    one."""
    if message.chunked:
        while (read := await payload.readchunk()) != (b"", False):
            if read[0]:
                yield read[0]
    elif piece := payload.read_nowait():
        yield piece


async def _send(protocol: ResponseHandler, data: bytes) -> asyncio.Task[None] | None:
    """Write ``data``. The read timeout starts when the data was sent.

    Returns the task that waits for a slow write, because a server can respond before it has read
    everything.
    """
    if protocol.transport is None or protocol.transport.is_closing():
        raise ClientConnectionResetError("Cannot write to closing transport")
    protocol.transport.write(data)
    if not protocol.writing_paused:
        protocol.start_timeout()
        return None

    async def drained() -> None:
        try:
            await protocol._drain_helper()
        except OSError:
            return  # the reader gets the error as well
        protocol.start_timeout()

    return asyncio.get_running_loop().create_task(drained())


# From data


def _head(message: Any) -> Head:
    return Head(
        status=message.code,
        reason=raw_reason(message),
        version=f"HTTP/{message.version.major}.{message.version.minor}",
        headers=raw_pairs(message.raw_headers),
    )


def raw_reason(message: Any) -> str:
    """Return the reason phrase with its original bytes, which aiohttp decodes as UTF-8."""
    text: str = message.reason
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def raw_pairs(headers: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Return headers with their original bytes."""
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)

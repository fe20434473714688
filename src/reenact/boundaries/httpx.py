"""Boundary for httpx and httpx2: all transports of a client.

The patched function chooses the transport for a request. The client's own work around it (cookies,
redirects, authentication, logging, hooks) runs in recordings and replays alike.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from functools import partial
from types import ModuleType
from typing import Any

from reenact.boundaries.http.api import AsyncReply, Head, Reply, Request, ask, ask_async
from reenact.boundaries.http.encoding import encode
from reenact.engine.patches.patch import Patch
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = ["patches"]

_PIECES, _WHOLE, _UNSEEN = range(3)
_reading: ContextVar[int] = ContextVar("reenact.httpx.reading", default=_PIECES)
"""Mode of reading the body: in pieces, completely before the program gets the response, or
completely before any other code sees the response."""


# To data and back

_CODINGS = (b"content-encoding", b"Content-Encoding")
_COOKIES = (b"set-cookie", b"set-cookie2")
_LENGTHS = frozenset(map(len, ("content-type", "content-encoding", "upgrade")))


class _Headers:
    """Headers of a request, which are decoded on demand."""

    __slots__ = ("_raw", "content", "upgrades")

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self._raw = raw
        kind = coding = b""
        self.upgrades = False
        """A connection upgrade is not a request with a response.

        The boundary ignores it, and the network guard handles it.
        """
        for name, value in raw:
            if len(name) not in _LENGTHS:
                continue
            lower = name.lower()
            if lower == b"content-type":
                kind = kind or value
            elif lower == b"content-encoding":
                coding = coding + b", " + value if coding else value
            elif lower == b"upgrade":
                self.upgrades = True
        self.content = kind.decode("latin-1"), coding.decode("latin-1")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(_pairs(self._raw))


def _as_data(request: Any, headers: _Headers, body: bytes) -> Request:
    return Request(
        method=request.method,
        url=str(request.url),
        headers=headers,
        body=body,
        content=headers.content,
    )


def _pairs(raw: Any) -> tuple[tuple[str, str], ...]:
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw])


def _again(library: ModuleType, request: Any, body: bytes) -> Any:
    """Return the request for the live call.

    If its stream was read, a copy is sent and the program's request stays unchanged.
    """
    if isinstance(request.stream, library.ByteStream):
        return request
    return library.Request(
        request.method,
        request.url,
        headers=request.headers,
        stream=library.ByteStream(body),
        extensions=request.extensions,
    )


def _other(library: ModuleType, request: Any, other: Request) -> Any:
    """Return ``other`` as a request of the library, with the extensions of ``request``."""
    return library.Request(
        other.method,
        other.url,
        headers=list(other.headers),
        stream=library.ByteStream(other.body),
        extensions=request.extensions,
    )


def _head(response: Any) -> Head:
    reason: bytes | None = response.extensions.get("reason_phrase")
    return Head(
        status=response.status_code,
        reason=response.reason_phrase if reason is None else reason.decode("latin-1"),
        version=response.http_version,
        headers=_pairs(response.headers.raw),
    )


def _response(library: ModuleType, reply: Reply | AsyncReply, stream: Any) -> Any:
    head = reply.head
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in head.headers]
    said = {"http_version": head.version.encode(), "reason_phrase": head.reason.encode("latin-1")}
    made = library.Response(head.status, headers=headers, stream=stream, extensions=said)
    if _reading.get() == _UNSEEN and not any(name in _CODINGS for name, _ in headers):
        _fill(made, reply.body())
    return made


def _fill(response: Any, body: bytes | None) -> None:
    """Set the state of a response after reading ``body``, without the six generators of a real
    read. The sender closes it, because only then the elapsed time is known."""
    if body is not None:
        response._content = body
        response._num_bytes_downloaded = len(body)
        response.is_stream_consumed = True


# Live


def _live(library: ModuleType, transport: Any, request: Any) -> Iterator[Any]:
    response = transport.handle_request(request)
    try:
        yield _head(response)
        yield from _stream(library, response)
    finally:
        response.close()


async def _live_async(library: ModuleType, transport: Any, request: Any) -> AsyncIterator[Any]:
    response = await transport.handle_async_request(request)
    try:
        yield _head(response)
        async for piece in _stream(library, response):
            yield piece
    finally:
        await response.aclose()


def _stream(library: ModuleType, response: Any) -> Any:
    """Return the body as it was received.

    If a transport of the program has already read and decoded it, it is encoded again.
    """
    read = getattr(response, "_content", None)
    if read is None or isinstance(response.stream, library.ByteStream):
        return response.stream
    coding = response.headers.get("content-encoding", "")
    try:
        return library.ByteStream(encode(read, coding))
    except (ImportError, KeyError):  # which the library could not undo either
        return library.ByteStream(read)


# Installing


def patches(library: ModuleType) -> list[Patch]:
    """Return the patches of httpx or httpx2."""
    local = (library.MockTransport, library.ASGITransport, library.WSGITransport)
    sync, asynchronous = _transports(library)

    def covering(
        transport: type[Any],
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def transport_for_url(client: Any, url: Any) -> Any:
                chosen = original(client, url)
                session = current()
                if session is None or session.mode == "off" or isinstance(chosen, local):
                    return chosen
                return transport(session, chosen)

            return transport_for_url

        return wrap

    return [
        Patch(library.Client, "_transport_for_url", covering(sync)),
        Patch(library.AsyncClient, "_transport_for_url", covering(asynchronous)),
        Patch(library.Client, "send", _noting, repeatable=True),
        Patch(library.AsyncClient, "send", _noting_async, repeatable=True),
        Patch(library.Cookies, "extract_cookies", _looking_first(library)),
    ]


def _looking_first(library: ModuleType) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Skip the cookie extraction of responses without cookies.

    It would create a request and two messages of the standard library, which is a third of the
    client's work. A custom cookie jar is always called, because it can do more.
    """
    jar = type(library.Cookies().jar)

    def wrap(original: Callable[..., None]) -> Callable[..., None]:
        def extract_cookies(cookies: Any, response: Any) -> None:
            if type(cookies.jar) is not jar or _sets_cookies(response.headers.raw):
                original(cookies, response)

        return extract_cookies

    return wrap


def _sets_cookies(raw: list[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() in _COOKIES for name, _ in raw)


def _way_of_reading(client: Any, stream: bool) -> int:
    if stream:
        return _PIECES
    return _WHOLE if client.event_hooks["response"] else _UNSEEN


def _left_open(response: Any) -> list[Any]:
    """Return the filled responses that still have to be closed."""
    return [one for one in (*response.history, response) if not one.is_closed]


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(client: Any, *args: Any, stream: bool = False, **kwargs: Any) -> Any:
        before = _reading.get()
        _reading.set(_way_of_reading(client, stream))
        try:
            response = original(client, *args, stream=stream, **kwargs)
        finally:
            _reading.set(before)
        if not stream:
            for one in _left_open(response):
                one.close()
        return response

    return send


def _noting_async(original: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def send(client: Any, *args: Any, stream: bool = False, **kwargs: Any) -> Any:
        before = _reading.get()
        _reading.set(_way_of_reading(client, stream))
        try:
            response = await original(client, *args, stream=stream, **kwargs)
        finally:
            _reading.set(before)  # no reset: a forgotten coroutine ends in another context
        if not stream:
            for one in _left_open(response):
                await one.aclose()
        return response

    return send


def _transports(library: ModuleType) -> tuple[type[Any], type[Any]]:
    """Return the sync and async transport classes that use the session."""

    class SyncBody(library.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, reply: Reply) -> None:
            self._reply = reply

        def __iter__(self) -> Iterator[bytes]:
            return iter(self._reply)

        def close(self) -> None:
            self._reply.close()

    class AsyncBody(library.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, reply: AsyncReply) -> None:
            self._reply = reply

        def __aiter__(self) -> AsyncIterator[bytes]:
            return aiter(self._reply)

        async def aclose(self) -> None:
            await self._reply.aclose()

    class Sync(library.BaseTransport):  # type: ignore[misc, name-defined]
        def __init__(self, session: Session, transport: Any) -> None:
            self._session = session
            self._transport = transport

        def handle_request(self, request: Any) -> Any:
            headers = _Headers(request.headers.raw)
            if headers.upgrades:
                return self._transport.handle_request(request)
            body = b"".join(request.stream)
            live = partial(_live, library, self._transport, _again(library, request, body))
            asked = _as_data(request, headers, body)

            def resend(other: Request) -> Any:
                return partial(_live, library, self._transport, _other(library, request, other))

            reply = ask(self._session, asked, live, whole=_reading.get() != _PIECES, resend=resend)
            return _response(library, reply, SyncBody(reply))

    class Async(library.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        def __init__(self, session: Session, transport: Any) -> None:
            self._session = session
            self._transport = transport

        async def handle_async_request(self, request: Any) -> Any:
            headers = _Headers(request.headers.raw)
            if headers.upgrades:
                return await self._transport.handle_async_request(request)
            stream = request.stream
            if isinstance(stream, library.ByteStream):  # which is both kinds, and here already
                body = b"".join(stream)
            else:
                body = b"".join([piece async for piece in stream])
            live = partial(_live_async, library, self._transport, _again(library, request, body))
            asked = _as_data(request, headers, body)

            def resend(other: Request) -> Any:
                made = _other(library, request, other)
                return partial(_live_async, library, self._transport, made)

            reply = await ask_async(
                self._session, asked, live, whole=_reading.get() != _PIECES, resend=resend
            )
            return _response(library, reply, AsyncBody(reply))

    return Sync, Async

"""HTTP interface for boundaries: a request, and a reply that begins with a head.

Boundaries of client libraries use it, including Reenact's own. A boundary creates a
:class:`Request`. It provides the live call as an iterator: first a :class:`Head`, then the bytes of
the body as they arrive, still encoded. It converts the :class:`Reply` to the library's own
response. Recorded, replayed and live replies look the same to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from reenact.boundaries.http.fork import Resend, resent
from reenact.boundaries.http.urls import PORTS
from reenact.boundaries.http.wire import Errors, Head, Request, Wire, call_of, sketch_of
from reenact.boundaries.registry import Boundary, add_boundary
from reenact.engine.codecs import BufferedResponse
from reenact.engine.execution.steps import OpenStream, Outcome, ServeNow, Steps
from reenact.engine.execution.streams import PassedStream, load_response, response_steps
from reenact.engine.patches.patch import Patch
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import RecordingDamaged
from reenact.hermetic.endpoints import listens_here

__all__ = [
    "AsyncReply",
    "Boundary",
    "BufferedResponse",
    "Errors",
    "Head",
    "Patch",
    "Reply",
    "Request",
    "add_boundary",
    "ask",
    "ask_async",
    "current",
]

_ERRORS = Errors()


def ask(
    session: Session,
    request: Request,
    live: Callable[[], Iterator[Any]],
    *,
    whole: bool = False,
    errors: Errors = _ERRORS,
    resend: Resend | None = None,
) -> Reply:
    """Return the reply to ``request``, recorded or from ``live()``. Raises the errors of the
    library.

    With ``whole`` the program does not continue before it has the complete body. The body is then
    one delivery, which is cheaper. ``resend(request)`` replaces ``live`` for a changed request,
    because a fork can send a different one.
    """
    steps = _steps(session, request, live, Wire(session, errors), resend, whole=whole, blocks=True)
    return Reply(session.gateway.run(steps))


async def ask_async(
    session: Session,
    request: Request,
    live: Callable[[], AsyncIterator[Any]],
    *,
    whole: bool = False,
    errors: Errors = _ERRORS,
    resend: Resend | None = None,
) -> AsyncReply:
    """Async variant of :func:`ask`."""
    steps = _steps(session, request, live, Wire(session, errors), resend, whole=whole, blocks=False)
    answer: AsyncIterator[Any] | BufferedResponse = await session.gateway.run_async(steps)
    if isinstance(answer, BufferedResponse):
        return _arrived(answer)
    first = await anext(answer)
    if not isinstance(first, BufferedResponse):
        return AsyncReply(first, answer)
    async for _ in answer:
        pass  # the stream ends here
    return _arrived(first)


def _steps(
    session: Session,
    request: Request,
    live: Callable[[], Any],
    codec: Wire,
    resend: Resend | None,
    *,
    whole: bool,
    blocks: bool,
) -> Steps:
    """Core of both functions. A sketch of the request is enough for most replayed responses."""
    if stays_inside(session, request.url):
        outcome: Outcome = yield OpenStream(PassedStream(session), live)
        return outcome
    sketch = sketch_of(session, request)
    entry = (yield ServeNow(sketch)) if sketch.raw_hash else None
    if entry is not None:
        return Outcome(load_response(codec, sketch, entry))
    call = call_of(session, request, sketch)
    if session.fork is not None:
        call, live = resent(session, request, call, live, resend)
    return (yield from response_steps(session, call, live, codec, whole=whole, blocks=blocks))


def _arrived(answer: BufferedResponse) -> AsyncReply:
    return AsyncReply(_head(answer), answer.since(1), answer)


def _body(answer: BufferedResponse | None) -> bytes | None:
    return None if answer is None or answer.error is not None else b"".join(answer.pieces[1:])


def _head(answer: BufferedResponse) -> Head:
    if not answer.pieces:
        raise RecordingDamaged(
            "a recorded answer has no status and no headers",
            place="field response",
            hint="the recording was changed by hand: restore it, or record it again",
        )
    head: Head = answer.pieces[0]
    return head


def stays_inside(session: Session, url: str) -> bool:
    """Return whether a request is made without recording.

    It is if the program connects to its own server, because nothing crosses the edge of the
    program. It also is if the settings let the host pass through.
    """
    if session.settings.pass_hosts and _host(url) in session.settings.pass_hosts:
        return True
    if not (session.settings.whole_process or session.settings.own_servers):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        return False
    return listens_here(parts.hostname, port)


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


class Reply:
    """An answer: ``head``, and the pieces of the body when iterated over."""

    def __init__(self, answer: Iterator[Any] | BufferedResponse) -> None:
        self._come = 0
        self._answer: BufferedResponse | None = None
        if isinstance(answer, BufferedResponse):
            self._answer = answer
            self.head = _head(answer)
            self._pieces = answer.since(1)
            self._ended = True  # a buffered response has no stream to close
        else:
            self.head = next(answer)
            self._pieces = answer
            self._ended = False

    def body(self) -> bytes | None:
        """Return the complete body, still encoded, or None if it is incomplete."""
        return _body(self._answer)

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces if self._ended else self

    def __next__(self) -> bytes:
        for piece in self._pieces:
            self._come += len(piece)
            return piece  # type: ignore[no-any-return]  # the head was first
        self._ended = True
        raise StopIteration

    def close(self) -> None:
        """Stop reading. If the complete body was received, its end is read as well."""
        if self._ended:
            return
        if self._come == self.head.length:
            for _ in self._pieces:
                pass
        self._pieces.close()  # type: ignore[attr-defined]  # they are generators


class AsyncReply:
    """Async variant of :class:`Reply`.

    If ``whole``, the complete body is available without waiting.
    """

    def __init__(
        self,
        head: Head,
        pieces: AsyncIterator[Any] | Iterator[Any],
        answer: BufferedResponse | None = None,
    ) -> None:
        self.head = head
        self.whole = answer is not None
        self._answer = answer
        self._come = 0
        self._pieces: Any = pieces

    def body(self) -> bytes | None:
        """Return the complete body, still encoded, or None if it is incomplete."""
        return _body(self._answer)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.whole:
            for piece in self._pieces:
                return piece  # type: ignore[no-any-return]  # the head was first
            raise StopAsyncIteration
        arrived: bytes = await anext(self._pieces)
        self._come += len(arrived)
        return arrived

    async def aclose(self) -> None:
        """Stop reading. If the complete body was received, its end is read as well."""
        if self.whole:
            return
        if self._come == self.head.length:
            async for _ in self._pieces:
                pass
        await self._pieces.aclose()

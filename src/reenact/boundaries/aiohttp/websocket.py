"""Websockets of aiohttp: ``ClientSession.ws_connect``, and each message as a call of the session."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import proxy

from aiohttp import ClientWebSocketResponse, WSMessage, WSMsgType, hdrs
from aiohttp.client_exceptions import ClientError, ServerTimeoutError, WSServerHandshakeError
from aiohttp.http import WS_KEY
from aiohttp.streams import EMPTY_PAYLOAD, DataQueue
from multidict import CIMultiDict

from reenact.boundaries.aiohttp.exchange import Hop, HopErrors, raw_pairs, raw_reason
from reenact.boundaries.http.api import Head
from reenact.boundaries.http.http1_messages import head_bytes
from reenact.boundaries.http.websocket import Accepted, Link, Message, Opening, open_link_async
from reenact.engine.session.session import Session
from reenact.format.event import Data

__all__ = [
    "Dial",
    "Inbox",
    "Outbox",
    "WsHop",
    "dialling",
]

dialling: ContextVar[Dial | None] = ContextVar("reenact.aiohttp.dialling", default=None)
"""The websocket that is being opened here."""


class Dial:
    """A websocket that the program opens. ``original`` is ``ClientSession._ws_connect``."""

    def __init__(
        self, session: Session, client: Any, original: Callable[..., Any], kwargs: dict[str, Any]
    ) -> None:
        self.session = session
        self.client = client
        self.original = original
        self.kwargs = kwargs

    async def open(self, url: Any) -> Any:
        """Connect and return the result of ``ws_connect``. Raises its errors."""
        token = dialling.set(self)
        try:
            made = await self.original(self.client, url, **{**self.kwargs, "heartbeat": None})
        finally:
            dialling.reset(token)
        hop: WsHop = made._conn.protocol
        if hop.link is None:
            return hop.handed_over(made)
        made._reader, made._writer = Inbox(hop, made), Outbox(hop, hop.link)
        return made


class WsHop(Hop):
    """The request that opens a websocket, and the connection that it becomes."""

    def __init__(self, dial: Dial, *args: Any) -> None:
        super().__init__(*args)
        self.dial = dial
        self.link: Link | None = None
        self.real: Any = None
        """The websocket that is connected; None in a replay."""

    async def read(self) -> Any:
        request = self._request
        wanted = request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "")
        opening = Opening(
            url=str(request.url),
            headers=tuple((str(name), value) for name, value in request.headers.items()),
            protocols=tuple(name.strip() for name in wanted.split(",") if name),
        )
        accepted, self.link = await open_link_async(
            self._session, opening, self._live_opening, HopErrors(request)
        )
        self.data_received(head_bytes(self._head(accepted)))
        message, _ = await super(Hop, self).read()
        return message, EMPTY_PAYLOAD

    def _head(self, accepted: Accepted) -> Head:
        """Return the head of the response, with the accept value for the current challenge if the
        recorded one was valid."""
        headers = accepted.headers
        if accepted.facts.get("challenge"):
            answer = _answer(self._request.headers)
            headers = tuple(
                (name, answer if name.lower() == "sec-websocket-accept" else value)
                for name, value in headers
            )
        return Head(status=accepted.status, reason=accepted.reason, headers=headers)

    async def _live_opening(self) -> Accepted:
        connection = await self._connected()
        try:
            message, _ = await self._exchange(connection)
            said = message.headers.get(hdrs.SEC_WEBSOCKET_ACCEPT)
            right = said == _answer(self._request.headers)
            if message.code == 101 and right:
                await self._make_real(connection, message)
        finally:
            if self.real is None:
                connection.close()
        return Accepted(
            status=message.code,
            reason=raw_reason(message),
            headers=raw_pairs(message.raw_headers),
            subprotocol=message.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL),
            facts={"challenge": right},
        )

    async def _make_real(self, connection: Any, message: Any) -> None:
        dial = self.dial
        try:
            real = await dial.original(_Connected(connection, message), "", **dial.kwargs)
        except WSServerHandshakeError:
            return  # the program finds the same fault in the same answer
        real._waiting = True  # so that it reports a missing pong
        self.real = real

    def handed_over(self, made: Any) -> Any:
        """Return the real websocket for a pass-through connection, and close ``made``."""
        real, self.real = self.real, None
        real._waiting = False
        made._response.close()
        return real

    def close(self) -> None:
        super().close()
        real, self.real = self.real, None
        if real is not None:
            real._cancel_heartbeat()
            real._response.close()


def _answer(headers: Any) -> str:
    """Return the ``Sec-WebSocket-Accept`` value for the challenge in ``headers``."""
    key = headers.get(hdrs.SEC_WEBSOCKET_KEY, "").encode()
    return base64.b64encode(hashlib.sha1(key + WS_KEY).digest()).decode()


class _Connected:
    """A client session, as far as ``_ws_connect`` looks, that has a response already."""

    _ws_response_class = ClientWebSocketResponse

    def __init__(self, connection: Any, message: Any) -> None:
        self._loop = connection._loop
        self._connection = connection
        self._message = message

    async def request(self, *_: Any, headers: Any, **__: Any) -> Any:
        return _Answered(self._connection, self._message, headers)


class _Answered:
    """The response to the opening of a websocket, to a challenge of another day."""

    request_info: Any = None
    history = ()

    def __init__(self, connection: Any, message: Any, asked: Any) -> None:
        self.connection = connection
        self.status = message.code
        self.headers: CIMultiDict[str] = CIMultiDict(message.headers)
        self.headers[hdrs.SEC_WEBSOCKET_ACCEPT] = _answer(asked)

    def close(self) -> None:
        self.connection.close()


_KINDS = {WSMsgType.TEXT: "text", WSMsgType.BINARY: "bytes"}
_TYPES = {"text": WSMsgType.TEXT, "bytes": WSMsgType.BINARY}


class Inbox(DataQueue[WSMessage]):
    """Read side of ``websocket``, which was opened with ``hop``."""

    def __init__(self, hop: WsHop, websocket: Any) -> None:
        super().__init__(hop._loop)
        self._hop = hop
        self._websocket = proxy(websocket)  # a proxy, because the websocket refers to this queue
        self._reader: asyncio.Task[Any] | None = None
        self._interrupted = False

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Add a message and interrupt the reader, because a different task closes the websocket."""
        super().feed_data(data, size)
        if self._reader is not None and not self._interrupted:
            self._interrupted = True
            self._reader.cancel()

    async def read(self) -> Any:
        if self._buffer:
            return await super().read()
        assert self._hop.link is not None
        self._reader = asyncio.current_task()
        try:
            message = await self._hop.link.receive_async(self._live)
        except asyncio.CancelledError:
            if not self._was_interrupted():
                raise
            return await super().read()
        except ServerTimeoutError as error:
            return self._without_pong(error)
        except ClientError:
            self._websocket._response.close()  # aiohttp does not close a lost connection
            raise
        finally:
            self._reader, self._interrupted = None, False
        return self._message(message)

    def _was_interrupted(self) -> bool:
        """Return whether only :meth:`feed_data` cancelled the reading task."""
        return self._interrupted and self._reader is not None and not self._reader.uncancel()

    def _without_pong(self, error: ServerTimeoutError) -> Any:
        """End the websocket like aiohttp after a missing pong."""
        if type(error) is not ServerTimeoutError or not self._websocket._waiting:
            raise error
        self._reader = None
        self._websocket._handle_ping_pong_exception(error)
        return self._buffer.popleft()[0]

    def _message(self, message: Message) -> Any:
        if message.kind in _TYPES:
            body: Any = message.body
            if isinstance(body, str) and not self._hop.dial.kwargs.get("decode_text", True):
                body = body.encode()
            return WSMessage(_TYPES[message.kind], body, "")
        kind = WSMsgType[message.kind.upper()]
        if kind is WSMsgType.CLOSE:
            return WSMessage(kind, message.code, str(message.body))
        return WSMessage(kind, message.body, "")

    async def _live(self) -> Message:
        real = self._hop.real
        pings = self._hop.dial.kwargs.get("autoping", True)
        while True:
            message = await real._reader.read()
            if message.type is WSMsgType.ERROR:
                raise message.data
            if pings and message.type is WSMsgType.PING:
                if not self._websocket._closed:
                    await real.pong(message.data)
            elif not pings or message.type is not WSMsgType.PONG:
                return _recorded(message)


def _recorded(message: Any) -> Message:
    kind = message.type
    if kind is WSMsgType.CLOSE:
        return Message(kind="close", code=message.data, body=message.extra or "")
    body = message.data if isinstance(message.data, str) else bytes(message.data)
    return Message(kind=_KINDS.get(kind) or kind.name.lower(), body=_said(kind, body))


def _said(kind: WSMsgType, body: str | bytes) -> str | bytes:
    if kind is WSMsgType.TEXT and isinstance(body, bytes):
        try:
            return body.decode()
        except UnicodeDecodeError:
            return body
    return body


class Outbox:
    """Write side of the program's websocket."""

    def __init__(self, hop: WsHop, link: Link) -> None:
        self._hop = hop
        self._link = link

    async def send_frame(
        self, message: Any, opcode: WSMsgType, compress: int | None = None
    ) -> None:
        body = bytes(message)

        async def live() -> None:
            await self._hop.real._writer.send_frame(body, opcode, compress)

        if opcode in (WSMsgType.PING, WSMsgType.PONG):
            request: Data = {"body": body} if body else {}
            await self._link.ask_async(WSMsgType(opcode).name.lower(), request, live)
            return
        kind = _KINDS.get(opcode) or WSMsgType(opcode).name.lower()
        await self._link.send_async(Message(kind=kind, body=_said(opcode, body)), live)

    async def close(self, code: int = 1000, message: bytes | str = b"") -> None:
        reason = message if isinstance(message, str) else message.decode("utf-8", "replace")

        async def live() -> None:
            await self._hop.real._writer.close(code, message)

        request: Data = {"code": int(code), "reason": reason} if reason else {"code": int(code)}
        await self._link.ask_async("close", request, live)

"""Websockets of aiohttp: ``ClientSession.ws_connect``.

The program gets a websocket that aiohttp made, with aiohttp's own ideas about closing and
time-outs. Where it would read a frame or write one, it goes through the session. While recording
there is a second websocket, made by aiohttp as well, that is connected; pings are its business.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from aiohttp import ClientWebSocketResponse, hdrs
from aiohttp.client_exceptions import WSServerHandshakeError
from aiohttp.http import WS_KEY
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDict

from reenact.boundaries.aiohttp.errors import HopErrors
from reenact.boundaries.aiohttp.frames import Inbox, Outbox
from reenact.boundaries.aiohttp.hop import Hop, raw_pairs, raw_reason
from reenact.boundaries.http import Head
from reenact.boundaries.http1 import head_bytes
from reenact.boundaries.websocket import Accepted, Link, Opening, open_link_async
from reenact.engine.session.session import Session

__all__ = ["Dial", "WsHop", "dialling"]

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
        """What ``ws_connect`` gives. Raises what it raises."""
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
        """A right answer to the recorded challenge is a right answer to this one."""
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
        real._waiting = True  # so that it says when no pong comes
        self.real = real

    def handed_over(self, made: Any) -> Any:
        """The websocket that is connected, for a program that may have it; ``made`` goes away."""
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
    """What a server has to say to the challenge in ``headers``."""
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

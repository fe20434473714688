"""Where a websocket of aiohttp reads and writes: each message is a call of the session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import proxy

from aiohttp import WSMessage, WSMsgType
from aiohttp.client_exceptions import ClientError, ServerTimeoutError
from aiohttp.streams import DataQueue

from reenact.boundaries.websocket import Link, Message
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.boundaries.aiohttp.websocket import WsHop

__all__ = ["Inbox", "Outbox"]

_KINDS = {WSMsgType.TEXT: "text", WSMsgType.BINARY: "bytes"}
_TYPES = {"text": WSMsgType.TEXT, "bytes": WSMsgType.BINARY}


class Inbox(DataQueue[WSMessage]):
    """Where ``websocket`` reads, which was opened with ``hop``."""

    def __init__(self, hop: WsHop, websocket: Any) -> None:
        super().__init__(hop._loop)
        self._hop = hop
        self._websocket = proxy(websocket)  # which holds us: forgotten, it shall go at once
        self._reader: asyncio.Task[Any] | None = None
        self._interrupted = False

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Another task closes the websocket, and says so to who is reading."""
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
            self._websocket._response.close()  # nobody else does, of a connection that is lost
            raise
        finally:
            self._reader, self._interrupted = None, False
        return self._message(message)

    def _was_interrupted(self) -> bool:
        """Was it only for what was fed? Then nobody else has cancelled the task."""
        return self._interrupted and self._reader is not None and not self._reader.uncancel()

    def _without_pong(self, error: ServerTimeoutError) -> Any:
        """As a websocket of aiohttp ends when its heartbeat is not answered."""
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
    """Where the websocket of the program writes."""

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

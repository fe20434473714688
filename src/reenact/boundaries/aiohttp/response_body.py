"""Body of an aiohttp response: a stream that requests data when it is read."""

from __future__ import annotations

from asyncio import CancelledError, Task
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any

from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import set_exception
from aiohttp.http_parser import DeflateBuffer
from aiohttp.streams import StreamReader

from reenact.boundaries.http.api import AsyncReply
from reenact.engine.patches import unpatched_loop
from reenact.engine.session.context import context_outside_sessions

__all__ = ["PARTIAL", "Body"]

PARTIAL = b""
"""Marker that the next piece does not end a chunk of the transfer coding."""


class Body(StreamReader):
    """Stream reader for the body of ``reply``. It requests data only when a reader waits.

    The request runs in a separate task, because a reader can stop waiting and return later.
    """

    def __init__(
        self, reply: AsyncReply, protocol: ResponseHandler, message: Any, params: Mapping[str, Any]
    ) -> None:
        super().__init__(
            protocol, params["read_bufsize"], timer=params["timer"], loop=protocol._loop
        )
        self.by_chunk = False
        """True if the program reads the chunks of the transfer coding one by one."""
        self._reply = reply
        self._left = reply.head.length
        self._chunked: bool = message.chunked
        self._over = False
        """True if the reply has ended or was truncated."""
        self._task: Task[None] | None = None
        self._sink: Any = self
        if message.compression and params["auto_decompress"]:
            self._sink = DeflateBuffer(self, message.compression)
        if self._chunked:
            self.begin_http_chunk_receiving()

    # For who reads

    async def _wait(self, func_name: str) -> None:
        if self._task is None and not self._eof:
            # Its context is the program's: until the reader has got it, the loop is not at rest.
            pulling = self._pull()
            self._task = unpatched_loop.create_task(
                self._loop, pulling, name="reenact body", context=copy_context()
            )
        await super()._wait(func_name)

    async def readchunk(self) -> tuple[bytes, bool]:
        self.by_chunk = True
        return await super().readchunk()

    async def wait_eof(self) -> None:
        while not self._eof:
            if self._exception is not None:
                raise self._exception
            await self._wait("wait_eof")

    # From the reply

    async def take_all(self) -> None:
        """Take what is there already, to the end."""
        while not self._eof and self._exception is None:
            await self._take()

    async def _pull(self) -> None:
        """Read pieces until the reader has data, because a few bytes can decompress to nothing."""
        try:
            await self._take()
            while self._waiter is not None and self._exception is None:
                await self._take()
        finally:
            self._task = None

    async def _take(self) -> None:
        try:
            pieces, ended = await self._next()
        except CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised where the body is read
            self._over = True
            self.set_exception(error)
            return
        self._over = ended
        for piece, ends_chunk in pieces:
            self._feed(piece, ends_chunk=ends_chunk)
        if ended:
            self._end()

    async def _next(self) -> tuple[list[tuple[bytes, bool]], bool]:
        """Return the next pieces, and whether they are the last.

        If the length is known, the last byte also ends the body.
        """
        pieces: list[tuple[bytes, bool]] = []
        while not pieces or self._left == 0:
            piece = await anext(self._reply, None)
            ends_chunk = piece != PARTIAL
            if not ends_chunk:
                piece = await anext(self._reply, None)
            if piece is None:
                return pieces, True
            pieces.append((piece, ends_chunk))
            if self._left is not None:
                self._left -= len(piece)
        return pieces, False

    def _feed(self, piece: bytes, *, ends_chunk: bool) -> None:
        try:
            more = self._sink.feed_data(piece, len(piece))
            while more:
                more = self._sink.feed_data(b"", 0)
        except Exception as error:  # noqa: BLE001 - each decoder fails in its own way
            self._fail(error)
            return
        if self._chunked and ends_chunk:
            self._sink.end_http_chunk_receiving()

    def _end(self) -> None:
        if self._exception is not None:
            return
        try:
            if self._chunked:  # the chunk of no bytes, which is the last one
                self._sink.end_http_chunk_receiving()
            self._sink.feed_eof()
        except Exception as error:  # noqa: BLE001 - the same
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Set the exception, as the parser of aiohttp does."""
        set_exception(self, ClientPayloadError(str(error)), error)

    # Nobody reads on

    def abandon(self) -> None:
        """Stop asking, at once or at the end of what is under way."""
        if self._task is not None:
            self._task.cancel()
        elif not self._over and not self._loop.is_closed():
            unpatched_loop.create_task(
                self._loop,
                self._reply.aclose(),
                name="reenact close",
                context=context_outside_sessions(),
            )

"""HTTP as a boundary sees it: a request, and an answer that begins with a head.

This is the interface for client libraries; ours use it, too. A boundary makes a :class:`Request`,
says how the call is made for real (an iterator: first a :class:`Head`, then the bytes of the body
as they arrive, still encoded), and makes the library's own response out of the :class:`Reply`. It
does not need to know whether that was recorded, replayed or live.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from reenact.boundaries.wire import Errors, Head, Request, Wire, call_of
from reenact.engine.replies import fetch, fetch_async
from reenact.engine.session import Session

__all__ = ["AsyncReply", "Errors", "Head", "Reply", "Request", "ask", "ask_async"]

_ERRORS = Errors()


def ask(
    session: Session,
    request: Request,
    live: Callable[[], Iterator[Any]],
    *,
    whole: bool = False,
    errors: Errors = _ERRORS,
) -> Reply:
    """The answer to ``request``: recorded, or from ``live()``. Raises what the library raises.

    With ``whole`` the program does not go on before it has the whole body; then it is one
    delivery, and costs less.
    """
    codec = Wire(session, errors)
    return Reply(fetch(session, call_of(session, request), live, codec, whole=whole))


async def ask_async(
    session: Session,
    request: Request,
    live: Callable[[], AsyncIterator[Any]],
    *,
    whole: bool = False,
    errors: Errors = _ERRORS,
) -> AsyncReply:
    """The same for a coroutine."""
    codec = Wire(session, errors)
    pieces = await fetch_async(session, call_of(session, request), live, codec, whole=whole)
    return AsyncReply(await anext(pieces), pieces)


class Reply:
    """An answer: ``head``, and the pieces of the body when iterated over."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self.head: Head = next(pieces)
        self._left = self.head.length
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        piece: bytes = next(self._pieces)
        if self._left is not None:
            self._left -= len(piece)
        return piece

    def close(self) -> None:
        """Nobody reads on. Where all has come, the end is part of it."""
        if self._left == 0:
            for _ in self._pieces:
                pass
        self._pieces.close()  # type: ignore[attr-defined]  # they are generators


class AsyncReply:
    """The same for tasks."""

    def __init__(self, head: Head, pieces: AsyncIterator[Any]) -> None:
        self.head = head
        self._left = head.length
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece: bytes = await anext(self._pieces)
        if self._left is not None:
            self._left -= len(piece)
        return piece

    async def aclose(self) -> None:
        """Nobody reads on. Where all has come, the end is part of it."""
        if self._left == 0:
            async for _ in self._pieces:
                pass
        await self._pieces.aclose()  # type: ignore[attr-defined]  # they are generators

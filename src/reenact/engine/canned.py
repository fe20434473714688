"""An answer that is known already, in place of a live call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any

from reenact.engine.answers import Codec, StreamCodec, answer_field
from reenact.engine.call import Call
from reenact.engine.pieces import raise_recorded, returned
from reenact.format.event import Data

__all__ = ["canned", "canned_async", "canned_pieces", "canned_pieces_async"]


def canned(call: Call, data: Data, codec: Codec) -> Callable[[], Any]:
    """What ``data``, the completing event, says that was answered: for threads."""

    def live() -> Any:
        error = data.get("error")
        if error is not None:
            raise codec.load_error(call, error)
        return codec.load(call, data)

    return live


def canned_async(call: Call, data: Data, codec: Codec) -> Callable[[], Awaitable[Any]]:
    """The same for tasks."""
    known = canned(call, data, codec)

    async def live() -> Any:
        return known()

    return live


def canned_pieces(
    call: Call, data: Data, codec: StreamCodec
) -> Callable[[], Generator[Any, Any, Any]]:
    """The same for an answer that comes in pieces."""

    def live() -> Generator[Any, Any, Any]:
        yield from codec.load(data.get(answer_field(call)))
        raise_recorded(codec, call, data)
        return returned(call, data)

    return live


def canned_pieces_async(
    call: Call, data: Data, codec: StreamCodec
) -> Callable[[], AsyncIterator[Any]]:
    """The same for tasks."""

    async def live() -> AsyncIterator[Any]:
        for piece in codec.load(data.get(answer_field(call))):
            yield piece
        raise_recorded(codec, call, data)

    return live

"""What is said over a connection of ``websockets``, and how it ends, for both of its clients.

The state of a connection that goes nowhere is what the program has been told: it is open until a
call says that it is closed, recording and replaying.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from websockets.protocol import State

from reenact.boundaries.websocket import Message
from reenact.boundaries.websockets.values import ends, frames
from reenact.format.event import Data

__all__ = [
    "END",
    "closed",
    "closing",
    "gathered",
    "message_of",
    "note_closed",
    "note_ends",
    "payload",
]

_BYTES = (bytes, bytearray, memoryview)

END = Message(kind="end")
"""After the last fragment of a message."""

# Messages


def gathered(message: Any) -> Any:
    """``message``; where it comes in fragments, a list of them."""
    whole = isinstance(message, (str, *_BYTES, Mapping))
    return list(message) if not whole and isinstance(message, Iterable) else message


def message_of(whole: Any, text: bool | None) -> Message | None:
    """What is sent, with all its fragments as one; None when it cannot be sent."""
    body = _joined(whole) if isinstance(whole, list) else whole
    if isinstance(body, _BYTES):
        body = bytes(body)
    elif not isinstance(body, str):
        return None
    as_text = isinstance(body, str) if text is None else text
    return Message(kind="text" if as_text else "bytes", body=body)


def _joined(fragments: list[Any]) -> str | bytes:
    """Those that do not fit the first are the library's business."""
    if isinstance(fragments[0], str):
        return "".join(one for one in fragments if isinstance(one, str))
    return b"".join(bytes(one) for one in fragments if isinstance(one, _BYTES))


def payload(data: Any) -> Data:
    """What a ping or a pong carries; a ping without data has some of the library's choice."""
    if data is None:
        return {}
    return {"body": data if isinstance(data, str) else bytes(data)}


# Closing


def closing(code: int, reason: str) -> Data:
    """What a program says when it closes."""
    return {"code": int(code), "reason": reason} if reason else {"code": int(code)}


def closed(connection: Any) -> Data:
    """How ``connection``, which is real, was closed."""
    protocol = connection.protocol
    return ends(protocol.close_rcvd, protocol.close_sent, protocol.close_rcvd_then_sent)


def note_closed(connection: Any, rcvd: Any, sent: Any, rcvd_then_sent: bool | None) -> None:
    """The program has been told that ``connection`` is closed, and how."""
    protocol = connection.protocol
    protocol.close_rcvd, protocol.close_sent = rcvd, sent
    protocol.close_rcvd_then_sent = rcvd_then_sent
    protocol.state = State.CLOSED


def note_ends(connection: Any, ends: Any) -> None:
    """The same, from what was recorded."""
    note_closed(connection, *frames(ends))

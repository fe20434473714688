"""Between what a program gets and what is written: how a boundary keeps its results."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Any, Protocol

import msgspec

from reenact.engine.call import PAIRS, Call
from reenact.engine.current import current
from reenact.engine.failures import failure_data, rebuild
from reenact.errors import ValueRefused
from reenact.format.canonical import decode, exact, plain
from reenact.format.event import Data
from reenact.policy.screen import Screen
from reenact.policy.streams import payload

__all__ = [
    "PIECES",
    "PLAIN",
    "Codec",
    "Growth",
    "Pieces",
    "Plain",
    "StreamCodec",
    "Whole",
    "answer_field",
    "owned",
]


def owned(value: Any) -> Any:
    """A copy of ``value`` that its owner can no longer change. Raises :class:`ValueRefused`."""
    try:
        return plain(decode(exact(value)))
    except ValueRefused as error:  # the path names keys, and a key can be anything
        session = current()
        told = error.path if session is None else session.redacted_text(error.path)
        raise ValueRefused(error.reason, told, hint=error.hint) from None


class Codec(Protocol):
    """One per boundary. Data are fields of the event that completes the call."""

    def dump(self, call: Call, result: Any) -> Data:
        """What is recorded of ``result``. Raises :class:`ValueRefused` for what cannot be."""

    def load(self, call: Call, data: Data) -> Any:
        """The result that ``data`` was recorded of."""

    def returned(self, call: Call, result: Any, data: Data) -> Any:
        """What the program gets while recording: ``result`` itself, or what a replay will give."""

    def dump_error(self, call: Call, error: BaseException) -> Data:
        """What is recorded of a failure."""

    def load_error(self, call: Call, data: Any) -> BaseException:
        """The exception that ``data`` was recorded of."""


class Plain:
    """Results that are JSON values (and bytes) themselves, passed by value.

    While recording the program gets the value that a replay will give it: where a tool returns a
    tuple, a list.
    """

    def dump(self, call: Call, result: Any) -> Data:
        result = owned(result)
        if call.type == "tool_call":
            return {"ok": True, "result": result}
        if call.type == "llm_request":
            return {"stopReason": None, "usage": None, "response": result}
        return {"response": result}

    def load(self, call: Call, data: Data) -> Any:
        if call.type == "tool_call":
            return data.get("result")
        return data["response"] if "response" in data else data.get("value")

    def returned(self, call: Call, result: Any, data: Data) -> Any:
        return self.load(call, data)

    def dump_error(self, call: Call, error: BaseException) -> Data:
        return failure_data(error)

    def load_error(self, call: Call, data: Any) -> BaseException:
        return rebuild(data)


PLAIN = Plain()


class Growth(Protocol):
    """The response of one stream, while it is coming."""

    def add(self, piece: Any) -> Any:
        """What ``piece`` adds to the response, as far as it may be written by now: an object whose
        fields are joined with those before (lists, texts and bytes one behind the other)."""


class StreamCodec(Protocol):
    """One per boundary whose answers come piece by piece. ``response`` is the field of that name
    in the event that completes the call."""

    timed: bool
    """Is it recorded when each piece came?"""

    def admit(self, piece: Any) -> Any:
        """``piece`` by value. Raises :class:`ValueRefused` for what cannot be recorded."""

    def size(self, piece: Any) -> int:
        """How many bytes of the answer it is."""

    def dump(self, pieces: list[Any], returned: Any) -> Any:
        """The response that is recorded of ``pieces``; ``returned`` is what a generator returned."""

    def load(self, response: Any) -> list[Any]:
        """The pieces that ``response`` was recorded of."""

    def growth(self, screen: Screen) -> Growth:
        """For one stream. ``screen`` is asked about every text that goes on from piece to piece."""

    def dump_error(self, call: Call, error: BaseException) -> Data:
        """What is recorded of a failure."""

    def load_error(self, call: Call, data: Any) -> BaseException:
        """The exception that ``data`` was recorded of."""


class Whole(msgspec.Struct):
    """All of an answer, and what broke it off.

    A live asynchronous iterator may yield one instead of pieces, when there is nothing left to wait
    for: then the answer is a single delivery.
    """

    pieces: list[Any] = msgspec.field(default_factory=list)
    error: BaseException | None = None

    def __iter__(self) -> Iterator[Any]:
        return self.since(0)

    def since(self, number: int) -> Iterator[Any]:
        """The pieces from that one on, and then what broke it off."""
        pieces = iter(self.pieces[number:])
        return pieces if self.error is None else chain(pieces, _raising(self.error))


def _raising(error: BaseException) -> Iterator[Any]:
    yield from ()
    raise error


class Pieces:
    """Pieces that are JSON values (and bytes) themselves, passed by value."""

    timed = False

    def admit(self, piece: Any) -> Any:
        return owned(piece)

    def size(self, piece: Any) -> int:
        return len(exact(piece))

    def dump(self, pieces: list[Any], returned: Any) -> Any:
        response = {"chunks": pieces}
        if returned is not None:
            response["returned"] = owned(returned)
        return response

    def load(self, response: Any) -> list[Any]:
        chunks = response.get("chunks") if isinstance(response, dict) else None
        return chunks if isinstance(chunks, list) else []

    def growth(self, screen: Screen) -> Growth:
        return _GrowingPieces(screen)

    def dump_error(self, call: Call, error: BaseException) -> Data:
        return failure_data(error)

    def load_error(self, call: Call, data: Any) -> BaseException:
        return rebuild(data)


class _GrowingPieces:
    """A piece is written when nothing in it, nor in one before it, can be a part of a secret."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._size = 0
        self._held: deque[tuple[int, Any]] = deque()

    def add(self, piece: Any) -> Any:
        text = payload(piece)
        self._size += len(text)
        self._held.append((self._size, piece))
        safe = self._screen.add(text)
        ready = []
        while self._held and self._held[0][0] <= safe:
            ready.append(self._held.popleft()[1])
        return {"chunks": ready}


PIECES = Pieces()


def error_fields(call: Call, error: Data) -> Data:
    """The fields of a completing event that say that the call failed."""
    if call.type == "tool_call":
        return {"ok": False, "error": error}
    if call.type == "llm_request":
        return {"stopReason": None, "usage": None, "error": error}
    return {"error": error}


def answer_field(call: Call) -> str:
    """The field of the completing event that has what a stream gave."""
    return "result" if call.type == "tool_call" else "response"


def completing_type(call: Call) -> str:
    """The type of the event that completes ``call``."""
    return PAIRS.get(call.type, call.type)

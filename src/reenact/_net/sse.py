"""Codec for server-sent events, as the HTML standard specifies them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

__all__ = [
    "Event",
    "EventParser",
    "EventTooLarge",
    "encode_comment",
    "encode_event",
    "encode_retry",
    "parse_events",
]

_BOM = b"\xef\xbb\xbf"
_RETRY_DIGITS = 10


class Event(msgspec.Struct, frozen=True):
    """A complete event. ``name`` is empty if the stream does not name it. ``id`` is the last id that
    the stream has set, with this event or before it."""

    name: str
    data: str
    id: str = ""


class EventTooLarge(Exception):
    """An event, or a line, has more bytes than the parser allows."""


class EventParser:
    """Incremental parser. Lines end with CR, LF or CRLF, invalid UTF-8 is replaced, and an event
    without its final empty line is dropped.

    ``last_id`` is the id to resume from. ``retry`` is the number of milliseconds to wait before
    that, if the stream has set it.
    """

    def __init__(self, *, most: int, last_id: str = "") -> None:
        self.last_id = last_id
        self.retry: int | None = None
        self._most = most
        self._rest = bytearray()
        self._skip_newline = False
        self._started = False
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that ``piece`` completes. Raises :class:`EventTooLarge`."""
        found: list[Event] = []
        if self._skip_newline and piece:
            self._skip_newline = False
            piece = piece.removeprefix(b"\n")
        searched = len(self._rest)
        self._rest += piece
        begin = 0
        while (end := _line_end(self._rest, max(begin, searched))) is not None:
            line = bytes(self._rest[begin : end[0]])
            begin = end[1]
            # A CR at the end of the piece can be the first half of a CRLF.
            self._skip_newline = begin == len(self._rest) and end[2]
            event = self._take_line(line)
            if event is not None:
                found.append(event)
        del self._rest[:begin]
        if len(self._rest) + self._size > self._most:
            raise EventTooLarge
        return found

    def _take_line(self, line: bytes) -> Event | None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        self._take_field(name, value.removeprefix(" "))
        return None

    def _take_field(self, name: str, value: str) -> None:
        if name == "data":
            self._data.append(value)
            self._size += len(value)
            if self._size > self._most:
                raise EventTooLarge
        elif name == "event":
            self._name = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) < _RETRY_DIGITS:
            self.retry = int(value)

    def _dispatch(self) -> Event | None:
        name, data = self._name, self._data
        self._name, self._data, self._size = "", [], 0
        return Event(name, "\n".join(data), self.last_id) if data else None


def parse_events(body: bytes) -> Iterator[Event]:
    """Yield the complete events of ``body``."""
    yield from EventParser(most=len(body)).feed(body)


def encode_event(name: str, data: bytes, id: int | str | None = None) -> bytes:
    """Return the bytes of one event. Each line of ``data`` becomes a field."""
    fields = [] if id is None else [b"id: " + str(id).encode()]
    if name:
        fields.append(b"event: " + name.encode())
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    fields += (b"data: " + line for line in lines)
    return b"\n".join(fields) + b"\n\n"


def encode_retry(seconds: float) -> bytes:
    """Return the bytes that tell a client how long to wait before it reconnects."""
    return b"retry: %d\n\n" % round(seconds * 1000)


def encode_comment(text: str) -> bytes:
    """Return the bytes of a comment, which keeps a connection alive. ``text`` is one line."""
    return b": " + text.encode() + b"\n\n"


def _line_end(data: bytearray, start: int) -> tuple[int, int, bool] | None:
    """Return the end of the line, the start of the next one, and whether a lone CR ended it."""
    newline = data.find(b"\n", start)
    cr = data.find(b"\r", start, newline if newline >= 0 else len(data))
    if cr < 0:
        return None if newline < 0 else (newline, newline + 1, False)
    both = data[cr + 1 : cr + 2] == b"\n"
    return cr, cr + (2 if both else 1), not both

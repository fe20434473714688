"""Server-sent events out of bytes, whatever pieces they come in. Pure."""

from __future__ import annotations

import msgspec

__all__ = ["EventTooLarge", "Parser", "Sent"]

_MOST_RETRY = 10
"""Digits of ``retry``."""


class Sent(msgspec.Struct, frozen=True):
    """An event. ``id`` is the last one that was given, with this event or before it."""

    event: str
    data: str
    id: str = ""


class EventTooLarge(Exception):
    """An event, or a line, has more bytes than it may have."""


class Parser:
    """Fed with bytes, it gives the events that are complete. As the standard has it: lines end with
    CR, LF or both; what is not UTF-8 is replaced; an event that is cut off is none.

    ``last_id`` is what to resume from, ``retry`` the milliseconds to wait before that, if the
    server has said so.
    """

    def __init__(self, *, most: int) -> None:
        self.last_id = ""
        self.retry: int | None = None
        self._most = most
        self._rest = bytearray()
        self._skip_newline = False
        self._begun = False
        self._event = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[Sent]:
        """The events that ``piece`` completes. Raises :class:`EventTooLarge`."""
        found: list[Sent] = []
        if self._skip_newline and piece:
            self._skip_newline = False
            piece = piece.removeprefix(b"\n")
        searched = len(self._rest)
        self._rest += piece
        while (end := _line_end(self._rest, searched)) is not None:
            line, self._rest = bytes(self._rest[: end[0]]), self._rest[end[1] :]
            # A CR at the very end may be the first half of CR LF.
            self._skip_newline = not self._rest and end[2]
            searched = 0
            sent = self._take(line)
            if sent is not None:
                found.append(sent)
        if len(self._rest) + self._size > self._most:
            raise EventTooLarge
        return found

    def _take(self, raw: bytes) -> Sent | None:
        line = raw.decode("utf-8", "replace")
        if not self._begun:
            self._begun = True
            line = line.removeprefix("\ufeff")
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        self._field(name, value.removeprefix(" "))
        return None

    def _field(self, name: str, value: str) -> None:
        if name == "data":
            self._data.append(value)
            self._size += len(value)
            if self._size > self._most:
                raise EventTooLarge
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) < _MOST_RETRY:
            self.retry = int(value)

    def _dispatch(self) -> Sent | None:
        event, data = self._event or "message", self._data
        self._event, self._data, self._size = "", [], 0
        return Sent(event, "\n".join(data), self.last_id) if data else None


def _line_end(data: bytearray, start: int) -> tuple[int, int, bool] | None:
    """Where the first line ends, where the next begins, and whether a lone CR ended it."""
    newline, cr = data.find(b"\n", start), data.find(b"\r", start)
    if newline < 0 and cr < 0:
        return None
    if cr < 0 or 0 <= newline < cr:
        return newline, newline + 1, False
    both = data[cr + 1 : cr + 2] == b"\n"
    return cr, cr + (2 if both else 1), not both

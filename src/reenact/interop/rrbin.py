"""X07's cassettes, ``*.rrbin``: frames of one entry each.

A frame is its length (32 bits, little-endian) and a document: a byte 1, then a value. A value is a
tag and its content: null, truth value, number in decimal digits, string of any bytes, sequence, map
whose keys ascend. Enough to read any document, and to write ours byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from reenact.errors import RrError
from reenact.interop.foreign import Exchange, Found, Item, Made, damaged
from reenact.interop.losses import Losses
from reenact.rr.entries import Entry, check

__all__ = ["read", "write"]

_DOCUMENT = 1
_NULL, _BOOL, _NUMBER, _STRING, _SEQUENCE, _MAP = range(6)
_DEEPEST = 64
_LONGEST_NUMBER = 32
_FIELDS = frozenset({b"kind", b"op", b"key", b"req", b"resp", b"err", b"latency_ticks"})
_OURS = frozenset({b"seq", b"v"})
"""Written by X07's recorder, and read by nobody."""


def read(content: bytes) -> Found:
    """The entries of a cassette. Raises :class:`RecordingDamaged` that names the frame."""
    found = Found()
    at, number = 0, 0
    while at < len(content):
        number += 1
        place = f"frame {number}"
        size = _Reader(content, at, len(content), place).u32()
        end = at + 4 + size
        if end > len(content):
            raise damaged("the file ends in the middle of it", place, "copy the file again")
        found.items.append(_entry(_document(content, at + 4, end, place), place, found.losses))
        at = end
    return found


def _document(content: bytes, start: int, end: int, place: str) -> dict[bytes, Any]:
    reader = _Reader(content, start, end, place)
    if reader.byte() != _DOCUMENT:
        raise damaged("it is not a document", place)
    value = reader.value(_DEEPEST)
    if reader.at != end:
        raise damaged("there are bytes after its value", place)
    if not isinstance(value, dict):
        raise damaged("its value is not a map", place)
    return value


class _Reader:
    """Reads values from ``content``, up to ``end``."""

    def __init__(self, content: bytes, at: int, end: int, place: str) -> None:
        self.at = at
        self._content = content
        self._end = end
        self._place = place

    def take(self, size: int) -> bytes:
        if size > self._end - self.at:
            raise damaged("it is cut short", self._place, "copy the file again")
        self.at += size
        return self._content[self.at - size : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def u32(self) -> int:
        number: int = struct.unpack("<I", self.take(4))[0]
        return number

    def value(self, room: int) -> Any:
        if not room:
            raise damaged(f"it is nested deeper than {_DEEPEST}", self._place)
        tag = self.byte()
        match tag:
            case 0:
                return None
            case 1:
                return bool(self.byte())
            case 2:
                return _Number(self.take(self.u32()))
            case 3:
                return self.take(self.u32())
            case 4:
                return [self.value(room - 1) for _ in self._counted()]
            case 5:
                return self._map(room)
        raise damaged("it has a value of no known kind", self._place)

    def _counted(self) -> range:
        count = self.u32()
        if count > self._end - self.at:  # each takes a byte at least
            raise damaged("it is cut short", self._place)
        return range(count)

    def _map(self, room: int) -> dict[bytes, Any]:
        found: dict[bytes, Any] = {}
        last: bytes | None = None
        for _ in self._counted():
            key = self.take(self.u32())
            if last is not None and key <= last:
                raise damaged("the keys of a map do not ascend", self._place)
            found[key] = self.value(room - 1)
            last = key
        return found


class _Number(bytes):
    """The digits of a number."""

    def read(self, field: str, place: str) -> int:
        digits = self.removeprefix(b"-")
        if not digits.isdigit() or len(digits) > _LONGEST_NUMBER:
            raise damaged(f"{field} is not a whole number", place)
        return int(self)


def _entry(fields: dict[bytes, Any], place: str, losses: Losses) -> Entry:
    losses.note("entry_fields", len(fields.keys() - _FIELDS - _OURS))
    given: dict[str, Any] = {}
    for name in _FIELDS & fields.keys():
        value, field = fields[name], name.decode()
        if field in ("err", "latency_ticks"):
            if not isinstance(value, _Number):
                raise damaged(f"{field} is not a number", place)
            given[field] = value.read(field, place)
        elif isinstance(value, bytes) and not isinstance(value, _Number):
            given[field] = value
        else:
            raise damaged(f"{field} is not a string", place)
    missing = {name.decode() for name in _FIELDS - {b"latency_ticks"}} - given.keys()
    if missing:
        raise damaged(f"the entry has no {min(missing)}", place)
    try:
        return check(given)
    except RrError:  # its text may quote the entry
        raise damaged("its kind, op, err or latency is not one that an entry has", place) from None


def write(items: Iterable[Item]) -> Made:
    """A cassette. HTTP calls are entries of the kind ``http``: the method is the op, the URL the
    key."""
    made = Made(b"", 0)
    frames = []
    for number, item in enumerate(items):
        entry = _of_exchange(item, made.losses) if isinstance(item, Exchange) else item
        frames.append(_frame(entry, number))
    made.content, made.calls = b"".join(frames), len(frames)
    return made


def _of_exchange(exchange: Exchange, losses: Losses) -> Entry:
    losses.note("status")
    losses.note("headers")
    losses.note("times")
    return Entry(
        kind="http",
        op=exchange.request.method,
        key=exchange.request.url.encode(),
        req=exchange.request.body,
        resp=exchange.body,
    )


def _frame(entry: Entry, number: int) -> bytes:
    fields = {
        "err": _number(entry.err),
        "key": _string(entry.key),
        "kind": _string(entry.kind.encode()),
        "op": _string(entry.op.encode()),
        "req": _string(entry.req),
        "resp": _string(entry.resp),
        "seq": _number(number),
        "v": _number(1),
    }
    if entry.latency_ticks is not None:
        fields["latency_ticks"] = _number(entry.latency_ticks)
    pairs = (_sized(name.encode()) + value for name, value in sorted(fields.items()))
    payload = bytes([_DOCUMENT, _MAP]) + struct.pack("<I", len(fields)) + b"".join(pairs)
    return _sized(payload)


def _sized(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def _number(number: int) -> bytes:
    return bytes([_NUMBER]) + _sized(str(number).encode())


def _string(content: bytes) -> bytes:
    return bytes([_STRING]) + _sized(content)

"""Codec for X07 cassettes, ``*.rrbin``: one frame per entry.

A frame is its length (32 bits, little-endian) and a document: a byte 1, then a value. A value is a
tag and its content: null, boolean, number in decimal digits, string of any bytes, sequence, or map
with ascending keys. The reader accepts every document, the writer reproduces X07's bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from reenact.errors import RecordingDamaged, RrError
from reenact.rr.entries import Entry, check

__all__ = ["SUFFIX", "decode", "encode", "is_cut_short"]

SUFFIX: Final = ".rrbin"

_LENGTH = struct.Struct("<I")
_DOCUMENT = 1
_NULL, _BOOL, _NUMBER, _STRING, _SEQUENCE, _MAP = range(6)
_DEEPEST = 64
_LONGEST_NUMBER = 32
_FIELDS = frozenset({b"kind", b"op", b"key", b"req", b"resp", b"err", b"latency_ticks"})
_IGNORED = frozenset({b"seq", b"v"})
"""Written by X07's recorder. Neither X07 nor Reenact reads them."""

_CUT_SHORT = "cut_short"


def decode(content: bytes) -> Iterator[tuple[Entry, int]]:
    """Yield every entry with the number of its unknown fields.

    Raises :class:`RecordingDamaged` that names the frame.
    """
    at, number = 0, 0
    while at < len(content):
        number += 1
        place = f"frame {number}"
        start = at + _LENGTH.size
        end = start + _LENGTH.unpack_from(content, at)[0] if start <= len(content) else start
        if end > len(content):
            raise RecordingDamaged(
                f"{place}: the file ends in the middle of it",
                place=place,
                hint="copy the file again",
                shape=_CUT_SHORT,
            )
        yield _entry(_document(content, start, end, place), place)
        at = end


def is_cut_short(error: RecordingDamaged) -> bool:
    """Return whether :func:`decode` failed because the file ends inside a frame."""
    return error.fields.get("shape") == _CUT_SHORT


def _damaged(why: str, place: str) -> RecordingDamaged:
    return RecordingDamaged(f"{place}: {why}", place=place)


def _document(content: bytes, start: int, end: int, place: str) -> dict[bytes, Any]:
    reader = _Reader(content, start, end, place)
    if reader.byte() != _DOCUMENT:
        raise _damaged("it is not a document", place)
    value = reader.value(_DEEPEST)
    if reader.at != end:
        raise _damaged("there are bytes after its value", place)
    if not isinstance(value, dict):
        raise _damaged("its value is not a map", place)
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
            raise _damaged("a value in it is longer than the frame", self._place)
        self.at += size
        return self._content[self.at - size : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def u32(self) -> int:
        number: int = _LENGTH.unpack(self.take(_LENGTH.size))[0]
        return number

    def value(self, room: int) -> Any:
        if not room:
            raise _damaged(f"it is nested deeper than {_DEEPEST}", self._place)
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
        raise _damaged("it has a value of no known kind", self._place)

    def _counted(self) -> range:
        count = self.u32()
        if count > self._end - self.at:  # each takes a byte at least
            raise _damaged("a value in it is longer than the frame", self._place)
        return range(count)

    def _map(self, room: int) -> dict[bytes, Any]:
        found: dict[bytes, Any] = {}
        last: bytes | None = None
        for _ in self._counted():
            key = self.take(self.u32())
            if last is not None and key <= last:
                raise _damaged("the keys of a map do not ascend", self._place)
            found[key] = self.value(room - 1)
            last = key
        return found


class _Number(bytes):
    """The digits of a number."""

    def read(self, field: str, place: str) -> int:
        digits = self.removeprefix(b"-")
        if not digits.isdigit() or len(digits) > _LONGEST_NUMBER:
            raise _damaged(f"{field} is not a whole number", place)
        return int(self)


def _entry(fields: dict[bytes, Any], place: str) -> tuple[Entry, int]:
    given: dict[str, Any] = {}
    for name in _FIELDS & fields.keys():
        value, field = fields[name], name.decode()
        if field in ("err", "latency_ticks"):
            if not isinstance(value, _Number):
                raise _damaged(f"{field} is not a number", place)
            given[field] = value.read(field, place)
        elif isinstance(value, bytes) and not isinstance(value, _Number):
            given[field] = value
        else:
            raise _damaged(f"{field} is not a string", place)
    missing = {name.decode() for name in _FIELDS - {b"latency_ticks"}} - given.keys()
    if missing:
        raise _damaged(f"the entry has no {min(missing)}", place)
    try:
        return check(given), len(fields.keys() - _FIELDS - _IGNORED)
    except RrError:  # its text may quote the entry
        raise _damaged("its kind, op, err or latency is not one that an entry has", place) from None


def encode(entry: Entry, number: int) -> bytes:
    """Return the frame of ``entry``, which is entry ``number`` of its cassette, counted from 0."""
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
    payload = bytes([_DOCUMENT, _MAP]) + _LENGTH.pack(len(fields)) + b"".join(pairs)
    return _sized(payload)


def _sized(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


def _number(number: int) -> bytes:
    return bytes([_NUMBER]) + _sized(str(number).encode())


def _string(content: bytes) -> bytes:
    return bytes([_STRING]) + _sized(content)

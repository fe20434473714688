"""Amazon's binary event stream.

A frame of ``application/vnd.amazon.eventstream`` has its length, the length of its headers, the CRC
of these eight bytes, the headers, the payload, and the CRC of everything before. Numbers are big-
endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

__all__ = ["Frame", "frames"]

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_LEAST = _PRELUDE.size + _CRC.size
_TEXT = 7
_SIZED = (6, _TEXT)  # bytes and text say how long they are
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


class Frame(NamedTuple):
    """The headers that are text, and the payload."""

    headers: dict[str, str]
    payload: bytes


def frames(body: bytes) -> Iterator[Frame]:
    """Yield the frames of ``body`` up to the first truncated or damaged one.

    The start of the next frame is unknown after a damaged one.
    """
    at = 0
    while at + _LEAST <= len(body):
        total, length, check = _PRELUDE.unpack_from(body, at)
        end = at + total
        if crc32(body[at : at + 8]) != check or total < _LEAST + length:
            return
        if end > len(body) or crc32(body[at : end - 4]) != _CRC.unpack_from(body, end - 4)[0]:
            return
        start = at + _PRELUDE.size
        headers = _headers(body[start : start + length])
        yield Frame(headers, body[start + length : end - _CRC.size])
        at = end


def _headers(block: bytes) -> dict[str, str]:
    """Return the text headers that can be read."""
    found: dict[str, str] = {}
    at = 0
    while at < len(block):
        name_end = at + 1 + block[at]
        if name_end >= len(block):
            break
        kind = block[name_end]
        start = name_end + 1
        size = _SIZES.get(kind)
        if kind in _SIZED:
            size = int.from_bytes(block[start : start + 2], "big")
            start += 2
        if size is None:
            break
        if kind == _TEXT:
            name = block[at + 1 : name_end].decode("utf-8", "replace")
            found[name] = block[start : start + size].decode("utf-8", "replace")
        at = start + size
    return found

"""Response bodies as the JSON values that they contain, and the errors in them.

A body is JSON, a stream of events, lines or list items, or the binary event stream of Amazon. A frame
of ``application/vnd.amazon.eventstream`` has its length, the length of its headers, the CRC of these
eight bytes, the headers, the payload, and the CRC of everything before. Numbers are big-endian.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Iterator
from json import JSONDecoder
from typing import Any, NamedTuple
from zlib import crc32

from reenact._net.sse import parse_events
from reenact.lenses.fields import decode, inside, listed, mapped, text

__all__ = ["Content", "Frame", "Part", "content_of", "error_in", "failure", "frames", "refused"]


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


_DONE = "[DONE]"
_LAST = (b"data: [DONE]", b"data:[DONE]")
_LINES = ("application/x-ndjson", "application/jsonl", "application/stream+json")
_MARKS = (b"data:", b"event:", b"id:", b"retry:", b":")


class Part(NamedTuple):
    """Value of a stream.

    ``name`` is its name in the framing. ``failed`` marks an error that the framing reports.
    """

    name: str
    value: Any
    failed: bool = False


class Content(NamedTuple):
    """Decoded body.

    ``streamed`` distinguishes a stream from a single value. ``whole`` is false if the framing shows
    that the body is truncated. ``done`` is true if the ``[DONE]`` marker was received.
    """

    parts: list[Part]
    streamed: bool = False
    whole: bool = True
    done: bool = False

    @property
    def only(self) -> dict[str, Any]:
        """Object of a reply that is not streamed."""
        return mapped(self.parts[0].value) if self.parts else {}


def content_of(content_type: str, body: bytes) -> Content | None:
    """Decode ``body`` by its content type and its first bytes.

    Returns None if it is neither JSON nor a stream. Takes time in proportion to the size.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream" and not body[:64].lstrip().startswith((b"{", b"[")):
        return _sent(body)  # errors are plain JSON even where a stream was promised
    if kind == "application/vnd.amazon.eventstream":
        return _framed(body)
    if kind in _LINES:
        return _lines(body)
    value, is_json = decode(body)
    if is_json:
        return _items(value) if isinstance(value, list) else Content([Part("", value)])
    return _by_looks(kind, body)


def _by_looks(kind: str, body: bytes) -> Content | None:
    start = body[:64].lstrip()
    if start.startswith(_MARKS):
        return _sent(body)
    if start.startswith(b"["):
        return _broken_list(body)
    if start.startswith(b"{"):
        lines = _lines(body)
        return lines if lines.parts else Content([], whole=False)
    return Content([], whole=False) if kind.endswith("json") and not start else None


def _sent(body: bytes) -> Content:
    parts: list[Part] = []
    for event in parse_events(body):
        if event.data.startswith(_DONE):
            return Content(parts, streamed=True, done=True)
        value, is_json = decode(event.data)
        if is_json:
            parts.append(Part(event.name, value))
    # Some servers end with the mark itself and leave out the line behind it.
    return Content(parts, streamed=True, done=body[-32:].rstrip().endswith(_LAST))


def _framed(body: bytes) -> Content:
    return Content([_of_frame(frame) for frame in frames(body)], streamed=True)


def _of_frame(frame: Frame) -> Part:
    headers, payload = frame
    value, is_json = decode(payload)
    if headers.get(":message-type") == "error":
        said = {"message": headers.get(":error-message", "")}
        return Part(headers.get(":error-code", ""), said, failed=True)
    if headers.get(":message-type") == "exception":
        said = value if is_json else {"message": payload.decode("utf-8", "replace")}
        return Part(headers.get(":exception-type", ""), said, failed=True)
    name = headers.get(":event-type", "")
    return Part(name, _unwrapped(value) if name == "chunk" else value)


def _unwrapped(value: Any) -> Any:
    """Unpack an event of another API that Bedrock forwards."""
    packed = inside(value, "bytes")
    if not isinstance(packed, str):
        return value
    try:
        return decode(b64decode(packed))[0]
    except ValueError:
        return None


def _lines(body: bytes) -> Content:
    found = [decode(line) for line in body.split(b"\n") if line.strip()]
    parts = [Part("", value) for value, is_json in found if is_json]
    return Content(parts, streamed=True)


def _items(value: list[Any]) -> Content:
    return Content([Part("", item) for item in value], streamed=True)


def _broken_list(body: bytes) -> Content:
    parts = [Part("", item) for item in _before_the_break(body.decode("utf-8", "replace"))]
    return Content(parts, streamed=True, whole=False)


def _before_the_break(whole: str) -> Iterator[Any]:
    """Yield the items of a truncated JSON list."""
    reader = JSONDecoder()
    at = whole.index("[") + 1
    while True:
        while whole[at : at + 1] in _BETWEEN:
            at += 1
        try:
            item, at = reader.raw_decode(whole, at)
        except (ValueError, RecursionError):
            return
        yield item


_BETWEEN = frozenset(" \t\r\n,")


def error_in(value: Any) -> str | None:
    """Return the error under the key ``error``, or None."""
    found = inside(value, "error")
    return None if not found else _said(found) or "error"


def failure(name: str, value: Any) -> str:
    """Describe an error that the framing of a stream reports."""
    message = _message(value)
    return f"{name}: {message}" if name and message else name or message or "error"


def refused(status: int, content: Content | None) -> str:
    """Describe the error of a response with an error status."""
    value = content.parts[0].value if content is not None and content.parts else None
    return error_in(value) or _said(value) or f"HTTP {status}"


def _said(error: Any) -> str:
    kind = text(inside(error, "type")) or text(inside(error, "status"))
    kind = kind or text(inside(error, "code"))
    message = _message(error)
    return f"{kind}: {message}" if kind and message else message or kind


def _message(error: Any) -> str:
    if isinstance(error, str):
        return error
    known = mapped(error)
    for name in ("message", "Message", "detail", "error"):
        if text(known.get(name)):
            return text(known[name])
    first = next(iter(listed(known.get("errors"))), None)
    return text(inside(first, "message"))

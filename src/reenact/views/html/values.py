"""Recorded values, message bodies and images as JSON for HTML pages, each stored once."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from mimetypes import guess_type
from typing import Any

from reenact._net.sse import parse_events
from reenact.format.canonical import digest
from reenact.format.event import Data
from reenact.lenses.content import frames as read_frames
from reenact.lenses.fields import decode
from reenact.views.recorded_calls import readable_body

__all__ = [
    "PICTURES",
    "ValueTable",
    "answer_body",
    "attach_pictures",
    "key_of",
    "page_value",
    "pictures_in",
    "request_body",
]

_LONGEST = 256 * 1024
_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_SAFE = (1 << 53) - 1


def page_value(value: Any) -> dict[str, Any]:
    """Return ``{"json": …}``, or for bytes ``{"image": type, "data": base64}`` or ``{"hex": …,
    "size": n}``."""
    if not isinstance(value, bytes):
        return {"json": _plain(value)}
    kind = _picture(value)
    if kind and len(value) <= _LONGEST:
        return {"image": kind, "data": b64encode(value).decode("ascii")}
    return {"hex": value[:512].hex(" "), "size": len(value)}


def key_of(value: Any) -> bytes:
    """Return a key that is equal for equal values.

    It supports lone surrogates and is faster than a digest of canonical JSON, because a page
    needs it for every message of every call.
    """
    return sha256(repr(value).encode("utf-8", "backslashreplace")).digest()


def _picture(value: bytes) -> str | None:
    if value[:4] == b"RIFF" and value[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _PICTURES.items() if value.startswith(start)), None)


def _plain(value: Any) -> Any:
    """Return ``value`` without values that a browser would read differently."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return f"{len(value):,} bytes, {digest(value)}"
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]} … ({len(value):,} characters)"
    if isinstance(value, int) and abs(value) > _SAFE:
        return str(value)
    return value


_SHORT = 80
_PIECE = 32
_EXACT = 2**53
"""Largest integer that JavaScript represents exactly."""
_MOST_TEXT = 1024 * 1024


class ValueTable:
    """``rows`` are JSON. A recorded object with a key ``$t`` is ``{"$t": {…}}``, a long list
    ``{"$t": [list, list …]}``, an integer that a browser cannot hold ``{"$t": "digits"}``."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.size = 0
        """Characters of the rows, about."""
        self._row_of: dict[str, int] = {}
        self._seen: dict[bytes, Any] = {}

    def put(self, value: Any) -> Any:
        """Return ``value`` itself if it is short, otherwise a reference to its row.

        Bytes become base64.
        """
        return self._put(value)[0]

    def _put(self, value: Any) -> tuple[Any, int]:
        """Return the stored form of ``value`` and its approximate length."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, (list, tuple)):
            return self._list(value)
        if isinstance(value, (bytes, bytearray)):
            return self._text(b64encode(value).decode("ascii"))
        if type(value) is int and abs(value) > _EXACT:
            return {"$t": str(value)}, 30
        return value, 8

    def _text(self, value: str) -> tuple[Any, int]:
        if len(value) <= _SHORT:
            return value, len(value) + 2
        if len(value) > _MOST_TEXT:
            value = f"{value[:_MOST_TEXT]}… ({len(value):,} characters)"
        return self._row(f"'{value}", value)

    def _list(self, value: Sequence[Any]) -> tuple[Any, int]:
        """Store a list.

        A long list is split, because only the last part of a growing conversation is new.
        """
        if len(value) > 2 * _PIECE:
            pieces = [value[at : at + _PIECE] for at in range(0, len(value), _PIECE)]
            return self._in({"$t": [self._piece(piece) for piece in pieces]}, _SHORT + 1)
        made = [self._put(item) for item in value]
        return self._in([item for item, _ in made], 2 + sum(size + 1 for _, size in made))

    def _piece(self, piece: Sequence[Any]) -> Any:
        # Most pieces have been seen: to know that is much cheaper than to take them apart.
        key = sha256(json.dumps(piece, default=repr).encode()).digest()
        if key not in self._seen:
            self._seen[key] = self._put(piece)[0]
        return self._seen[key]

    def _object(self, value: dict[str, Any]) -> tuple[Any, int]:
        made = {str(name): self._put(item) for name, item in value.items()}
        size = 2 + sum(len(name) + 4 + long for name, (_, long) in made.items())
        plain = {name: item for name, (item, _) in made.items()}
        return self._in({"$t": plain} if "$t" in plain else plain, size)

    def _in(self, made: Any, size: int) -> tuple[Any, int]:
        if size <= _SHORT:
            return made, size
        return self._row(json.dumps(made, separators=(",", ":")), made)

    def _row(self, key: str, value: Any) -> tuple[Any, int]:
        if key not in self._row_of:
            self._row_of[key] = len(self.rows)
            self.size += len(key)
            self.rows.append(value)
        return {"$t": self._row_of[key]}, 12


PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif")
"""Image types without active content."""

_MOST = 256 * 1024
"""Characters or bytes of a body that a page shows; of JSON and pictures four times as many."""
_MOST_HEX = 2048
_LINES = ("application/x-ndjson", "application/jsonl", "application/stream+json")
_FRAMES = "application/vnd.amazon.eventstream"


def request_body(request: Data, headers: Any, table: ValueTable) -> Data | None:
    """Return the body of a request, which is stored by its type."""
    body, kind = request.get("body"), request.get("type")
    if kind == "form" and isinstance(body, list):
        pairs = [pair if isinstance(pair, list) and len(pair) == 2 else ["", pair] for pair in body]
        return {"as": "form", "v": table.put(pairs)}
    if kind == "multipart" and isinstance(body, list):
        return {"as": "parts", "v": [_part(part, table) for part in body]}
    return answer_body(body, headers, table)


def _part(part: Any, table: ValueTable) -> Data:
    found = part if isinstance(part, dict) else {"value": part}
    told = {name: found[name] for name in ("name", "filename") if name in found}
    kind = _content_type(found.get("headers")) or guess_type(str(told.get("filename", "")))[0] or ""
    headers = [["content-type", kind]]
    return {"about": table.put(told), "body": answer_body(found.get("value"), headers, table)}


def answer_body(body: Any, headers: Any, table: ValueTable) -> Data | None:
    """Return the decoded body of a response, or None for an empty one."""
    kind = _content_type(headers)
    if not (isinstance(body, str) and len(body) > 4 * _MOST):
        body = readable_body(body, headers)
    if body in (None, "", b""):
        return None
    events = _events(kind, body)
    if events is not None:
        return {"as": "events", "v": table.put(events)}
    if isinstance(body, bytes):
        return _bytes(kind, body, table)
    if isinstance(body, str):
        cut = {"of": len(body)} if len(body) > _MOST else {}
        return {"as": "text", "v": table.put(body[:_MOST]), **cut}
    return {"as": "json", "v": table.put(body)}


def _bytes(kind: str, body: bytes, table: ValueTable) -> Data:
    if kind in PICTURES and len(body) <= 4 * _MOST:
        return {"as": "image", "kind": kind, "v": table.put(b64encode(body).decode("ascii"))}
    return {"as": "hex", "v": table.put(body[:_MOST_HEX].hex()), "of": len(body)}


def _events(kind: str, body: Any) -> list[Any] | None:
    """Return a stream as pairs of event name and data."""
    if kind == "text/event-stream" and isinstance(body, str):
        found = parse_events(body[:_MOST].encode("utf-8", "surrogatepass"))
        return [[event.name, _value(event.data)] for event in found] or None
    if kind in _LINES and isinstance(body, str):
        return [["", _value(line)] for line in body[:_MOST].splitlines() if line.strip()] or None
    if kind == _FRAMES and isinstance(body, bytes):
        frames = read_frames(body[:_MOST])
        return [[about.get(":event-type", ""), _value(data)] for about, data in frames] or None
    return None


def _value(data: str | bytes) -> Any:
    value, is_json = decode(data)
    if is_json:
        return value
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data


def _content_type(headers: Any) -> str:
    for pair in headers if isinstance(headers, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and str(pair[0]).lower() == "content-type":
            return str(pair[1]).partition(";")[0].strip().lower()
    return ""


_URL = re.compile(r"data:(image/[a-z]+);base64,", re.IGNORECASE)
_STARTS = {
    "iVBORw0K": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
"""Prefixes of base64-encoded images."""
_LEAST, _MOST_ENCODED = 60, 1024 * 1024
"""Characters. No picture is shorter, and none that is longer is shown."""


def pictures_in(value: Any) -> list[Data]:
    """Return all images in ``value``, in order, in page format."""
    return [
        {"as": "image", "kind": kind, "v": data} for kind, data in _found(value) if kind in PICTURES
    ]


def attach_pictures(messages: list[Data], pictures: list[Data]) -> list[Data]:
    """Attach each image to its message, and return the images without one."""
    places = [
        message
        for message in messages
        for about in message.get("attached", ())
        if "image" in about and about.endswith("characters)")
    ]
    if len(places) != len(pictures):
        return pictures
    for message, picture in zip(places, pictures, strict=True):
        message.setdefault("pictures", []).append(picture)
    return []


def _found(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _found(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _found(item)
    elif isinstance(value, str) and _LEAST <= len(value) <= _MOST_ENCODED:
        kind = _picture_kind(value)
        if kind:
            yield kind, value


def _picture_kind(text: str) -> str:
    url = _URL.match(text)
    if url is not None:
        return url[1].lower()
    return next((kind for start, kind in _STARTS.items() if text.startswith(start)), "")

"""Message bodies and images as JSON for HTML pages."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from mimetypes import guess_type
from typing import Any

from reenact._net.sse import parse_events
from reenact.format.event import Data
from reenact.lenses import eventstream
from reenact.lenses.fields import decode
from reenact.views.calls import readable_body
from reenact.views.html.values import ValueTable

__all__ = [
    "PICTURES",
    "answer_body",
    "attach_pictures",
    "pictures_in",
    "request_body",
]

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
        frames = eventstream.frames(body[:_MOST])
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
        kind = _kind(value)
        if kind:
            yield kind, value


def _kind(text: str) -> str:
    url = _URL.match(text)
    if url is not None:
        return url[1].lower()
    return next((kind for start, kind in _STARTS.items() if text.startswith(start)), "")

"""Bodies as they travel, and typed."""

from __future__ import annotations

from base64 import b64decode, b64encode

from reenact.errors import ValueRefused
from reenact.exchange.model import Body
from reenact.format.canonical import decode

__all__ = ["body_of", "bytes_of", "clipped"]

_TEXTS = ("application/x-www-form-urlencoded", "application/xml", "application/graphql")


def body_of(data: bytes, content_type: str = "") -> Body:
    """``data`` typed: JSON in UTF-8 with its exact text, other text that is UTF-8, else bytes.
    Nothing is none. :func:`bytes_of` gives the same bytes again."""
    shown = content_type[:4_096]
    if not data:
        return Body(content_type=shown)
    media = content_type.partition(";")[0].strip().lower()
    is_json = media == "application/json" or media.endswith("+json")
    if is_json or media.startswith("text/") or media in _TEXTS or media.endswith("+xml"):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass  # in another encoding: bytes
        else:
            kind = "json" if is_json and _is_json(data) else "text"
            return Body(type="json" if kind == "json" else "text", text=text, content_type=shown)
    return Body(type="bytes", base64=b64encode(data).decode(), content_type=shown)


def clipped(size: int, content_type: str = "") -> Body:
    """A body of ``size`` bytes that is not kept."""
    return Body(type="bytes", content_type=content_type[:4_096], clipped=size)


def bytes_of(body: Body) -> bytes:
    """What travels."""
    return b64decode(body.base64) if body.type == "bytes" else body.text.encode()


def _is_json(data: bytes) -> bool:
    """Strictly so: what says a name twice is kept as the text it is."""
    try:
        decode(data)
    except ValueRefused:
        return False
    return True

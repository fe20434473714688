"""Recorded values as JSON that a page can show: bytes are pictures, or a line about them."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Any

from reenact.format.canonical import digest

__all__ = ["key_of", "shown"]

_LONGEST = 256 * 1024
_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_SAFE = (1 << 53) - 1


def shown(value: Any) -> dict[str, Any]:
    """``{"json": …}``, or for bytes ``{"image": type, "data": base64}`` and ``{"hex": …, "size": n}``."""
    if not isinstance(value, bytes):
        return {"json": _plain(value)}
    kind = _picture(value)
    if kind and len(value) <= _LONGEST:
        return {"image": kind, "data": b64encode(value).decode("ascii")}
    return {"hex": value[:512].hex(" "), "size": len(value)}


def key_of(value: Any) -> bytes:
    """Values with the same one are the same. For any text, whole or not, and quicker than a digest of
    canonical JSON: a page asks for it once for every message of every call."""
    return sha256(repr(value).encode("utf-8", "backslashreplace")).digest()


def _picture(value: bytes) -> str | None:
    if value[:4] == b"RIFF" and value[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _PICTURES.items() if value.startswith(start)), None)


def _plain(value: Any) -> Any:
    """Nothing that a browser would read as something else."""
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

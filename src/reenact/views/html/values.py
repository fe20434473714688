"""Recorded values as JSON for HTML pages, each stored once."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from reenact.format.canonical import digest

__all__ = [
    "ValueTable",
    "key_of",
    "page_value",
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

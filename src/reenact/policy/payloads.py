"""What the encoded bytes of a value do not show: raw bytes, and streams cut into chunks."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from typing import Any

import orjson

from reenact.policy.patterns import late
from reenact.policy.streams import CHUNKS, payload_key, pieces

__all__ = ["embedded", "streams"]

_BYTES = late(rb'\{"\$bytes":"([A-Za-z0-9+/=]*)"')


def embedded(encoded: bytes) -> Iterator[bytes]:
    """Every bytes leaf of a value in canonical JSON."""
    if b"$" in encoded and b'{"$bytes":"' in encoded:
        for match in _BYTES.finditer(encoded):
            yield _decoded(match[1])


def streams(encoded: bytes) -> Iterator[bytes]:
    """Every list of chunks of a value in canonical JSON, joined."""
    try:
        value = orjson.loads(encoded)
    except orjson.JSONDecodeError:
        return  # not a value but a bytes leaf: its text is searched as it is, nothing is joined
    for chunks in _streams(value):
        parts = pieces([_with_bytes(chunk) for chunk in chunks])
        if parts is not None:
            yield b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)


def _streams(value: Any) -> Iterator[list[Any]]:
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            waiting += here.values()
            if isinstance(here.get(CHUNKS), list):
                yield here[CHUNKS]
        elif isinstance(here, list):
            waiting += here


def _with_bytes(chunk: Any) -> Any:
    """``chunk`` with real bytes where its encoding has a mark for them."""
    if not isinstance(chunk, dict):
        return chunk
    if len(chunk) == 1 and isinstance(chunk.get("$bytes"), str):
        return _decoded(chunk["$bytes"])
    if payload_key(chunk) is not None:
        return chunk
    return {key: _with_bytes(item) for key, item in chunk.items()}


def _decoded(base64: bytes | str) -> bytes:
    try:
        return b64decode(base64)
    except (Base64Error, ValueError):
        return b""

"""Flows as mitmproxy writes them."""

from __future__ import annotations

from typing import Any


def packed(value: Any) -> bytes:
    """``value`` as a tnetstring."""
    kind, content = b"~", b""
    if isinstance(value, bool):
        kind, content = b"!", str(value).lower().encode()
    elif isinstance(value, bytes):
        kind, content = b",", value
    elif isinstance(value, str):
        kind, content = b";", value.encode()
    elif isinstance(value, int):
        kind, content = b"#", str(value).encode()
    elif isinstance(value, float):
        kind, content = b"^", repr(value).encode()
    elif isinstance(value, list):
        kind, content = b"]", b"".join(map(packed, value))
    elif isinstance(value, dict):
        pairs = (packed(key) + packed(item) for key, item in value.items())
        kind, content = b"}", b"".join(pairs)
    return b"%d:%b%b" % (len(content), content, kind)


REQUEST = {
    "method": b"POST",
    "scheme": b"https",
    "host": "a.example",
    "port": 443,
    "authority": b"",
    "path": b"/x?a=1",
    "http_version": b"HTTP/1.1",
    "headers": [[b"X", b"1"], [b"X", b"2"]],
    "content": b"asked",
    "timestamp_start": 1_700_000_000.0,
}


RESPONSE = {
    "status_code": 201,
    "reason": b"Created",
    "http_version": b"HTTP/2.0",
    "headers": [[b"Set-Cookie", b"a=1"], [b"Set-Cookie", b"b=2"]],
    "content": b"\xff\x00",
    "trailers": None,
    "timestamp_end": 1_700_000_000.5,
}


def flow(**changes: Any) -> dict[str, Any]:
    return {"type": "http", "version": 21, "request": REQUEST, "response": RESPONSE, **changes}

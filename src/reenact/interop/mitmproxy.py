"""Flows of mitmproxy, as ``mitmdump -w`` writes them: a sequence of tnetstrings. Read only.

A tnetstring is a length, a colon, the bytes, and a letter for the type. A flow is a map. Text
values can be stored as bytes.
"""

from __future__ import annotations

from typing import Any

from reenact.boundaries.http.wire import Head, Pairs, Request
from reenact.interop.model import Exchange, Found, Losses, damaged, settled

__all__ = ["read"]

_DEEPEST = 64
_LONGEST_LENGTH = 12
_LONGEST_NUMBER = 40
_OLDEST = 11
"""Flows of mitmproxy 7 and later have this shape."""


def read(content: bytes) -> Found:
    """The flows of a file. Raises :class:`RecordingDamaged` that names the flow."""
    found = Found()
    at = number = 0
    while at < len(content):
        number += 1
        flow, at = _value(content, at, len(content), _DEEPEST, f"flow {number}")
        exchange = _exchange(flow, f"flow {number}", found.losses)
        if exchange is not None:
            found.items.append(exchange)
    return found


def _value(content: bytes, at: int, end: int, room: int, place: str) -> tuple[Any, int]:
    """The value at ``at``, and where the next one begins."""
    if not room:
        raise damaged(f"it is nested deeper than {_DEEPEST}", place)
    colon = content.find(b":", at, min(end, at + _LONGEST_LENGTH + 1))
    digits = content[at:colon] if colon > at else b""
    if not digits.isdigit():
        raise damaged("it is not a flow", place, "a file that mitmdump -w has written")
    start = colon + 1
    stop = start + int(digits)
    if stop >= end:
        raise damaged("the file ends in the middle of it", place, "copy the file again")
    return _typed(content, start, stop, room, place), stop + 1


def _typed(content: bytes, start: int, stop: int, room: int, place: str) -> Any:
    kind, raw = content[stop : stop + 1], content[start:stop]
    match kind:
        case b",":
            return raw
        case b";":
            return raw.decode("utf-8", "replace")
        case b"~":
            return None
        case b"!":
            return raw == b"true"
        case b"#" | b"^":
            return _number(raw, place)
        case b"]":
            return _all(content, start, stop, room, place)
        case b"}":
            return _map(_all(content, start, stop, room, place), place)
    raise damaged("it has a value of no known kind", place)


def _number(raw: bytes, place: str) -> float:
    try:
        if len(raw) > _LONGEST_NUMBER:
            raise ValueError
        return float(raw) if b"." in raw or b"e" in raw else int(raw)
    except ValueError:
        raise damaged("it has a number that is none", place) from None


def _all(content: bytes, at: int, end: int, room: int, place: str) -> list[Any]:
    found = []
    while at < end:
        value, at = _value(content, at, end, room - 1, place)
        found.append(value)
    return found


def _map(flat: list[Any], place: str) -> dict[str, Any]:
    if len(flat) % 2 or not all(isinstance(key, (str, bytes)) for key in flat[::2]):
        raise damaged("it has a map without keys", place)
    return {_text(key): value for key, value in zip(flat[::2], flat[1::2], strict=True)}


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value or "")


def _exchange(flow: Any, place: str, losses: Losses) -> Exchange | None:
    if not isinstance(flow, dict):
        raise damaged("it is not a flow", place)
    if flow.get("type") not in ("http", b"http"):
        losses.note("not_http")
        return None
    version = flow.get("version")
    if not isinstance(version, int) or version < _OLDEST:
        raise damaged(
            "it was written by a mitmproxy before 7",
            place,
            "read and write it with a newer one: mitmdump -nr OLD -w NEW",
        )
    asked, answer = flow.get("request"), flow.get("response")
    if flow.get("websocket"):
        losses.note("websocket")
        return None
    if not isinstance(asked, dict) or not isinstance(answer, dict):
        losses.note("no_response")
        return None
    if answer.get("trailers"):
        losses.note("trailers")
    return settled(_http(asked, answer, place, losses), losses)


def _http(asked: dict[str, Any], answer: dict[str, Any], place: str, losses: Losses) -> Exchange:
    status = answer.get("status_code")
    if not isinstance(status, int) or not 100 <= status <= 999:
        raise damaged("it has no code from 100 to 999", f"{place}, field response.status_code")
    body = answer.get("content")
    if body is None and status not in (204, 304):
        losses.note("body_missing")
    ended = answer.get("timestamp_end") or answer.get("timestamp_start")
    return Exchange(
        request=Request(
            method=_text(asked.get("method")),
            url=_url(asked),
            headers=_headers(asked.get("headers"), place),
            body=asked.get("content") or b"",
        ),
        head=Head(
            status=status,
            reason=_text(answer.get("reason")),
            version=_text(answer.get("http_version")) or "HTTP/1.1",
            headers=_headers(answer.get("headers"), place),
        ),
        body=body or b"",
        ts=int(ended * 1000) if isinstance(ended, (int, float)) and 0 <= ended < 1e11 else None,
    )


def _url(asked: dict[str, Any]) -> str:
    """The host that the client named counts, as it does for the client."""
    scheme, port = _text(asked.get("scheme")), asked.get("port")
    host = _text(asked.get("authority")) or _text(asked.get("host"))
    if ":" not in host and isinstance(port, int) and port != {"http": 80, "https": 443}.get(scheme):
        host = f"{host}:{port}"
    return f"{scheme}://{host}{_text(asked.get('path'))}"


def _headers(value: Any, place: str) -> Pairs:
    pairs = value if isinstance(value, list) else []
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise damaged("its headers are not pairs", place)
    return tuple((_text(name), _text(given)) for name, given in pairs)

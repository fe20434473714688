"""Writing HAR 1.2."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from reenact._version import __version__
from reenact.boundaries.wire import Pairs, Request
from reenact.interop.foreign import Exchange, Item, Made

__all__ = ["write"]

_FORM = "application/x-www-form-urlencoded"


def write(items: Iterable[Item]) -> Made:
    """An archive of the HTTP calls; bodies are decoded, as browsers do it."""
    made = Made(b"", 0)
    entries = []
    for item in items:
        if isinstance(item, Exchange):
            entries.append(_entry(item))
        else:
            made.losses.note("events")
    creator = {"name": "reenact", "version": __version__}
    log = {"version": "1.2", "creator": creator, "entries": entries}
    made.content = (json.dumps({"log": log}, ensure_ascii=False, indent=2) + "\n").encode()
    made.calls = len(entries)
    return made


def _entry(exchange: Exchange) -> dict[str, Any]:
    ended = exchange.ts or 0
    started = datetime.fromtimestamp((ended - exchange.duration) / 1000, UTC)
    return {
        "startedDateTime": started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "time": exchange.duration,
        "request": _request(exchange.request),
        "response": _response(exchange),
        "cache": {},
        "timings": {"send": 0, "wait": exchange.duration, "receive": 0},
    }


def _request(request: Request) -> dict[str, Any]:
    headers = tuple(request.headers)
    fields: dict[str, Any] = {
        "method": request.method,
        "url": request.url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _named(headers),
        "queryString": _named(_query(request.url)),
        "headersSize": -1,
        "bodySize": len(request.body),
    }
    if request.body:
        fields["postData"] = _post_data(headers, request.body)
    return fields


def _query(url: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(url).query, keep_blank_values=True)
    except ValueError:
        return []


def _post_data(headers: Pairs, body: bytes) -> dict[str, Any]:
    kind = _kind(headers)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"mimeType": kind, "text": b64encode(body).decode(), "_encoding": "base64"}
    posted: dict[str, Any] = {"mimeType": kind, "text": text}
    if kind.startswith(_FORM):
        posted["params"] = _named(parse_qsl(text, keep_blank_values=True))
    return posted


def _response(exchange: Exchange) -> dict[str, Any]:
    head, body = exchange.head, exchange.body
    return {
        "status": head.status,
        "statusText": head.reason,
        "httpVersion": head.version,
        "cookies": [],
        "headers": _named(head.headers),
        "content": _shown(exchange),
        "redirectURL": head.header("location") or "",
        "headersSize": -1,
        "bodySize": len(body),
    }


def _shown(exchange: Exchange) -> dict[str, Any]:
    plain = exchange.text
    shown: dict[str, Any] = {"size": len(plain), "mimeType": _kind(exchange.head.headers)}
    if plain is not exchange.body:
        shown["compression"] = len(plain) - len(exchange.body)
    try:
        return {**shown, "text": plain.decode()}
    except UnicodeDecodeError:
        return {**shown, "text": b64encode(plain).decode(), "encoding": "base64"}


def _kind(headers: Pairs) -> str:
    found = (value for name, value in headers if name.lower() == "content-type")
    return next(found, "application/octet-stream")


def _named(pairs: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in pairs]

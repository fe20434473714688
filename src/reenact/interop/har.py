"""HAR 1.2, as browsers and proxies export it: ``log.entries`` with requests and responses."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from reenact._version import __version__
from reenact.boundaries.http.wire import Head, Pairs, Request
from reenact.interop.model import (
    SWITCHED,
    Exchange,
    Found,
    Item,
    Losses,
    Made,
    damaged,
    other_shape,
    read_json,
    settled,
)

__all__ = ["read", "write"]

_VERSIONS = ("1.1", "1.2")
_SCHEMES = ("http", "https")


def read(content: bytes) -> Found:
    """Read an archive. Raises :class:`RecordingDamaged`."""
    document = read_json(content)
    log = document.get("log") if isinstance(document, dict) else None
    if not isinstance(log, dict):
        raise other_shape("it has no log, and so is no HTTP archive")
    version = log.get("version", "1.2")
    if version not in _VERSIONS:
        raise damaged("only HAR 1.1 and 1.2 are known", "field log.version")
    entries = log.get("entries")
    if not isinstance(entries, list):
        raise damaged("it is not a list", "field log.entries")
    found = Found()
    for number, entry in enumerate(entries, 1):
        exchange = _exchange(entry, f"entry {number}", found.losses)
        if exchange is not None:
            found.items.append(exchange)
    return found


def _exchange(entry: Any, place: str, losses: Losses) -> Exchange | None:
    fields = _object(entry, place)
    asked = _object(fields.get("request"), f"{place}, field request")
    answer = _object(fields.get("response"), f"{place}, field response")
    url, method = asked.get("url"), asked.get("method")
    if not isinstance(url, str) or not isinstance(method, str) or not method:
        raise damaged("it has no method, or no url", f"{place}, field request")
    if not _is_http(url):
        losses.note("not_http")
        return None
    status = answer.get("status")
    if fields.get("_webSocketMessages") or status == SWITCHED:
        losses.note("websocket")
        return None
    if type(status) is not int or not 100 <= status <= 999:
        losses.note("no_response")  # cancelled, blocked, or it failed
        return None
    if fields.get("timings"):
        losses.note("timings")
    headers = _headers(answer, f"{place}, field response.headers", losses)
    exchange = Exchange(
        request=Request(
            method=method,
            url=url,
            headers=_headers(asked, f"{place}, field request.headers", losses),
            body=_posted(asked.get("postData"), f"{place}, field request.postData", losses),
        ),
        head=Head(
            status=status,
            reason=str(answer.get("statusText") or ""),
            version=_version(answer.get("httpVersion")),
            headers=headers,
        ),
        body=_content(answer, method, f"{place}, field response.content", losses),
        ts=_time(fields),
    )
    return settled(exchange, losses, decoded=True)


def _is_http(url: str) -> bool:
    try:
        return urlsplit(url).scheme in _SCHEMES
    except ValueError:
        return False


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise damaged("it is not an object", place)
    return value


def _headers(message: dict[str, Any], place: str, losses: Losses) -> Pairs:
    """Return the headers in order, without the pseudo-headers of HTTP/2, whose values are stored
    elsewhere.
    """
    pairs = _pairs(message.get("headers"), place)
    names = {name.lower() for name, _ in pairs}
    if message.get("cookies") and not names & {"cookie", "set-cookie"}:
        losses.note("cookies")
    return tuple(pair for pair in pairs if not pair[0].startswith(":"))


def _pairs(value: Any, place: str) -> Pairs:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise damaged("it is not a list", place)
    pairs: list[tuple[str, str]] = []
    for one in value:
        name = _object(one, place).get("name")
        if not isinstance(name, str):
            raise damaged("one has no name", place)
        # Browsers join the values of a header that came several times with a line feed.
        for line in str(one.get("value") or "").split("\n"):
            pairs.append((name, line.rstrip("\r")))
    return tuple(pairs)


def _posted(value: Any, place: str, losses: Losses) -> bytes:
    if not value:
        return b""
    posted = _object(value, place)
    text = posted.get("text")
    if isinstance(text, str) and text:
        if posted.get("encoding") == "base64" or posted.get("_encoding") == "base64":
            return _decoded(text, place)
        return text.encode("utf-8", "surrogatepass")
    params = _pairs(posted.get("params"), place)
    if not params:
        return b""
    losses.note("body_rebuilt")
    if any("fileName" in one for one in posted["params"]):
        losses.note("truncated_body")  # the contents of files are not there
    return urlencode(params).encode()


def _content(answer: dict[str, Any], method: str, place: str, losses: Losses) -> bytes:
    content = answer.get("content")
    if not content:
        return b""
    fields = _object(content, place)
    text, size = fields.get("text"), fields.get("size")
    if isinstance(text, str):
        encoded = fields.get("encoding") == "base64"
        return _decoded(text, place) if encoded else text.encode("utf-8", "surrogatepass")
    if isinstance(size, (int, float)) and size > 0 and method != "HEAD":
        losses.note("body_missing")
    return b""


def _decoded(text: str, place: str) -> bytes:
    try:
        return b64decode(text)
    except (binascii.Error, ValueError):
        raise damaged("it is not base64", place) from None


def _version(said: Any) -> str:
    text = str(said or "").upper()
    known = {"H2": "HTTP/2", "HTTP/2.0": "HTTP/2", "H3": "HTTP/3", "HTTP/3.0": "HTTP/3"}
    text = known.get(text, text)
    return text if text.startswith("HTTP/") else "HTTP/1.1"


def _time(entry: dict[str, Any]) -> int | None:
    """When the answer had come."""
    started, took = entry.get("startedDateTime"), entry.get("time")
    try:
        begun = datetime.fromisoformat(str(started))
        begun = begun if begun.tzinfo else begun.replace(tzinfo=UTC)
        milliseconds = int(begun.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    lasted = took if isinstance(took, (int, float)) and 0 <= took < 1e9 else 0
    return milliseconds + int(lasted)


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

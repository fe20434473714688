"""Cassettes of vcrpy and pytest-recording, in YAML or JSON.

A document has ``version: 1`` and ``interactions``. Each of these is a ``request`` (method, uri,
headers, body) and a ``response`` (status, headers, body). Headers map a name to one value or
several. All body encodings of tools in the VCR family are accepted.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from reenact.boundaries.http.wire import Head, Pairs, Request
from reenact.errors import RecordingTooNew
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
from reenact.interop.yaml_documents import Unquoted, read_yaml, write_yaml

__all__ = [
    "body_bytes",
    "is_value",
    "message_body",
    "read",
    "read_json_cassette",
    "write",
    "write_json",
]

_BASE64 = ("base64_string", "b64")
_SHAPES = frozenset({"string", *_BASE64})
_MOST_VALUES = 1_000_000


def message_body(message: dict[str, Any], place: str) -> bytes:
    """Return the body of a request or response.

    Some serializers store the value as ``parsed_body``; older stubs of httpx store it as
    ``content``.
    """
    if "parsed_body" in message:
        return _as_json(message["parsed_body"], f"{place}.parsed_body")
    if "content" in message:
        return body_bytes(message["content"], f"{place}.content")
    return body_bytes(message.get("body"), f"{place}.body")


def is_value(message: dict[str, Any]) -> bool:
    """Return whether the body is stored by value instead of by its bytes."""
    body = message.get("body")
    mapped = isinstance(body, dict) and bool(body) and not _SHAPES & body.keys()
    return mapped or "parsed_body" in message


def body_bytes(value: Any, place: str) -> bytes:
    """The bytes of a body. Raises :class:`RecordingDamaged` that names ``place``.

    Text, bytes, nothing, pieces in a list; a mapping with ``string``, or with ``base64_string`` or
    ``b64``; any other mapping is a value that was sent as JSON.
    """
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return b"".join(_piece(one, place) for one in value)
    if isinstance(value, dict):
        return _mapped(value, place)
    return str(value).encode()


def _piece(value: Any, place: str) -> bytes:
    if isinstance(value, (bytes, str)):
        return body_bytes(value, place)
    raise damaged("a piece is neither text nor bytes", place)


def _mapped(value: dict[str, Any], place: str) -> bytes:
    for name in _BASE64:
        if isinstance(value.get(name), (str, bytes)):
            return _decoded_body(value[name], place)
    if "string" in value:
        given = value["string"]
        if isinstance(given, dict):
            raise damaged("the string is a mapping", place)
        return body_bytes(given, place)
    if not value:
        return b""
    return _as_json(value, place)


def _decoded_body(text: str | bytes, place: str) -> bytes:
    try:
        return b64decode(text)
    except (binascii.Error, ValueError):
        raise damaged("it is not base64", place) from None


def _as_json(value: Any, place: str) -> bytes:
    _check_values(value, place)
    try:
        text = json.dumps(_meant(value), ensure_ascii=False)
        return text.encode("utf-8", "surrogatepass")
    except (TypeError, ValueError):
        raise damaged("it is a value that JSON cannot hold", place) from None


def _meant(value: Any) -> Any:
    """With numbers and truth values that YAML has as text."""
    if isinstance(value, dict):
        return {str(key): _meant(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_meant(item) for item in value]
    return value.value() if isinstance(value, Unquoted) else value


def _check_values(value: Any, place: str) -> None:
    """A few aliases can stand for gigabytes, or for no end at all."""
    left = _MOST_VALUES
    under = [value]
    while under:
        one = under.pop()
        left -= 1
        if left < 0:
            raise damaged("it has too many values, or refers to itself", place)
        if isinstance(one, dict):
            under += one.values()
        elif isinstance(one, list):
            under += one


_VERSION = "1"
_OLD = "it was written by vcrpy before 1.0: migrate it with vcrpy's own script, or record it again"


def read(content: bytes) -> Found:
    """Read a YAML cassette. Raises :class:`RecordingDamaged` and :class:`RecordingTooNew`."""
    return _found(read_yaml(content))


def read_json_cassette(content: bytes) -> Found:
    """Read a JSON cassette. Raises :class:`RecordingDamaged` and :class:`RecordingTooNew`."""
    return _found(read_json(content))


def _found(document: Any) -> Found:
    if document is None:
        return Found()
    if _is_old(document):
        raise damaged("not a cassette of version 1", "the document", _OLD)
    if not isinstance(document, dict) or "interactions" not in document:
        raise other_shape("not a vcrpy cassette: interactions is missing")
    version = str(document.get("version", _VERSION))
    if version != _VERSION:
        raise RecordingTooNew(
            "field version: only version 1 of vcrpy's cassettes is known",
            hint="record it again, or ask for this version to be read",
            place="field version",
        )
    interactions = document["interactions"] or []
    if not isinstance(interactions, list):
        raise damaged("it is not a list", "field interactions")
    found = Found()
    if document.get("metadata"):
        found.losses.note("metadata")
    for number, interaction in enumerate(interactions, 1):
        exchange = _exchange(interaction, f"interaction {number}", found.losses)
        if exchange.head.status == SWITCHED:
            found.losses.note("websocket")
        else:
            found.items.append(exchange)
    return found


def _is_old(document: Any) -> bool:
    first = document[0] if isinstance(document, list) and document else None
    return isinstance(first, dict) and "request" in first


def _exchange(interaction: Any, place: str, losses: Losses) -> Exchange:
    asked = _mapping(_mapping(interaction, place).get("request"), f"{place}, field request")
    answer = _mapping(interaction.get("response"), f"{place}, field response")
    headers = _headers(answer.get("headers"), f"{place}, field response.headers")
    status, reason = _status(answer, f"{place}, field response.status")
    head = Head(status=status, reason=reason, version=_http(answer), headers=headers)
    losses.note("body_rebuilt", is_value(asked) + is_value(answer))
    exchange = Exchange(
        request=_request(asked, f"{place}, field request"),
        head=head,
        body=message_body(answer, f"{place}, field response"),
        ts=_date(headers),
    )
    return settled(exchange, losses)


def _request(asked: dict[str, Any], place: str) -> Request:
    url = asked.get("uri", asked.get("url"))
    method = asked.get("method")
    if not isinstance(url, str) or not isinstance(method, str) or not method:
        raise damaged("it has no method, or no uri", place)
    return Request(
        method=str(method),
        url=str(url),
        headers=_headers(asked.get("headers"), f"{place}.headers"),
        body=message_body(asked, place),
    )


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise damaged("it is not a mapping", place)
    return value


def _headers(value: Any, place: str) -> Pairs:
    """Return the pairs in order. A name with several values occurs several times."""
    if value is None:
        return ()
    pairs: list[tuple[str, str]] = []
    for name, given in _mapping(value, place).items():
        for one in given if isinstance(given, list) else [given]:
            pairs.append((_text(name, place), _text(one, place)))
    return tuple(pairs)


def _text(value: Any, place: str) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (dict, list)):
        raise damaged("a value is neither text nor a list of texts", place)
    return "" if value is None else str(value)


def _status(answer: dict[str, Any], place: str) -> tuple[int, str]:
    said = answer.get("status", answer.get("status_code"))
    code, reason = said, ""
    if isinstance(said, dict):
        code, reason = said.get("code"), _text(said.get("message"), place)
    text = str(code)
    if not (text.isascii() and text.isdecimal() and 100 <= int(text[:4]) <= 999):
        raise damaged("it has no code from 100 to 999", place)
    return int(text), reason


def _http(answer: dict[str, Any]) -> str:
    """Older stubs of httpx note it; the others do not."""
    said = answer.get("http_version")
    return str(said) if isinstance(said, str) and said.startswith("HTTP/") else "HTTP/1.1"


def _date(headers: Pairs) -> int | None:
    """Return the time in the response's ``Date`` header, because the cassette has none."""
    for name, value in headers:
        if name.lower() == "date":
            try:
                return int(parsedate_to_datetime(value).timestamp() * 1000)
            except (ValueError, OverflowError, TypeError):
                return None
    return None


def write(items: Iterable[Item]) -> Made:
    """A YAML cassette. Raises :class:`ExtraMissing`."""
    document, made = _document(items, as_json=False)
    made.content = write_yaml(document)
    return made


def write_json(items: Iterable[Item]) -> Made:
    """A JSON cassette, which holds text only."""
    document, made = _document(items, as_json=True)
    made.content = (json.dumps(document, indent=4) + "\n").encode()
    return made


def _document(items: Iterable[Item], *, as_json: bool) -> tuple[dict[str, Any], Made]:
    made = Made(b"", 0)
    interactions = []
    for item in items:
        if not isinstance(item, Exchange):
            made.losses.note("events")
        elif as_json and not (_is_text(item.text) and _is_text(item.request.body)):
            made.losses.note("not_text")
        else:
            interactions.append(_interaction(_decoded(item, made.losses)))
    made.calls = len(interactions)
    if interactions:
        made.losses.note("times", len(interactions))
    return {"interactions": interactions, "version": 1}, made


def _decoded(exchange: Exchange, losses: Losses) -> Exchange:
    """Some of vcrpy's stubs undo codings and some do not: without one, all serve the same."""
    text = exchange.text
    if text is exchange.body:
        return exchange
    losses.note("decoded")
    unsaid = Losses()
    return settled(msgspec.structs.replace(exchange, body=text), unsaid, decoded=True)


def _interaction(exchange: Exchange) -> dict[str, Any]:
    request, head = exchange.request, exchange.head
    return {
        "request": {
            "body": _shown(request.body) if request.body else None,
            "headers": _grouped(request.headers),
            "method": request.method,
            "uri": request.url,
        },
        "response": {
            "body": {"string": _shown(exchange.body)},
            "headers": _grouped(head.headers),
            "status": {"code": head.status, "message": head.reason},
        },
    }


def _grouped(headers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """By name, however it is spelled."""
    spelled: dict[str, str] = {}
    grouped: dict[str, list[str]] = {}
    for name, value in headers:
        grouped.setdefault(spelled.setdefault(name.lower(), name), []).append(value)
    return grouped


def _is_text(body: bytes) -> bool:
    return isinstance(_shown(body), str)


def _shown(body: bytes) -> str | bytes:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body

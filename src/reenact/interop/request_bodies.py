"""The bytes of a request body that is kept by its value.

A recording compares bodies by what they say, so JSON, forms and multipart bodies stand in it as
values. The digest of the bytes that were sent is often there, too: with it one can tell which way of
writing the value was the client's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from reenact.boundaries.bodies import content_headers
from reenact.boundaries.coding import coding_of, encode
from reenact.boundaries.wire import Request, raw_hash
from reenact.format.event import Data
from reenact.interop.losses import Losses

__all__ = ["rebuilt"]


def rebuilt(request: Request, compared: Data, digest: str, losses: Losses) -> Request:
    """``request`` with the body that ``compared`` tells of; ``digest`` is that of what was sent, or
    empty. Notes what is not as it was."""
    kind, value = compared.get("type"), compared.get("body")
    if kind is None:
        return request
    if kind == "unread":
        losses.note("body_unread")
        return request
    first: Request | None = None
    for body in _ways(str(kind), value, request):
        candidate = msgspec.structs.replace(request, body=_encoded(body, request))
        if digest and raw_hash(candidate) == digest:
            return candidate
        first = first or candidate
    if kind not in ("text", "bytes"):
        losses.note("body_rebuilt")
    return first or request


def _encoded(body: bytes, request: Request) -> bytes:
    coding = coding_of(request.headers)
    try:
        return encode(body, coding) if coding else body
    except (ImportError, KeyError):
        return body


def _ways(kind: str, value: Any, request: Request) -> Iterator[bytes]:
    """Every way in which clients write such a body, the usual one first."""
    if kind == "json":
        for ascii_only in (False, True):
            for separators in ((",", ":"), (", ", ": ")):
                text = json.dumps(value, ensure_ascii=ascii_only, separators=separators)
                yield text.encode("utf-8", "surrogatepass")
    elif kind == "form":
        pairs = [(str(name), str(given)) for name, given in value]
        yield urlencode(pairs).encode()
        yield urlencode(pairs, quote_via=quote).encode()
    elif kind == "multipart":
        yield _multipart(value, content_headers(request.headers)[0])
    elif isinstance(value, bytes):
        yield value
    else:
        yield str(value).encode("utf-8", "surrogatepass")


def _multipart(parts: list[Data], said: str) -> bytes:
    limit = said.partition("boundary=")[2].partition(";")[0].strip().strip('"') or "boundary"
    lines: list[bytes] = []
    for part in parts:
        lines += [f"--{limit}".encode(), *_part_head(part), b"", _part_body(part)]
    return b"\r\n".join([*lines, f"--{limit}--".encode(), b""])


def _part_head(part: Data) -> list[bytes]:
    words = ["form-data"]
    words += [f'{name}="{part[name]}"' for name in ("name", "filename") if name in part]
    headers = [f"Content-Disposition: {'; '.join(words)}"]
    headers += [f"{name}: {value}" for name, value in part.get("headers", ())]
    return [line.encode() for line in headers]


def _part_body(part: Data) -> bytes:
    value = part.get("value", "")
    if isinstance(value, bytes):
        return value
    if part.get("type") in ("text", None):
        return str(value).encode()
    if part.get("type") == "form":
        return urlencode([(str(name), str(given)) for name, given in value]).encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

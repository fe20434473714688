"""Request bodies in the form in which they are compared and read."""

from __future__ import annotations

import re
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from reenact.boundaries.coding import decode
from reenact.errors import ReenactError
from reenact.format.canonical import decode as decode_json
from reenact.format.canonical import plain
from reenact.format.event import Data

__all__ = ["Pairs", "describe"]

Pairs = tuple[tuple[str, str], ...]
"""Headers in order, repeated ones included."""


def describe(headers: Pairs, body: bytes) -> Data:
    """``type`` and ``body``; nothing for an empty one.

    JSON by value, a form as sorted pairs, a multipart body without its boundary, other text as
    text, the rest as bytes.
    """
    if not body:
        return {}
    coding = _header(headers, "content-encoding")
    body = (decode(body, coding) if coding else None) or body
    said = _header(headers, "content-type") or ""
    kind = said.partition(";")[0].strip().lower()
    for name, read in _READERS:
        found = read(kind, said, body)
        if found is not None:
            return {"type": name, "body": found}
    try:
        return {"type": "text", "body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"type": "bytes", "body": body}


def _header(headers: Pairs, name: str) -> str | None:
    return next((value for key, value in headers if key.lower() == name), None)


def _json(kind: str, said: str, body: bytes) -> Any:
    """By what it says it is, or by its looks: some clients send JSON and call it a form."""
    looks = body[:1] in b"{[" and kind in ("", "application/x-www-form-urlencoded", "text/plain")
    if not (kind.endswith(("/json", "+json")) or looks):
        return None
    try:
        return plain(decode_json(body))
    except (ReenactError, ValueError, msgspec.DecodeError):
        return None


def _form(kind: str, said: str, body: bytes) -> Any:
    if kind != "application/x-www-form-urlencoded":
        return None
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        return None
    return sorted([name, value] for name, value in pairs)


def _multipart(kind: str, said: str, body: bytes) -> Any:
    if not kind.startswith("multipart/"):
        return None
    boundary = _parameter(said, "boundary")
    if boundary is None:
        return None
    marked = b"\r\n" + body
    parts = marked.split(b"\r\n--" + boundary.encode("latin-1", "replace"))
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        return None
    return [_part(part) for part in parts[1:-1]]


def _part(part: bytes) -> Data:
    head, _, content = part.partition(b"\r\n\r\n")
    lines = [line for line in head.decode("utf-8", "replace").split("\r\n") if line]
    headers = [re.split(r":\s*", line, maxsplit=1) for line in lines]
    named = sorted([line[0].lower(), *line[1:]] for line in headers)
    described = describe(tuple((line[0], line[-1]) for line in named), content)
    return {"headers": named, **described}


def _parameter(said: str, name: str) -> str | None:
    message = Message()
    message["content-type"] = said
    value = message.get_param(name)
    return value if isinstance(value, str) else None


_READERS = (("json", _json), ("form", _form), ("multipart", _multipart))

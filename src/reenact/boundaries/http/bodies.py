"""Request bodies in the form in which they are compared and read."""

from __future__ import annotations

from email.message import Message
from email.utils import collapse_rfc2231_value
from mimetypes import guess_type
from typing import Any
from urllib.parse import parse_qsl

from reenact.boundaries.http.encoding import Headers, Pairs, look
from reenact.errors import ReenactError
from reenact.format.canonical import MAX_DEPTH, digest_bytes
from reenact.format.canonical import decode as decode_json
from reenact.format.event import Data

__all__ = ["Pairs", "content_headers", "describe"]

_DEEPEST = MAX_DEPTH - 20
"""Maximum nesting depth of a JSON body.

Deeper bodies are stored as text, because the event around a body adds levels.
"""

_LENGTHS = (len("content-type"), len("content-encoding"))


def describe(headers: Headers, body: bytes, known: tuple[str, str] | None = None) -> Data:
    """Return the ``type`` and ``body`` of a body, or an empty dict for an empty one.

    ``known`` is the content type and coding, for callers that have already read them from
    ``headers``.

    JSON is stored by value, a form as pairs sorted by name, a multipart body as its parts without
    the boundary, other text as text, and other content as bytes. An encoded body that cannot be
    decoded completely is stored as its digest. Never raises: a body that does not match its content
    type is text or bytes.
    """
    said, coding = known or content_headers(headers)
    seen = look(body, coding) if coding else None
    if seen is not None and seen.end != "whole":
        # The undecoded part can contain a secret.
        return {"type": "unread", "body": {"digest": digest_bytes(body), "size": len(body)}}
    content = body if seen is None else seen.text
    if not content:
        return {}
    kind = _kind(said)
    for name, read in _READERS:
        found = read(kind, said, content)
        if found is not None:
            return {"type": name, "body": found}
    try:
        return {"type": "text", "body": content.decode("utf-8")}
    except UnicodeDecodeError:
        return {"type": "bytes", "body": content}


def content_headers(headers: Headers) -> tuple[str, str]:
    """Return the first ``Content-Type``, and all ``Content-Encoding`` values."""
    kind = coding = None
    for key, value in headers:
        if len(key) not in _LENGTHS:
            continue
        name = key.lower()
        if kind is None and name == "content-type":
            kind = value
        elif name == "content-encoding":
            coding = value if coding is None else f"{coding}, {value}"
    return kind or "", coding or ""


def _kind(said: str) -> str:
    return said.partition(";")[0].strip().lower()


def _json(kind: str, said: str, body: bytes) -> Any:
    """Parse JSON by its content type or its first byte, because some clients send JSON as a form."""
    looks = body[:1] in b"{[" and kind in ("", "application/x-www-form-urlencoded", "text/plain")
    if not (kind.endswith(("/json", "+json")) or looks):
        return None
    try:
        return decode_json(body, deepest=_DEEPEST)
    except ReenactError:
        return None


def _form(kind: str, said: str, body: bytes) -> Any:
    if kind != "application/x-www-form-urlencoded":
        return None
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        return None
    return [list(pair) for pair in sorted(pairs, key=lambda pair: pair[0])]


def _multipart(kind: str, said: str, body: bytes) -> Any:
    if not kind.startswith("multipart/"):
        return None
    boundary = _parameters("content-type", said).get("boundary")
    if not boundary:
        return None
    marked = b"\r\n" + body
    parts = marked.split(b"\r\n--" + boundary.encode("latin-1", "replace"))
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        return None
    return [_part(part) for part in parts[1:-1]]


def _part(part: bytes) -> Data:
    """Return the ``name``, ``filename``, specific headers, ``type`` and ``value`` of a part.

    Headers that clients add automatically are omitted.
    """
    head, _, content = part.partition(b"\r\n\r\n")
    headers = _part_headers(head.decode("utf-8", "replace"))
    said = _parameters("content-disposition", headers.pop("content-disposition", ""))
    named: Data = {key: said[key] for key in ("name", "filename") if key in said}
    headers.pop("content-length", None)
    kind = headers.get("content-type", "")
    if _is_a_guess(_kind(kind), named.get("filename")):
        headers.pop("content-type", None)
    rest = {"headers": [[key, headers[key]] for key in sorted(headers)]} if headers else {}
    # A part that is a multipart body itself is not parsed, because nesting is not used in practice.
    if kind.lower().startswith("multipart/"):
        kind = ""
    described = describe((("content-type", kind),), content)
    return {
        **named,
        **rest,
        "type": described.get("type", "text"),
        "value": described.get("body", ""),
    }


def _part_headers(head: str) -> dict[str, str]:
    lines = (line.partition(":") for line in head.split("\r\n") if line)
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def _is_a_guess(kind: str, filename: str | None) -> bool:
    """Return whether a client uses this content type if the caller did not specify one."""
    if kind in ("", "text/plain", "application/octet-stream"):
        return True
    return filename is not None and guess_type(filename)[0] == kind


def _parameters(header: str, said: str) -> dict[str, str]:
    """Return the parameters of a header, such as ``name`` and ``filename``."""
    message = Message()
    message[header] = " ".join(said.splitlines())
    found = message.get_params([], header) or []
    return {key.lower(): collapse_rfc2231_value(value) for key, value in found[1:]}


_READERS = (("json", _json), ("form", _form), ("multipart", _multipart))

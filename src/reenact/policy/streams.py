"""Streams that were recorded in chunks: a secret may begin in one and end in another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reenact.policy.behind import Finding
from reenact.policy.charsets import wide_forms
from reenact.policy.literals import Span
from reenact.policy.placeholder import pseudonym

__all__ = ["CHUNKS", "PAYLOADS", "decoded", "payload", "payload_key", "pieces", "rejoin"]

CHUNKS = "chunks"
"""The key under which a list is one stream."""

PAYLOADS = ("text", "bytes", "data")
"""Where a chunk that is an object has its part of the stream."""


def payload_key(chunk: dict[Any, Any]) -> str | None:
    """The key of the one payload of ``chunk``, if it has exactly one."""
    found = [key for key in PAYLOADS if isinstance(chunk.get(key), (str, bytes))]
    return found[0] if len(found) == 1 else None


def pieces(chunks: Sequence[Any]) -> list[str] | list[bytes] | None:
    """The parts of the stream, all of one kind, or None when this is no stream."""
    parts = [_piece(chunk) for chunk in chunks]
    if parts and all(isinstance(part, str) for part in parts):
        return [part for part in parts if isinstance(part, str)]
    if parts and all(isinstance(part, bytes) for part in parts):
        return [part for part in parts if isinstance(part, bytes)]
    return None


def payload(chunk: Any) -> bytes:
    """The part of the stream that ``chunk`` is; nothing when it is no part of one."""
    part = _piece(chunk)
    return part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part or b""


def _piece(chunk: Any) -> str | bytes | None:
    if isinstance(chunk, (str, bytes)):
        return chunk
    key = payload_key(chunk) if isinstance(chunk, dict) else None
    return chunk[key] if key is not None else None


def decoded(data: bytes) -> tuple[str, str]:
    """``data`` as text, and the encoding that turns it back into the same bytes."""
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def rejoin(
    parts: Sequence[str] | Sequence[bytes],
    find: Callable[[str], list[Finding]],
    salt: bytes | None,
) -> tuple[list[str | bytes], str]:
    """The parts without the secrets of their joined text, and the rule of the first, or ``""``.

    There are as many parts as before. A placeholder goes where its secret begins; what follows of
    the secret is cut from the later parts.
    """
    if isinstance(parts[0], bytes):
        raw = [part for part in parts if isinstance(part, bytes)]
        text, encoding = decoded(b"".join(raw))
        # As latin-1, characters are bytes: a chunk may end in the middle of a character.
        pieces_ = [part.decode("latin-1") for part in raw]
    else:
        pieces_, encoding = [part for part in parts if isinstance(part, str)], ""
        text = "".join(pieces_)
    found = find(text)
    if not found:
        return _rejoin_wide(parts, find, salt) if "\0" in text else (list(parts), "")
    marks = [one.quote + pseudonym(salt, text[one.start : one.end]) + one.quote for one in found]
    spans = _byte_spans(text, found) if encoding == "utf-8" else [(f.start, f.end) for f in found]
    new = _cut(pieces_, spans, marks)
    fresh = [part.encode("latin-1") if encoding else part for part in new]
    if "\0" in text:
        fresh, _ = _rejoin_wide(fresh, find, salt)
    return fresh, found[0].rule


def _rejoin_wide(
    parts: Sequence[str | bytes], find: Callable[[str], list[Finding]], salt: bytes | None
) -> tuple[list[str | bytes], str]:
    """Like :func:`rejoin`, for what the parts are as UTF-16 or UTF-32."""
    raw = [
        part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part for part in parts
    ]
    rule = ""
    for form in wide_forms(b"".join(raw)):
        text = form.text(b"".join(raw)) or ""
        found = find(text)
        if found:
            rule = rule or found[0].rule
            said = [
                one.quote + pseudonym(salt, text[one.start : one.end]) + one.quote for one in found
            ]
            marks = [form.written(mark).decode("latin-1") for mark in said]
            pieces_ = [part.decode("latin-1") for part in raw]
            raw = [part.encode("latin-1") for part in _cut(pieces_, form.spans(text, found), marks)]
    if not rule:
        return list(parts), ""
    is_text = isinstance(parts[0], str)
    return [part.decode("utf-8", "replace") if is_text else part for part in raw], rule


def _byte_spans(text: str, found: Sequence[Finding]) -> list[Span]:
    spans: list[Span] = []
    done = place = 0
    for one in found:
        start = place + len(text[done : one.start].encode())
        place = start + len(text[one.start : one.end].encode())
        done = one.end
        spans.append((start, place))
    return spans


def _cut(parts: Sequence[str], spans: Sequence[Span], marks: Sequence[str]) -> list[str]:
    new: list[str] = []
    start = 0
    for part in parts:
        kept: list[str] = []
        place = 0
        for (first, last), mark in zip(spans, marks, strict=True):
            first, last = first - start, last - start
            if last <= 0 or first >= len(part):
                continue
            if first >= 0:
                kept += (part[place:first], mark)
            place = last
        new.append("".join([*kept, part[place:]]))
        start += len(part)
    return new

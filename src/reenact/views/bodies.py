"""Bodies of HTTP messages, for people and for comparing."""

from __future__ import annotations

from typing import Any

from reenact.boundaries.coding import look
from reenact.errors import ValueRefused
from reenact.format.canonical import decode

__all__ = ["readable", "undo"]


def readable(body: Any, headers: Any) -> Any:
    """A body without its content coding: as JSON where it is JSON, as text where it is text."""
    if isinstance(body, bytes):
        coding = _coding(headers)
        body = (undo(body, coding) if coding else None) or body
        try:
            body = body.decode("utf-8")
        except UnicodeDecodeError:
            return body
    if not isinstance(body, str) or body.lstrip()[:1] not in ("{", "["):
        return body
    try:
        return decode(body.encode("utf-8", "surrogatepass"))
    except ValueRefused:
        return body


def undo(body: bytes, coding: str) -> bytes | None:
    """What is behind a content coding; None where that cannot be said."""
    seen = look(body, coding)
    return seen.text if seen is not None and seen.end == "whole" else None


def _coding(headers: Any) -> str:
    for pair in headers if isinstance(headers, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and str(pair[0]).lower() == "content-encoding":
            return str(pair[1])
    return ""

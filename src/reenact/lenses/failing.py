"""What a provider says went wrong."""

from __future__ import annotations

from typing import Any

from reenact.lenses.content import Content
from reenact.lenses.fields import inside, listed, mapped, text

__all__ = ["error_in", "failure", "refused"]


def error_in(value: Any) -> str | None:
    """The error that ``value`` tells of under ``error``; None if it tells of none."""
    found = inside(value, "error")
    return None if not found else _said(found) or "error"


def failure(name: str, value: Any) -> str:
    """An error that the framing of a stream tells of."""
    message = _message(value)
    return f"{name}: {message}" if name and message else name or message or "error"


def refused(status: int, content: Content | None) -> str:
    """What an answer with the status of an error says."""
    value = content.parts[0].value if content is not None and content.parts else None
    return error_in(value) or _said(value) or f"HTTP {status}"


def _said(error: Any) -> str:
    kind = text(inside(error, "type")) or text(inside(error, "status"))
    kind = kind or text(inside(error, "code"))
    message = _message(error)
    return f"{kind}: {message}" if kind and message else message or kind


def _message(error: Any) -> str:
    if isinstance(error, str):
        return error
    known = mapped(error)
    for name in ("message", "Message", "detail", "error"):
        if text(known.get(name)):
            return text(known[name])
    first = next(iter(listed(known.get("errors"))), None)
    return text(inside(first, "message"))

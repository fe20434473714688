"""What a call asked and was answered, as HTML (pure): HTTP as people read it, and all else as JSON."""

from __future__ import annotations

from typing import Any, Final

from reenact.server.pages.markup import Html, fragment, tag
from reenact.server.pages.values import block, data, pairs, value

__all__ = ["spoken"]

_PARTS: Final = ("method", "url", "status", "headers", "body", "type")


def spoken(item: Any) -> Html:
    """A request or an answer."""
    if not isinstance(item, dict) or not _first_line(item):
        return value(item)
    headers = _headers(item.get("headers"))
    known = _PARTS if headers is not None else tuple({*_PARTS} - {"headers"})
    rest = {name: part for name, part in item.items() if name not in known}
    return fragment(
        tag("p", tag("code", _first_line(item)), class_="first"),
        pairs(headers) if headers else None,
        _body(item["body"]) if item.get("body") not in (None, "") else None,
        value(rest) if rest else None,
    )


def _first_line(item: dict[str, Any]) -> str:
    url, status = item.get("url"), item.get("status")
    if isinstance(url, str):
        return f"{item.get('method') or ''} {url}".strip()
    return str(status) if isinstance(status, int) else ""


def _headers(found: Any) -> list[tuple[str, str]] | None:
    """None where they are of another shape."""
    items = [*found.items()] if isinstance(found, dict) else found or []
    if not isinstance(items, list) or not all(map(_is_pair, items)):
        return None
    return [(str(name), str(text)) for name, text in items]


def _is_pair(one: Any) -> bool:
    return isinstance(one, (list, tuple)) and len(one) == 2


def _body(body: Any) -> Html:
    if isinstance(body, str):
        return block(body)
    if isinstance(body, dict) and [*body] == ["$bytes"]:
        return data(str(body["$bytes"]))
    return value(body)
